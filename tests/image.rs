//! The container image as a cluster runs it: an ordinary user, a root file system that nobody may write, no capability, port 53.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::needs;
use crate::support::process::{Process, now, poll_for};
use crate::support::product::copy_folder;

const PATIENCE: Duration = Duration::from_secs(30);
/// `terminationGracePeriodSeconds` of the manifests.
const GRACE: Duration = Duration::from_secs(30);

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("the program is there");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// Builds the image of the binary under test; what the script says last: name, size and digest. The binary is not that which
/// is shipped, which is smaller; `make image` keeps to 40 MB.
fn build(folder: &Path) -> String {
    let mut script = Command::new("deploy/image/build");
    script.env("MAX_MB", "56");
    let output = run(script.arg(needs::zonewright()).arg(folder));
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

fn digest(said: &str) -> &str {
    said.rsplit(' ').next().expect("a digest")
}

/// All files below a folder, links aside.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = fs::symlink_metadata(&path).expect("a file").file_type();
        if kind.is_dir() {
            found.extend(files(&path));
        }
        if !kind.is_symlink() {
            found.push(path);
        }
    }
    found
}

/// The server is the only program: no shell, no package manager; all else that is executable are libraries.
fn check_programs(root: &Path) {
    let mut programs = Vec::new();
    for file in files(root) {
        let name = file.strip_prefix(root).expect("it is below").to_owned();
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        let is_library = ["lib", "lib64"].iter().any(|it| name.starts_with(it));
        if file.is_file() && mode & 0o111 != 0 && !is_library {
            programs.push(name);
        }
    }
    assert_eq!(programs, [Path::new("zonewright")]);
    let shells = ["sh", "bash", "dash", "ash", "busybox", "env", "perl"];
    let names = files(root);
    let names = names.iter().filter_map(|it| it.file_name()?.to_str());
    let found: Vec<&str> = names.filter(|it| shells.contains(it)).collect();
    assert!(found.is_empty(), "{found:?}");
}

/// The configuration of the image in an OCI layout.
fn configuration(layout: &Path) -> Value {
    let read = |path: PathBuf| -> Value {
        let text = fs::read_to_string(path).expect("it is there");
        serde_json::from_str(&text).expect("it is JSON")
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().expect("a digest");
        read(layout.join("blobs").join(digest.replace(':', "/")))
    };
    let index = read(layout.join("index.json"));
    let manifest = blob(&index["manifests"][0]);
    blob(&manifest["config"])["config"].clone()
}

/// The last value of an instruction of the Containerfile, in the words of an image's configuration.
fn instruction(text: &str, word: &str) -> Value {
    let lines = text.lines().filter_map(|line| line.strip_prefix(word));
    let value = lines.map(str::trim).next_back().expect("it is there");
    let keys = |value: &str| -> Value {
        let keys = value.split(' ').map(|key| (key.to_owned(), json!({})));
        Value::Object(keys.collect())
    };
    match word {
        "EXPOSE" | "VOLUME" => keys(value),
        "ENTRYPOINT" | "CMD" => serde_json::from_str(value).expect("it is a list"),
        "ENV" => json!([value]),
        _ => json!(value),
    }
}

/// An image that a container engine builds starts as ours does.
fn check_containerfile(layout: &Path) {
    let text = fs::read_to_string("deploy/image/Containerfile").expect("it is there");
    let (_, text) = text.split_once("FROM scratch").expect("it begins empty");
    let ours = configuration(layout);
    for (word, field) in [
        ("USER", "User"),
        ("WORKDIR", "WorkingDir"),
        ("EXPOSE", "ExposedPorts"),
        ("VOLUME", "Volumes"),
        ("ENTRYPOINT", "Entrypoint"),
        ("CMD", "Cmd"),
        ("ENV", "Env"),
    ] {
        assert_eq!(instruction(text, word), ours[field], "{word}");
    }
}

/// A container of the image; ended and removed when dropped.
struct Container {
    bundle: PathBuf,
    name: String,
    process: Process,
    _folder: TempDir,
}

impl Container {
    fn runc(bundle: &Path) -> Command {
        let mut command = Command::new(needs::program("runc"));
        command.arg("--root").arg(bundle.join("runc"));
        command
    }

    /// Starts it as the manifests of `deploy/` say, with a Corefile and the example cluster.
    fn start(folder: TempDir, bundle: PathBuf) -> Self {
        let configuration = folder.path().join("etc");
        let cluster = Path::new("zones/quickstart/cluster");
        copy_folder(cluster, &configuration.join("cluster"));
        let corefile = "cluster.local 10.96.0.0/12 {\n    health\n    ready\n    kubernetes {\n        manifests /etc/zonewright/cluster\n    }\n}\n";
        fs::write(configuration.join("Corefile"), corefile).expect("a file");
        let file = bundle.join("config.json");
        let text = fs::read_to_string(&file).expect("umoci writes it");
        let mut config: Value = serde_json::from_str(&text).expect("JSON");
        let user = &config["process"]["user"];
        assert_eq!((&user["uid"], &user["gid"]), (&json!(65532), &json!(65532)));
        config["process"]["terminal"] = json!(false);
        config["process"]["noNewPrivileges"] = json!(true);
        config["process"]["capabilities"] = json!({});
        config["root"]["readonly"] = json!(true);
        let namespaces = ["pid", "network", "ipc", "uts", "mount"];
        config["linux"]["namespaces"] = namespaces.iter().map(|it| json!({ "type": it })).collect();
        config["linux"]["sysctl"] = json!({ "net.ipv4.ip_unprivileged_port_start": "53" });
        config["linux"]["resources"] = json!({});
        let mounts = config["mounts"].as_array_mut().expect("mounts");
        mounts.retain(|it| {
            let place = it["destination"].as_str().unwrap_or_default();
            !place.starts_with("/var/lib/zonewright")
                && !place.starts_with("/sys")
                && !place.starts_with("/etc")
        });
        mounts.push(json!({
            "destination": "/var/lib/zonewright", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=0700", "uid=65532", "gid=65532"],
        }));
        mounts.push(json!({
            "destination": "/etc/zonewright", "type": "bind", "source": configuration, "options": ["rbind", "ro"],
        }));
        fs::write(file, config.to_string()).expect("a file");
        let name = format!("zonewright-{}", std::process::id());
        let mut command = Self::runc(&bundle);
        command.args(["run", "--bundle"]).arg(&bundle).arg(&name);
        let process = Process::spawn("runc", &mut command, &folder.path().join("log"));
        Self {
            bundle,
            name,
            process,
            _folder: folder,
        }
    }

    /// The id of the server, outside of the container.
    fn id(&self) -> Option<String> {
        let output = Self::runc(&self.bundle)
            .args(["state", &self.name])
            .output();
        let state: Value = serde_json::from_slice(&output.ok()?.stdout).ok()?;
        (state["status"] == "running").then(|| state["pid"].to_string())
    }

    /// What a program in the container's network says.
    fn inside(&self, arguments: &[&str]) -> Option<String> {
        let id = self.id()?;
        let output = Command::new(needs::program("nsenter"))
            .args(["--target", &id, "--net"])
            .args(arguments)
            .output()
            .expect("nsenter runs");
        String::from_utf8(output.stdout).ok()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ended = Self::runc(&self.bundle)
            .args(["delete", "--force", &self.name])
            .output();
    }
}

#[test]
fn the_image_serves_port_53_as_an_ordinary_user_without_capabilities() {
    if needs::lacks(&["image", "dig", "curl"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [first, second] = ["first", "second"].map(|name| build(&folder.path().join(name)));
    assert_eq!(digest(&first), digest(&second), "{first}\n{second}");

    check_containerfile(&folder.path().join("first/oci"));
    let bundle = folder.path().join("bundle");
    let image = first.split(',').next().expect("a name").to_owned();
    run(Command::new(needs::program("umoci"))
        .args(["unpack", "--image", &image])
        .arg(&bundle));
    let root = bundle.join("rootfs");
    for file in files(&root) {
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{} gives rights", file.display());
        let is_open = mode & 0o002 != 0 && file != root.join("tmp");
        assert!(!is_open, "anybody may write {}", file.display());
    }
    check_programs(&root);

    let mut container = Container::start(folder, bundle);
    let ready = [
        "curl",
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "http://127.0.0.1:8181/ready",
    ];
    let is_ready = poll_for(now() + PATIENCE, Duration::from_millis(100), || {
        (container.inside(&ready)? == "200").then_some(())
    });
    assert!(is_ready.is_some(), "{}", container.process.log());
    let dig = [
        "dig",
        "@127.0.0.1",
        "web.shop.svc.cluster.local",
        "AAAA",
        "+short",
    ];
    assert_eq!(
        container.inside(&dig).as_deref(),
        Some("fd00:10:96::12:34\n")
    );
    let start = now();
    run(Container::runc(&container.bundle).args(["kill", &container.name, "TERM"]));
    let status = container.process.wait_for_end(PATIENCE);
    let log = container.process.log();
    assert!(status.success(), "{status}: {log}");
    let took = start.elapsed();
    assert!(took < GRACE / 3, "{took:?}");
    assert!(!log.contains("health request failed"), "{log}");
}

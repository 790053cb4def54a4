//! Versions that leave the store go to an archive first: a folder, and a bucket of a real S3 server. What is asked
//! about them is answered as before, also without a server; what is lost or changed there is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::needs;
use crate::support::ports::free_address;
use crate::support::process::Process;
use crate::support::product::{CHANGE, START, Site, ZONES, headless};
use rustix::process::Signal;
use serde_json::Value;

const ZONE: &str = "cluster.local.";
const NAME: &str = "web.test.svc.cluster.local.";
/// Versions that stay in the store.
const KEPT: usize = 6;
/// Versions that are made.
const VERSIONS: u8 = 24;

/// An archive that tests can take away, look into and damage.
trait Archive {
    fn url(&self) -> String;
    /// The folder with the objects.
    fn folder(&self) -> PathBuf;
    /// What reading it needs in the environment.
    fn environment(&self) -> Vec<(String, String)>;
    fn go_away(&mut self);
    fn come_back(&mut self);
}

struct Folder(PathBuf);

impl Folder {
    fn of(site: &Site) -> Self {
        let folder = site.path("archive");
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn aside(&self) -> PathBuf {
        self.0.with_extension("away")
    }
}

impl Archive for Folder {
    fn url(&self) -> String {
        format!("file://{}", self.0.display())
    }

    fn folder(&self) -> PathBuf {
        self.0.clone()
    }

    fn environment(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn go_away(&mut self) {
        // The folder itself stays, as an empty mount point does.
        let zones = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let zones: Vec<PathBuf> = zones.collect();
        copy(&self.0, &self.aside());
        for zone in zones {
            fs::remove_dir_all(&zone).unwrap();
            // Nobody can make a folder where a file is.
            fs::write(&zone, "").unwrap();
        }
    }

    fn come_back(&mut self) {
        for entry in fs::read_dir(&self.0).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        copy(&self.aside(), &self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    crate::support::product::copy_folder(from, to);
}

/// versitygw, whose buckets are folders.
struct S3 {
    folder: PathBuf,
    address: String,
    log: PathBuf,
    process: Option<Process>,
}

impl S3 {
    fn start(site: &Site) -> Self {
        let folder = site.path("buckets");
        fs::create_dir_all(folder.join("dns")).unwrap();
        let mut s3 = Self {
            folder,
            address: free_address().to_string(),
            log: site.path("s3.log"),
            process: None,
        };
        s3.come_back();
        s3
    }
}

impl Archive for S3 {
    fn url(&self) -> String {
        "s3://dns/of/ours".to_owned()
    }

    fn folder(&self) -> PathBuf {
        self.folder.join("dns/of/ours")
    }

    fn environment(&self) -> Vec<(String, String)> {
        [
            ("AWS_ACCESS_KEY_ID", "someone"),
            ("AWS_SECRET_ACCESS_KEY", "something secret"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", &format!("http://{}", self.address)),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    fn go_away(&mut self) {
        self.process = None;
    }

    fn come_back(&mut self) {
        let mut command = Command::new(needs::program("versitygw"));
        command
            .env("ROOT_ACCESS_KEY", "someone")
            .env("ROOT_SECRET_KEY", "something secret")
            .args(["--port", &self.address, "posix"])
            .arg(&self.folder);
        let mut process = Process::spawn("versitygw", &mut command, &self.log);
        let address = self.address.clone();
        process.wait_for("a connection", START, || {
            std::net::TcpStream::connect(&address).ok()
        });
        self.process = Some(process);
    }
}

/// A site whose versions go to an archive.
struct Archiving<A> {
    site: Site,
    archive: A,
    /// The serials so far, oldest first, each with what `show` said of it then.
    versions: Vec<(u32, String)>,
}

impl<A: Archive> Archiving<A> {
    fn new(archive: impl FnOnce(&Site) -> A) -> Self {
        let site = Site::new();
        let archive = archive(&site);
        let history = format!(
            "history {{\n        versions {KEPT}\n        archive {}\n    }}",
            archive.url()
        );
        site.write("Corefile", &site.corefile(&history));
        Self {
            site,
            archive,
            versions: Vec::new(),
        }
    }

    fn start(&self) -> Process {
        let mut command = Command::new(needs::zonewright());
        command
            .current_dir(self.site.path(""))
            .envs(self.archive.environment())
            .args(["run", "--corefile", "Corefile", "--state", "state"])
            .args(["--version-burst", "0"]);
        let mut server = Process::spawn("zonewright", &mut command, &self.site.path("log"));
        self.site.wait_until_answering(&mut server);
        server
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(needs::zonewright())
            .current_dir(self.site.path(""))
            .envs(self.archive.environment())
            .args(args)
            .args(["--state", "state"])
            .output()
            .unwrap()
    }

    fn ask(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn show(&self, serial: u32) -> String {
        self.ask(&["show", &format!("{ZONE}@{serial}")])
    }

    /// Publishes a version and notes it.
    fn publish(&mut self, server: &mut Process, number: u8) {
        let known = self.versions.last().map_or(0, |(serial, _)| *serial);
        let hosts = [number, number.wrapping_add(1)];
        self.site.manifest("web.yaml", &headless("web", 1, &hosts));
        let serial = self.site.new_serial(server, ZONES[0], known);
        let shown = self.show(serial);
        self.versions.push((serial, shown));
    }

    /// How the archive of the zone stands, from `status`.
    fn standing(&self) -> Value {
        let status: Value = serde_json::from_str(&self.ask(&["status", "-o", "json"])).unwrap();
        let zones = status["zones"].as_array().unwrap();
        let zone = zones.iter().find(|zone| zone["zone"] == ZONE).unwrap();
        zone["archive"].clone()
    }

    fn objects(&self) -> Vec<PathBuf> {
        let folder = self.archive.folder().join("cluster.local");
        let entries = fs::read_dir(folder).into_iter().flatten();
        let mut objects: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        objects.retain(|path| path.extension().is_some_and(|it| it == "zws"));
        objects.sort();
        objects
    }

    /// Every version is answered for as it was when it was published.
    fn expect_all(&self) {
        let log = self.ask(&["log", ZONE, "-o", "json"]);
        let lines = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut serials: Vec<u64> = lines
            .filter(|line| line["type"] != "act")
            .filter_map(|line| line["serial"].as_u64())
            .collect();
        serials.sort_unstable();
        for (serial, shown) in &self.versions {
            assert!(
                serials.contains(&u64::from(*serial)),
                "{serial} is not in {serials:?}"
            );
            assert_eq!(self.show(*serial), *shown);
        }
        let (first, last) = (&self.versions[0], self.versions.last().unwrap());
        let range = format!("{}..{}", first.0, last.0);
        let difference = self.ask(&["diff", ZONE, &range]);
        assert!(difference.contains(NAME), "{difference}");
        let of_name = self.ask(&["log", ZONE, "--name", NAME, "-o", "json"]);
        // The first version may have come before the name.
        assert!(
            of_name.lines().count() + 1 >= self.versions.len(),
            "{of_name}"
        );
        let early = format!("{ZONE}@{}", self.versions[1].0);
        let blamed = self.ask(&["blame", &early, NAME]);
        assert!(blamed.contains("EndpointSlice"), "{blamed}");
        let verdict: Value =
            serde_json::from_str(&self.ask(&["verify", ZONE, "-o", "json"])).unwrap();
        assert_eq!(verdict["good"], true, "{verdict}");
        assert!(verdict["segments"].as_u64() >= Some(2), "{verdict}");
    }

    /// The whole story of an archive.
    fn expect_story(mut self) {
        let mut server = self.start();
        for number in 1..=VERSIONS {
            self.publish(&mut server, number);
            if number == VERSIONS / 2 {
                self.wait_until_archived(&mut server, 1);
            }
        }
        self.wait_until_archived(&mut server, 2);
        self.expect_all();
        self.away(&mut server);
        server.terminate(START);
        // Without a server the state folder knows where the archive is.
        self.expect_all();
        self.archive.go_away();
        self.expect_unknown();
        self.archive.come_back();
        self.resume();
        self.damage();
        let mut server = self.start();
        self.publish(&mut server, 200);
        self.expect_all();
    }

    fn wait_until_archived(&self, server: &mut Process, segments: usize) {
        server.wait_for("an archive with nearly all versions", CHANGE, || {
            let waiting = self.standing()["waiting"].as_u64()?;
            (waiting < 4 && self.objects().len() >= segments).then_some(())
        });
    }

    /// Publishing does not wait for an archive that is away. What it has is not known meanwhile.
    fn away(&mut self, server: &mut Process) {
        self.archive.go_away();
        for number in 100..100 + VERSIONS {
            self.publish(server, number);
        }
        server.wait_for("a report of the failure", CHANGE, || {
            self.standing()["error"].is_string().then_some(())
        });
        let text = self.ask(&["status"]);
        assert!(text.contains("ARCHIVE FAILS"), "{text}");
        // All that was published meanwhile is still in the store.
        for (serial, shown) in self.versions.iter().skip(usize::from(VERSIONS)) {
            assert_eq!(self.show(*serial), *shown);
        }
        self.archive.come_back();
        server.wait_for("an archive that works", 2 * CHANGE, || {
            let standing = self.standing();
            let is_done = standing["error"].is_null() && standing["waiting"].as_u64()? < 4;
            is_done.then_some(())
        });
        self.expect_all();
    }

    /// While the archive is away, what it has is not known: no damage, and no answer from elsewhere. A server may have it in
    /// memory.
    fn expect_unknown(&self) {
        let oldest = format!("{ZONE}@{}", self.versions[0].0);
        let newest = self.versions.last().unwrap().0.to_string();
        let away = format!(
            "the archive {} cannot be read, and serials ",
            self.archive.url()
        );
        for args in [
            &["show", &oldest][..],
            &["blame", &oldest],
            &["diff", ZONE, &self.versions[0].0.to_string(), &newest],
            &["log", ZONE],
        ] {
            let output = self.run(args);
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{args:?}: {error}");
            assert!(error.contains(&away), "{args:?}: {error}");
        }
        let verified = self.run(&["verify", ZONE]);
        let text = String::from_utf8_lossy(&verified.stdout);
        assert_eq!(verified.status.code(), Some(3), "{text}");
        let unknown = format!("{ZONE}: NOT KNOWN: {away}");
        assert!(text.contains(&unknown), "{text}");
        assert!(text.contains("what could be checked is good; "), "{text}");
    }

    /// The verdict of `verify` with these arguments.
    fn verdict(&self, args: &[&str]) -> Value {
        let text = self.ask(&[&["verify", ZONE, "-o", "json"], args].concat());
        serde_json::from_str(&text).unwrap()
    }

    /// A verification that is interrupted goes on: it does not read again what it knows to be good.
    fn resume(&self) {
        let file = self.site.path("good.ndjson");
        let resumed = ["--resume", file.to_str().unwrap()];
        let whole = self.verdict(&[]);
        assert_eq!(self.verdict(&resumed), whole);
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + self.objects().len());
        // As after an interruption in the middle of a line.
        let (known, torn) = (lines[..2].join("\n"), &lines[2][..lines[2].len() / 2]);
        fs::write(&file, format!("{known}\n{torn}")).unwrap();
        let objects = self.objects();
        let aside = self.site.path("aside");
        for (object, is_known) in [(&objects[0], true), (&objects[1], false)] {
            fs::rename(object, &aside).unwrap();
            let verified = self.run(&[&["verify", ZONE], &resumed[..]].concat());
            let text = String::from_utf8_lossy(&verified.stdout).into_owned();
            assert_eq!(verified.status.success(), is_known, "{object:?}: {text}");
            fs::rename(&aside, object).unwrap();
            // The second run has seen all others.
            fs::write(&file, format!("{known}\n{torn}")).unwrap();
        }
        let mut again = self.verdict(&resumed);
        let known = again
            .as_object_mut()
            .unwrap()
            .remove("segmentsNotReadAgain");
        assert_eq!((again, known), (whole.clone(), Some(1.into())));
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 2 + objects.len(), "{text}");
        let other = ["--anchor", whole["hash"].as_str().unwrap()];
        for (args, error) in [
            ([&resumed[..], &other].concat(), "with other hashes"),
            (vec!["--resume", "Corefile"], "it is another file"),
        ] {
            let refused = self.run(&[&["verify", ZONE], &args[..]].concat());
            let text = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(2), "{args:?}");
            assert!(text.contains(error), "{args:?}: {text}");
        }
        assert!(
            !fs::read_to_string(self.site.path("Corefile"))
                .unwrap()
                .contains("verify")
        );
    }

    /// A lost, a changed and a doubled object.
    fn damage(&self) {
        let objects = self.objects();
        let first = objects[0].clone();
        let name = first.file_name().unwrap().to_str().unwrap().to_owned();
        let sound = fs::read(&first).unwrap();
        let double = first.with_file_name(name.replace(".zws", "-double.zws"));
        fs::copy(&first, &double).unwrap();
        self.expect_all();
        fs::remove_file(&double).unwrap();
        for at in [0, sound.len() / 2, sound.len() - 1] {
            let mut changed = sound.clone();
            changed[at] ^= 0x10;
            fs::write(&first, changed).unwrap();
            let verified = self.run(&["verify", ZONE]);
            let text = String::from_utf8_lossy(&verified.stdout).into_owned();
            assert_eq!(verified.status.code(), Some(1), "{text}");
            assert!(
                text.contains("BROKEN")
                    && text.contains(&name)
                    && text.contains(" of cluster.local, is damaged: "),
                "{at}: {text}"
            );
        }
        fs::write(&first, sound.split_at(sound.len() / 2).0).unwrap();
        assert_eq!(self.run(&["verify", ZONE]).status.code(), Some(1));
        let aside = self.site.path("aside");
        fs::rename(&first, &aside).unwrap();
        let verified = self.run(&["verify", ZONE]);
        let text = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert_eq!(verified.status.code(), Some(1), "{text}");
        assert!(
            text.contains(&name) && text.contains("does not exist"),
            "{text}"
        );
        // The versions of the other objects are answered for all the same.
        for (serial, shown) in self.versions.iter().rev().take(usize::from(VERSIONS)) {
            assert_eq!(self.show(*serial), *shown);
        }
        let newest = self.show(self.versions.last().unwrap().0);
        let time = newest
            .split([' ', ','])
            .find(|word| word.ends_with('Z'))
            .unwrap();
        assert_eq!(self.ask(&["show", &format!("{ZONE}@{time}")]), newest);
        self.ask(&["log", ZONE, "--since", time]);
        let shown = self.run(&["show", &format!("{ZONE}@{}", self.versions[0].0)]);
        let text = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert_eq!(shown.status.code(), Some(1), "{text}");
        let oldest = self.versions[0].0;
        let lost = format!("of the archive, with serials {oldest} to ");
        assert!(text.contains(&name) && text.contains(&lost), "{text}");
        assert!(!text.contains("the store"), "{text}");
        fs::rename(&aside, &first).unwrap();
        fs::write(&first, sound).unwrap();
        self.expect_all();
    }
}

#[test]
fn check_warns_of_a_folder_that_is_not_there() {
    let site = Site::new();
    let folder = site.path("nostore");
    let url = format!("file://{}", folder.display());
    let history = format!("history {{\n        archive {url}\n    }}");
    site.write("Corefile", &site.corefile(&history));
    let checked = || {
        let output = site.run(&["check"]);
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let want = format!(
        "{}: this folder of `archive` does not exist",
        folder.display()
    );
    let warned = checked();
    assert!(warned.contains(&want), "{warned}");
    fs::create_dir(&folder).unwrap();
    let quiet = checked();
    assert!(!quiet.contains("of `archive`"), "{quiet}");
}

#[test]
fn a_long_verification_shows_how_far_it_is_on_a_terminal() {
    if needs::lacks(&["s3", "script"]) {
        return;
    }
    let mut archiving = Archiving::new(S3::start);
    let mut server = archiving.start();
    for number in 1..=VERSIONS {
        archiving.publish(&mut server, number);
    }
    archiving.wait_until_archived(&mut server, 1);
    server.terminate(START);
    let s3 = archiving.archive.process.as_mut().unwrap();
    s3.signal(Signal::STOP);
    let line = format!(
        "{} verify {ZONE} --state state",
        needs::zonewright().display()
    );
    let mut command = Command::new(needs::program("script"));
    command
        .current_dir(archiving.site.path(""))
        .envs(archiving.archive.environment())
        .args(["-qec", &line, "/dev/null"]);
    let log = archiving.site.path("terminal.log");
    let mut verified = Process::spawn("verify", &mut command, &log);
    verified.wait_for("a bar", START, || {
        let text = fs::read_to_string(&log).unwrap();
        text.contains("verify cluster.local. ").then_some(())
    });
    let s3 = archiving.archive.process.as_mut().unwrap();
    s3.signal(Signal::CONT);
    assert!(verified.wait_for_end(START).success());
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("cluster.local.: good;"), "{text}");
}

#[test]
fn versions_go_to_a_folder_before_they_leave_the_store() {
    Archiving::new(Folder::of).expect_story();
}

#[test]
fn versions_go_to_a_bucket_before_they_leave_the_store() {
    if needs::lacks(&["s3"]) {
        return;
    }
    Archiving::new(S3::start).expect_story();
}

//! What a kubelet does for the pods of zonewright, without containers, in namespaces of the test's own ([`namespaces`]).
//!
//! The program runs with the arguments, variables, volumes and account of its pod, and has started when its probes say so.
//! `kubectl exec` runs a command with the same files. Pods listen on port 53 of one network, so only one server runs at a time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::apiserver::Refusal;
use super::cluster::Cluster;
use super::process::Process;
use super::tree::{run, write_script};
use super::zonewright::http;
use super::{namespaces, needs};

/// How long a program may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where a pod finds its account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// `kubectl`, whose `exec` runs the command of a pod that is here. Its options are those of the manual, and no others.
const KUBECTL: &str = r#"#!/bin/sh
case " $* " in *" exec "*) ;; *) exec REAL "$@" ;; esac
namespace=default
while [ "$1" != -- ]; do
    case $1 in
    exec) ;;
    -n) namespace=$2; shift ;;
    deploy/*) pod=${1#deploy/} ;;
    *) echo "kubectl exec: $1 is not known here" >&2; exit 2 ;;
    esac
    shift
done
shift
for script in "PODS/$namespace/$pod"-*; do
    [ -x "$script" ] || { echo "error: no pod of deploy/$pod runs in $namespace" >&2; exit 1; }
    exec "$script" "$@"
done
"#;

/// Files by their names.
type Files = BTreeMap<String, Vec<u8>>;

/// The pods that run.
pub struct Kubelet<'a> {
    cluster: &'a Cluster,
    /// Volumes, logs, and the scripts of `kubectl exec`.
    folder: TempDir,
    pods: BTreeMap<String, Pod>,
    /// The uids of pods that have run to their end.
    done: Vec<Value>,
}

/// A pod that runs.
struct Pod {
    object: Value,
    process: Process,
    mounts: Vec<String>,
}

/// Namespace and name.
fn name_of(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().expect("a text").to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

impl<'a> Kubelet<'a> {
    /// For a cluster whose `kubectl` runs commands in pods from now on.
    pub fn new(cluster: &'a Cluster) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let kubectl = cluster.programs_folder().join("kubectl");
        let script = KUBECTL
            .replace("REAL", &needs::program("kubectl").display().to_string())
            .replace("PODS", &folder.path().join("exec").display().to_string());
        fs::remove_file(&kubectl).expect("it is a link");
        write_script(&kubectl, &script);
        Self {
            cluster,
            folder,
            pods: BTreeMap::new(),
            done: Vec::new(),
        }
    }

    /// Starts, refreshes and ends pods as the API server has them.
    pub fn sync(&mut self) {
        let all = self.cluster.api.get("/api/v1/pods").expect("a list");
        let here = |pod: &Value| {
            let image = &pod["spec"]["containers"][0]["image"];
            let is_ours = image.as_str().is_some_and(|it| it.contains("zonewright"));
            let is_deleted = !pod["metadata"]["deletionTimestamp"].is_null();
            is_ours && pod["status"]["phase"] == "Running" && !is_deleted
        };
        let wanted: BTreeMap<String, Value> = items(&all["items"])
            .filter(|pod| here(pod))
            .map(|pod| (name_of(pod), pod.clone()))
            .collect();
        let names: Vec<String> = self.pods.keys().cloned().collect();
        for name in names {
            match wanted.contains_key(&name) {
                true => self.refresh(&name),
                false => self.end(&name),
            }
        }
        for (name, pod) in wanted {
            if !self.pods.contains_key(&name) && !self.done.contains(&pod["metadata"]["uid"]) {
                self.start(&name, pod);
            }
        }
    }

    /// Ends the program of a pod that is gone.
    fn end(&mut self, name: &str) {
        let Some(mut pod) = self.pods.remove(name) else {
            return;
        };
        fs::remove_file(self.script(name)).expect("it is there");
        let status = pod.process.terminate(PATIENCE);
        assert!(status.success(), "{status}\n{}", pod.process.log_tail());
        unmount(&pod.mounts);
    }

    fn script(&self, name: &str) -> PathBuf {
        self.folder.path().join("exec").join(name)
    }

    /// Writes what ConfigMaps and Secrets have now. Files of one that is gone are kept.
    fn refresh(&self, name: &str) {
        let object = &self.pods[name].object;
        for volume in items(&object["spec"]["volumes"]) {
            if let Ok(Some(files)) = self.files(object, volume) {
                self.write(&self.volume_folder(object, volume), &files);
            }
        }
    }

    /// Starts the program of a pod. If it is to run to its end, the API server learns how it ended.
    fn start(&mut self, name: &str, pod: Value) {
        let volumes = pod["spec"]["volumes"].as_array().expect("a list");
        if volumes.iter().any(|it| self.files(&pod, it).is_err()) {
            // It waits for them.
            return;
        }
        let mounts = self.mount_volumes(&pod);
        self.write_account(&pod);
        let container = &pod["spec"]["containers"][0];
        let mut command = self.command(&pod);
        command.args(items(&container["args"]).map(text));
        let log = self.folder.path().join("log");
        let mut process = Process::spawn(name, &mut command, &log);
        if pod["spec"]["restartPolicy"] == "Never" {
            let has_succeeded = process.wait_for_end(PATIENCE).success();
            unmount(&mounts);
            let phase = ["Failed", "Succeeded"][usize::from(has_succeeded)];
            let (namespace, own) = name.split_once('/').expect("two names");
            let path = format!("/api/v1/namespaces/{namespace}/pods/{own}/status");
            let change = json!({ "status": { "phase": phase } });
            self.cluster.api.patch(&path, &change);
            self.done.push(pod["metadata"]["uid"].clone());
            return;
        }
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let get = &container[probe]["httpGet"];
            let port = get["port"].as_u64().and_then(|it| u16::try_from(it).ok());
            let (port, path) = (port.expect("a number"), text(&get["path"]));
            process.wait_for(probe, PATIENCE, || {
                http(port, path).filter(|it| it.0 == 200)
            });
        }
        write_script(&self.script(name), &self.exec_script(&pod));
        let pod = Pod {
            object: pod,
            process,
            mounts,
        };
        self.pods.insert(name.to_owned(), pod);
    }

    /// What `kubectl exec` runs: a program of the image, which has one, in the container's folder with its variables.
    fn exec_script(&self, pod: &Value) -> String {
        let variables = self.variables(pod).into_iter();
        let variables: Vec<String> = variables.map(|it| format!("{}='{}'", it.0, it.1)).collect();
        format!(
            "#!/bin/sh\ncd {}\n[ \"$1\" = /zonewright ] || {{ echo \"no program $1\" >&2; exit 127; }}\nshift\n\
             exec env -i {} {} \"$@\"\n",
            text(&pod["spec"]["containers"][0]["workingDir"]),
            variables.join(" "),
            needs::zonewright().display()
        )
    }

    /// The program of a pod, without its arguments.
    fn command(&self, pod: &Value) -> Command {
        let container = &pod["spec"]["containers"][0];
        let mut command = Command::new(needs::zonewright());
        command
            .env_clear()
            .envs(self.variables(pod))
            .current_dir(text(&container["workingDir"]));
        command
    }

    /// The variables of a pod.
    fn variables(&self, pod: &Value) -> Vec<(String, String)> {
        let container = &pod["spec"]["containers"][0];
        let own = items(&container["env"]).map(|it| {
            let value = match it["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.namespace") => text(&pod["metadata"]["namespace"]),
                Some(other) => panic!("no field {other}"),
                None => text(&it["value"]),
            };
            (text(&it["name"]).to_owned(), value.to_owned())
        });
        let host = (
            "HOSTNAME".to_owned(),
            text(&pod["metadata"]["name"]).to_owned(),
        );
        let server = namespaces::variables().map(|it| (it.0.to_owned(), it.1));
        own.chain([host]).chain(server).collect()
    }

    /// Gives it the token of its account.
    fn write_account(&self, pod: &Value) {
        let spec = &pod["spec"];
        if spec["automountServiceAccountToken"] == false {
            return;
        }
        let namespace = text(&pod["metadata"]["namespace"]);
        let account = text(&spec["serviceAccountName"]);
        let create = ["-n", namespace, "create", "token", account];
        let token = self.cluster.api.kubectl(&create);
        let folder = Path::new(ACCOUNT);
        fs::write(folder.join("token"), token.trim()).expect("it is ours");
        fs::write(folder.join("namespace"), namespace).expect("it is ours");
    }

    /// Puts the volumes where the container has them; gives these places.
    fn mount_volumes(&self, pod: &Value) -> Vec<String> {
        let spec = &pod["spec"];
        let mut folders: BTreeMap<&str, PathBuf> = BTreeMap::new();
        for volume in items(&spec["volumes"]) {
            let folder = self.volume_folder(pod, volume);
            fs::create_dir_all(&folder).expect("it can be made");
            if let Some(files) = self.files(pod, volume).expect("they are there") {
                self.write(&folder, &files);
            }
            folders.insert(text(&volume["name"]), folder);
        }
        let mut mounts: Vec<&Value> = items(&spec["containers"][0]["volumeMounts"]).collect();
        mounts.sort_by_key(|mount| text(&mount["mountPath"]));
        let mut places: Vec<(&str, &Path)> = Vec::new();
        for mount in mounts {
            let (place, folder) = (text(&mount["mountPath"]), &folders[text(&mount["name"])]);
            let mode = if mount["readOnly"] == true {
                "ro"
            } else {
                "rw"
            };
            // A place in another volume is made there: that may be read-only.
            let inside = places.iter().find_map(|(above, folder)| {
                let below = Path::new(place).strip_prefix(above).ok()?;
                Some(folder.join(below))
            });
            let point = inside.unwrap_or_else(|| PathBuf::from(place));
            fs::create_dir_all(point).expect("it can be made");
            run(Command::new("mount")
                .args(["--bind", "--options", mode])
                .arg(folder)
                .arg(place));
            places.push((place, folder));
        }
        places
            .iter()
            .map(|(place, _)| (*place).to_owned())
            .collect()
    }

    /// Where the content of a volume is.
    fn volume_folder(&self, pod: &Value, volume: &Value) -> PathBuf {
        let namespace = text(&pod["metadata"]["namespace"]);
        let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() else {
            let own = Path::new("volumes").join(name_of(pod));
            return self.folder.path().join(own).join(text(&volume["name"]));
        };
        let get = |path: String| self.cluster.api.get(&path).expect("it is there");
        let claim = get(format!(
            "/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
        ));
        let bound = text(&claim["spec"]["volumeName"]);
        let bound = get(format!("/api/v1/persistentvolumes/{bound}"));
        PathBuf::from(text(&bound["spec"]["hostPath"]["path"]))
    }

    /// The files of a volume of ConfigMaps and Secrets; none of another volume.
    ///
    /// # Errors
    /// When one that is needed is not there.
    fn files(&self, pod: &Value, volume: &Value) -> Result<Option<Files>, Refusal> {
        let namespace = text(&pod["metadata"]["namespace"]);
        let is_projected = !volume["projected"].is_null();
        if !is_projected && volume["configMap"].is_null() {
            return Ok(None);
        }
        let mut files = BTreeMap::new();
        let alone = [volume.clone()];
        let sources = match is_projected {
            true => volume["projected"]["sources"].as_array().expect("a list"),
            false => &alone[..],
        };
        for source in sources {
            let (kind, source) = match source["secret"].is_null() {
                true => ("configmaps", &source["configMap"]),
                false => ("secrets", &source["secret"]),
            };
            let name = text(&source["name"]);
            let path = format!("/api/v1/namespaces/{namespace}/{kind}/{name}");
            let object = match self.cluster.api.get(&path) {
                Ok(object) => object,
                Err(_) if source["optional"] == true => continue,
                Err(refusal) => return Err(refusal),
            };
            for (file, value) in object["data"].as_object().into_iter().flatten() {
                let value = match kind {
                    "secrets" => BASE64_STANDARD.decode(text(value)).expect("base64"),
                    _ => text(value).as_bytes().to_vec(),
                };
                files.insert(file.clone(), value);
            }
        }
        Ok(Some(files))
    }

    /// Writes the files that differ, each at once, and removes others.
    fn write(&self, folder: &Path, files: &Files) {
        for entry in fs::read_dir(folder).expect("it is there") {
            let entry = entry.expect("it can be read");
            let is_file = entry.path().is_file();
            if is_file && !files.contains_key(entry.file_name().to_string_lossy().as_ref()) {
                fs::remove_file(entry.path()).expect("it is ours");
            }
        }
        for (file, content) in files {
            let path = folder.join(file);
            if fs::read(&path).ok().as_ref() != Some(content) {
                let next = self.folder.path().join("next");
                fs::write(&next, content).expect("it is ours");
                fs::rename(next, path).expect("it is ours");
            }
        }
    }
}

fn unmount(places: &[String]) {
    for place in places.iter().rev() {
        run(Command::new("umount").arg(place));
    }
}

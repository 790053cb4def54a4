//! A cluster without containers: a real API server, the controllers and the scheduler of Kubernetes, nodes by kwok.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::apiserver::{Access, ApiServer};
use super::process::Process;
use super::product::copy_folder;
use super::{needs, ports};

/// Where CoreDNS is.
pub const NAMESPACE: &str = "kube-system";
/// What kubeadm does not find out by itself, without a network.
const KUBEADM: &str = "\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: { advertiseAddress: 192.0.2.10 }
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
";
/// What makes pods of Deployments, endpoints of Services, and nodes that pods may go to.
const CONTROLLERS: &str = "deployment-controller,replicaset-controller,endpointslice-controller,\
    disruption-controller,node-lifecycle-controller,namespace-controller,garbage-collector-controller,\
    persistentvolume-binder-controller,persistentvolumeclaim-protection-controller";
/// How many nodes there are.
const NODES: u8 = 3;

/// A cluster as kubeadm makes it, but without containers.
pub struct Cluster {
    pub api: ApiServer,
    folder: TempDir,
    /// End with the cluster.
    programs: Vec<Process>,
}

impl Cluster {
    pub fn start() -> Self {
        let api = ApiServer::start();
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = api.kubeconfig(Access::Admin);
        let start = |name: &str, options: &str| {
            let mut command = Command::new(needs::program(name));
            command.arg("--kubeconfig").arg(&kubeconfig);
            command.args(options.split_whitespace());
            Process::spawn(name, &mut command, &folder.path().join(name))
        };
        let [ours, theirs, kwoks] = [(); 3].map(|()| ports::free());
        let serving = "--leader-elect=false --bind-address=127.0.0.1 --secure-port";
        let stages = needs::program("kwok.yaml");
        let programs = vec![
            start(
                "kube-controller-manager",
                &format!("{serving}={ours} --controllers={CONTROLLERS}"),
            ),
            start("kube-scheduler", &format!("{serving}={theirs}")),
            start(
                "kwok",
                &format!(
                    "--config={} --manage-all-nodes=true --cidr=10.244.0.1/24 --node-ip=192.0.2.20 \
                     --server-address=127.0.0.1:{kwoks}",
                    stages.display()
                ),
            ),
        ];
        for number in 1..=NODES {
            api.create(&json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": format!("node-{number}"), "labels": {
                    "kubernetes.io/os": "linux", "kubernetes.io/hostname": format!("node-{number}"),
                } },
                "status": {
                    "capacity": { "cpu": "4", "memory": "8Gi", "pods": "110" },
                    "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" },
                },
            }));
        }
        let cluster = Self {
            api,
            folder,
            programs,
        };
        cluster.make_tools();
        cluster
    }

    /// A folder for the commands of the manual: `kubectl` as the administrator, `zonewright`, and the manifests.
    fn make_tools(&self) {
        let folder = self.folder.path();
        copy_folder(Path::new("deploy"), &folder.join("deploy"));
        fs::create_dir(folder.join("bin")).expect("the folder can be written");
        for (name, program) in [
            ("kubectl", needs::program("kubectl")),
            ("zonewright", needs::zonewright()),
        ] {
            symlink(program, folder.join("bin").join(name)).expect("the folder can be written");
        }
    }

    /// The folder that commands of the manual begin in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of programs that commands of the manual find first.
    pub fn programs_folder(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// Makes a volume that a claim can have, as the administrator of a cluster without a provisioner does.
    pub fn add_volume(&self, name: &str) {
        let path = self.folder.path().join("volumes").join(name);
        self.api.create(&json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
            "spec": {
                "capacity": { "storage": "2Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": path },
            },
        }));
    }

    /// Runs commands as a shell of the administrator does, and returns what they print.
    pub fn shell(&self, commands: &str) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.folder.path().join("bin");
        let output = Command::new("sh")
            .args(["-euc", commands])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("KUBECONFIG", self.api.kubeconfig(Access::Admin))
            .env("HOME", self.folder.path())
            .output()
            .expect("there is a shell");
        let (printed, errors) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{commands}\n{printed}{errors}");
        printed
    }

    /// CoreDNS as kubeadm writes it.
    pub fn run_kubeadm(&self) {
        let config = self.folder.path().join("kubeadm.yaml");
        fs::write(&config, KUBEADM).expect("the folder can be written");
        let output = Command::new(needs::program("kubeadm"))
            .args(["init", "phase", "addon", "coredns", "--kubeconfig"])
            .arg(self.api.kubeconfig(Access::Admin))
            .arg("--config")
            .arg(config)
            .output()
            .expect("kubeadm runs");
        assert!(output.status.success(), "{output:?}");
    }

    pub fn list(&self, kind: &str, selector: &str) -> Vec<Value> {
        let text = self
            .api
            .kubectl(&["-n", NAMESPACE, "get", kind, "-l", selector, "-o", "json"]);
        let list: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
        list["items"].as_array().expect("a list").clone()
    }

    /// What is wrong, for a person.
    pub fn state(&self) -> String {
        let pods = self
            .api
            .kubectl(&["get", "nodes,pods,endpointslices", "-A", "-o", "wide"]);
        let events = self
            .api
            .kubectl(&["get", "events", "-A", "--sort-by=.lastTimestamp"]);
        let logs: Vec<String> = self.programs.iter().map(Process::log_tail).collect();
        format!("{pods}\n{events}\n{}", logs.concat())
    }

    /// Writes the files of a ConfigMap.
    pub fn mount(&self, config: &str, folder: &str) {
        let map = self.api.get(&format!(
            "/api/v1/namespaces/{NAMESPACE}/configmaps/{config}"
        ));
        fs::create_dir_all(folder).expect("it can be made");
        for (file, text) in map.expect("it is there")["data"]
            .as_object()
            .expect("files")
        {
            let path = PathBuf::from(folder).join(file);
            fs::write(path, text.as_str().expect("text")).expect("it is ours");
        }
    }
}

//! From CoreDNS to zonewright and back with the commands of docs/coredns.md: kubeadm's objects, the controllers and the
//! scheduler of Kubernetes, nodes by kwok. After each step `kube-dns` has the pods that it should have, and what each kind
//! of pod runs, with its files and the rights of its account, answers as CoreDNS did at the beginning.
//!
//! Pods listen on port 53 and read `/etc`. So the test runs in namespaces of its own, and their programs one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::compare_stock::{fill, questions, run, start_upstream, stock};
use crate::manual::blocks;
use crate::support::apiserver::{Access, ApiServer};
use crate::support::process::{Process, wait_for};
use crate::support::product::copy_folder;
use crate::support::{namespaces, needs, ports};

/// The test, which starts itself again.
const TEST: &str =
    "compare_migration::the_way_from_coredns_to_zonewright_and_back_is_as_the_manual_says";
/// How long the cluster may take to be as wanted.
const PATIENCE: Duration = Duration::from_secs(120);
/// Where CoreDNS is.
const NAMESPACE: &str = "kube-system";
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
    disruption-controller,node-lifecycle-controller";
/// How many nodes there are.
const NODES: u8 = 3;

#[test]
fn the_way_from_coredns_to_zonewright_and_back_is_as_the_manual_says() {
    if needs::lacks(&[
        "apiserver",
        "controllers",
        "coredns",
        "openssl",
        "namespaces",
    ]) {
        return;
    }
    if namespaces::is_inside(TEST) {
        Cluster::start().migrate();
    }
}

/// A cluster as kubeadm makes it, but without containers.
struct Cluster {
    api: ApiServer,
    folder: TempDir,
    /// End with the cluster.
    programs: Vec<Process>,
}

impl Cluster {
    fn start() -> Self {
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

    /// Runs commands as a shell of the administrator does, and returns what they print.
    fn shell(&self, commands: &str) -> String {
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
    fn run_kubeadm(&self) {
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

    fn list(&self, kind: &str, selector: &str) -> Vec<Value> {
        let text = self
            .api
            .kubectl(&["-n", NAMESPACE, "get", kind, "-l", selector, "-o", "json"]);
        let list: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
        list["items"].as_array().expect("a list").clone()
    }

    /// The pods that clients reach through `kube-dns`, by the names of their accounts. Waits until there are so many.
    fn wait_for_pods(&self, coredns: usize, zonewright: usize) -> BTreeMap<String, Vec<Value>> {
        let what =
            format!("{coredns} pods of coredns and {zonewright} of zonewright behind kube-dns");
        wait_for(
            &what,
            PATIENCE,
            || self.state(),
            || {
                let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
                for pod in self.pods_behind_the_service() {
                    let account = pod["spec"]["serviceAccountName"].as_str()?.to_owned();
                    found.entry(account).or_default().push(pod);
                }
                let count = |account: &str| found.get(account).map_or(0, Vec::len);
                let is_so = (count("coredns"), count("zonewright")) == (coredns, zonewright)
                    && found.values().map(Vec::len).sum::<usize>() == coredns + zonewright;
                is_so.then_some(found)
            },
        )
    }

    /// What is wrong, for a person.
    fn state(&self) -> String {
        let pods = self
            .api
            .kubectl(&["get", "nodes,pods,endpointslices", "-A", "-o", "wide"]);
        let events = self
            .api
            .kubectl(&["get", "events", "-A", "--sort-by=.lastTimestamp"]);
        let logs: Vec<String> = self.programs.iter().map(Process::log_tail).collect();
        format!("{pods}\n{events}\n{}", logs.concat())
    }

    fn pods_behind_the_service(&self) -> Vec<Value> {
        let slices = self.list("endpointslices", "kubernetes.io/service-name=kube-dns");
        let endpoints = slices
            .iter()
            .filter_map(|slice| slice["endpoints"].as_array())
            .flatten();
        let ready = endpoints.filter(|it| it["conditions"]["ready"] == true);
        let pod = |endpoint: &Value| {
            let name = endpoint["targetRef"]["name"].as_str()?;
            let pod = self
                .api
                .get(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}"))
                .ok()?;
            assert_eq!(pod["status"]["podIP"], endpoint["addresses"][0], "{pod}");
            Some(pod)
        };
        ready.filter_map(pod).collect()
    }

    /// What kubeadm asks for at each upgrade: it refuses a cluster with two.
    fn check_the_one_deployment(&self) {
        let found = self.list("deployments", "k8s-app=kube-dns");
        let names: Vec<&Value> = found.iter().map(|it| &it["metadata"]["name"]).collect();
        assert_eq!(names, ["coredns"]);
    }

    /// What the program of a pod answers with its arguments, its files and its account.
    fn answers(&self, pod: &Value) -> Vec<(String, String)> {
        let spec = &pod["spec"];
        let container = &spec["containers"][0];
        for volume in spec["volumes"].as_array().expect("a list") {
            let mounts = container["volumeMounts"].as_array().expect("a list");
            let mount = mounts.iter().find(|it| it["name"] == volume["name"]);
            if let (Some(config), Some(mount)) = (volume["configMap"]["name"].as_str(), mount) {
                self.mount(config, mount["mountPath"].as_str().expect("a path"));
            }
        }
        let account = spec["serviceAccountName"].as_str().expect("a name");
        let token = self
            .api
            .kubectl(&["-n", NAMESPACE, "create", "token", account]);
        let place = "/var/run/secrets/kubernetes.io/serviceaccount/token";
        fs::write(place, token.trim()).expect("it is ours");
        let mut command = Command::new(match account {
            "coredns" => needs::program("coredns"),
            _ => needs::zonewright(),
        });
        for argument in container["args"].as_array().expect("a list") {
            command.arg(argument.as_str().expect("a text"));
        }
        let said = run(&stock("kubeadm"), &questions(), &mut command);
        assert!(said.http.iter().all(|it| it.starts_with("200")), "{said:?}");
        said.answers
    }

    /// Writes the files of a ConfigMap.
    fn mount(&self, config: &str, folder: &str) {
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

    /// All steps.
    fn migrate(&self) {
        fill(&self.api);
        namespaces::write_account(&self.api);
        start_upstream();
        self.run_kubeadm();
        let pods = self.wait_for_pods(2, 0);
        let before = self.answers(&pods["coredns"][0]);
        assert!(
            before.len() > 20 && before.iter().any(|it| it.1.starts_with("0 ")),
            "{before:?}"
        );
        // Each kind of pod that clients may reach answers as before.
        let check = |coredns: usize, zonewright: usize| {
            let pods = self.wait_for_pods(coredns, zonewright);
            for (account, pods) in &pods {
                assert_eq!(self.answers(&pods[0]), before, "{account}");
            }
            self.check_the_one_deployment();
            pods
        };

        let page = fs::read_to_string("docs/coredns.md").expect("the manual is here");
        let steps = blocks(&page, "sh");
        let [look, beside, instead, stop, back] = steps[..] else {
            panic!("the page has other steps: {steps:?}")
        };
        let explained = self.shell(look);
        assert!(explained.contains("cluster.local"), "{explained}");
        let slices = self.shell(beside);
        let pods = check(2, 1);
        let address = pods["zonewright"][0]["status"]["podIP"]
            .as_str()
            .expect("an address");
        assert!(slices.contains(address), "{slices}");
        // One command undoes the step, and the step can be done again.
        self.shell(back);
        check(2, 0);
        self.shell(beside);
        check(2, 1);
        self.shell(instead);
        let pods = check(2, 2);
        let nodes: Vec<&Value> = pods["zonewright"]
            .iter()
            .map(|it| &it["spec"]["nodeName"])
            .collect();
        assert_ne!(nodes[0], nodes[1], "the pods are on one node");
        self.shell(stop);
        check(0, 2);
        // kubeadm finds one Deployment, and changes nothing of what is reached.
        self.run_kubeadm();
        check(0, 2);
        self.shell(back);
        check(2, 0);
    }
}

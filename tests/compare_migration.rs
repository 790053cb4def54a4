//! From CoreDNS to zonewright and back with the commands of docs/coredns.md: kubeadm's objects, the controllers and the
//! scheduler of Kubernetes, nodes by kwok. After each step `kube-dns` has the pods that it should have, and what each kind
//! of pod runs, with its files and the rights of its account, answers as CoreDNS did at the beginning.
//!
//! Pods listen on port 53 and read `/etc`. So the test runs in namespaces of its own, and their programs one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::compare_stock::{fill, questions, run, start_upstream, stock};
use crate::support::cluster::{Cluster, NAMESPACE};
use crate::support::page::blocks;
use crate::support::process::wait_for;
use crate::support::{namespaces, needs};

/// The test, which starts itself again.
const TEST: &str =
    "compare_migration::the_way_from_coredns_to_zonewright_and_back_is_as_the_manual_says";
/// How long the cluster may take to be as wanted.
const PATIENCE: Duration = Duration::from_secs(120);
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
        Migration {
            cluster: Cluster::start(),
        }
        .migrate();
    }
}

/// The cluster on its way.
struct Migration {
    cluster: Cluster,
}

impl Migration {
    /// The pods that clients reach through `kube-dns`, by the names of their accounts. Waits until there are so many.
    fn wait_for_pods(&self, coredns: usize, zonewright: usize) -> BTreeMap<String, Vec<Value>> {
        let what =
            format!("{coredns} pods of coredns and {zonewright} of zonewright behind kube-dns");
        wait_for(
            &what,
            PATIENCE,
            || self.cluster.state(),
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

    fn pods_behind_the_service(&self) -> Vec<Value> {
        let slices = self
            .cluster
            .list("endpointslices", "kubernetes.io/service-name=kube-dns");
        let endpoints = slices
            .iter()
            .filter_map(|slice| slice["endpoints"].as_array())
            .flatten();
        let ready = endpoints.filter(|it| it["conditions"]["ready"] == true);
        let pod = |endpoint: &Value| {
            let name = endpoint["targetRef"]["name"].as_str()?;
            let pod = self
                .cluster
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
        let found = self.cluster.list("deployments", "k8s-app=kube-dns");
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
            // The ConfigMap `coredns-custom` of other platforms: kubeadm has none.
            let is_optional = volume["configMap"]["optional"] == true;
            if let (Some(config), Some(mount), false) =
                (volume["configMap"]["name"].as_str(), mount, is_optional)
            {
                self.cluster
                    .mount(config, mount["mountPath"].as_str().expect("a path"));
            }
        }
        let account = spec["serviceAccountName"].as_str().expect("a name");
        let token = self
            .cluster
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

    /// All steps.
    fn migrate(&self) {
        fill(&self.cluster.api);
        namespaces::write_account(&self.cluster.api);
        start_upstream();
        self.cluster.run_kubeadm();
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
        let explained = self.cluster.shell(look);
        assert!(explained.contains("cluster.local"), "{explained}");
        let slices = self.cluster.shell(beside);
        let pods = check(2, 1);
        let address = pods["zonewright"][0]["status"]["podIP"]
            .as_str()
            .expect("an address");
        assert!(slices.contains(address), "{slices}");
        // One command undoes the step, and the step can be done again.
        self.cluster.shell(back);
        check(2, 0);
        self.cluster.shell(beside);
        check(2, 1);
        self.cluster.shell(instead);
        let pods = check(2, 2);
        let nodes: Vec<&Value> = pods["zonewright"]
            .iter()
            .map(|it| &it["spec"]["nodeName"])
            .collect();
        assert_ne!(nodes[0], nodes[1], "the pods are on one node");
        self.cluster.shell(stop);
        check(0, 2);
        // kubeadm finds one Deployment, and changes nothing of what is reached.
        self.cluster.run_kubeadm();
        check(0, 2);
        self.cluster.shell(back);
        check(2, 0);
    }
}

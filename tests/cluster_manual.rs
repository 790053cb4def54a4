//! The commands of the manual that need a cluster, in the order of each page: kubectl and helm with a real API server, the
//! controllers and the scheduler of Kubernetes, nodes by kwok. What runs in a pod runs with its files and the rights of its account.
//!
//! Pods listen on port 53 and read `/etc`. So each test runs in namespaces of its own. Nothing pulls an image.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::cluster_deploy::install_definitions;
use crate::compare_stock::start_upstream;
use crate::support::apiserver::Access;
use crate::support::certificates::Certificates;
use crate::support::cluster::Cluster;
use crate::support::evidence::make_keys_in;
use crate::support::kubelet::Kubelet;
use crate::support::page::{Shell, blocks, check_sections};
use crate::support::process::Process;
use crate::support::{namespaces, needs};

/// The programs that all of these tests need.
const KINDS: [&str; 5] = ["apiserver", "controllers", "openssl", "namespaces", "dig"];
/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster for a page, in namespaces of this test. None where a program is missing, and outside of the namespaces, where
/// the test runs again.
fn start(test: &str, more_kinds: &[&str]) -> Option<Cluster> {
    if needs::lacks(&[&KINDS, more_kinds].concat()) || !namespaces::is_inside(test) {
        return None;
    }
    let cluster = Cluster::start();
    namespaces::write_account(&cluster.api);
    Some(cluster)
}

/// A shell of the cluster's administrator.
fn shell(cluster: &Cluster) -> Shell {
    let home = cluster.folder();
    let config = home.join(".kube/config");
    fs::create_dir_all(home.join(".kube")).expect("it can be made");
    fs::copy(cluster.api.kubeconfig(Access::Admin), config).expect("it can be copied");
    let mut bash = Shell::command(&cluster.programs_folder());
    bash.env("HOME", home).env_remove("KUBECONFIG");
    Shell::run_in(home, bash)
}

/// Makes the overlay `hidden-primary` with a component, these lines in its Corefile, and more files beside it.
fn run_hidden_primary(cluster: &Cluster, component: &str, lines: &str, files: &[&str]) {
    let corefile = cluster
        .folder()
        .join("deploy/overlays/hidden-primary/Corefile");
    let text = fs::read_to_string(&corefile).expect("it is there");
    let text = text.trim_end().strip_suffix('}').expect("a block");
    fs::write(&corefile, format!("{text}{lines}\n}}\n")).expect("it is ours");
    let files: Vec<String> = files.iter().map(|it| format!("--from-file={it}")).collect();
    cluster.add_volume("one");
    cluster.shell(&format!(
        "cat > kustomization.yaml <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: zonewright
resources: [deploy/overlays/hidden-primary]
components: [deploy/components/{component}]
END
kubectl create namespace zonewright
kubectl -n zonewright create secret generic zonewright-keys {}
kubectl apply --server-side -k .
kubectl -n zonewright rollout status deployment/zonewright",
        files.join(" ")
    ));
}

#[test]
fn the_commands_of_the_quickstart_with_a_cluster_print_what_it_says() {
    const TEST: &str =
        "cluster_manual::the_commands_of_the_quickstart_with_a_cluster_print_what_it_says";
    let Some(cluster) = start(TEST, &[]) else {
        return;
    };
    cluster.add_volume("one");
    let mut kubelet = Kubelet::new(&cluster);
    check_sections(
        "docs/quickstart-cluster.md",
        &["From outside", "In the cluster"],
        &mut shell(&cluster),
        &mut || kubelet.sync(),
    );
}

#[test]
fn the_command_of_alerts_prints_the_status_of_a_pod_beside_coredns() {
    const TEST: &str =
        "cluster_manual::the_command_of_alerts_prints_the_status_of_a_pod_beside_coredns";
    let Some(cluster) = start(TEST, &[]) else {
        return;
    };
    start_upstream();
    cluster.run_kubeadm();
    let mut kubelet = Kubelet::new(&cluster);
    cluster.shell(
        "kubectl apply --server-side -k deploy/overlays/beside-coredns
kubectl -n kube-system rollout status deployment/zonewright",
    );
    check_sections(
        "docs/alerts.md",
        &["Alerts"],
        &mut shell(&cluster),
        &mut || kubelet.sync(),
    );
}

#[test]
fn the_commands_of_checking_read_a_note_from_a_config_map() {
    const TEST: &str = "cluster_manual::the_commands_of_checking_read_a_note_from_a_config_map";
    let Some(cluster) = start(TEST, &[]) else {
        return;
    };
    make_keys_in(cluster.folder());
    let lines = "    history {
        sign key.pem
        note configmap zonewright/zonewright-notes
    }";
    let mut kubelet = Kubelet::new(&cluster);
    run_hidden_primary(&cluster, "notes", lines, &["key.pem"]);
    check_sections(
        "docs/checking.md",
        &["A note in a ConfigMap"],
        &mut shell(&cluster),
        &mut || kubelet.sync(),
    );
}

#[test]
fn the_commands_of_the_history_api_read_with_a_token_and_with_a_certificate() {
    const TEST: &str =
        "cluster_manual::the_commands_of_the_history_api_read_with_a_token_and_with_a_certificate";
    let Some(cluster) = start(TEST, &["curl"]) else {
        return;
    };
    let folder = cluster.folder();
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    fs::write(
        "/etc/hosts",
        format!("{hosts}127.0.0.1 zonewright.example\n"),
    )
    .expect("it is ours");
    let certificates = Certificates::new(folder.to_owned());
    for (name, files) in [
        ("zonewright.example", "tls"),
        ("auditor.example", "auditor"),
    ] {
        certificates.write(name);
        for (kind, own) in [("pem", "crt"), ("key", "key")] {
            let to = folder.join(format!("{files}.{own}"));
            fs::rename(certificates.file(name, kind), to).expect("it is there");
        }
    }
    certificates.revoke(&["revoked.example"]);
    for (from, to) in [
        ("ca.pem", "ca.crt"),
        ("ca.pem", "readers.crt"),
        ("crl.pem", "readers.crl"),
    ] {
        fs::copy(folder.join(from), folder.join(to)).expect("it is there");
    }
    let page = fs::read_to_string("docs/history-api.md").expect("the page is there");
    let corefiles = blocks(&page, "corefile");
    let [tokens, clients] = corefiles[..] else {
        panic!("the page has other Corefiles: {corefiles:?}")
    };
    let (_, lines) = tokens
        .split_once("    kubernetes\n")
        .expect("it follows a cluster");
    let lines = lines.trim_end().strip_suffix('}').expect("a block");

    let mut kubelet = Kubelet::new(&cluster);
    run_hidden_primary(&cluster, "history-api", lines, &["tls.crt", "tls.key"]);
    let mut shell = shell(&cluster);
    let mut check = |heading: &str, meanwhile: &mut dyn FnMut()| {
        check_sections("docs/history-api.md", &[heading], &mut shell, meanwhile);
    };
    check("With tokens of the cluster", &mut || kubelet.sync());
    drop(kubelet);
    let _server = start_with(folder, clients);
    check("With client certificates", &mut || ());
}

/// A server with a Corefile of the manual, whose files are in a folder.
fn start_with(folder: &Path, corefile: &str) -> Process {
    let zone = "@ 300 SOA ns hostmaster 1 300 30 86400 60\n@ 300 NS ns\nns 300 A 192.0.2.1\n";
    for (name, text) in [("Corefile", corefile), ("example.org.zone", zone)] {
        fs::write(folder.join(name), text).expect("it is ours");
    }
    let mut command = Command::new(needs::zonewright());
    command
        .args([
            "run",
            "--corefile",
            "Corefile",
            "--state",
            "state-of-clients",
        ])
        .current_dir(folder);
    let mut server = Process::spawn("zonewright", &mut command, &folder.join("clients.log"));
    server.wait_for("the history API", PATIENCE, || {
        std::net::TcpStream::connect("127.0.0.1:8443").ok()
    });
    server
}

#[test]
fn the_commands_of_install_bring_it_into_a_cluster_with_kustomize_and_with_helm() {
    const TEST: &str = "cluster_manual::the_commands_of_install_bring_it_into_a_cluster_with_kustomize_and_with_helm";
    let Some(cluster) = start(TEST, &["crds", "helm"]) else {
        return;
    };
    install_definitions(&cluster.api);
    // The second one is for the chart: the first one is kept for the person who wants its content.
    cluster.add_volume("one");
    cluster.add_volume("two");
    symlink(
        needs::program("helm4"),
        cluster.programs_folder().join("helm"),
    )
    .expect("it is ours");
    let mut kubelet = Kubelet::new(&cluster);
    check_sections(
        "docs/install.md",
        &[
            "With kustomize",
            "With Helm",
            "Secondaries of `hidden-primary`",
        ],
        &mut shell(&cluster),
        &mut || kubelet.sync(),
    );
}

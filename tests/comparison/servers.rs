//! CoreDNS and zonewright on one API server, with the same words in their Corefiles.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::options::OptionSet;
use crate::support::apiserver::{Access, ApiServer, object_path};
use crate::support::process::{Process, wait_for};
use crate::support::wire;
use crate::support::{needs, ports, service_imports};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The two servers of one option set.
pub struct Pair {
    pub set: OptionSet,
    pub coredns: SocketAddr,
    pub ours: SocketAddr,
    /// Ends with the pair.
    zonewright: Process,
}

/// All servers of one cluster.
pub struct Servers {
    pub pairs: Vec<Pair>,
    /// One CoreDNS with a server block for each pair.
    _coredns: Process,
}

impl Servers {
    /// Starts them and waits until all zones of all of them have an SOA: CoreDNS listens once it has
    /// listed everything, zonewright has an SOA once it has.
    pub fn start(sets: &[OptionSet], kubeconfig: &Path, folder: &Path) -> Self {
        let file = folder.join("Corefile.coredns");
        let mut text = String::new();
        let mut pairs = Vec::new();
        for (number, set) in sets.iter().enumerate() {
            let (port, own) = (ports::free(), ports::free());
            text += &set.block(kubeconfig, port);
            let file = folder.join(format!("Corefile.{number}"));
            std::fs::write(&file, set.our_block(kubeconfig, own)).unwrap();
            let state = folder.join(format!("state.{number}"));
            let mut command = Command::new(needs::zonewright());
            command.arg("run").arg("--corefile").arg(&file);
            command.arg("--state").arg(&state).current_dir(folder);
            // The cases change one name more often in a second than a cluster does.
            command.args(["--version-burst", "0"]);
            let log = folder.join(format!("log.{number}"));
            pairs.push(Pair {
                set: *set,
                coredns: ports::loopback(port),
                ours: ports::loopback(own),
                zonewright: Process::spawn("zonewright", &mut command, &log),
            });
        }
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(needs::program("coredns"));
        command.arg("-conf").arg(&file).current_dir(folder);
        let mut coredns = Process::spawn("CoreDNS", &mut command, &folder.join("log.coredns"));
        for pair in &mut pairs {
            for zone in pair.set.zone_names() {
                let name = pair.set.name;
                let (theirs, ours) = (pair.coredns, pair.ours);
                coredns.wait_for(&format!("{zone} of {name}"), PATIENCE, || {
                    wire::serial(theirs, &zone)
                });
                let process = &mut pair.zonewright;
                process.wait_for(&format!("{zone} of {name}"), PATIENCE, || {
                    wire::serial(ours, &zone)
                });
            }
        }
        Self {
            pairs,
            _coredns: coredns,
        }
    }
}

/// Defines ServiceImports, and waits until the API has them.
pub fn define_imports(server: &ApiServer) {
    server.create(&service_imports::definition());
    wait_for("ServiceImports", PATIENCE, String::new, || {
        server
            .get("/apis/multicluster.x-k8s.io/v1alpha1/serviceimports")
            .ok()
    });
}

/// Creates a cluster, and notes when its objects were created.
pub fn create(server: &ApiServer, cluster: &mut Cluster) {
    server.create_all(&cluster.namespaces, 4);
    let plain: Vec<Value> = cluster
        .objects
        .iter()
        .map(|object| {
            let mut object = object.clone();
            object.as_object_mut().unwrap().remove("status");
            object
        })
        .collect();
    server.create_all(&plain, 8);
    for object in &cluster.objects {
        if object["status"].is_object() {
            let path = format!("{}/status", object_path(object));
            server.patch(&path, &json!({ "status": object["status"] }));
        }
    }
    for list in [
        "/api/v1/services",
        "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports",
    ] {
        let all = server.get(list).unwrap();
        for object in all["items"].as_array().unwrap() {
            let metadata = &object["metadata"];
            let kind = if list.ends_with("services") {
                "Service"
            } else {
                "ServiceImport"
            };
            let ours = cluster.objects.iter_mut().find(|own| {
                own["kind"] == kind
                    && own["metadata"]["name"] == metadata["name"]
                    && own["metadata"]["namespace"] == metadata["namespace"]
            });
            if let Some(ours) = ours {
                ours["metadata"]["creationTimestamp"] = metadata["creationTimestamp"].clone();
            }
        }
    }
}

/// Removes a cluster, namespaces included: nobody finalizes here but we.
pub fn remove(server: &ApiServer, cluster: &Cluster) {
    for object in &cluster.objects {
        server.delete(&object_path(object));
    }
    for namespace in &cluster.namespaces {
        let path = object_path(namespace);
        server.delete(&path);
        let mut ending = server.get(&path).unwrap();
        ending["spec"]["finalizers"] = json!([]);
        let body = Some(("application/json", &ending));
        server
            .request(
                Access::Admin,
                http::Method::PUT,
                &format!("{path}/finalize"),
                body,
            )
            .unwrap();
    }
    wait_for("the namespaces' end", PATIENCE, String::new, || {
        cluster
            .namespaces
            .iter()
            .all(|namespace| server.get(&object_path(namespace)).is_err())
            .then_some(())
    });
}

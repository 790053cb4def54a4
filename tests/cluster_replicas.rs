//! Replicas with a real API server: the Lease, its rights, failover, and what happens when it is deleted.
//!
//! The replicas run in the process of the test, with journals in memory.

use std::time::{Duration, SystemTime};

use dns::testing::name;
use kubernetes::source::api_server::Auth;
use kubernetes::source::api_server::lease::{LeaseClient, LeaseFault, LeaseName, LeaseObject};
use replica_links::testing::{Installation, Member, MemoryJournal, Told, soon};
use replicas::chain::Epoch;
use replicas::lease::Loss;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::support::apiserver::{Access, ApiServer};
use crate::support::needs;

/// The path of the Lease.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/zonewright";

/// Gives the limited user the rights that replicas need: on one Lease, and to create Leases, where the API knows no names.
fn bind_role(server: &ApiServer) {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({ "name": "zonewright-replicas", "namespace": "default" });
    server.create(&json!({
        "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata,
        "rules": [
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
              "resourceNames": ["zonewright"], "verbs": ["get", "list", "watch", "update"] },
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"] },
        ],
    }));
    server.create(&json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": { "apiGroup": group, "kind": "Role", "name": "zonewright-replicas" },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": Access::Limited.user() }],
    }));
}

fn auth(server: &ApiServer) -> Auth {
    Auth::Kubeconfig {
        file: server.kubeconfig(Access::Limited),
        context: None,
    }
}

/// An API server with the rights, and a runtime for the replicas.
fn start() -> (ApiServer, Runtime) {
    let server = ApiServer::start();
    bind_role(&server);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    (server, runtime.expect("threads can be started"))
}

/// The first that leads in an epoch above this one, with its epoch; and the others.
async fn first_to_lead(mut members: Vec<Member>, above: Epoch) -> (Member, Epoch, Vec<Member>) {
    let waits = members.iter().map(|it| Box::pin(it.until_leading(above)));
    let (epoch, place, _) = futures_util::future::select_all(waits).await;
    let leader = members.remove(place);
    (leader, epoch, members)
}

/// Makes a version, and waits until all show it.
async fn publish(leader: &Member, others: &[Member], content: &[u8]) {
    let zone = name("a.");
    let tip = leader.publish(&zone, content).await.expect("it leads");
    for member in others {
        member.until_shown(&zone, tip).await;
    }
}

#[test]
fn replicas_elect_fail_over_and_make_a_deleted_lease_again() {
    if needs::lacks(&["apiserver"]) {
        return;
    }
    let (server, runtime) = start();
    let installation = Installation::new(auth(&server));
    let (leader, followers, epoch) = runtime.block_on(async {
        let leader = installation.start("a", &MemoryJournal::default()).await;
        let epoch = leader.until_leading(Epoch(0)).await;
        let mut followers = Vec::new();
        for id in ["b", "c"] {
            followers.push(installation.start(id, &MemoryJournal::default()).await);
        }
        leader.until_in_sync(3).await;
        for number in 0..20_u32 {
            publish(&leader, &followers, &number.to_be_bytes()).await;
        }
        (leader, followers, epoch)
    });
    let shown = server.kubectl(&["get", "lease", "zonewright"]);
    let row: Vec<&str> = shown
        .lines()
        .nth(1)
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert_eq!(row.get(..2), Some(&["zonewright", "a"][..]), "{shown}");

    // The leader dies.
    let (leader, others, epoch) = runtime.block_on(async {
        installation.forget(&leader);
        let begin = Instant::now();
        leader.kill().await;
        let (leader, next, others) = first_to_lead(followers, epoch).await;
        println!("failover after {} ms", begin.elapsed().as_millis());
        let limit = installation.settings.lease_duration + Duration::from_secs(3);
        assert!(begin.elapsed() < limit);
        publish(&leader, &others, b"after the failover").await;
        (leader, others, next)
    });

    // The Lease is deleted.
    server.delete(LEASE);
    let (leader, others, epoch) = runtime.block_on(async {
        let deleted = |told: &[Told]| told.contains(&Told::Stop(Loss::Deleted)).then_some(());
        leader.until("it stops", deleted).await;
        let mut members = others;
        members.push(leader);
        let (leader, next, others) = first_to_lead(members, epoch).await;
        publish(&leader, &others, b"under the new Lease").await;
        leader.until_in_sync(2).await;
        (leader, others, next)
    });

    // The leader leaves.
    runtime.block_on(async {
        let begin = Instant::now();
        soon("it leaves", leader.handle.leave())
            .await
            .expect("it runs");
        let (next, _, _) = first_to_lead(others, epoch).await;
        let took = begin.elapsed();
        println!("handover after {} ms", took.as_millis());
        assert!(took < Duration::from_millis(500), "{took:?}");
        publish(&next, &[], b"after the handover").await;
    });
    let lease = server.get(LEASE).expect("it is there");
    let epoch: u64 = { lease["metadata"]["annotations"]["zonewright.dev/epoch"].as_str() }
        .and_then(|text| text.parse().ok())
        .expect("it is a number");
    assert!(epoch >= 4, "{lease}");
}

#[test]
fn the_api_server_refuses_a_write_with_an_old_version_and_creates_nothing_by_it() {
    if needs::lacks(&["apiserver"]) {
        return;
    }
    let (server, runtime) = start();
    let lease = LeaseName {
        namespace: "default".to_owned(),
        name: "zonewright".to_owned(),
    };
    let client = LeaseClient::open(auth(&server), lease, Duration::from_secs(5));
    let client = runtime.block_on(client).expect("the file can be read");
    assert_eq!(runtime.block_on(client.get()), Err(LeaseFault::NotFound));
    let object = LeaseObject {
        holder: Some("a".to_owned()),
        duration_seconds: Some(15),
        transitions: Some(1),
        acquired: Some(SystemTime::UNIX_EPOCH + Duration::from_micros(1_795_286_912_123_456)),
        renewed: Some(SystemTime::UNIX_EPOCH + Duration::from_micros(1_795_286_912_123_456)),
        annotations: [("zonewright.dev/x".to_owned(), "\u{e9}\"\\".to_owned())].into(),
        ..LeaseObject::default()
    };
    let first = runtime
        .block_on(client.create(object.clone()))
        .expect("it is created");
    let (uid, version) = (first.uid.clone(), first.resource_version.clone());
    let written = LeaseObject {
        uid: String::new(),
        resource_version: String::new(),
        ..first.clone()
    };
    assert_eq!(written, object);
    assert!(!uid.is_empty() && !version.is_empty());
    let again = runtime.block_on(client.create(object.clone()));
    assert_eq!(again, Err(LeaseFault::Conflict));
    let renewed = LeaseObject {
        transitions: Some(2),
        ..first.clone()
    };
    let second = runtime
        .block_on(client.replace(renewed))
        .expect("it is written");
    assert_ne!(second.resource_version, version);
    let late = runtime.block_on(client.replace(first));
    assert_eq!(late, Err(LeaseFault::Conflict));
    assert_eq!(runtime.block_on(client.get()), Ok(second.clone()));
    // The watch begins with the Lease as it is.
    let watched = runtime.block_on(async {
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let follow = client.follow(|it| sender.send(it).expect("the test waits"));
        tokio::select! {
            () = follow => None,
            seen = seen.recv() => seen,
        }
    });
    assert_eq!(watched, Some(second.clone()));

    server.delete(LEASE);
    let late = runtime.block_on(client.replace(second.clone()));
    assert_eq!(late, Err(LeaseFault::Conflict));
    assert_eq!(runtime.block_on(client.get()), Err(LeaseFault::NotFound));
    // Without the uid the API server creates it, whatever the version: that is what the uid is for.
    let without = LeaseObject {
        uid: String::new(),
        ..second
    };
    let created = runtime.block_on(client.replace(without));
    assert!(created.is_ok(), "{created:?}");
}

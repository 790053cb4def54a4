//! zonewright follows a real API server, and five secondaries follow zonewright.
//!
//! Times are taken from the API server's acknowledgement. They mean something with a release build in
//! `ZW_BIN` and a machine that does nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::apiserver::{Access, ApiServer, object_path};
use crate::support::fleet::{Fleet, Places};
use crate::support::needs;
use crate::support::process::{now, poll_for};
use crate::support::proxy::Proxy;
use crate::support::random::{Act, Cluster, NAMESPACES};
use crate::support::rbac;
use crate::support::secondary::Kind;
use crate::support::wire;
use crate::support::zonewright::{Zonewright, addresses};
use futures_util::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};

/// Names, and the addresses of Services and endpoints of both families: 10.0.0.0/8 and fd00:10::/32.
const ZONES: [&str; 3] = [
    "cluster.local",
    "10.in-addr.arpa",
    "0.1.0.0.0.0.d.f.ip6.arpa",
];

/// The time limit of everything that is not measured.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a program that these tests need is missing.
fn lacks_anything() -> bool {
    needs::lacks(&[
        "apiserver",
        "openssl",
        "bind",
        "knot",
        "nsd",
        "pdns",
        "unbound",
    ])
}

/// A Service of this name in the namespace `blue`, with an address of each family.
fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "blue", "name": name },
        "spec": { "ipFamilyPolicy": "PreferDualStack", "ports": [{ "name": "http", "port": 80 }] },
    })
}

/// A headless Service and its slice with one endpoint.
fn headless(name: &str, address: &str) -> [Value; 2] {
    let mut service = service(name);
    service["spec"]["clusterIP"] = json!("None");
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "namespace": "blue", "name": name,
                      "labels": { "kubernetes.io/service-name": name } },
        "endpoints": [{ "addresses": [address] }],
        "ports": [{ "name": "http", "port": 80 }],
    });
    [service, slice]
}

/// The Service's name in the zone.
fn name_of(service: &str) -> String {
    format!("{service}.blue.svc.cluster.local")
}

/// The Services at the start. In a zone of a few records the differences would be larger than the zone, and an
/// incremental transfer would rightly be a whole one.
const FILLING: usize = 200;

/// An API server with the namespaces of the tests and this number of Services.
fn start_server(services: usize) -> ApiServer {
    let server = ApiServer::start();
    for name in NAMESPACES {
        server.create(&namespace(name));
    }
    let all: Vec<Value> = (0..services)
        .map(|number| service(&format!("many-{number}")))
        .collect();
    let start = now();
    server.create_all(&all, 16);
    eprintln!("{services} Services in {:?}", now() - start);
    server
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// A zonewright with its five secondaries, which all have all zones.
fn start_all(server: &ApiServer) -> (Zonewright, Fleet) {
    let mut zonewright = Zonewright::prepare(&ZONES);
    let places = Places::choose();
    zonewright.configure(&format!(
        "    kubernetes {{\n        kubeconfig {}\n    }}\n{}",
        server.kubeconfig(Access::Admin).display(),
        places.corefile()
    ));
    zonewright.start();
    let fleet = places.start(&zonewright);
    fleet.wait_until_equal(&zonewright, PATIENCE);
    (zonewright, fleet)
}

/// Waits until zonewright answers with these addresses; none means that the name does not exist.
fn wait_for_addresses(zonewright: &mut Zonewright, name: &str, wanted: &[String]) {
    let address = zonewright.address();
    let what = format!("{name} has {wanted:?}");
    zonewright.wait_for(&what, PATIENCE, || {
        (addresses(address, name).as_deref() == Some(wanted)).then_some(())
    });
}

/// The IPv4 address that the API server gave a Service.
fn cluster_ip(service: &Value) -> Vec<String> {
    vec![service["spec"]["clusterIP"].as_str().unwrap().to_owned()]
}

/// All causes of a version, each once.
fn causes(version: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let groups = version["causes"].as_array().unwrap();
    for cause in groups.iter().flat_map(|group| group.as_array().unwrap()) {
        if !all.contains(cause) {
            all.push(cause.clone());
        }
    }
    all
}

/// Checks that the newest version has this object, in its state at the API server, as its only cause.
fn check_cause(zonewright: &Zonewright, verb: &str, object: &Value, manager: &str) {
    let newest = &zonewright.versions(ZONES[0])[0];
    let metadata = &object["metadata"];
    let found = causes(newest);
    assert_eq!(found.len(), 1, "{newest}");
    // Who deleted it is not known.
    let (by, last) = match verb {
        "deleted" => ("", manager),
        _ => (manager, ""),
    };
    for (field, wanted) in [
        ("verb", &json!(verb)),
        ("kind", &object["kind"]),
        ("namespace", &metadata["namespace"]),
        ("name", &metadata["name"]),
        ("uid", &metadata["uid"]),
        ("manager", &json!(by)),
        ("lastManager", &json!(last)),
    ] {
        assert_eq!(&found[0][field], wanted, "{field} in {newest}");
    }
    // A deletion has a resourceVersion of its own, later than the object's last.
    let number = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
    let (seen, last) = (
        number(&found[0]["resourceVersion"]),
        number(&metadata["resourceVersion"]),
    );
    assert!(
        if verb == "deleted" {
            seen >= last
        } else {
            seen == last
        },
        "{newest}"
    );
}

/// Created, changed and deleted by the API and by kubectl: every change is in the zone with its cause,
/// and reaches all secondaries as a difference. The same objects as a dump give the same zone.
#[test]
fn what_the_api_changes_five_secondaries_follow_by_ixfr() {
    if lacks_anything() {
        return;
    }
    let server = start_server(FILLING);
    let (mut zonewright, fleet) = start_all(&server);
    check_kubectl(&server, &mut zonewright);
    check_namespace(&server, &mut zonewright);
    fleet.wait_until_equal(&zonewright, PATIENCE);

    let mut cluster = Cluster::new(fuzz::seed());
    let mut acts: Vec<Act> = (0..12).flat_map(|_| cluster.create()).collect();
    acts.extend((0..60).flat_map(|_| cluster.change()));
    let count = acts.len();
    let start = now();
    for act in acts {
        match act {
            Act::Put(object) => {
                server.apply(&object, "random-walk");
            }
            Act::Delete(object) => server.delete(&object_path(&object)),
        }
    }
    // A secondary with the last Service has all others.
    let last = server.create(&service("last"));
    wait_for_addresses(&mut zonewright, &name_of("last"), &cluster_ip(&last));
    let took = fleet.wait_until_equal(&zonewright, PATIENCE);
    eprintln!(
        "{count} writes in {:?}, then all equal: {took:?}; {:?}",
        now() - start,
        fleet.transfers(&zonewright)
    );
    fleet.assert_equal(&zonewright);
    fleet.assert_no_second_axfr(&zonewright);
    check_dump(&server, &zonewright);
}

/// kubectl creates, patches and deletes a Service.
fn check_kubectl(server: &ApiServer, zonewright: &mut Zonewright) {
    let name = name_of("web");
    server.kubectl(&[
        "-n",
        "blue",
        "create",
        "service",
        "clusterip",
        "web",
        "--tcp=80:80",
    ]);
    let created = server.get("/api/v1/namespaces/blue/services/web").unwrap();
    let created = with_type(created);
    wait_for_addresses(zonewright, &name, &cluster_ip(&created));
    check_cause(zonewright, "applied", &created, "kubectl-create");

    let change = r#"[{"op":"replace","path":"/spec/ports/0/name","value":"changed"}]"#;
    server.kubectl(&[
        "-n",
        "blue",
        "patch",
        "service",
        "web",
        "--type=json",
        "-p",
        change,
    ]);
    let changed = with_type(server.get("/api/v1/namespaces/blue/services/web").unwrap());
    let (address, port) = (
        zonewright.address(),
        format!("_changed._tcp.{}", name_of("web")),
    );
    zonewright.wait_for("the port's new name", PATIENCE, || {
        let reply = wire::udp(address, &wire::Query::new(&port, wire::SRV)).ok()?;
        (!reply.answers.is_empty()).then_some(())
    });
    check_cause(zonewright, "applied", &changed, "kubectl-patch");

    server.kubectl(&["-n", "blue", "delete", "service", "web"]);
    wait_for_addresses(zonewright, &name, &[]);
    check_cause(zonewright, "deleted", &changed, "kubectl-patch");
}

/// A Namespace's contents exist as long as the Namespace. Only the test finalizes here.
fn check_namespace(server: &ApiServer, zonewright: &mut Zonewright) {
    let created = with_type(server.create(&namespace("short")));
    let mut inside = service("inside");
    inside["metadata"]["namespace"] = json!("short");
    let inside = server.create(&inside);
    let name = "inside.short.svc.cluster.local";
    wait_for_addresses(zonewright, name, &cluster_ip(&inside));
    let path = object_path(&namespace("short"));
    server.delete(&path);
    let mut terminating = server.get(&path).unwrap();
    terminating["spec"]["finalizers"] = json!([]);
    server
        .request(
            Access::Admin,
            Method::PUT,
            &format!("{path}/finalize"),
            Some(("application/json", &terminating)),
        )
        .unwrap();
    wait_for_addresses(zonewright, name, &[]);
    let newest = &zonewright.versions(ZONES[0])[0];
    let found = causes(newest);
    assert_eq!(
        (&found[0]["verb"], &found[0]["kind"], &found[0]["uid"]),
        (
            &json!("deleted"),
            &json!("Namespace"),
            &created["metadata"]["uid"]
        ),
        "{newest}"
    );
    server.delete(&object_path(&with_type(inside)));
}

/// The object as it is, with `kind` and `apiVersion`, which answers about single objects have.
fn with_type(object: Value) -> Value {
    assert!(object["kind"].is_string(), "{object}");
    object
}

/// The dump of the whole cluster, as a folder of manifests, gives the same records.
fn check_dump(server: &ApiServer, zonewright: &Zonewright) {
    let dump = server.kubectl(&[
        "get",
        "service,endpointslice,namespace",
        "--all-namespaces",
        "--output=yaml",
    ]);
    let other = Zonewright::prepare(&ZONES);
    let folder = other.folder().join("manifests");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("dump.yaml"), dump).unwrap();
    other.configure(&format!(
        "    kubernetes {{\n        manifests {}\n    }}\n",
        folder.display()
    ));
    for zone in ZONES {
        let served = zonewright.served(zone);
        assert!(served.len() > 10, "{zone}");
        assert_eq!(other.rendered(zone), served, "{zone}");
    }
}

/// A change that was acknowledged, and the answer that shows its arrival.
#[derive(Clone, Debug)]
struct Probe {
    acknowledged: Instant,
    name: String,
    addresses: Vec<String>,
}

/// A server to ask, and the time limit of a change there.
struct Asked {
    name: &'static str,
    address: SocketAddr,
    limit: Duration,
    /// Whether the next change waits for this server.
    sets_the_pace: bool,
    /// It is asked about each change of this number only.
    each: usize,
}

/// How far single changes are apart.
const PACE: Duration = Duration::from_millis(300);
/// How far one that Knot is asked about is from the one before. Knot refreshes a zone at most once a second: what comes
/// sooner waits until the second since the last refresh is over, whatever its primary does.
const KNOT_PACE: Duration = Duration::from_millis(1100);
/// Knot is asked about each change of this number.
const KNOT_EACH: usize = 10;

/// The time limit of each kind.
fn limit(kind: Kind) -> Duration {
    match kind {
        Kind::Bind | Kind::Knot | Kind::Nsd => Duration::from_millis(500),
        Kind::Pdns | Kind::Unbound => Duration::from_secs(2),
    }
}

/// Makes fifty changes a second, after which all servers are equal soon. Then it makes a hundred single changes, each
/// of which arrives everywhere in time.
#[test]
fn changes_arrive_in_time_everywhere() {
    if lacks_anything() {
        return;
    }
    let server = start_server(FILLING);
    let objects: Vec<Value> = (0..50)
        .flat_map(|number| headless(&format!("moving-{number}"), &format!("10.1.0.{number}")))
        .chain((0..33).map(|number| service(&format!("leaving-{number}"))))
        .collect();
    server.create_all(&objects, 16);
    let (zonewright, fleet) = start_all(&server);
    check_burst(&server, &zonewright, &fleet);
    check_single_changes(&server, &zonewright, &fleet);
    fleet.assert_no_second_axfr(&zonewright);
}

/// The single change with this number, one write to the API: a Service is created or deleted, or an endpoint moves.
fn single_change(server: &ApiServer, number: usize) -> Probe {
    let which = number / 3;
    let (name, addresses) = match number % 3 {
        0 => {
            let name = format!("coming-{which}");
            let created = server.create(&service(&name));
            (name, cluster_ip(&created))
        }
        1 => {
            let name = format!("leaving-{which}");
            server.delete(&object_path(&service(&name)));
            (name, Vec::new())
        }
        _ => {
            let name = format!("moving-{which}");
            let address = format!("10.1.1.{which}");
            let [_, slice] = headless(&name, &address);
            let change = json!({ "endpoints": slice["endpoints"] });
            server.patch(&object_path(&slice), &change);
            (name, vec![address])
        }
    };
    Probe {
        acknowledged: now(),
        name: name_of(&name),
        addresses,
    }
}

/// Asks one server for each change in turn until it has it. Sends the time since the acknowledgement.
fn observe(server: SocketAddr, probes: &mpsc::Receiver<Probe>, seen: &mpsc::Sender<Duration>) {
    for probe in probes {
        let arrived = poll_for(
            probe.acknowledged + PATIENCE,
            Duration::from_millis(3),
            || {
                (addresses(server, &probe.name).as_ref() == Some(&probe.addresses))
                    .then(|| now().saturating_duration_since(probe.acknowledged))
            },
        );
        // The receiver is gone if the test has failed elsewhere.
        let _is_over = seen.send(arrived.unwrap_or(PATIENCE)).is_err();
    }
}

/// A hundred changes, each at least [`PACE`] after the one before and only once the quick ones have it; Knot is asked
/// about every tenth.
fn check_single_changes(server: &ApiServer, zonewright: &Zonewright, fleet: &Fleet) {
    const COUNT: usize = 100;
    let own = Asked {
        name: "zonewright",
        address: zonewright.address(),
        limit: Duration::from_millis(100),
        sets_the_pace: true,
        each: 1,
    };
    let asked: Vec<Asked> = std::iter::once(own)
        .chain(fleet.members.iter().map(|member| Asked {
            name: member.kind.name(),
            address: member.address(),
            limit: limit(member.kind),
            sets_the_pace: limit(member.kind) < Duration::from_secs(1),
            each: if member.kind == Kind::Knot {
                KNOT_EACH
            } else {
                1
            },
        }))
        .collect();
    let mut took: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    std::thread::scope(|scope| {
        let mut observers = Vec::new();
        for one in &asked {
            let (tell, probes) = mpsc::channel();
            let (seen, results) = mpsc::channel();
            scope.spawn(move || observe(one.address, &probes, &seen));
            observers.push((one, tell, results));
        }
        for number in 0..COUNT {
            let start = now();
            let probe = single_change(server, number);
            let asked = observers
                .iter()
                .filter(|(one, _, _)| number % one.each == 0);
            for (one, tell, results) in asked.clone() {
                tell.send(probe.clone()).unwrap();
                if !one.sets_the_pace {
                    took.entry(one.name).or_default().extend(results.try_iter());
                }
            }
            for (one, _, results) in asked.filter(|(one, _, _)| one.sets_the_pace) {
                let time = results.recv().unwrap();
                took.entry(one.name).or_default().push(time);
            }
            let is_before_knot = (number + 1) % KNOT_EACH == 0;
            let pace = if is_before_knot { KNOT_PACE } else { PACE };
            poll_for(start + pace, Duration::from_millis(3), || None::<()>);
        }
        for (one, tell, results) in observers {
            drop(tell);
            took.entry(one.name).or_default().extend(results.iter());
        }
    });
    judge(&asked, &mut took, COUNT);
}

/// Nobody may have been late more than once.
fn judge(asked: &[Asked], took: &mut BTreeMap<&str, Vec<Duration>>, changes: usize) {
    for one in asked {
        let times = took.get_mut(one.name).unwrap();
        times.sort();
        let count = changes / one.each;
        assert_eq!(times.len(), count, "{}", one.name);
        let within = times.iter().filter(|time| **time <= one.limit).count();
        eprintln!(
            "{:10} {within} of {count} within {:?}: median {:?}, last but one {:?}, longest {:?}",
            one.name,
            one.limit,
            times[count / 2],
            times[count - 2],
            times[count - 1]
        );
    }
    for one in asked {
        let late: Vec<_> = took[one.name]
            .iter()
            .filter(|time| **time > one.limit)
            .collect();
        assert!(late.len() <= 1, "{} is late: {late:?}", one.name);
    }
}

/// Fifty changes a second.
fn check_burst(server: &ApiServer, zonewright: &Zonewright, fleet: &Fleet) {
    let seconds = if std::env::var_os("ZW_LONG").is_some() {
        60
    } else {
        20
    };
    let count = 50 * seconds;
    let start = now();
    let client = server.client(Access::Admin);
    let versions = zonewright.metric("zonewright_versions_total", ZONES[0]);
    server.block_on(async {
        let ticks = tokio::time::interval(Duration::from_millis(20));
        let numbers = stream::unfold((ticks, 0), |(mut ticks, number)| async move {
            ticks.tick().await;
            (number < count).then_some((number, (ticks, number + 1)))
        });
        let writes = numbers.map(|number| {
            let (which, address) = (
                number % 50,
                format!("10.2.{}.{}", number / 250, number % 250),
            );
            let [_, slice] = headless(&format!("moving-{which}"), &address);
            let change = json!({ "endpoints": slice["endpoints"] });
            let request = http::Request::patch(object_path(&slice))
                .header("content-type", "application/merge-patch+json")
                .body(change.to_string().into_bytes())
                .unwrap();
            let client = client.clone();
            async move { client.request::<Value>(request).await.unwrap() }
        });
        writes.buffer_unordered(16).for_each(|_| async {}).await;
    });
    let wrote = now() - start;
    // When zonewright has the last addresses, no change is on its way to it.
    let names: BTreeSet<usize> = (count - 50..count).collect();
    let own = poll_for(
        now() + Duration::from_secs(3),
        Duration::from_millis(3),
        || {
            let has_all = names.iter().all(|number| {
                let name = name_of(&format!("moving-{}", number % 50));
                let address = format!("10.2.{}.{}", number / 250, number % 250);
                zonewright.addresses(&name) == Some(vec![address])
            });
            has_all.then(|| now() - start - wrote)
        },
    );
    let took = fleet.wait_until_equal(zonewright, PATIENCE);
    let all = now() - start - wrote;
    let made = zonewright.metric("zonewright_versions_total", ZONES[0]);
    eprintln!(
        "{count} changes in {wrote:?} as {} versions; zonewright has the last after {own:?}, \
         all secondaries after {all:?} ({took:?}); {:?}",
        made.unwrap() - versions.unwrap(),
        fleet.transfers(zonewright)
    );
    fleet.assert_equal(zonewright);
    assert!(own.is_some());
    assert!(all <= Duration::from_secs(3), "{all:?}");
}

#[test]
fn without_api_server_the_last_version_is_served_and_said_to_be_stale() {
    if lacks_anything() {
        return;
    }
    let mut server = start_server(FILLING);
    let [web, gone] = ["web", "gone"].map(|name| server.create(&service(name)));
    let (mut zonewright, mut fleet) = start_all(&server);
    wait_for_addresses(&mut zonewright, &name_of("gone"), &cluster_ip(&gone));
    fleet.wait_until_equal(&zonewright, PATIENCE);
    fleet.note_transfers(&zonewright);
    let serials = zonewright.serials();
    assert_eq!(zonewright.extended_error(ZONES[0]), None);
    assert_eq!(
        zonewright.metric("zonewright_source_stale_seconds", ""),
        Some(0.0)
    );

    server.kill();
    wait_until_stale(&mut zonewright);
    check_stale(&zonewright, &serials, &web);

    zonewright.stop();
    let start = now();
    zonewright.spawn();
    let address = zonewright.address();
    zonewright.wait_for("an answer from the store", PATIENCE, || {
        wire::serial(address, ZONES[0])
    });
    let took = now() - start;
    eprintln!("restarted without API server, answers after {took:?}");
    check_stale(&zonewright, &serials, &web);
    assert_eq!(
        zonewright.ready().map(|(code, _)| code),
        Some(200),
        "it has a version"
    );
    assert!(took < Duration::from_secs(1), "{took:?}");

    let start = now();
    server.resume();
    eprintln!("the API server was back after {:?}", now() - start);
    let start = now();
    wait_until_fresh(&mut zonewright);
    eprintln!("followed again {:?} later", now() - start);
    assert_eq!(zonewright.serials(), serials);
    assert_eq!(zonewright.extended_error(ZONES[0]), None);
    fleet.assert_no_transfer_since(&zonewright);

    // Deleted while nobody looked: one new version of each zone that had it.
    let before = zonewright.versions(ZONES[0]).len();
    zonewright.stop();
    server.delete(&object_path(&with_type(gone)));
    zonewright.start();
    wait_for_addresses(&mut zonewright, &name_of("gone"), &[]);
    wait_until_fresh(&mut zonewright);
    let versions = zonewright.versions(ZONES[0]);
    assert_eq!(versions.len(), before + 1, "{versions:?}");
    let found = causes(&versions[0]);
    assert!(
        found.iter().all(|cause| cause["verb"] == "vanished"),
        "{found:?}"
    );
    fleet.wait_until_equal(&zonewright, PATIENCE);
    fleet.assert_no_second_axfr(&zonewright);
    fleet.assert_equal(&zonewright);
}

/// Waits until the source counts as unavailable.
fn wait_until_stale(zonewright: &mut Zonewright) {
    let deadline = now() + PATIENCE;
    let found = poll_for(deadline, Duration::from_millis(50), || {
        let seconds = zonewright.metric("zonewright_source_stale_seconds", "")?;
        (seconds > 0.0).then_some(())
    });
    assert!(found.is_some(), "{}", zonewright.log());
}

/// Waits until the source is available and everything is listed.
fn wait_until_fresh(zonewright: &mut Zonewright) {
    let deadline = now() + PATIENCE;
    let found = poll_for(deadline, Duration::from_millis(50), || {
        let stale = zonewright.metric("zonewright_zone_stale", "")?;
        let synced = zonewright.metric("zonewright_source_synced", "")?;
        (stale == 0.0 && synced == 1.0).then_some(())
    });
    assert!(found.is_some(), "{}", zonewright.log());
}

/// The old versions are answered, and everything says that they are old.
fn check_stale(zonewright: &Zonewright, serials: &[Option<u32>], web: &Value) {
    assert_eq!(zonewright.serials(), serials);
    assert_eq!(zonewright.addresses(&name_of("web")), Some(cluster_ip(web)));
    for zone in ZONES {
        assert_eq!(
            zonewright.extended_error(zone),
            Some(3),
            "stale answer (RFC 8914)"
        );
        assert_eq!(zonewright.metric("zonewright_zone_stale", zone), Some(1.0));
    }
    let text = zonewright.command(&["status"]);
    assert!(text.contains("STALE"), "{text}");
}

/// Tests a position that the server has forgotten, lists that break off, and a server that restarts.
#[test]
fn a_forgotten_position_and_broken_lists_lose_nothing() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    // More than one page of a list, which has 500.
    let mut server = start_server(750);
    let proxy = Proxy::start(server.address());
    let mut zonewright = Zonewright::prepare(&ZONES);
    let file = zonewright.folder().join("kubeconfig");
    server.kubeconfig_at(Access::Admin, proxy.address, &file);
    zonewright.configure(&format!(
        "    kubernetes {{\n        kubeconfig {}\n    }}\n    transfer {{\n        allow 127.0.0.1\n    }}\n",
        file.display()
    ));
    zonewright.start();
    wait_until_fresh(&mut zonewright);
    let before = zonewright.serials();

    proxy.close();
    for number in [3, 700] {
        server.delete(&object_path(&service(&format!("many-{number}"))));
    }
    let newcomer = server.create(&service("newcomer"));
    let start = now();
    server.expire_watches();
    eprintln!("the API server forgot in {:?}", now() - start);

    // Each list of Services breaks off after its first page.
    let page = server.get("/api/v1/services?limit=500").unwrap();
    let page_octets = page.to_string().len() as u64;
    proxy.limit(Some(page_octets * 5 / 4));
    let errors = |zonewright: &Zonewright| {
        zonewright
            .metric("zonewright_source_errors_total", "kind=\"Service\"")
            .unwrap()
    };
    let errors_before = errors(&zonewright);
    proxy.open();
    let broke = poll_for(now() + PATIENCE, Duration::from_millis(20), || {
        (proxy.cut_count() >= 2 && errors(&zonewright) >= errors_before + 2.0).then_some(())
    });
    assert!(broke.is_some(), "{}", zonewright.log());
    assert_eq!(
        zonewright.serials(),
        before,
        "half a list must change nothing"
    );
    proxy.limit(None);
    wait_for_addresses(
        &mut zonewright,
        &name_of("newcomer"),
        &cluster_ip(&newcomer),
    );
    wait_for_addresses(&mut zonewright, &name_of("many-3"), &[]);
    wait_until_fresh(&mut zonewright);
    check_relisted(&zonewright);

    // A restart alone is no reason for a version. The server is killed: one that ends in good order removes its own
    // address from the Service `kubernetes` first, and waits a minute for our watches.
    let before = zonewright.serials();
    server.kill();
    server.resume();
    let late = server.create(&service("late"));
    wait_for_addresses(&mut zonewright, &name_of("late"), &cluster_ip(&late));
    assert_eq!(
        zonewright.versions(ZONES[0])[0]["previous"].as_u64(),
        before[0].map(u64::from)
    );
    check_dump(&server, &zonewright);
}

/// Checks that the newest version came from a list: its causes are the new and the missing objects.
fn check_relisted(zonewright: &Zonewright) {
    let versions = zonewright.versions(ZONES[0]);
    assert_eq!(versions.len(), 2, "the first and one more");
    let mut found: Vec<String> = causes(&versions[0])
        .iter()
        .map(|cause| {
            format!(
                "{} {}",
                cause["verb"].as_str().unwrap(),
                cause["name"].as_str().unwrap()
            )
        })
        .collect();
    found.sort();
    assert_eq!(
        found,
        ["listed newcomer", "vanished many-3", "vanished many-700"]
    );
}

/// Without rights, zonewright names the missing ones and is not ready. It needs no restart when they are granted.
#[test]
fn refused_rights_are_named_and_granted_ones_are_used_without_restart() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let server = start_server(1);
    let mut zonewright = Zonewright::prepare(&ZONES);
    zonewright.configure(&format!(
        "    kubernetes {{\n        kubeconfig {}\n        startup_timeout 0s\n        pods verified\n    }}\n",
        server.kubeconfig(Access::Limited).display()
    ));
    zonewright.spawn();
    let kinds = ["namespaces", "services", "endpointslices", "pods"];
    let refused = poll_for(now() + PATIENCE, Duration::from_millis(50), || {
        let log = zonewright.log();
        let all = kinds
            .iter()
            .all(|kind| log.contains(&format!("may not list {kind}")));
        all.then_some(())
    });
    assert!(refused.is_some(), "{}", zonewright.log());
    assert_eq!(zonewright.ready(), Some((503, "kubernetes".to_owned())));
    let status = zonewright.status();
    for kind in kinds {
        let line = format!("may not list {kind}");
        let problems = status["problems"].as_array().unwrap();
        assert!(
            problems
                .iter()
                .any(|text| text.as_str().unwrap().contains(&line)),
            "{status}"
        );
    }
    let query = wire::Query::new(ZONES[0], wire::SOA);
    let reply = wire::udp(zonewright.address(), &query).unwrap();
    assert_eq!(reply.rcode(), 2, "no data is not \"no such name\"");

    // `deploy/` has the rights of each profile: with those of the base only the pods are missing.
    rbac::grant(&server, &[]);
    let missing = |status: &Value| -> Vec<bool> {
        let problems = status["problems"].to_string();
        let is_named = |kind: &&str| problems.contains(&format!("may not list {kind}"));
        kinds.iter().map(is_named).collect()
    };
    let found = poll_for(now() + PATIENCE, Duration::from_millis(50), || {
        (missing(&zonewright.status()) == [false, false, false, true]).then_some(())
    });
    assert!(found.is_some(), "{}", zonewright.status());
    assert_eq!(zonewright.ready().map(|(code, _)| code), Some(503));
    rbac::grant(&server, &["pods-verified"]);
    let start = now();
    wait_until_fresh(&mut zonewright);
    eprintln!("synced {:?} after the rights were granted", now() - start);
    assert_eq!(zonewright.ready().map(|(code, _)| code), Some(200));
    let problems = zonewright.status()["problems"].clone();
    assert_eq!(problems, json!([]), "what is mended is no problem any more");
}

//! The gate: it holds a sudden loss in a source. And a primary that lost its disk continues above the serials of its
//! secondaries.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::apiserver::{Access, ApiServer};
use crate::support::fleet::Fleet;
use crate::support::needs;
use crate::support::ports;
use crate::support::process::wait_for;
use crate::support::proxy::Proxy;
use crate::support::secondary::{Key, Kind, Plan, Secondary};
use crate::support::wire::{Record, texts};
use crate::support::zonewright::Zonewright;
use serde_json::{Value, json};

/// A zone of names and one of addresses.
const ZONES: [&str; 2] = ["cluster.local", "10.in-addr.arpa"];
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many Services there are, spread over two namespaces.
const SERVICES: u8 = 120;

/// The namespace of a Service.
fn namespace_of(number: u8) -> &'static str {
    if number.is_multiple_of(2) {
        "blue"
    } else {
        "green"
    }
}

/// A Service; in a folder it has its address, an API server gives it one.
fn service(number: u8, address: Option<&str>) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": namespace_of(number), "name": format!("s{number}") },
        "spec": { "ports": [{ "name": "http", "port": 80 }] },
    });
    if let Some(address) = address {
        service["spec"]["clusterIP"] = json!(address);
    }
    service
}

/// Writes the folder of manifests, a file for each namespace.
fn write_manifests(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for namespace in ["blue", "green"] {
        let numbers = (1..=SERVICES).filter(|number| namespace_of(*number) == namespace);
        let items: Vec<Value> = numbers
            .map(|number| service(number, Some(&format!("10.96.0.{number}"))))
            .collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        fs::write(folder.join(format!("{namespace}.json")), list.to_string()).unwrap();
    }
}

/// A zonewright of a folder with these lines more.
fn of_folder(more: &str) -> (Zonewright, PathBuf) {
    let zonewright = Zonewright::prepare(&ZONES);
    let folder = zonewright.folder().join("manifests");
    write_manifests(&folder);
    configure(&zonewright, &folder, more);
    (zonewright, folder)
}

/// Writes its Corefile.
fn configure(zonewright: &Zonewright, folder: &Path, more: &str) {
    let manifests = format!(
        "    kubernetes {{\n        manifests {}\n    }}\n",
        folder.display()
    );
    zonewright.configure(&format!("{manifests}{more}"));
}

/// Anyone on the machine may have the zones.
const ANYONE: &str = "    transfer {\n        allow 127.0.0.1\n    }\n";

/// Lines that tell these secondaries of changes, by a key, and let anyone on the machine have the zones.
fn transfer_to(key: &Key, addresses: &[SocketAddr]) -> String {
    let to: Vec<String> = addresses
        .iter()
        .map(|it| format!("        to {it} key {}\n", key.name))
        .collect();
    format!(
        "    tsig {{\n        secret {} {} {}\n    }}\n    transfer {{\n{}        allow 127.0.0.1\n    }}\n",
        key.name,
        key.secret,
        key.algorithm,
        to.concat()
    )
}

/// A real secondary, where there is one, and what it must not lose.
struct Follower {
    /// The secondary; none on a machine that lacks its software: what zonewright itself does is looked at all the same.
    fleet: Fleet,
    /// What it has taken of each zone.
    taken: Vec<Vec<Record>>,
}

impl Follower {
    /// Starts one at the address, and waits until it has the zones as they are.
    fn start(zonewright: &Zonewright, key: Key, address: SocketAddr) -> Self {
        let plan = Plan::new(zonewright.address(), &ZONES).key(key);
        let is_there = !needs::lacks(&["nsd"]);
        let member = is_there.then(|| Secondary::start_on(Kind::Nsd, &plan, address.port()));
        let mut follower = Self {
            fleet: Fleet::new(member.into_iter().collect()),
            taken: Vec::new(),
        };
        follower.follow(zonewright);
        follower
    }

    /// Waits until it has the zones as they are now.
    fn follow(&mut self, zonewright: &Zonewright) {
        self.fleet.wait_until_equal(zonewright, PATIENCE);
        // One more version may have come since.
        let state = || zonewright.log();
        self.taken = wait_for("it holds what is served", PATIENCE, state, || {
            let taken = ZONES.map(|zone| zonewright.zone(zone)).to_vec();
            let mut zones = ZONES.iter().zip(&taken);
            let holds = |(zone, taken): (&&str, &Vec<Record>)| {
                let mut members = self.fleet.members.iter();
                members.all(|member| member.contents(zone, taken) == texts(taken))
            };
            zones.all(holds).then_some(taken)
        });
    }

    /// It still has all that it took of the Services of these namespaces. What the API server makes for itself comes and goes
    /// with it, and its few records may leave before the gate closes: the kinds are listed one after the other.
    fn assert_kept(&self, namespaces: &[&str]) {
        let is_ours = |line: &String| {
            let mut names = namespaces.iter().map(|it| format!(".{it}."));
            names.any(|name| line.contains(&name))
        };
        for member in &self.fleet.members {
            for (zone, taken) in ZONES.iter().zip(&self.taken) {
                let held = member.contents(zone, &[]);
                let wanted: Vec<String> = texts(taken).into_iter().filter(is_ours).collect();
                let services = usize::from(SERVICES) * namespaces.len() / 2;
                assert!(wanted.len() >= services, "{zone}: {wanted:?}");
                for line in &wanted {
                    assert!(held.contains(line), "{zone} lost {line}");
                }
            }
        }
    }
}

/// How many zones are held, by the metric.
fn held(zonewright: &Zonewright) -> f64 {
    zonewright.metric("zonewright_zone_held", "").unwrap_or(0.0)
}

/// Waits until both zones are held, and looks at what says so.
fn check_held(zonewright: &mut Zonewright) {
    wait(zonewright, "both zones are held", |it| held(it) == 2.0);
    for zone in ZONES {
        assert_eq!(zonewright.extended_error(zone), Some(3), "{zone}");
        let label = format!("zone=\"{zone}.\"");
        assert!(
            zonewright
                .metric("zonewright_zone_held_records", &label)
                .unwrap()
                >= 60.0
        );
    }
    let status = zonewright.command(&["status"]);
    assert!(status.contains("HELD since"), "{status}");
    assert!(
        status.contains("zonewright release cluster.local."),
        "{status}"
    );
    let said = zonewright.log();
    assert_eq!(said.matches("a version is held").count(), 2, "{said}");
}

/// Waits for something.
fn wait(zonewright: &mut Zonewright, what: &str, mut is_so: impl FnMut(&Zonewright) -> bool) {
    let end = crate::support::process::now() + PATIENCE;
    let found = crate::support::process::poll_for(end, Duration::from_millis(20), || {
        is_so(zonewright).then_some(())
    });
    assert!(found.is_some(), "{what}: {}", zonewright.log());
}

/// Whether a Service has its name.
fn has(zonewright: &Zonewright, number: u8) -> bool {
    let name = format!("s{number}.{}.svc.cluster.local", namespace_of(number));
    zonewright
        .addresses(&name)
        .is_some_and(|found| !found.is_empty())
}

/// An emptied folder, also one that is emptied while we are down, and one whose files do not parse at the
/// start, takes no name away; it is let out by hand, or cancelled when the files are back.
#[test]
fn an_emptied_folder_is_held_released_and_recovers() {
    let (key, address) = (Key::example(), ports::free_address());
    let (mut zonewright, folder) = of_folder(&transfer_to(&key, &[address]));
    zonewright.start();
    let mut follower = Follower::start(&zonewright, key, address);
    let serials = zonewright.serials();
    assert!(has(&zonewright, 1) && has(&zonewright, 2));

    fs::remove_file(folder.join("blue.json")).unwrap();
    fs::remove_file(folder.join("green.json")).unwrap();
    check_held(&mut zonewright);
    assert_eq!(zonewright.serials(), serials);
    assert!(has(&zonewright, 1));
    follower.assert_kept(&["blue", "green"]);
    write_manifests(&folder);
    wait(&mut zonewright, "recovery", |it| held(it) == 0.0);
    assert_eq!(zonewright.serials(), serials);
    assert_eq!(zonewright.extended_error(ZONES[0]), None);
    let count = |it: &Zonewright, outcome: &str| {
        it.metric("zonewright_gate_total", &format!("outcome=\"{outcome}\""))
    };
    assert_eq!(count(&zonewright, "recovered"), Some(2.0));
    let act = zonewright.log_lines(ZONES[0]).remove(0);
    assert_eq!((&act["act"], &act["by"]), (&json!("recovered"), &json!("")));
    let about = act["about"].as_str().unwrap();
    assert!(
        about.starts_with("by itself: the gate held it since "),
        "{about}"
    );

    zonewright.stop();
    fs::write(folder.join("blue.json"), "{ \"kind\": ").unwrap();
    zonewright.start();
    wait(&mut zonewright, "a broken file is held", |it| {
        held(it) == 2.0
    });
    assert!(has(&zonewright, 1) && has(&zonewright, 2));
    assert_eq!(zonewright.serials(), serials);
    follower.assert_kept(&["blue", "green"]);

    let said = zonewright.command(&["release", "cluster.local"]);
    let serial = zonewright.serial(ZONES[0]).unwrap();
    assert_eq!(
        said,
        format!("cluster.local. is published with serial {serial}\n")
    );
    assert!(has(&zonewright, 1) && !has(&zonewright, 2));
    assert_eq!(
        held(&zonewright),
        1.0,
        "the reverse zone has a gate of its own"
    );
    assert_eq!(zonewright.served(ZONES[0]), zonewright.rendered(ZONES[0]));
    follower.follow(&zonewright);
    write_manifests(&folder);
    wait(&mut zonewright, "the names are back", |it| {
        has(it, 2) && held(it) == 0.0
    });
    assert_eq!(zonewright.serials()[1], serials[1]);
    follower.follow(&zonewright);
}

/// After its time what is held is published, and that is said.
/// The freeze is over, and the version is not published: that is no wrong question.
#[test]
fn a_release_of_a_freeze_that_the_gate_follows_has_exit_code_1() {
    let (mut zonewright, folder) = of_folder("");
    zonewright.start();
    zonewright.command(&["freeze", ZONES[0], "--for", "1h"]);
    fs::remove_file(folder.join("blue.json")).unwrap();
    fs::remove_file(folder.join("green.json")).unwrap();
    wait(&mut zonewright, "the reverse zone is held", |it| {
        held(it) >= 1.0
    });
    let status = |it: &Zonewright| it.command(&["status"]);
    wait(&mut zonewright, "changes wait for the freeze", |it| {
        status(it).contains("changes wait")
    });
    let release = || {
        let mut command = Command::new(needs::zonewright());
        command
            .args(["release", ZONES[0], "--state"])
            .arg(zonewright.state());
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), error)
    };
    let (code, error) = release();
    assert!(
        error.contains("follows its sources again, but its version is held"),
        "{error}"
    );
    assert_eq!(code, Some(1), "{error}");
    assert_eq!(release().0, Some(0), "a second one publishes the loss");
    assert_eq!(release().0, Some(2), "nothing is held");
}

/// What a release would do can be seen before: each record with its cause, and the whole zone.
#[test]
fn what_is_held_is_shown_before_it_is_released() {
    let (mut zonewright, folder) = of_folder(ANYONE);
    zonewright.start();
    let nothing = zonewright.command(&["diff", ZONES[0], "--held"]);
    assert!(
        nothing.starts_with("; nothing of cluster.local. waits"),
        "{nothing}"
    );
    assert_eq!(zonewright.command(&["show", "cluster.local@held"]), nothing);
    fs::remove_file(folder.join("blue.json")).unwrap();
    fs::remove_file(folder.join("green.json")).unwrap();
    check_held(&mut zonewright);

    let serials = zonewright.serials();
    let text = zonewright.command(&["diff", ZONES[0], "--held"]);
    assert_eq!(
        text,
        zonewright.command(&["release", ZONES[0], "--dry-run"])
    );
    assert!(
        text.contains("\n+++ cluster.local. as it waits; held: it would lose"),
        "{text}"
    );
    let s7 = "\n-s7.green.svc.cluster.local. 5 IN A 10.96.0.7\n";
    let (_, after) = text.split_once(s7).unwrap_or_else(|| panic!("{text}"));
    // Records in a row with the same causes have them once.
    let is_cause = |line: &&str| line.starts_with("; ");
    let causes = after.lines().skip_while(|line| !is_cause(line));
    let causes: Vec<&str> = causes.take_while(is_cause).collect();
    let is_its = |it: &&str| it.starts_with("; deleted Service green/s7 (green.json:");
    assert!(causes.iter().any(is_its), "{causes:?}");
    assert!(!text.contains("\n+s"), "nothing is added: {text}");
    let shown = zonewright.command(&["show", "cluster.local@held"]);
    assert!(
        !shown.contains(" A 10.96.0.") && shown.contains(" IN NS "),
        "{shown}"
    );
    assert_eq!(
        zonewright.serials(),
        serials,
        "who only looks changes nothing"
    );

    let json: Value =
        serde_json::from_str(&zonewright.command(&["diff", ZONES[0], "--held", "-o", "json"]))
            .unwrap();
    let would_go = json["removed"].as_array().unwrap().len();
    zonewright.command(&["release", ZONES[0]]);
    let log = zonewright.log_lines(ZONES[0]);
    assert_eq!(log[0]["act"], "released");
    assert_eq!(log[1]["removedCount"], json!(would_go));
}

#[test]
fn what_nobody_releases_leaves_when_its_time_is_over() {
    let gate = "    gate {\n        hold 300ms\n    }\n";
    let (mut zonewright, folder) = of_folder(&format!("{ANYONE}{gate}"));
    zonewright.start();
    fs::remove_file(folder.join("green.json")).unwrap();
    wait(&mut zonewright, "it leaves", |it| !has(it, 1) && has(it, 2));
    wait(&mut zonewright, "both leave", |it| {
        it.metric("zonewright_gate_total", "outcome=\"expired\"") == Some(2.0)
    });
    assert!(zonewright.log().contains("no operator released it"));
}

/// Creates the namespaces and the Services whose number fits.
fn fill(server: &ApiServer, namespaces: &[&str]) {
    for name in namespaces {
        server.create(
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
        );
    }
    let numbers = (1..=SERVICES).filter(|number| namespaces.contains(&namespace_of(*number)));
    let all: Vec<Value> = numbers.map(|number| service(number, None)).collect();
    server.create_all(&all, 8);
}

/// An empty etcd behind the same address, then half of the namespaces: both are held. What was lost comes
/// back, or it is let out.
#[test]
fn an_api_server_that_suddenly_lists_nothing_is_held() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let mut server = ApiServer::start();
    fill(&server, &["blue", "green"]);
    let proxy = Proxy::start(server.address());
    let mut zonewright = Zonewright::prepare(&ZONES);
    let file = zonewright.folder().join("kubeconfig");
    server.kubeconfig_at(Access::Admin, proxy.address, &file);
    let (key, address) = (Key::example(), ports::free_address());
    zonewright.configure(&format!(
        "    kubernetes {{\n        kubeconfig {}\n    }}\n{}",
        file.display(),
        transfer_to(&key, &[address])
    ));
    zonewright.start();
    wait(&mut zonewright, "all names", |it| {
        has(it, 1) && has(it, SERVICES)
    });
    let rendered = |it: &Zonewright| it.served(ZONES[0]) == it.rendered(ZONES[0]);
    wait(&mut zonewright, "all that is listed", rendered);
    let mut follower = Follower::start(&zonewright, key, address);

    server.lose_everything();
    server.resume();
    check_held(&mut zonewright);
    assert!(has(&zonewright, 1) && has(&zonewright, 2));
    follower.assert_kept(&["blue", "green"]);

    proxy.close();
    server.find_everything();
    server.resume();
    proxy.open();
    wait(&mut zonewright, "recovery", |it| held(it) == 0.0);
    assert!(has(&zonewright, 1) && has(&zonewright, 2));

    proxy.close();
    server.lose_everything();
    server.resume();
    fill(&server, &["blue"]);
    proxy.open();
    wait(&mut zonewright, "half the namespaces are held", |it| {
        held(it) == 2.0
    });
    assert!(has(&zonewright, 1) && has(&zonewright, 2));
    // The kinds are listed one after the other: those who are asked to release look first, too.
    wait(&mut zonewright, "all kinds are listed", |it| {
        let services = it.metric("zonewright_source_objects", "kind=\"Service\"");
        services == Some(f64::from(SERVICES / 2 + 1))
    });
    // The Services of the other one are new, with other addresses.
    follower.assert_kept(&["green"]);
    for zone in ZONES {
        zonewright.command(&["release", zone]);
    }
    assert!(!has(&zonewright, 1) && has(&zonewright, 2));
    let rendered = zonewright.rendered(ZONES[0]);
    wait(&mut zonewright, "what a rendering gives", |it| {
        it.served(ZONES[0]) == rendered
    });
    follower.follow(&zonewright);
}

/// The disk is lost, the secondaries live: they have serials far above the clock. What is published first is
/// above theirs, and they take it without a hand.
#[test]
fn after_a_lost_disk_the_first_serial_is_above_the_secondaries() {
    let kinds = [Kind::Bind, Kind::Knot, Kind::Nsd];
    if needs::lacks(&["bind", "knot", "nsd"]) {
        return;
    }
    let (mut zonewright, folder) = of_folder("");
    let key = Key::example();
    let addresses: Vec<SocketAddr> = kinds.iter().map(|_| ports::free_address()).collect();
    let transfer = transfer_to(&key, &addresses);
    configure(&zonewright, &folder, &transfer);
    // The serials of the first life come from a file: far ahead of any clock.
    let far = 3_900_000_000_u32;
    let ahead = format!(
        "$ORIGIN cluster.local.\n$TTL 5\n@ SOA ns.dns hostmaster {far} 300 30 86400 5\n@ NS ns.dns\nns.dns A 127.0.0.1\nold A 192.0.2.1\n"
    );
    fs::write(zonewright.folder().join("db"), ahead).unwrap();
    zonewright.configure(&format!(
        "    file {} cluster.local\n    file {} 10.in-addr.arpa\n{transfer}",
        zonewright.folder().join("db").display(),
        zonewright.folder().join("db-reverse").display()
    ));
    let reverse = format!(
        "$ORIGIN 10.in-addr.arpa.\n$TTL 5\n@ SOA ns.dns.cluster.local. hostmaster.cluster.local. {far} 300 30 86400 5\n@ NS ns.dns.cluster.local.\n"
    );
    fs::write(zonewright.folder().join("db-reverse"), reverse).unwrap();
    zonewright.start();
    let plan = Plan::new(zonewright.address(), &ZONES).key(key);
    let mut secondaries: Vec<Secondary> = kinds
        .iter()
        .zip(&addresses)
        .map(|(kind, address)| Secondary::start_on(*kind, &plan, address.port()))
        .collect();
    for secondary in &mut secondaries {
        for zone in ZONES {
            secondary.wait_for_serial(zone, far, PATIENCE);
        }
    }

    zonewright.kill();
    fs::remove_dir_all(zonewright.state()).unwrap();
    configure(&zonewright, &folder, &transfer);
    zonewright.start();
    let serials = zonewright.serials();
    for (zone, serial) in ZONES.iter().zip(serials) {
        let first = zonewright.versions(zone).pop().unwrap();
        assert_eq!(
            first["serial"].as_u64(),
            Some(u64::from(far) + 1),
            "{first}"
        );
        let serial = serial.unwrap();
        for secondary in &mut secondaries {
            secondary.wait_for_serial(zone, serial, PATIENCE);
            secondary.assert_holds(zone, &zonewright.zone(zone));
        }
    }
}

//! A reload against a real API server: other settings of zones cost it no request.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::apiserver::{Access, ApiServer};
use crate::support::needs;
use crate::support::process::{now, poll_for};
use crate::support::rbac;
use crate::support::wire::{self, Query, Record};
use crate::support::zonewright::Zonewright;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
const ZONE: &str = "cluster.local";
/// Services that are there from the start.
const SERVICES: usize = 20;
/// Those of them that are deleted, from the first.
const GONE: usize = 10;
/// Opcode NOTIFY, in the third octet of a request.
const NOTIFY: u8 = 0x20;

/// What the forms of the Corefile differ in.
struct Form<'a> {
    /// Options of `kubernetes`.
    options: &'a str,
    refresh: u32,
    versions: u32,
    gate: &'a str,
    secondaries: &'a [SocketAddr],
}

/// Writes a form of the Corefile.
fn configure(zonewright: &Zonewright, server: &ApiServer, form: &Form<'_>) {
    let Form {
        options,
        refresh,
        versions,
        gate,
        secondaries,
    } = form;
    let secondaries: Vec<String> = secondaries.iter().map(ToString::to_string).collect();
    let kubeconfig = server.kubeconfig(Access::Limited);
    zonewright.configure(&format!(
        "    kubernetes {{\n        kubeconfig {}\n        {options}\n    }}\n    \
         apex {{\n        refresh {refresh}\n    }}\n    \
         history {{\n        versions {versions}\n    }}\n    \
         gate {gate}\n    \
         transfer {{\n        to {}\n    }}\n",
        kubeconfig.display(),
        secondaries.join(" "),
    ));
}

/// Has the server take the Corefile, for the `count`th time.
fn reload(zonewright: &mut Zonewright, count: usize) {
    zonewright.signal(Signal::USR1);
    let log = zonewright.folder().join("log");
    zonewright.wait_for("the reload", PATIENCE, || {
        let log = std::fs::read_to_string(&log).ok()?;
        assert!(!log.contains("the old configuration stays"), "{log}");
        (log.matches("Reloading complete").count() == count).then_some(())
    });
}

/// The lists and watches that were asked for, once every kind that was listed is watched.
fn requests(server: &ApiServer) -> Vec<(String, String)> {
    let mut requests = Vec::new();
    wait("every kind is watched", || {
        requests = server.limited_requests();
        let count = |verb: &str, kind: &str| {
            let all = requests.iter();
            all.filter(|(v, k)| v == verb && k == kind).count()
        };
        let mut kinds = requests.iter().map(|(_, kind)| kind);
        let is_watched = |kind: &String| count("watch", kind) >= count("list", kind);
        (!requests.is_empty() && kinds.all(is_watched)).then_some(())
    });
    requests
}

/// Waits for something that is no answer.
fn wait(what: &str, condition: impl FnMut() -> Option<()>) {
    let found = poll_for(now() + PATIENCE, Duration::from_millis(20), condition);
    assert!(found.is_some(), "not in time: {what}");
}

/// A Service in `blue`.
fn service(number: usize) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "blue", "name": format!("s{number}") },
        "spec": { "ports": [{ "name": "http", "port": 80 }] },
    })
}

/// The first record of an answer.
fn first(zonewright: &Zonewright, name: &str, rtype: u16) -> Option<Record> {
    let reply = wire::udp(zonewright.address(), &Query::new(name, rtype)).ok()?;
    reply.answers.into_iter().next()
}

fn name_of(number: usize) -> String {
    format!("s{number}.blue.svc.{ZONE}")
}

/// Waits until a Service has an answer, or has none.
fn wait_for(zonewright: &mut Zonewright, number: usize, is_there: bool) {
    let (address, name) = (zonewright.address(), name_of(number));
    let what = format!("{name}: {is_there}");
    zonewright.wait_for(&what, PATIENCE, || {
        let reply = wire::udp(address, &Query::new(&name, wire::A)).ok()?;
        (reply.answers.len() == usize::from(is_there)).then_some(())
    });
}

/// A secondary that only hears NOTIFYs.
fn secondary() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("it is a socket");
    let address = socket.local_addr().expect("it is bound");
    (socket, address)
}

/// Waits for a NOTIFY.
fn wait_for_notify(socket: &UdpSocket) {
    let mut buffer = [0; 512];
    loop {
        let octets = socket.recv(&mut buffer).expect("a NOTIFY comes");
        // Its serial is asked for, too.
        if octets > 2 && buffer[2] & 0x78 == NOTIFY {
            return;
        }
    }
}

/// Starts the server, adds versions, and starts it again with Services gone: the gate holds that.
fn start_with_a_loss(zonewright: &mut Zonewright, server: &ApiServer) {
    zonewright.start();
    for number in 0..SERVICES {
        wait_for(zonewright, number, true);
    }
    for number in SERVICES..SERVICES + 4 {
        server.create(&service(number));
        wait_for(zonewright, number, true);
    }
    assert!(zonewright.versions(ZONE).len() > 3);
    // Services that a start finds gone are held.
    zonewright.stop();
    for number in 0..GONE {
        server.delete(&format!("/api/v1/namespaces/blue/services/s{number}"));
    }
    zonewright.start();
    wait("the gate holds", || {
        (zonewright.metric("zonewright_zone_held", "") == Some(1.0)).then_some(())
    });
    assert!(first(zonewright, &name_of(0), wire::A).is_some());
}

#[test]
fn a_reload_of_history_gate_apex_ttl_and_transfer_asks_the_api_server_nothing_and_counts_at_once() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let server = ApiServer::start();
    rbac::grant(&server, &[]);
    server.create(&json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "blue" },
    }));
    let services: Vec<_> = (0..SERVICES).map(service).collect();
    server.create_all(&services, 4);
    let (_old, old) = secondary();
    let (new_socket, new) = secondary();
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    let mut form = Form {
        options: "ttl 5",
        refresh: 300,
        versions: 100,
        gate: "{\n        shrink 10\n        at_least 2\n    }",
        secondaries: &[old],
    };
    configure(&zonewright, &server, &form);
    start_with_a_loss(&mut zonewright, &server);
    let before = requests(&server);
    for verb in ["list", "watch"] {
        assert!(before.iter().any(|(it, _)| it == verb), "{before:?}");
    }

    let both = [old, new];
    form = Form {
        options: "ttl 17",
        refresh: 123,
        versions: 2,
        gate: "{\n        shrink 90\n        at_least 2\n    }",
        secondaries: &both,
    };
    configure(&zonewright, &server, &form);
    reload(&mut zonewright, 1);
    // The new gate lets go of the loss.
    wait_for(&mut zonewright, 0, false);
    let kept = first(&zonewright, &name_of(GONE), wire::A);
    assert_eq!(kept.map(|it| it.ttl), Some(17));
    let soa = first(&zonewright, ZONE, wire::SOA).expect("there is a SOA");
    assert!(soa.data.contains(" 123 "), "{soa:?}");
    wait_for_notify(&new_socket);
    // The others are condensed in the archive, which has half as many places.
    wait("two versions and an archived one are kept", || {
        (zonewright.versions(ZONE).len() <= 4).then_some(())
    });

    // The watch that was there from the start still tells.
    server.create(&service(90));
    wait_for(&mut zonewright, 90, true);
    assert_eq!(server.limited_requests(), before);

    // A shorter history needs no next version.
    form.versions = 1;
    configure(&zonewright, &server, &form);
    reload(&mut zonewright, 2);
    wait("one version is kept", || {
        (zonewright.versions(ZONE).len() <= 2).then_some(())
    });
    assert_eq!(server.limited_requests(), before);

    // The log of requests does show what another question to the API server costs.
    form.options = "ttl 17\n        labels a=b";
    form.gate = "off";
    configure(&zonewright, &server, &form);
    reload(&mut zonewright, 3);
    wait_for(&mut zonewright, 90, false);
    let after = requests(&server);
    let lists = |all: &[(String, String)]| all.iter().filter(|(verb, _)| verb == "list").count();
    assert!(lists(&after) > lists(&before), "{after:?}");
    zonewright.stop();
}

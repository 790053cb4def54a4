//! The history over HTTPS with client certificates and no API server: what a reader reads, and what it cannot do.

use std::net::SocketAddr;

use crate::support::certificates::Certificates;
use crate::support::https::Https;
use crate::support::ports;
use crate::support::process::{Process, wait_for};
use crate::support::product::{CHANGE, START, Site};
use api::endpoint::ENDPOINTS;
use serde_json::Value;

const ZONE: &str = "cluster.local.";
/// A key whose secret nobody may read.
const SECRET: &str = "c2VjcmV0IG9mIHRoZSB0ZXN0IHRoYXQgbm9ib2R5IHJlYWRz";

/// A server with a history, and certificates for its readers.
struct Library {
    site: Site,
    server: Process,
    certificates: Certificates,
    address: SocketAddr,
    /// The serials of the zone, oldest first.
    serials: Vec<u32>,
}

/// The lines of `history_api`, with these options for its readers.
fn lines(address: SocketAddr, certificates: &Certificates, readers: &str) -> String {
    format!(
        "history_api {address} {{\n        tls {} {}\n        client_ca {}\n        {readers}\n    }}\n    \
         tsig {{\n        secret key.example {SECRET}\n    }}",
        certificates.file("ns.example", "pem").display(),
        certificates.file("ns.example", "key").display(),
        certificates.folder.join("ca.pem").display(),
    )
}

impl Library {
    fn open(readers: &str) -> Self {
        let site = Site::new();
        let certificates = Certificates::new(site.path("."));
        for name in [
            "ns.example",
            "auditor.example",
            "shop.example",
            "stranger.example",
        ] {
            certificates.write(name);
        }
        certificates.revoke(&[]);
        let address = ports::free_address();
        let readers = readers.replace("FOLDER", &certificates.folder.display().to_string());
        site.write(
            "Corefile",
            &site.corefile(&lines(address, &certificates, &readers)),
        );
        let (server, serials) = site.start_with_history(3);
        Self {
            site,
            server,
            certificates,
            address,
            serials,
        }
    }

    /// A client with the certificate of a name.
    fn reader(&self, name: &str) -> Https {
        let certificates = &self.certificates;
        let own = (
            certificates.file(name, "pem"),
            certificates.file(name, "key"),
        );
        let authority = certificates.folder.join("ca.pem");
        Https::new(self.address, &authority, Some((&own.0, &own.1)))
    }

    /// What the command line prints as JSON.
    fn told(&self, args: &[&str]) -> String {
        let args = [args, &["--state", "state", "--output", "json"]].concat();
        let output = self.site.run(&args);
        String::from_utf8(output.stdout).expect("answers are UTF-8")
    }
}

#[test]
fn a_reader_with_a_certificate_reads_what_the_command_line_prints() {
    let library = Library::open("");
    let reader = library.reader("auditor.example");
    let [older, newer] = [library.serials[2], library.serials[5]].map(|it| it.to_string());
    let name = "web.test.svc.cluster.local";
    let at = format!("{ZONE}@{older}");
    for (target, args) in [
        ("zones/cluster.local/log".to_owned(), &["log", ZONE][..]),
        (
            format!("zones/cluster.local/log?count=2&name={name}"),
            &["log", ZONE, "-n", "2", "--name", name],
        ),
        ("log".to_owned(), &["log"]),
        (
            format!("zones/cluster.local/show?at={older}"),
            &["show", &at],
        ),
        (
            format!("zones/cluster.local/diff?from={older}&to={newer}"),
            &["diff", ZONE, &older, &newer],
        ),
        (
            format!("zones/cluster.local/blame?name={name}"),
            &["blame", ZONE, name],
        ),
        (
            format!("zones/cluster.local/why?name={name}&type=A"),
            &["why", name, "A"],
        ),
        (format!("why?name={name}"), &["why", name]),
        ("zones/cluster.local/verify".to_owned(), &["verify", ZONE]),
        ("verify".to_owned(), &["verify"]),
        (
            "zones/cluster.local/corefile".to_owned(),
            &["show", ZONE, "--corefile"],
        ),
        (
            format!("zones/cluster.local/corefile-diff?from={older}"),
            &["diff", ZONE, &older, "--corefile"],
        ),
    ] {
        let said = reader.get(&format!("/v1/{target}"), None);
        assert_eq!(said.status, 200, "{target}: {said:?}");
        assert_eq!(said.body, library.told(args), "{target}");
        assert!(!said.body.contains(SECRET), "{target}");
        assert!(said.head.contains("zonewright-exit: 0"), "{said:?}");
    }
    let said = reader.get("/v1/status", None);
    let listeners = said.lines()[0]["listeners"].clone();
    let is_ours = |it: &Value| {
        it["endpoints"][0] == "history_api"
            && it["scheme"] == "https"
            && it["address"] == library.address.to_string()
    };
    assert!(
        listeners.as_array().unwrap().iter().any(is_ours),
        "{listeners}"
    );
    assert!(!said.body.contains(SECRET));
    library
        .site
        .ask(&["export", ZONE, "--history", "--to", "out"]);
    let exported = std::fs::read_to_string(library.site.path("out/cluster.local.ndjson")).unwrap();
    let said = reader.get("/v1/zones/cluster.local/export", None);
    assert!(
        said.body == exported,
        "the export is that of the command line"
    );
}

#[test]
fn unknown_wrong_and_missing_are_told_apart() {
    let library = Library::open("");
    let reader = library.reader("auditor.example");
    for (target, status, exit, word) in [
        ("zones/cluster.local/show?at=2001-01-01", 410, 3, "unknown"),
        ("zones/cluster.local/show?at=nonsense", 400, 2, "wrong"),
        ("zones/other.example/log", 400, 2, "wrong"),
        ("zones/cluster.local/log?object=x/y/z", 400, 2, "wrong"),
        (
            "zones/cluster.local/why?name=other.example",
            400,
            2,
            "wrong",
        ),
        ("zones/cluster.local/notify", 404, 2, "wrong"),
    ] {
        let said = reader.get(&format!("/v1/{target}"), None);
        let line = &said.lines()[0];
        assert_eq!(said.status, status, "{target}: {said:?}");
        assert_eq!(
            (&line["exit"], &line["fault"]),
            (&exit.into(), &word.into())
        );
        let header = format!("zonewright-exit: {exit}");
        assert!(said.head.contains(&header), "{said:?}");
    }
    let anchor = "0".repeat(64);
    let said = reader.get(&format!("/v1/verify?anchor={anchor}"), None);
    // No version is missing, so it is the hash of another history.
    assert_eq!(said.status, 500, "{said:?}");
    let lines = said.lines();
    assert!(lines.len() > 1, "the verdicts come first: {lines:?}");
    assert_eq!(lines[lines.len() - 1]["exit"], 1);
    // What the name of a zone does not have is an answer.
    let said = reader.get("/v1/zones/cluster.local/show?name=gone.cluster.local", None);
    assert_eq!(said.status, 200);
    assert!(said.lines()[0]["serial"].is_u64(), "{said:?}");
}

#[test]
fn a_reader_can_give_no_order_at_any_endpoint() {
    let library = Library::open("");
    let reader = library.reader("auditor.example");
    let before = library.told(&["status"]);
    for endpoint in ENDPOINTS {
        let target = endpoint.path().replace("{zone}", "cluster.local");
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let said = reader.send(method, &target, &[]).expect("an answer");
            assert_eq!(said.status, 405, "{method} {target}");
            assert!(said.head.to_lowercase().contains("allow: get, head"));
        }
    }
    for order in [
        "freeze", "rollback", "release", "advance", "reload", "notify", "stop", "keys", "tsig",
        "order",
    ] {
        for target in [
            format!("/v1/{order}"),
            format!("/v1/zones/cluster.local/{order}"),
        ] {
            assert_eq!(reader.get(&target, None).status, 404, "{target}");
        }
    }
    let served = |text: &str| {
        let status: Value = serde_json::from_str(text).unwrap();
        let zones = status["zones"].as_array().unwrap().clone();
        let of = |zone: &Value| (zone["serial"].clone(), zone["order"].clone());
        zones.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(served(&before), served(&library.told(&["status"])));
}

#[test]
fn a_certificate_reads_the_zones_that_its_name_may_until_it_is_revoked() {
    let mut library = Library::open(
        "crl FOLDER/crl.pem\n        allow auditor.example\n        allow shop.example cluster.local",
    );
    let status = |name: &str, target: &str| library.reader(name).get(target, None).status;
    let (own, other) = (
        "/v1/zones/cluster.local/log?count=1",
        "/v1/zones/96.10.in-addr.arpa/log?count=1",
    );
    for (name, target, want) in [
        ("auditor.example", own, 200),
        ("auditor.example", other, 200),
        ("auditor.example", "/v1/status", 200),
        ("shop.example", own, 200),
        ("shop.example", other, 403),
        ("shop.example", "/v1/status", 403),
        ("shop.example", "/v1/log", 403),
        ("shop.example", "/v1/verify", 403),
        ("shop.example", "/v1/why?name=cluster.local", 403),
        ("shop.example", "/v1/zones/cluster.local/corefile", 403),
        ("shop.example", "/v1/zones/unknown.example/log", 403),
        ("stranger.example", own, 403),
        ("stranger.example", "/v1/status", 403),
    ] {
        assert_eq!(status(name, target), want, "{name} {target}");
    }
    let authority = library.certificates.folder.join("ca.pem");
    let nobody = Https::new(library.address, &authority, None);
    assert!(
        nobody.send("GET", own, &[]).is_none(),
        "it needs a certificate"
    );
    let log = library.server.log();
    assert!(
        log.contains("certificate shop.example") && log.contains("status=403"),
        "{log}"
    );
    let metrics = library.site.metrics();
    let forbidden = "zonewright_history_api_requests_total{endpoint=\"log\",result=\"forbidden\"} ";
    assert!(metrics.contains(forbidden), "{metrics}");
    library.certificates.revoke(&["shop.example"]);
    wait_for(
        "the end of a revoked certificate",
        CHANGE,
        String::new,
        || {
            let shop = library.reader("shop.example");
            shop.send("GET", own, &[]).is_none().then_some(())
        },
    );
    assert_eq!(library.reader("auditor.example").get(own, None).status, 200);
    library.server.terminate(START);
}

#[test]
fn a_reload_opens_and_closes_the_api_and_takes_other_readers() {
    let library = Library::open("allow auditor.example");
    let target = "/v1/zones/cluster.local/log?count=1";
    let status = |name: &str| {
        let said = library.reader(name).send("GET", target, &[]);
        said.map(|said| said.status)
    };
    assert_eq!(status("shop.example"), Some(403));
    let other = lines(library.address, &library.certificates, "allow shop.example");
    library
        .site
        .write("Corefile", &library.site.corefile(&other));
    library.site.ask(&["reload"]);
    assert_eq!(status("shop.example"), Some(200));
    assert_eq!(status("auditor.example"), Some(403));
    library.site.write("Corefile", &library.site.corefile(""));
    library.site.ask(&["reload"]);
    assert_eq!(status("shop.example"), None);
    library
        .site
        .write("Corefile", &library.site.corefile(&other));
    library.site.ask(&["reload"]);
    assert_eq!(status("shop.example"), Some(200));
}

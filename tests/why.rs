//! `why`: each way in which a name is answered or not, from a running server.

use crate::support::product::{START, Site, cluster_ip, headless};
use serde_json::Value;

/// The Corefile: a cluster with all that hides names, a zone file with a wildcard, someone to ask for the rest.
fn corefile(site: &Site) -> String {
    let (port, manifests) = (site.dns.port(), site.path("manifests"));
    format!(
        "cluster.local:{port} 10.in-addr.arpa:{port} {{\n bind 127.0.0.1\n hosts {{\n  192.0.2.1 static.example\n  fallthrough\n }}\n \
         kubernetes {{\n  manifests {}\n  pods insecure\n  namespaces test other\n  ignore empty_service\n }}\n}}\n\
         over.local:{port} {{\n bind 127.0.0.1\n kubernetes {{\n  manifests {}\n  pods insecure\n  zonal\n  fallthrough\n }}\n file over\n forward . 127.0.0.1:9\n}}\n\
         example.org:{port} {{\n bind 127.0.0.1\n file db\n}}\n\
         example.net:{port} {{\n bind 127.0.0.1\n forward . 127.0.0.1:9\n}}\n\
         falls.test:{port} stays.test:{port} {{\n bind 127.0.0.1\n file part falls.test {{\n  fallthrough\n }}\n \
         file part stays.test\n forward . 127.0.0.1:9\n}}\n",
        manifests.display(),
        manifests.display()
    )
}

/// A zone file with an alias, a wildcard and a delegation.
const FILE: &str = "$ORIGIN example.org.\n$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\n\
                    alias CNAME ns\nout CNAME www.example.com.\n*.wild A 192.0.2.9\nsub NS ns.sub\nns.sub A 192.0.2.54\nold DNAME wild\n";

/// A file under a cluster's zone, with wildcards where names of pods and of topology zones are, and a record at one.
const OVER: &str =
    "$TTL 60\n*.test.pod A 192.0.2.9\n10-0-0-2.test.pod A 192.0.2.7\n*.test.svc A 192.0.2.8\n";

/// A file for two zones, of which one goes on to who is asked for the rest.
const PART: &str = "$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\n\
                    www CNAME gone\n";

/// Objects of each kind of interest.
fn objects() -> String {
    let hidden = cluster_ip("web", 9, 80).replace("namespace: test", "namespace: kube-system");
    let external = "apiVersion: v1\nkind: Service\nmetadata: {name: alias, namespace: test}\nspec:\n  type: ExternalName\n  externalName: not..a.name\n";
    let empty = cluster_ip("empty", 8, 80);
    let web = cluster_ip("web", 7, 80);
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1, namespace: test, labels: {kubernetes.io/service-name: web}}\n\
                 addressType: IPv4\nports: [{name: http, port: 80, protocol: TCP}]\nendpoints:\n- addresses: [10.244.7.1]\n  conditions: {ready: true}\n";
    [
        &web,
        slice,
        &empty,
        &hidden,
        external,
        &headless("none", 5, &[]),
    ]
    .join("---\n")
}

/// What is asked, the outcome, the code of a reason, and what the text has.
const CASES: [(&str, &str, &str, &str); 38] = [
    (
        "web.test.svc.cluster.local A",
        "answered",
        "handlers",
        "10.96.7.1\n    since ",
    ),
    (
        "_http._tcp.web.test.svc.cluster.local SRV",
        "answered",
        "",
        "Service test/web (all.yaml:",
    ),
    (
        "web.test.svc.cluster.local AAAA",
        "nodata",
        "service",
        "cluster addresses 10.96.7.1",
    ),
    (
        "_dns._udp.web.test.svc.cluster.local SRV",
        "nxdomain",
        "ports",
        "_http._tcp",
    ),
    (
        "x.web.test.svc.cluster.local",
        "nxdomain",
        "endpoint-name",
        "has none with the name x",
    ),
    (
        "nope.test.svc.cluster.local",
        "nxdomain",
        "no-service",
        "no Service test/nope is seen",
    ),
    (
        "web.other.svc.cluster.local",
        "nxdomain",
        "no-namespace",
        "no namespace other is seen",
    ),
    (
        "web.kube-system.svc.cluster.local",
        "nxdomain",
        "namespace-hidden",
        "`namespaces` does not name kube-system",
    ),
    (
        "empty.test.svc.cluster.local",
        "nxdomain",
        "no-ready-endpoint",
        "`ignore empty_service`",
    ),
    (
        "none.test.svc.cluster.local",
        "nxdomain",
        "no-ready-endpoint",
        "have no ready endpoint",
    ),
    (
        "alias.test.svc.cluster.local CNAME",
        "nxdomain",
        "refused-content",
        "not..a.name",
    ),
    (
        "x.test.pod.cluster.local",
        "nxdomain",
        "no-pod",
        "with `pods verified`, or with `pods insecure` for addresses",
    ),
    (
        "10-0-0-1.test.pod.cluster.local",
        "live",
        "handlers",
        "`pods insecure` gives it 10.0.0.1",
    ),
    (
        "10-0-0-1.test.pod.over.local",
        "live",
        "",
        "`pods insecure` gives it 10.0.0.1",
    ),
    (
        "x.test.pod.over.local",
        "answered",
        "wildcard",
        "*.test.pod.over.local.",
    ),
    ("10-0-0-2.test.pod.over.local", "answered", "", "192.0.2.7"),
    (
        "eu.pin._zone.none.test.svc.over.local",
        "live",
        "no-ready-endpoint",
        "`zonal` has no records here",
    ),
    (
        "eu.near._zone.none.test.svc.over.local",
        "answered",
        "wildcard",
        "192.0.2.8",
    ),
    (
        "eu.pin._zone.nope.test.svc.over.local",
        "answered",
        "wildcard",
        "*.test.svc.over.local.",
    ),
    (
        "10-0-0-1.nope.pod.cluster.local",
        "nxdomain",
        "namespace-hidden",
        "does not name nope",
    ),
    (
        "a.b.c.cluster.local",
        "nxdomain",
        "not-of-the-schema",
        "SERVICE.NAMESPACE.svc",
    ),
    (
        "svc.cluster.local",
        "nodata",
        "handlers",
        "only names below it",
    ),
    (
        "1.7.96.10.in-addr.arpa PTR",
        "answered",
        "",
        "Service test/web",
    ),
    (
        "9.9.9.10.in-addr.arpa PTR",
        "nxdomain",
        "no-holder",
        "the address 10.9.9.9",
    ),
    ("alias.example.org", "answered", "", "192.0.2.53"),
    ("ns.example.org URI", "nodata", "", "ns.example.org. has A"),
    ("ns.example.org CDS", "nodata", "", "ns.example.org. has A"),
    (
        "out.example.org",
        "answered",
        "alias",
        "is outside the zone",
    ),
    (
        "x.wild.example.org",
        "answered",
        "wildcard",
        "*.wild.example.org.",
    ),
    ("a.sub.example.org", "referral", "delegation", "delegated"),
    (
        "x.old.example.org",
        "answered",
        "dname",
        "the DNAME of old.example.org. redirects it",
    ),
    ("x.old.example.org", "answered", "wildcard", "192.0.2.9"),
    (
        "nope.example.org",
        "nxdomain",
        "",
        "has no name nope.example.org.",
    ),
    // conformance 1: the file ends what `kubernetes` leaves to it.
    (
        "nope.over.local",
        "nxdomain",
        "",
        "has no name nope.over.local.",
    ),
    (
        "nope.falls.test",
        "handler",
        "fallthrough",
        "`fallthrough`: then answered by forward . 127.0.0.1:9",
    ),
    (
        "www.falls.test",
        "nxdomain",
        "",
        "has no name gone.falls.test.",
    ),
    ("www.example.net", "handler", "", "forward . 127.0.0.1:9"),
    (
        "www.example.com",
        "refused",
        "",
        "no server block has a zone",
    ),
];

#[test]
fn why_names_what_answers_and_why_nothing_does() {
    let site = Site::new();
    site.write("Corefile", &corefile(&site));
    site.write("db", FILE);
    site.write("over", OVER);
    site.write("part", PART);
    site.manifest("all.yaml", &objects());
    let mut server = site.start();
    server.wait_for("zones", START, || {
        let zones = [
            "cluster.local.",
            "over.local.",
            "10.in-addr.arpa.",
            "example.org.",
            "falls.test.",
            "stays.test.",
        ];
        zones
            .iter()
            .all(|zone| crate::support::wire::serial(site.dns, zone).is_some())
            .then_some(())
    });
    for (question, outcome, code, text) in CASES {
        let words: Vec<&str> = std::iter::once("why").chain(question.split(' ')).collect();
        let said = site.ask(&words);
        assert!(said.contains(text), "{question}: {said}");
        let json = site.ask(&[&words[..], &["--output", "json"]].concat());
        let json: Value = serde_json::from_str(json.trim()).expect("it is one JSON object");
        assert_eq!(json["outcome"], outcome, "{question}: {json}");
        let reasons = json["reasons"].as_array().expect("it is a list");
        let has = code.is_empty() || reasons.iter().any(|reason| reason["code"] == code);
        assert!(has, "{question}: {json}");
    }
    let said = site.ask(&["why", "web.test.svc.cluster.local", "TXT"]);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.ends_with(", unless hosts decides first"), "{said}");
    for (name, before) in [
        ("web.test.svc.cluster.local", "hosts"),
        ("alias.example.org", ""),
    ] {
        let said = site.ask(&["why", name, "--output", "json"]);
        let json: Value = serde_json::from_str(said.trim()).expect("it is one JSON object");
        let found = json["before"].as_array().expect("it is a list");
        let found: Vec<&str> = found.iter().filter_map(Value::as_str).collect();
        assert_eq!(found.join(" "), before, "{json}");
    }
    let said = site.ask(&["why", "nope.stays.test"]);
    assert!(!said.contains("fallthrough"), "of another zone: {said}");
    site.ask(&["freeze", "cluster.local"]);
    site.manifest(
        "new.yaml",
        &(cluster_ip("new", 1, 80) + "---\n" + &headless("head", 4, &[3])),
    );
    server.wait_for("the change to wait", START, || {
        let said = site.ask(&["why", "web.test.svc.cluster.local"]);
        assert!(said.contains("the zone is frozen by uid "), "{said}");
        site.ask(&["status"]).contains("changes wait").then_some(())
    });
    let said = site.run(&[
        "why",
        "web.test.svc.cluster.local",
        "NOPE",
        "--state",
        "state",
    ]);
    assert_eq!(said.status.code(), Some(2));
    server.terminate(START);
    let said = site.run(&["why", "web.test.svc.cluster.local", "--state", "state"]);
    assert_eq!(said.status.code(), Some(1));
}

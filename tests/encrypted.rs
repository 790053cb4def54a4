//! Queries over TLS, HTTPS and QUIC: asked with clients that are not ours (`kdig`, `curl`, dnspython), and forwarded to a
//! server that is not ours (CoreDNS).

use std::net::TcpStream;
use std::process::Command;

use crate::support::certificates::Certificates;
use crate::support::needs;
use crate::support::ports;
use crate::support::process::{Process, wait_for};
use crate::support::product::{START, Site};
use crate::support::upstream::Upstream;
use crate::support::wire;

/// What the upstream answers for names that begin with `a.`.
const FORWARDED: &str = "10.1.2.3";
/// More connections than one address may have.
const IDLE: usize = 1000;

/// A server with a zone of a file and an upstream, over everything that is encrypted.
struct Encrypted {
    site: Site,
    /// The port of each scheme.
    ports: [(&'static str, u16); 4],
    certificates: Certificates,
    _server: Process,
    _upstream: Upstream,
}

impl Encrypted {
    fn start() -> Self {
        let site = Site::new();
        let certificates = Certificates::new(site.path("."));
        certificates.write("ns.example");
        let ports = ["tls", "https", "https3", "quic"].map(|scheme| (scheme, ports::free()));
        let upstream = Upstream::start(1, "ok");
        let keys: String = ports
            .iter()
            .map(|(scheme, port)| format!("{scheme}://.:{port} "))
            .collect();
        let text = format!(
            "{keys} {{\n bind 127.0.0.1\n prometheus {}\n tls {} {}\n file zone a.test\n forward . {}\n}}\n",
            site.metrics,
            certificates.file("ns.example", "pem").display(),
            certificates.file("ns.example", "key").display(),
            upstream.address
        );
        let zone =
            "$TTL 5\n@ SOA ns h 1 300 30 86400 5\n@ NS ns\nns A 192.0.2.53\nhost A 192.0.2.7\n";
        site.write("zone", zone);
        site.write("Corefile", &text);
        let started = Self {
            _server: site.start(),
            site,
            ports,
            certificates,
            _upstream: upstream,
        };
        for (scheme, way) in WAYS {
            wait_for(&format!("an answer to {way:?}"), START, String::new, || {
                let arguments = [way, &["+short", "host.a.test.", "A"]].concat();
                (started.kdig(scheme, &arguments) == "192.0.2.7\n").then_some(())
            });
        }
        started
    }

    fn port(&self, scheme: &str) -> u16 {
        let found = self.ports.iter().find(|(known, _)| *known == scheme);
        found.expect("it is one of the four").1
    }

    /// What `kdig` prints, its complaints last; it believes no certificate but ours, and no other name in it.
    fn kdig(&self, scheme: &str, arguments: &[&str]) -> String {
        let port = self.port(scheme).to_string();
        let trusted = self.certificates.file("ca", "pem");
        let output = Command::new(needs::program("kdig"))
            .args(["@127.0.0.1", "-p", &port, "+timeout=5", "+retry=0"])
            .arg(format!("+tls-ca={}", trusted.display()))
            .args(["+tls-hostname=ns.example"])
            .args(arguments)
            .output()
            .expect("kdig starts");
        let printed = [output.stdout, output.stderr].concat();
        String::from_utf8(printed).expect("it prints text")
    }

    /// The lines that dnspython prints: see `tests/support/dnspython.py`.
    fn dnspython(&self, scheme: &str, names: &[&str]) -> Vec<String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/dnspython.py");
        let output = Command::new(needs::program("dnspython"))
            .args([script, scheme, &self.port(scheme).to_string()])
            .arg(self.certificates.file("ca", "pem"))
            .args(names)
            .output()
            .expect("it starts");
        let faults = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{scheme}: {faults}");
        let text = String::from_utf8(output.stdout).expect("it prints text");
        text.lines().map(str::to_owned).collect()
    }

    /// What one `curl` gets for these paths, one after the other, each with arguments of its own: the status, the
    /// version of HTTP and the number of new connections. `all` are arguments for each.
    fn curl(&self, all: &[&str], requests: &[(&str, &[&str])]) -> Vec<String> {
        let mut curl = Command::new(needs::program("curl"));
        curl.current_dir(self.site.path("."));
        for (place, (path, arguments)) in requests.iter().enumerate() {
            if place > 0 {
                curl.arg("--next");
            }
            curl.args(["--silent", "--max-time", "10", "--output", "reply"])
                .arg("--cacert")
                .arg(self.certificates.file("ca", "pem"))
                .args(["--connect-to", "ns.example::127.0.0.1:"])
                .args([
                    "--write-out",
                    "%{http_code} %{http_version} %{num_connects}\n",
                ])
                .args(all)
                .args(*arguments)
                .arg(format!("https://ns.example:{}{path}", self.port("https")));
        }
        let output = curl.output().expect("curl starts");
        let text = String::from_utf8(output.stdout).expect("it prints text");
        text.lines().map(str::to_owned).collect()
    }
}

/// The ways in which `kdig` asks, each with the scheme that it is for.
const WAYS: [(&str, &[&str]); 4] = [
    ("tls", &["+tls"]),
    ("https", &["+https"]),
    ("https", &["+https-get"]),
    ("quic", &["+quic"]),
];

#[test]
fn kdig_gets_zone_answers_and_forwarded_ones_over_tls_https_and_quic() {
    if needs::lacks(&["kdig"]) {
        return;
    }
    let server = Encrypted::start();
    for (scheme, way) in WAYS {
        let ask = |name: &str| server.kdig(scheme, &[way, &["+short", name, "A"]].concat());
        assert_eq!(ask("host.a.test."), "192.0.2.7\n", "{way:?}");
        assert_eq!(
            ask("a.elsewhere.test."),
            FORWARDED.to_owned() + "\n",
            "{way:?}"
        );
        let missing = server.kdig(scheme, &[way, &["no.a.test.", "A"]].concat());
        assert!(missing.contains("status: NXDOMAIN"), "{way:?}: {missing}");
        // Zones are transferred over TCP and TLS alone, and here to nobody.
        let refused = server.kdig(scheme, &[way, &["a.test.", "AXFR"]].concat());
        assert!(refused.contains("REFUSED"), "{way:?}: {refused}");
    }
}

#[test]
fn bad_requests_over_https_have_a_status_and_do_not_end_the_connection() {
    if needs::lacks(&["kdig", "curl"]) {
        return;
    }
    let server = Encrypted::start();
    // `host.a.test. A` with the id 0, as RFC 8484 section 4.1.1 writes it.
    let good = "/dns-query?dns=AAABAAABAAAAAAAABGhvc3QBYQR0ZXN0AAABAAE";
    let json = ["--data", "{}", "--header", "content-type: application/json"];
    let empty = [
        "--data",
        "",
        "--header",
        "content-type: application/dns-message",
    ];
    let requests = [
        (good, &[][..], 200),
        ("/dns-query?dns=!!", &[][..], 400),
        ("/dns-query?dns=AAAA", &[][..], 400),
        ("/dns-query", &[][..], 400),
        ("/dns-query", &empty[..], 400),
        ("/dns-query", &json[..], 415),
        ("/dns-query", &["--request", "PUT"][..], 405),
        ("/elsewhere", &[][..], 404),
        (good, &[][..], 200),
    ];
    let asked = requests.map(|(path, arguments, _)| (path, arguments));
    for (version, all) in [("2", "--http2"), ("1.1", "--http1.1")] {
        let statuses = requests.iter().map(|(_, _, status)| status);
        // The first opens a connection, and no other does.
        let lines = statuses
            .enumerate()
            .map(|(place, status)| format!("{status} {version} {}", u8::from(place == 0)));
        assert_eq!(server.curl(&[all], &asked), lines.collect::<Vec<_>>());
    }
}

#[test]
fn dnspython_gets_zone_answers_and_forwarded_ones_over_http2_http3_and_quic() {
    if needs::lacks(&["kdig", "dnspython"]) {
        return;
    }
    let server = Encrypted::start();
    for scheme in ["https", "https3", "quic"] {
        let names = ["host.a.test", "no.a.test", "a.elsewhere.test"];
        let lines = server.dnspython(scheme, &names);
        let [host, missing, forwarded] = &lines[..] else {
            panic!("{scheme}: {lines:?}");
        };
        assert_eq!(host, "NOERROR 192.0.2.7", "{scheme}");
        assert_eq!(missing, "NXDOMAIN", "{scheme}");
        assert_eq!(*forwarded, format!("NOERROR {FORWARDED}"), "{scheme}");
    }
}

/// RFC 8484 section 4.2.1, RFC 9250 section 4.3.3.
#[test]
fn bad_requests_of_dnspython_have_a_status_or_end_the_connection() {
    if needs::lacks(&["kdig", "dnspython"]) {
        return;
    }
    let server = Encrypted::start();
    let good = "NOERROR 192.0.2.7";
    for (scheme, want) in [
        (
            "https",
            &["HTTP/2 400", "HTTP/2 415", "HTTP/2 405", "HTTP/2 404"][..],
        ),
        ("https3", &["HTTP/3 400", "HTTP/3 404", "HTTP/3 400"]),
        // Garbage, and a message with an ID.
        ("quic", &["closed with 2", "closed with 2"]),
    ] {
        assert_eq!(server.dnspython(scheme, &[]), [want, &[good]].concat());
    }
}

#[test]
fn a_thousand_idle_connections_keep_no_other_client_out() {
    if needs::lacks(&["kdig"]) {
        return;
    }
    let server = Encrypted::start();
    for scheme in ["https", "tls"] {
        let port = server.port(scheme);
        let idle: Vec<TcpStream> = (0..IDLE)
            .filter_map(|_| TcpStream::connect(("127.0.0.1", port)).ok())
            .collect();
        assert!(idle.len() > IDLE / 2, "{} connections", idle.len());
        wait_for("one is closed for the limit", START, String::new, || {
            let metrics = server.site.metrics();
            let closed = "zonewright_tcp_closed_total{reason=\"limit\"} ";
            let count = metrics.lines().find_map(|line| line.strip_prefix(closed));
            count.filter(|count| *count != "0").map(drop)
        });
        // The address waits, QUIC and the process do not.
        let answer = server.kdig("quic", &["+quic", "+short", "host.a.test.", "A"]);
        assert_eq!(answer, "192.0.2.7\n");
        drop(idle);
        let way = format!("+{scheme}");
        wait_for("its places are free again", START, String::new, || {
            let answer = server.kdig(scheme, &[&way, "+short", "host.a.test.", "A"]);
            (answer == "192.0.2.7\n").then_some(())
        });
    }
}

/// The protocols of upstreams, each with the label of its metrics.
const UPSTREAMS: [(&str, &str); 4] = [
    ("tls", "proto=\"tcp-tls\""),
    ("https", "proto=\"https\""),
    ("https3", "proto=\"https3\""),
    ("quic", "proto=\"quic\""),
];
/// Queries at once.
const AT_ONCE: u64 = 40;

/// A real CoreDNS that answers over everything that is encrypted, and a zonewright that asks it: names below `tls.`
/// over TLS, and so on.
struct Forwarding {
    site: Site,
    /// The ports of CoreDNS.
    ports: [u16; 4],
    _server: Process,
}

impl Forwarding {
    /// Starts zonewright; `options` are for each `forward`, of which CoreDNS's certificate has this name.
    fn start(name: &str, options: &str) -> Self {
        let site = Site::new();
        let certificates = Certificates::new(site.path("."));
        certificates.write("ns.example");
        let ports = UPSTREAMS.map(|_| ports::free());
        let tls = format!(
            "bind 127.0.0.1\n tls {} {}\n",
            certificates.file("ns.example", "pem").display(),
            certificates.file("ns.example", "key").display()
        );
        let keys = |zone: &str| -> String {
            let all = UPSTREAMS.iter().zip(ports);
            all.map(|((scheme, _), port)| format!("{scheme}://{zone}:{port} "))
                .collect()
        };
        // Each answer for a name below `slow.` takes a while; the others are made at once.
        let upstream = format!(
            "{} {{\n {tls} template IN ANY {{\n  match ^nx\n  rcode NXDOMAIN\n  fallthrough\n }}\n template IN A {{\n  answer \"{{{{ .Name }}}} 60 IN A \
             192.0.2.7\"\n }}\n}}\n{} {{\n {tls} erratic {{\n  drop 0\n  truncate 0\n  delay 1 300ms\n }}\n}}\n",
            keys("."),
            UPSTREAMS
                .map(|(scheme, _)| keys(&format!("slow.{scheme}")))
                .concat()
        );
        site.write("upstream", &upstream);
        let blocks = UPSTREAMS.iter().zip(ports).map(|((scheme, _), port)| {
            format!(
                "{scheme}:{} {{\n bind 127.0.0.1\n prometheus {}\n errors\n forward . {scheme}://127.0.0.1:{port} {{\n  \
                 tls {}\n  tls_servername {name}\n  health_check 100ms\n{options} }}\n}}\n",
                site.dns.port(),
                site.metrics,
                certificates.file("ca", "pem").display()
            )
        });
        site.write("Corefile", &blocks.collect::<String>());
        Self {
            _server: site.start(),
            site,
            ports,
        }
    }

    /// Starts CoreDNS.
    fn upstream(&self) -> Process {
        let mut command = Command::new(needs::program("coredns"));
        command
            .current_dir(self.site.path("."))
            .args(["-conf", "upstream"]);
        Process::spawn("CoreDNS", &mut command, &self.site.path("upstream.log"))
    }

    /// Starts CoreDNS and waits until all names are answered.
    fn upstream_answering(&self) -> Process {
        let mut upstream = self.upstream();
        for (scheme, _) in UPSTREAMS {
            let asked = || self.ask(&format!("host.{scheme}.")).1;
            upstream.wait_for(&format!("an answer over {scheme}"), START, asked);
        }
        upstream
    }

    /// What comes of a question for an address: the code and the address.
    fn ask(&self, name: &str) -> (u16, Option<String>) {
        // Silence over QUIC takes longer than the tests wait for a datagram.
        let Ok(reply) = wire::tcp(self.site.dns, &wire::Query::new(name, wire::A)) else {
            return (u16::MAX, None);
        };
        let answer = reply.answers.first().map(|record| record.data.clone());
        (reply.rcode(), answer)
    }

    /// A sample of `/metrics` for the upstream of a place, 0 when there is none; `label` is part of its labels.
    fn count(&self, metric: &str, place: usize, label: &str) -> u64 {
        let lines = self.site.metrics();
        let to = format!("to=\"127.0.0.1:{}\"", self.ports[place]);
        let mut lines = lines.lines().filter(|line| line.starts_with(metric));
        let line = lines.find(|line| line.contains(&to) && line.contains(label));
        line.map_or(0, |line| {
            let value = line.rsplit(' ').next().and_then(|it| it.parse().ok());
            value.unwrap_or_else(|| panic!("{line}"))
        })
    }
}

#[test]
fn forward_asks_a_coredns_over_each_protocol_and_its_connections_are_shared() {
    if needs::lacks(&["coredns"]) {
        return;
    }
    let server = Forwarding::start("ns.example", "");
    let _upstream = server.upstream_answering();
    for (place, (scheme, label)) in UPSTREAMS.into_iter().enumerate() {
        assert_eq!(server.ask(&format!("nx.{scheme}.")), (3, None), "{scheme}");
        let opened = || server.count("coredns_proxy_conn_cache_misses_total", place, label);
        let reused = || server.count("coredns_proxy_conn_cache_hits_total", place, label);
        let before = (opened(), reused());
        std::thread::scope(|scope| {
            let asked = (0..AT_ONCE).map(|number| {
                let name = format!("x{number}.slow.{scheme}.");
                let server = &server;
                scope.spawn(move || server.ask(&name).0)
            });
            let asked: Vec<_> = asked.collect();
            for rcode in asked {
                assert_eq!(rcode.join().unwrap(), 0, "{scheme}");
            }
        });
        assert_eq!(
            opened() + reused(),
            before.0 + before.1 + AT_ONCE,
            "{scheme}"
        );
        // HTTP/1.1 would need a connection for each, as DNS over TLS does here.
        let is_shared = opened() == before.0;
        assert_eq!(is_shared, scheme != "tls", "{scheme}");
    }
}

#[test]
fn a_coredns_that_ends_and_comes_back_is_asked_again_over_each_protocol() {
    if needs::lacks(&["coredns"]) {
        return;
    }
    let server = Forwarding::start("ns.example", "  max_connect_attempts 1\n");
    drop(server.upstream_answering());
    for (place, (scheme, _)) in UPSTREAMS.into_iter().enumerate() {
        assert_eq!(
            server.ask(&format!("host.{scheme}.")),
            (2, None),
            "{scheme}"
        );
        let failures = "coredns_proxy_healthcheck_failures_total";
        let checked = || (server.count(failures, place, "") > 2).then_some(());
        wait_for(
            &format!("failed checks of {scheme}"),
            START,
            String::new,
            checked,
        );
    }
    let _upstream = server.upstream_answering();
}

#[test]
fn a_coredns_with_a_certificate_for_another_name_is_not_asked_and_the_log_says_why() {
    if needs::lacks(&["coredns"]) {
        return;
    }
    let server = Forwarding::start("other.example", "  max_connect_attempts 1\n");
    let _upstream = server.upstream();
    for ((scheme, _), port) in UPSTREAMS.into_iter().zip(server.ports) {
        let log = || std::fs::read_to_string(server.site.path("log")).unwrap_or_default();
        let is_said = |line: &str| {
            line.contains(&format!(":{port}: ")) && line.contains("invalid peer certificate")
        };
        // CoreDNS has to listen first.
        wait_for(&format!("the reason for {scheme}"), START, log, || {
            let (rcode, answer) = server.ask(&format!("host.{scheme}."));
            assert!(answer.is_none(), "{scheme}: {rcode} {answer:?}");
            log().lines().any(is_said).then_some(())
        });
    }
}

#[test]
fn a_client_whose_certificate_is_revoked_gets_nothing_from_then_on_and_the_log_says_why() {
    if needs::lacks(&["kdig"]) {
        return;
    }
    let site = Site::new();
    let certificates = Certificates::new(site.path("."));
    for name in ["ns.example", "kept.example", "lost.example"] {
        certificates.write(name);
    }
    certificates.revoke(&[]);
    let port = ports::free();
    let text = format!(
        "tls://a.test:{port} {{\n bind 127.0.0.1\n tls ns.example.pem ns.example.key ca.pem {{\n  \
         client_auth require_and_verify\n  crl crl.pem\n }}\n file zone a.test\n}}\n"
    );
    let zone = "$TTL 5\n@ SOA ns h 1 300 30 86400 5\n@ NS ns\nns A 192.0.2.53\nhost A 192.0.2.7\n";
    site.write("zone", zone);
    site.write("Corefile", &text);
    let server = site.start();
    let ask = |name: &str| {
        let output = Command::new(needs::program("kdig"))
            .args([
                "@127.0.0.1",
                "-p",
                &port.to_string(),
                "+timeout=5",
                "+retry=0",
            ])
            .arg(format!(
                "+tls-ca={}",
                certificates.file("ca", "pem").display()
            ))
            .args(["+tls-hostname=ns.example", "+short", "host.a.test.", "A"])
            .arg(format!(
                "+tls-certfile={}",
                certificates.file(name, "pem").display()
            ))
            .arg(format!(
                "+tls-keyfile={}",
                certificates.file(name, "key").display()
            ))
            .output()
            .expect("kdig starts");
        String::from_utf8(output.stdout).expect("it prints text") == "192.0.2.7\n"
    };
    let both = || [ask("kept.example"), ask("lost.example")];
    wait_for("answers to both", START, String::new, || {
        (both() == [true, true]).then_some(())
    });
    certificates.revoke(&["lost.example"]);
    wait_for(
        "one is refused",
        START,
        || server.log_tail(),
        || (both() == [true, false]).then_some(()),
    );
    // The client may read of its refusal before the log has it.
    let says = |text: &str| server.log_tail().contains(text).then_some(());
    wait_for("the reason", START, String::new, || says("Revoked"));
    assert!(says("certificate, which is revoked or may be").is_some());
    certificates.revoke(&[]);
    wait_for(
        "it is taken back",
        START,
        || server.log_tail(),
        || (both() == [true, true]).then_some(()),
    );
}

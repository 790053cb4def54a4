//! Queries over TLS, HTTPS and QUIC, asked with clients that are not ours: `kdig` and `curl`.

use std::net::TcpStream;
use std::process::Command;

use crate::support::certificates::Certificates;
use crate::support::needs;
use crate::support::ports;
use crate::support::process::{Process, wait_for};
use crate::support::product::{START, Site};
use crate::support::upstream::Upstream;

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
            "{keys} {{\n bind 127.0.0.1\n tls {} {}\n file zone a.test\n forward . {}\n}}\n",
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

    /// What `kdig` prints; it believes no certificate but ours, and no other name in it.
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
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// The status, the version of HTTP and the size of what `curl` gets.
    fn curl(&self, path: &str, arguments: &[&str]) -> String {
        let url = format!("https://ns.example:{}{path}", self.port("https"));
        let output = Command::new(needs::program("curl"))
            .current_dir(self.site.path("."))
            .args([
                "--silent",
                "--max-time",
                "10",
                "--output",
                "reply",
                "--cacert",
            ])
            .arg(self.certificates.file("ca", "pem"))
            .args(["--connect-to", "ns.example::127.0.0.1:"])
            .args([
                "--write-out",
                "%{http_code} %{http_version} %{size_download}",
            ])
            .args(arguments)
            .arg(url)
            .output()
            .expect("curl starts");
        String::from_utf8(output.stdout).expect("it prints text")
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
        assert!(!ask("a.elsewhere.test.").trim().is_empty(), "{way:?}");
        let missing = server.kdig(scheme, &[way, &["no.a.test.", "A"]].concat());
        assert!(missing.contains("status: NXDOMAIN"), "{way:?}: {missing}");
        // Zones are transferred over TCP and TLS alone, and here to nobody.
        let refused = server.kdig(scheme, &[way, &["a.test.", "AXFR"]].concat());
        assert!(!refused.contains("192.0.2.7"), "{way:?}: {refused}");
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
    for (path, arguments, want) in [
        (good, &[][..], "200 2 45"),
        (good, &["--http1.1"][..], "200 1.1 45"),
        ("/dns-query?dns=!!", &[][..], "400 2 0"),
        ("/dns-query?dns=AAAA", &[][..], "400 2 0"),
        ("/dns-query", &[][..], "400 2 0"),
        ("/dns-query", &empty[..], "400 2 0"),
        ("/dns-query", &json[..], "415 2 0"),
        ("/dns-query", &["--request", "PUT"][..], "405 2 0"),
        ("/elsewhere", &[][..], "404 2 0"),
    ] {
        let found = server.curl(path, arguments);
        let status = |text: &str| text.rsplit_once(' ').map(|it| it.0.to_owned());
        assert_eq!(
            status(&found),
            status(want),
            "{path} {arguments:?}: {found}"
        );
    }
    assert_eq!(server.curl(good, &[]), "200 2 45");
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
        // What is over the limit of an address is closed: that address waits, QUIC and the process do not.
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

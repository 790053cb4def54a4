//! TSIG and TLS with the programs that people use: dig, kdig and openssl as clients, BIND and NSD as
//! secondaries over TLS.
#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that fails fails the test"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::json;
use support::process::wait_for;
use support::secondary::{Key, Kind, Plan, Secondary, Tls};
use support::zonewright::Zonewright;
use support::{needs, ports, wire};

mod support;

/// How long a secondary, or we, may take to follow.
const PATIENCE: Duration = Duration::from_secs(30);

/// The zone.
const ZONE: &str = "cluster.local";

/// A folder of manifests with some Services beside a server.
fn manifests(zonewright: &Zonewright) -> PathBuf {
    let folder = zonewright.folder().join("manifests");
    fs::create_dir(&folder).unwrap();
    fs::write(
        folder.join("namespace.json"),
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } })
            .to_string(),
    )
    .unwrap();
    for number in 0..600 {
        add_service(&folder, number);
    }
    folder
}

/// Adds a Service.
fn add_service(folder: &std::path::Path, number: usize) {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": format!("service-{number}"), "namespace": "shop" },
        "spec": {
            "clusterIP": format!("10.96.{}.{}", number / 256, number % 256),
            "clusterIPs": [format!("10.96.{}.{}", number / 256, number % 256)],
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
        },
    });
    let aside = folder.join("service.new");
    fs::write(&aside, service.to_string()).unwrap();
    fs::rename(aside, folder.join(format!("service-{number}.json"))).unwrap();
}

/// What a client prints, both outputs together.
fn output(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(needs::program(program));
    let output = command
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// How many records of the zone a client printed.
fn records(text: &str) -> usize {
    let of_zone = |line: &&str| {
        !line.starts_with(';') && line.contains("cluster.local.") && !line.contains("TSIG")
    };
    text.lines().filter(of_zone).count()
}

/// E1: each algorithm, with a secret shorter than the hash and one longer than its block.
#[test]
fn e01_dig_and_kdig_verify_what_each_algorithm_signs() {
    if needs::lacks(&["dig", "kdig"]) {
        return;
    }
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    let folder = manifests(&zonewright);
    let (mut secrets, mut names, mut keys) = (String::new(), String::new(), Vec::new());
    for algorithm in [
        "sha1",
        "sha224",
        "sha256",
        "sha384",
        "sha512",
        "sha256-128",
        "sha512-256",
    ] {
        for octets in [8, 200] {
            let (name, secret) = (
                format!("{algorithm}-{octets}.key"),
                STANDARD.encode(vec![7_u8; octets]),
            );
            writeln!(secrets, "        secret {name} {secret} hmac-{algorithm}").unwrap();
            write!(names, " {name}").unwrap();
            keys.push((algorithm, name, secret));
        }
    }
    zonewright.configure(&format!(
        "    kubernetes {{\n        manifests {}\n    }}\n    tsig {{\n{secrets}    }}\n    transfer {{\n        \
         allow 127.0.0.1 key{names}\n    }}\n",
        folder.display()
    ));
    zonewright.start();
    let port = zonewright.address().port().to_string();
    for (algorithm, name, secret) in &keys {
        for program in ["dig", "kdig"] {
            // Knot knows no MACs that are cut.
            if program == "kdig" && algorithm.contains('-') {
                continue;
            }
            let key = format!("hmac-{algorithm}:{name}:{secret}");
            let at = ["@127.0.0.1", "-p", &port, "-y", &key, ZONE, "AXFR"];
            let text = output(program, &at);
            assert!(records(&text) > 1200, "{program} {name}: {text}");
            let lower = text.to_lowercase();
            for bad in ["verif", "badsig", "badkey", "failed", "warning", "error: "] {
                assert!(!lower.contains(bad), "{program} {name}: {bad}: {text}");
            }
        }
    }
    let wrong = format!("hmac-sha256:sha256-8.key:{}", STANDARD.encode("another"));
    let text = output(
        "dig",
        &["@127.0.0.1", "-p", &port, "-y", &wrong, ZONE, "AXFR"],
    );
    assert_eq!(records(&text), 0, "{text}");
}

/// Certificates in files.
struct Certificates {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Certificates {
    fn new(folder: PathBuf) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(
            folder.join("ca.pem"),
            params.self_signed(&key).unwrap().pem(),
        )
        .unwrap();
        Self {
            issuer: Issuer::new(params, key),
            folder,
        }
    }

    /// Writes a certificate for a name, in files of that name.
    fn write(&self, name: &str) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        // With the CA's own subject, OpenSSL takes it for self-signed.
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        fs::write(self.file(name, "key"), key.serialize_pem()).unwrap();
        fs::write(self.file(name, "pem"), pem).unwrap();
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{name}.{kind}"))
    }

    /// The line `tls` of the Corefile, and its block.
    fn line(&self) -> String {
        format!(
            "    tls {} {} {} {{\n        client_auth verify_if_given\n    }}\n",
            self.file("ns.example", "pem").display(),
            self.file("ns.example", "key").display(),
            self.folder.join("ca.pem").display()
        )
    }
}

/// F5, F6, F7 and F10 with real clients, and the key file read again.
#[test]
fn f05_f06_f07_f10_dig_kdig_and_openssl_over_tls() {
    if needs::lacks(&["dig", "kdig", "openssl"]) {
        return;
    }
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    let folder = manifests(&zonewright);
    let certificates = Certificates::new(zonewright.folder().to_owned());
    for name in ["ns.example", "friend.example", "stranger.example"] {
        certificates.write(name);
    }
    let tls_port = ports::free();
    let keys = zonewright.folder().join("keys");
    let key_file = |secret: &str| {
        let secret = STANDARD.encode(secret);
        format!("key \"file.key\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n")
    };
    fs::write(&keys, key_file("first")).unwrap();
    zonewright.configure_with_keys(
        &format!("tls://{ZONE}:{tls_port}"),
        &format!(
            "    kubernetes {{\n        manifests {}\n    }}\n{}    tsig {{\n        secrets {}\n    }}\n    \
             transfer {{\n        tls\n        allow 127.0.0.1 tls friend.example\n        allow 127.0.0.1 key \
             file.key\n    }}\n",
            folder.display(),
            certificates.line(),
            keys.display()
        ),
    );
    zonewright.start();
    let (port, tls_port) = (
        zonewright.address().port().to_string(),
        tls_port.to_string(),
    );
    let ca = format!("+tls-ca={}", certificates.folder.join("ca.pem").display());
    let of = |who: &str| {
        let file = |kind| certificates.file(who, kind).display().to_string();
        [
            format!("+tls-certfile={}", file("pem")),
            format!("+tls-keyfile={}", file("key")),
        ]
    };
    let over_tls = |program: &str, more: &[&str]| {
        let mut arguments = vec![
            "@127.0.0.1",
            "-p",
            &tls_port,
            "+tls",
            &ca,
            "+tls-hostname=ns.example",
        ];
        arguments.extend_from_slice(more);
        output(program, &arguments)
    };
    for program in ["dig", "kdig"] {
        let text = over_tls(program, &[&format!("service-1.shop.svc.{ZONE}"), "A"]);
        assert!(text.contains("10.96.0.1"), "{program}: {text}");
        for (who, is_friend) in [("friend.example", true), ("stranger.example", false)] {
            let [certificate, key] = of(who);
            let text = over_tls(program, &[&certificate, &key, ZONE, "AXFR"]);
            assert_eq!(records(&text) > 1200, is_friend, "{program} {who}: {text}");
        }
        let signed = format!("hmac-sha256:file.key:{}", STANDARD.encode("first"));
        let text = over_tls(program, &["-y", &signed, ZONE, "AXFR"]);
        assert!(records(&text) > 1200, "{program}: {text}");
        // The same key without TLS.
        let text = output(
            program,
            &["@127.0.0.1", "-p", &port, "-y", &signed, ZONE, "AXFR"],
        );
        assert_eq!(records(&text), 0, "{program}: {text}");
    }
    let to = format!("127.0.0.1:{tls_port}");
    let shake = |more: &[&str]| {
        let mut arguments = vec!["s_client", "-connect", &to];
        arguments.extend_from_slice(more);
        output("openssl", &arguments)
    };
    let text = shake(&["-alpn", "dot"]);
    assert!(
        text.contains("ALPN protocol: dot") && text.contains("TLSv1.3"),
        "{text}"
    );
    let text = shake(&["-alpn", "h2"]);
    assert!(text.contains("no application protocol"), "{text}");
    let text = shake(&["-tls1_2", "-alpn", "dot"]);
    assert!(text.contains("alert protocol version"), "{text}");

    let before = fs::read_to_string(certificates.file("ns.example", "pem")).unwrap();
    certificates.write("ns.example");
    fs::write(&keys, key_file("second")).unwrap();
    let new = fs::read_to_string(certificates.file("ns.example", "pem")).unwrap();
    let body = |pem: &str| pem.lines().nth(5).unwrap().to_owned();
    let shown = || shake(&["-alpn", "dot"]);
    assert_ne!(body(&before), body(&new));
    wait_for("the new certificate", PATIENCE, shown, || {
        shown().contains(&body(&new)).then_some(())
    });
    let second = format!("hmac-sha256:file.key:{}", STANDARD.encode("second"));
    wait_for(
        "the new key",
        PATIENCE,
        || zonewright.log(),
        || (records(&over_tls("dig", &["-y", &second, ZONE, "AXFR"])) > 1200).then_some(()),
    );
    fs::write(&keys, "key broken {\n").unwrap();
    let place = format!("{}:1:", keys.display());
    wait_for(
        "the error",
        PATIENCE,
        || zonewright.log(),
        || zonewright.log().contains(&place).then_some(()),
    );
    assert!(records(&over_tls("dig", &["-y", &second, ZONE, "AXFR"])) > 1200);
    let log = zonewright.log();
    assert!(
        !log.contains(&STANDARD.encode("second")),
        "a secret is in the log"
    );
    assert!(
        log.contains("friend.example"),
        "the log names the peer: {log}"
    );
}

/// F5: secondaries over TLS with certificates of their own, signed too; they follow a change.
#[test]
fn f05_bind_and_nsd_follow_over_tls() {
    if needs::lacks(&["bind", "nsd"]) {
        return;
    }
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    let folder = manifests(&zonewright);
    let certificates = Certificates::new(zonewright.folder().to_owned());
    certificates.write("ns.example");
    let tls_port = ports::free();
    let places = [Kind::Bind, Kind::Nsd].map(|kind| {
        let name = format!("{}.example", kind.name());
        certificates.write(&name);
        (kind, name, ports::free())
    });
    let key = Key::example();
    let mut to = String::new();
    for (_, name, port) in &places {
        writeln!(
            to,
            "        to 127.0.0.1:{port} key {} tls {name}",
            key.name
        )
        .unwrap();
    }
    zonewright.configure_with_keys(
        &format!("tls://{ZONE}:{tls_port}"),
        &format!(
            "    kubernetes {{\n        manifests {}\n    }}\n{}    tsig {{\n        secret {} {} {}\n    }}\n    \
             transfer {{\n{to}    }}\n",
            folder.display(),
            certificates.line(),
            key.name,
            key.secret,
            key.algorithm
        ),
    );
    zonewright.start();
    let members = places.map(|(kind, name, port)| {
        let plan = Plan::new(zonewright.address(), &[ZONE])
            .key(key.clone())
            .tls(Tls {
                port: tls_port,
                name: "ns.example".to_owned(),
                ca: certificates.folder.join("ca.pem"),
                certificate: certificates.file(&name, "pem"),
                key: certificates.file(&name, "key"),
            });
        Secondary::start_on(kind, &plan, port)
    });
    for number in [0, 700] {
        if number > 0 {
            let (before, address) = (zonewright.serial(ZONE), zonewright.address());
            add_service(&folder, number);
            zonewright.wait_for("the change", PATIENCE, || {
                (wire::serial(address, ZONE) != before).then_some(())
            });
        }
        for member in &members {
            let state = || format!("{}\n{}", zonewright.log(), member.log());
            wait_for(
                &format!("{:?} follows", member.kind),
                PATIENCE,
                state,
                || {
                    let ours = zonewright.serial(ZONE);
                    (ours.is_some() && member.serial(ZONE) == ours).then_some(())
                },
            );
        }
    }
    let log = zonewright.log();
    for (name, kind) in [("bind.example", "ixfr"), ("nsd.example", "ixfr")] {
        let finished = log
            .lines()
            .filter(|line| line.contains("transfer finished"));
        let of_peer: Vec<&str> = finished.filter(|line| line.contains(name)).collect();
        assert!(
            of_peer.iter().any(|line| line.contains(kind)),
            "{name}: {of_peer:?}"
        );
    }
}

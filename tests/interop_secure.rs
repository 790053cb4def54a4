//! TSIG and TLS with the programs that people use: dig, kdig and openssl as clients, BIND and NSD as
//! secondaries over TLS.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::certificates::Certificates;
use crate::support::process::wait_for;
use crate::support::secondary::{FOLDER, Key, Kind, Plan, Secondary, Tls};
use crate::support::zonewright::{Transferred, Zonewright};
use crate::support::{needs, ports, wire};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// How long a secondary, or we, may take to follow.
const PATIENCE: Duration = Duration::from_secs(30);

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

/// A key file with one key.
fn key_file(secret: &str) -> String {
    let secret = STANDARD.encode(secret);
    format!("key \"file.key\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n")
}

/// The key of such a file, as dig takes it.
fn key_of(secret: &str) -> String {
    format!("hmac-sha256:file.key:{}", STANDARD.encode(secret))
}

/// A server whose zone is for a client with the certificate `friend.example` or the key of a file, both
/// over TLS alone.
struct Guarded {
    zonewright: Zonewright,
    certificates: Certificates,
    tls_port: String,
    keys: PathBuf,
}

impl Guarded {
    fn start() -> Self {
        let mut zonewright = Zonewright::prepare(&[ZONE]);
        let folder = manifests(&zonewright);
        let certificates = Certificates::new(zonewright.folder().to_owned());
        for name in ["ns.example", "friend.example", "stranger.example"] {
            certificates.write(name);
        }
        let tls_port = ports::free().to_string();
        let keys = zonewright.folder().join("keys");
        fs::write(&keys, key_file("first")).unwrap();
        zonewright.configure_with_keys(
            &format!("tls://{ZONE}:{tls_port}"),
            &format!(
                "    kubernetes {{\n        manifests {}\n    }}\n{}    tsig {{\n        secrets {}\n    }}\n    \
                 transfer {{\n        tls\n        allow 127.0.0.1 tls friend.example\n        allow 127.0.0.1 \
                 key file.key\n    }}\n",
                folder.display(),
                certificates.line(),
                keys.display()
            ),
        );
        zonewright.start();
        Self {
            zonewright,
            certificates,
            tls_port,
            keys,
        }
    }

    /// What a client prints that asks over TLS and checks our certificate.
    fn over_tls(&self, program: &str, more: &[&str]) -> String {
        let ca = self.certificates.folder.join("ca.pem");
        let ca = format!("+tls-ca={}", ca.display());
        let mut arguments = vec!["@127.0.0.1", "-p", &self.tls_port, "+tls", &ca];
        arguments.push("+tls-hostname=ns.example");
        arguments.extend_from_slice(more);
        output(program, &arguments)
    }

    /// The options of a client that has this certificate.
    fn certificate(&self, who: &str) -> [String; 2] {
        let file = |kind| self.certificates.file(who, kind).display().to_string();
        [
            format!("+tls-certfile={}", file("pem")),
            format!("+tls-keyfile={}", file("key")),
        ]
    }

    /// What openssl prints about a handshake.
    fn shake(&self, more: &[&str]) -> String {
        let to = format!("127.0.0.1:{}", self.tls_port);
        let mut arguments = vec!["s_client", "-connect", &to];
        arguments.extend_from_slice(more);
        output("openssl", &arguments)
    }
}

/// F5, F6 and F7: queries from anyone; the zone by the right certificate or the key, and over TLS alone.
#[test]
fn f05_f06_f07_dig_and_kdig_over_tls() {
    if needs::lacks(&["dig", "kdig"]) {
        return;
    }
    let guarded = Guarded::start();
    let port = guarded.zonewright.address().port().to_string();
    let signed = key_of("first");
    for program in ["dig", "kdig"] {
        let text = guarded.over_tls(program, &[&format!("service-1.shop.svc.{ZONE}"), "A"]);
        assert!(text.contains("10.96.0.1"), "{program}: {text}");
        for (who, is_friend) in [("friend.example", true), ("stranger.example", false)] {
            let [certificate, key] = guarded.certificate(who);
            let text = guarded.over_tls(program, &[&certificate, &key, ZONE, "AXFR"]);
            assert_eq!(records(&text) > 1200, is_friend, "{program} {who}: {text}");
        }
        let text = guarded.over_tls(program, &["-y", &signed, ZONE, "AXFR"]);
        assert!(records(&text) > 1200, "{program}: {text}");
        let plain = ["@127.0.0.1", "-p", &port, "-y", &signed, ZONE, "AXFR"];
        let text = output(program, &plain);
        assert_eq!(records(&text), 0, "{program}: {text}");
    }
    let log = guarded.zonewright.log();
    assert!(
        log.contains("friend.example"),
        "the log names the peer: {log}"
    );
}

/// F5: what a handshake comes to.
#[test]
fn f05_openssl_shakes_hands_by_tls_13_and_dot_alone() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let guarded = Guarded::start();
    let text = guarded.shake(&["-alpn", "dot"]);
    assert!(
        text.contains("ALPN protocol: dot") && text.contains("TLSv1.3"),
        "{text}"
    );
    let text = guarded.shake(&["-alpn", "h2"]);
    assert!(text.contains("no application protocol"), "{text}");
    let text = guarded.shake(&["-tls1_2", "-alpn", "dot"]);
    assert!(text.contains("alert protocol version"), "{text}");
}

/// F10, and keys: files that change are read again, and one that is broken changes nothing.
#[test]
fn f10_certificate_and_key_files_are_read_again() {
    if needs::lacks(&["dig", "openssl"]) {
        return;
    }
    let guarded = Guarded::start();
    let pem = guarded.certificates.file("ns.example", "pem");
    let body = || {
        fs::read_to_string(&pem)
            .unwrap()
            .lines()
            .nth(5)
            .unwrap()
            .to_owned()
    };
    let shown = || guarded.shake(&["-alpn", "dot"]);
    let before = body();
    assert!(shown().contains(&before));
    guarded.certificates.write("ns.example");
    fs::write(&guarded.keys, key_file("second")).unwrap();
    assert_ne!(before, body());
    wait_for("the new certificate", PATIENCE, shown, || {
        shown().contains(&body()).then_some(())
    });
    let second = key_of("second");
    let has_zone = || records(&guarded.over_tls("dig", &["-y", &second, ZONE, "AXFR"])) > 1200;
    let log = || guarded.zonewright.log();
    wait_for("the new key", PATIENCE, log, || has_zone().then_some(()));
    fs::write(&guarded.keys, "key broken {\n").unwrap();
    let place = format!("{}:1:", guarded.keys.display());
    wait_for("the error", PATIENCE, log, || {
        log().contains(&place).then_some(())
    });
    assert!(has_zone());
    assert!(
        !log().contains(&STANDARD.encode("second")),
        "a secret is in the log"
    );
}

/// Secondaries by the names in their certificates.
const SECONDARIES: [&str; 4] = [
    "bind.example",
    "nsd.example",
    "bind-emitted.example",
    "nsd-emitted.example",
];

/// F5: secondaries over TLS with certificates of their own, signed too, as `emit` writes them and as a person does; they
/// follow a change.
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
    let kinds = [Kind::Bind, Kind::Nsd, Kind::Bind, Kind::Nsd];
    let places = [0, 1, 2, 3].map(|number| {
        let (kind, name) = (kinds[number], SECONDARIES[number]);
        certificates.write(name);
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
        let tls = certificates.of_secondary(name, tls_port);
        let mut plan = Plan::new(zonewright.address(), &[ZONE]).key(key.clone());
        if name.contains("emitted") {
            plan.emitted = Some(emitted_over_tls(&zonewright, (kind, port), &tls, name));
        } else {
            plan = plan.tls(tls);
        }
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
    check_increments(&zonewright);
}

/// What `emit` prints for a secondary, with the certificates where they are.
fn emitted_over_tls(
    zonewright: &Zonewright,
    (kind, port): (Kind, u16),
    tls: &Tls,
    name: &str,
) -> String {
    let at = ports::loopback(port).to_string();
    let mut words = vec!["emit", kind.name(), "--secondary", &at, "--with-secrets"];
    words.extend(["--dir", FOLDER, "--tls-name", &tls.name]);
    let mut text = zonewright.command(&words);
    for (printed, file) in [
        ("zonewright-ca.pem", &tls.ca),
        (&format!("{name}.pem"), &tls.certificate),
        (&format!("{name}.key"), &tls.key),
    ] {
        let place = format!("\"{FOLDER}/{printed}\"");
        assert!(text.contains(&place), "no {place} in {text}");
        text = text.replace(&place, &format!("\"{}\"", file.display()));
    }
    text
}

/// Each secondary is named by its certificate, and took an increment.
fn check_increments(zonewright: &Zonewright) {
    let all = zonewright.transfers();
    for name in SECONDARIES {
        let is_own = |it: &&Transferred| it.tls.as_ref().is_some_and(|tls| tls.contains(name));
        let own: Vec<&Transferred> = all.iter().filter(is_own).collect();
        assert!(own.iter().any(|it| it.kind == "ixfr"), "{name}: {own:?}");
    }
}

//! Zones that `dnssec-signzone` signed: four servers hold them unchanged, BIND answers as we do, `delv` validates our
//! answers, and their serial is the file's.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::needs;
use crate::support::process::wait_for;
use crate::support::secondary::{Kind, Plan, Secondary};
use crate::support::wire::{self, Increment, Message, Query, RRSIG, Record};
use crate::support::zonewright::Zonewright;

/// How long a secondary may take to follow.
const FOLLOW: Duration = Duration::from_secs(60);
const SERIAL: u32 = 2_026_010_100;

/// The zones, each with what its signer is told: NSEC; NSEC3; NSEC3 that skips insecure delegations.
const ZONES: [(&str, &[&str]); 3] = [
    ("nsec.test", &[]),
    ("nsec3.test", &["-3", "aabb", "-H", "5"]),
    ("optout.test", &["-3", "-", "-A", "-H", "0"]),
];

/// The content of each.
const TEXT: &str = r#"$TTL 300
@ 3600 IN SOA ns1 hostmaster SERIAL 1 1 1209600 240
@ NS ns1
@ NS ns2
@ MX 10 mail
@ TXT "signed elsewhere"
ns1 A 127.0.0.1
ns1 AAAA ::1
ns2 A 192.0.2.2
mail 600 A 192.0.2.25
www A 192.0.2.80
www A 192.0.2.81
www TXT "one"
alias CNAME www
far CNAME www.example.net.
lost CNAME nothing
tostar CNAME any.star
*.star A 192.0.2.99
*.star TXT "star"
deep.star A 192.0.2.98
*.starred CNAME www
x.y.empty A 192.0.2.70
old DNAME new
a.new A 192.0.2.60
_http._tcp SRV 1 2 80 www
secure NS ns.secure
secure DS 12345 13 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF
ns.secure A 192.0.2.53
plain NS ns.plain
plain NS ns1
ns.plain A 192.0.2.54
deeper.ns.plain A 192.0.2.56
only.below NS ns1
svc HTTPS 1 . alpn=h2
"#;

/// Names to ask for: all kinds of names there are, and what is missing beside them.
const NAMES: &[&str] = &[
    "",
    "ns1.",
    "ns2.",
    "mail.",
    "www.",
    "alias.",
    "far.",
    "lost.",
    "tostar.",
    "*.star.",
    "any.star.",
    "any.such.star.",
    "deep.star.",
    "under.deep.star.",
    "star.",
    "*.starred.",
    "any.starred.",
    "x.y.empty.",
    "y.empty.",
    "empty.",
    "no.empty.",
    "no.x.y.empty.",
    "old.",
    "a.old.",
    "b.old.",
    "c.b.old.",
    "new.",
    "a.new.",
    "_http._tcp.",
    "_tcp.",
    "secure.",
    "ns.secure.",
    "no.secure.",
    "plain.",
    "ns.plain.",
    "deeper.ns.plain.",
    "below.",
    "only.below.",
    "no.only.below.",
    "no.below.",
    "svc.",
    "0.",
    "nothing.",
    "no.nothing.",
    "zzz.",
    "no.zzz.",
    "*.",
];

const DS: u16 = 43;
const NSEC: u16 = 47;
const DNSKEY: u16 = 48;
const NSEC3PARAM: u16 = 51;
const HTTPS: u16 = 65;

const TYPES: [u16; 14] = [
    wire::A,
    wire::AAAA,
    wire::NS,
    wire::SOA,
    wire::MX,
    wire::TXT,
    wire::CNAME,
    wire::DNAME,
    DS,
    RRSIG,
    NSEC,
    DNSKEY,
    NSEC3PARAM,
    HTTPS,
];

/// Runs a program, which has to succeed; gives its output.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Makes the keys of a zone.
fn make_keys(folder: &Path, zone: &str) {
    for flags in [&["-f", "KSK"][..], &[]] {
        let mut command = Command::new(needs::program("dnssec-keygen"));
        command.args(["-q", "-a", "ECDSAP256SHA256", "-P", "-1d", "-A", "-1d"]);
        run(command.args(flags).arg("-K").arg(folder).arg(zone));
    }
}

/// Signs a zone, and puts it in the place of its file.
fn sign(folder: &Path, (zone, words): (&str, &[&str]), text: &str) {
    let (plain, signed) = (folder.join("plain"), folder.join("signed"));
    fs::write(&plain, text).unwrap();
    let mut command = Command::new(needs::program("dnssec-signzone"));
    command.args(["-q", "-S", "-N", "keep", "-O", "full", "-o", zone, "-d"]);
    command
        .arg(folder)
        .arg("-K")
        .arg(folder)
        .args(words)
        .arg("-f");
    run(command.arg(&signed).arg(&plain));
    fs::rename(signed, folder.join(format!("db.{zone}"))).unwrap();
}

fn text_of(serial: u32) -> String {
    TEXT.replace("SERIAL", &serial.to_string())
}

/// Starts it with these zones, signed.
fn start(zones: &[(&str, &[&str])], more: &str) -> Zonewright {
    let names: Vec<&str> = zones.iter().map(|(zone, _)| *zone).collect();
    let mut zonewright = Zonewright::prepare(&names);
    let folder = zonewright.folder().to_owned();
    let mut lines = "    transfer {\n        allow 127.0.0.1\n    }\n".to_owned() + more;
    for zone in zones {
        make_keys(&folder, zone.0);
        sign(&folder, *zone, &text_of(SERIAL));
        lines += &format!(
            "    file {}/db.{} {} {{\n        reload 1s\n    }}\n",
            folder.display(),
            zone.0,
            zone.0
        );
    }
    zonewright.configure(&lines);
    zonewright.start();
    zonewright
}

/// What is compared of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    rcode: u16,
    is_authoritative: bool,
    is_authentic: bool,
    answers: BTreeSet<Record>,
    authority: BTreeSet<Record>,
}

impl Said {
    /// BIND adds the zone's NS to answers, with their signature.
    fn of(message: &Message, zone: &str) -> Self {
        let is_of_top = |record: &&Record| {
            let is_signature = record.rtype == RRSIG && data_begins(record, "0002");
            record.owner == format!("{zone}.") && (record.rtype == wire::NS || is_signature)
        };
        let authority = message.authority.iter().filter(|record| !is_of_top(record));
        Self {
            rcode: message.rcode(),
            is_authoritative: message.is_authoritative(),
            is_authentic: message.flags & 0x20 != 0,
            answers: message.answers.iter().cloned().collect(),
            authority: authority.cloned().collect(),
        }
    }
}

/// Whether the data of a record, in hexadecimal, begins so.
fn data_begins(record: &Record, hex: &str) -> bool {
    let data = record.data.rsplit(' ').next().unwrap_or_default();
    data.starts_with(hex)
}

fn ask(server: SocketAddr, name: &str, qtype: u16, dnssec_ok: bool) -> Message {
    let query = Query {
        dnssec_ok,
        ..Query::new(name, qtype).edns(4096)
    };
    wire::tcp(server, &query).unwrap()
}

#[test]
fn signed_zones_are_held_unchanged_and_answered_as_bind_answers() {
    if needs::lacks(&["bind", "knot", "nsd", "pdns", "checkzone"]) {
        return;
    }
    let zonewright = start(&ZONES, "");
    let address = zonewright.address();
    let zones = zonewright.zones();
    let kinds = [Kind::Bind, Kind::Knot, Kind::Nsd, Kind::Pdns];
    let plan = Plan {
        pdns_holds_signatures: true,
        ..Plan::new(address, &zones)
    };
    let mut all = kinds.map(|kind| Secondary::start(kind, &plan));
    for serial in [SERIAL, SERIAL + 1, SERIAL + 2] {
        let before = zones.iter().map(|zone| wire::axfr(all[0].address(), zone));
        let before: Vec<_> = before.filter_map(Result::ok).collect();
        for zone in ZONES {
            match serial - SERIAL {
                0 => {}
                1 => {
                    let text = text_of(serial).replace("192.0.2.80", "192.0.2.180");
                    sign(zonewright.folder(), zone, &text);
                }
                _ => sign_again(zonewright.folder(), zone, serial),
            }
        }
        for secondary in &mut all {
            for zone in &zones {
                secondary.wait_for_serial(zone, serial, FOLLOW);
                let records = wire::axfr(address, zone).unwrap();
                let signatures = records.iter().filter(|it| it.rtype == RRSIG).count();
                assert!(signatures > 20, "{zone}: {signatures}");
                let held = |record: &Record| match record.rtype {
                    // PowerDNS makes NSEC3PARAM itself, with the TTL of NSEC3.
                    NSEC3PARAM if secondary.kind == Kind::Pdns => Record {
                        ttl: 240,
                        ..record.clone()
                    },
                    _ => record.clone(),
                };
                let held: Vec<Record> = records.iter().map(held).collect();
                secondary.assert_holds(zone, &held);
            }
        }
        if serial == SERIAL + 2 {
            for (zone, before) in zones.iter().zip(&before) {
                differences_lead_to_what_bind_holds(address, all[0].address(), zone, before);
            }
        }
    }
    for zone in &zones {
        let file = zonewright.folder().join("held");
        let shown = zonewright.command(&["show", zone]);
        fs::write(&file, shown).unwrap();
        let mut command = Command::new(needs::program("dnssec-verify"));
        run(command.args(["-q", "-o", zone]).arg(&file));
    }
    answers_are_the_same([all[0].address(), address], &zones);
    for zone in &zones {
        let text = fs::read_to_string(zonewright.folder().join(format!("db.{zone}"))).unwrap();
        let end = zonewright.metric("zonewright_zone_signatures_end_timestamp_seconds", zone);
        assert_eq!(end.map(time_text), Some(first_end(&text)));
    }
}

/// The earliest end in a signed zone, as signatures have it: year, month, day, hours, minutes, seconds.
fn first_end(text: &str) -> String {
    // One signature a line: owner, TTL, class, RRSIG, type, algorithm, labels, TTL, end.
    let words = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let signatures = words.filter(|words| words.get(3) == Some(&"RRSIG"));
    let ends = signatures.map(|words| words[8].to_owned());
    ends.min().expect("a signature")
}

/// A time in seconds since 1970, as signatures have it.
fn time_text(seconds: f64) -> String {
    let mut command = Command::new("date");
    command.args(["-u", "+%Y%m%d%H%M%S", "-d", &format!("@{seconds}")]);
    run(&mut command).trim().to_owned()
}

/// Signs what has changed in a signed zone: one address and the serial.
fn sign_again(folder: &Path, zone: (&str, &[&str]), serial: u32) {
    let signed = fs::read_to_string(folder.join(format!("db.{}", zone.0))).unwrap();
    let text = signed.replacen(&(serial - 1).to_string(), &serial.to_string(), 1);
    let changed = text.replace("192.0.2.81", "192.0.2.181");
    assert!(text != signed && changed != text, "{signed}");
    sign(folder, zone, &changed);
}

/// Applies our differences to the zone that BIND held: what comes out is what it holds now.
fn differences_lead_to_what_bind_holds(
    address: SocketAddr,
    bind: SocketAddr,
    zone: &str,
    before: &[Record],
) {
    let from = before.iter().find_map(Record::serial).unwrap();
    let increment = wire::ixfr(address, zone, from).unwrap();
    let Increment::Steps(steps) = increment else {
        panic!("{zone}: no differences from {from}");
    };
    // An address and the SOA, each with its signature.
    let count: usize = steps.iter().map(|step| step.added.len()).sum();
    assert!((4..8).contains(&count), "{zone}: {steps:?}");
    let now = wire::axfr(bind, zone).unwrap();
    let now: BTreeSet<Record> = now.into_iter().collect();
    let applied = wire::apply(before, &steps).unwrap();
    assert_eq!(applied.into_iter().collect::<BTreeSet<_>>(), now, "{zone}");
}

/// Asks BIND and us the same questions, with and without DO.
fn answers_are_the_same(servers: [SocketAddr; 2], zones: &[&str]) {
    let mut differ = Vec::new();
    let mut asked = 0;
    for zone in zones {
        for (name, qtype) in NAMES
            .iter()
            .flat_map(|name| TYPES.map(|qtype| (name, qtype)))
        {
            let name = format!("{name}{zone}.");
            for dnssec_ok in [true, false] {
                let [theirs, ours] =
                    servers.map(|server| Said::of(&ask(server, &name, qtype, dnssec_ok), zone));
                asked += 1;
                if theirs != ours && !is_meant(qtype, &theirs, &ours) {
                    differ.push(format!(
                        "{name} {qtype} {dnssec_ok}:\n theirs {theirs:?}\n ours {ours:?}"
                    ));
                }
            }
        }
    }
    eprintln!("{asked} questions");
    assert!(
        differ.is_empty(),
        "{} of {asked}\n{}",
        differ.len(),
        differ.join("\n")
    );
}

/// Whether two answers differ where they may. BIND gives a denial of SOA the TTL 0, so that it is not kept (its
/// `zero-no-soa-ttl`).
fn is_meant(qtype: u16, theirs: &Said, ours: &Said) -> bool {
    let without_ttl = |said: &Said| -> BTreeSet<Record> {
        let records = said.authority.iter();
        records
            .map(|it| Record {
                ttl: 0,
                ..it.clone()
            })
            .collect()
    };
    let is_same = |said: &Said| (said.rcode, said.is_authoritative, said.answers.clone());
    qtype == wire::SOA
        && is_same(theirs) == is_same(ours)
        && without_ttl(theirs) == without_ttl(ours)
}

/// Questions for `delv`, with what it says.
const VALIDATED: &[(&str, &str, &str)] = &[
    ("www.", "A", "; fully validated"),
    ("", "SOA", "; fully validated"),
    ("", "DNSKEY", "; fully validated"),
    ("alias.", "A", "; fully validated"),
    ("any.star.", "A", "; fully validated"),
    ("any.starred.", "A", "; fully validated"),
    ("a.old.", "A", "; fully validated"),
    ("secure.", "DS", "; fully validated"),
    ("www.", "AAAA", "; negative response, fully validated"),
    ("any.star.", "MX", "; negative response, fully validated"),
    ("y.empty.", "A", "; negative response, fully validated"),
    ("nothing.", "A", "; negative response, fully validated"),
    ("no.nothing.", "A", "; negative response, fully validated"),
    ("zzz.", "TXT", "; negative response, fully validated"),
];

/// The questions of [`VALIDATED`] that a wildcard answers: with opt-out nothing proves that there is no unsigned delegation
/// of the name itself, so a validator takes the answer for unsigned (RFC 5155 section 9.2).
const OF_WILDCARDS: &[(&str, &str)] = &[("any.star.", "A"), ("any.starred.", "A")];

#[test]
fn delv_validates_answers() {
    if needs::lacks(&["dig", "checkzone"]) {
        return;
    }
    let zonewright = start(&ZONES, "");
    let port = zonewright.address().port().to_string();
    for (zone, _) in ZONES {
        let signed = fs::read_to_string(zonewright.folder().join(format!("db.{zone}"))).unwrap();
        let key = signed
            .lines()
            .find(|line| line.contains("DNSKEY\t257 "))
            .unwrap();
        let (_, key) = key.split_once("DNSKEY\t257 3 13 ").unwrap();
        let anchors = zonewright.folder().join("anchors");
        let key: String = key.split_whitespace().collect();
        fs::write(
            &anchors,
            format!("trust-anchors {{ \"{zone}.\" static-key 257 3 13 \"{key}\"; }};\n"),
        )
        .unwrap();
        let mut unsigned = Vec::new();
        for (name, qtype, want) in VALIDATED {
            let mut command = Command::new(needs::program("delv"));
            command
                .args(["@127.0.0.1", "-p", &port, &format!("+root={zone}."), "-a"])
                .arg(&anchors);
            let said = run(command.arg(format!("{name}{zone}.")).arg(qtype));
            if said.contains("unsigned answer") {
                unsigned.push((*name, *qtype));
            } else {
                assert!(said.contains(want), "{name}{zone} {qtype}: {said}");
            }
        }
        let want: &[_] = match zone {
            "optout.test" => OF_WILDCARDS,
            _ => &[],
        };
        assert_eq!(unsigned, want, "{zone}");
    }
}

#[test]
fn the_serial_of_a_signed_zone_is_the_one_in_its_file() {
    if needs::lacks(&["checkzone"]) {
        return;
    }
    let zone = ZONES[0];
    let zonewright = start(&[zone], "    history {\n        publish\n    }\n");
    let folder = zonewright.folder().to_owned();
    let has = |serial| wait(|| (zonewright.serial(zone.0) == Some(serial)).then_some(()));
    let held = |is_held: bool| {
        let status = || Some(zonewright.status().to_string());
        let wanted = |it: &String| it.contains("which is not after") == is_held;
        wait(|| status().filter(wanted))
    };
    has(SERIAL);
    // The same serial with another content, and an older one.
    for serial in [SERIAL, SERIAL - 1] {
        let text = text_of(serial).replace("192.0.2.80", "192.0.2.180");
        sign(&folder, zone, &text);
        let both = format!("is signed with serial {serial}, which is not after {SERIAL}");
        wait(|| held(true).contains(&both).then_some(()));
        assert_eq!(zonewright.serial(zone.0), Some(SERIAL));
        let addresses = zonewright.addresses("www.nsec.test").unwrap();
        assert_eq!(addresses, ["192.0.2.80", "192.0.2.81"]);
    }
    sign(&folder, zone, &text_of(SERIAL + 5));
    has(SERIAL + 5);
    held(false);
    // What it does not hold cannot be signed.
    let missing = ask(zonewright.address(), "_version.nsec.test.", wire::TXT, true);
    assert_eq!(missing.rcode(), 3);
    // A file that is wrong leaves what is served.
    let file = folder.join("db.nsec.test");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("192.0.2.81", "192.0.2.82")).unwrap();
    let wrong = "the signature of www.nsec.test. A by key";
    wait(|| zonewright.log().contains(wrong).then_some(()));
    assert_eq!(zonewright.serial(zone.0), Some(SERIAL + 5));
    // An old content has no new serial.
    let refused = Command::new(needs::zonewright())
        .args([
            "rollback",
            zone.0,
            &SERIAL.to_string(),
            "--for",
            "1h",
            "--state",
        ])
        .arg(zonewright.state())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
    assert!(
        !refused.status.success() && said.contains("a signature has one serial"),
        "{said}"
    );
    sign(&folder, zone, &text_of(SERIAL + 6));
    has(SERIAL + 6);
    let log = zonewright.command(&["log", zone.0]);
    for serial in [SERIAL, SERIAL + 5, SERIAL + 6] {
        assert!(log.contains(&serial.to_string()), "{log}");
    }
    zonewright.command(&["verify"]);
    let why = zonewright.command(&["why", "any.star.nsec.test"]);
    assert!(why.contains("192.0.2.99"), "{why}");
}

fn wait<T>(condition: impl FnMut() -> Option<T>) -> T {
    wait_for("the zone follows its file", FOLLOW, String::new, condition)
}

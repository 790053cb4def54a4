//! Awkward steps, the end of serials and wrong clocks, with real secondaries.
//!
//! The zone comes from a file, so that the test decides on every record of a version.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::support::fleet::{Fleet, Places};
use crate::support::secondary::Key;
use crate::support::zonewright::Zonewright;
use crate::support::{needs, wire};

const ZONE: &str = "steps.example";
/// How long the slowest secondary may take to follow.
const FOLLOW: Duration = Duration::from_secs(40);

/// A zone file with a primary.
struct Primary {
    zonewright: Zonewright,
    file: PathBuf,
}

/// A zone file with a primary and all five secondaries.
struct Subject {
    primary: Primary,
    fleet: Fleet,
}

/// The text of the zone: an SOA with this serial and these fields, padding, and these lines.
fn text(serial: u32, soa: &str, ns: &str, lines: &str) -> String {
    let mut text =
        format!("$ORIGIN {ZONE}.\n$TTL 60\n@ {soa} {serial} 300 30 86400 5\n@ NS {ns}\n");
    text += "ns1 A 127.0.0.1\nns2 A 127.0.0.1\n";
    for number in 0..150 {
        writeln!(text, "padding-{number} A 192.0.2.{number}").unwrap();
    }
    text + lines
}

/// The usual SOA fields.
const SOA: &str = "60 SOA ns1 hostmaster";

impl Primary {
    /// Makes the text the next version and waits until it is served; its serial.
    fn publish(&mut self, text: &str) -> u32 {
        let before = self.zonewright.serial(ZONE);
        let aside = self.file.with_extension("next");
        fs::write(&aside, text).unwrap();
        fs::rename(aside, &self.file).unwrap();
        let server = self.zonewright.address();
        self.zonewright.wait_for("the next version", FOLLOW, || {
            wire::serial(server, ZONE).filter(|serial| Some(*serial) != before)
        })
    }
}

impl Subject {
    /// Starts everything with a first version, and waits until all have it.
    fn start(serial: u32, lines: &str) -> Self {
        let mut zonewright = Zonewright::prepare(&[ZONE]);
        let file = zonewright.folder().join("db");
        fs::write(&file, text(serial, SOA, "ns1", lines)).unwrap();
        let places = Places::choose();
        zonewright.configure(&format!(
            "    file {} {ZONE} {{\n        reload 1s\n    }}\n{}",
            file.display(),
            places.corefile()
        ));
        zonewright.start();
        let fleet = places.start(&zonewright);
        fleet.wait_until_equal(&zonewright, FOLLOW);
        fleet.assert_equal(&zonewright);
        let primary = Primary { zonewright, file };
        Self { primary, fleet }
    }

    /// Checks that all have exactly our contents, and none took the zone whole again.
    fn check(&mut self, what: &str) {
        eprintln!("{what}");
        self.fleet
            .wait_until_equal(&self.primary.zonewright, FOLLOW);
        self.fleet.assert_equal(&self.primary.zonewright);
        self.fleet.assert_no_second_axfr(&self.primary.zonewright);
    }
}

/// A set of five addresses with a TTL, and what else a step needs.
fn set(ttl: u32, addresses: usize, more: &str) -> String {
    let mut lines = String::new();
    for number in 1..=addresses {
        writeln!(lines, "set {ttl} A 198.51.100.{number}").unwrap();
    }
    lines + more
}

#[test]
fn b09_b10_b11_b12_b18_five_secondaries_apply_awkward_steps_by_ixfr() {
    if needs::lacks(&["bind", "knot", "nsd", "pdns", "unbound"]) {
        return;
    }
    let usual = "emptied A 192.0.2.7\nalias CNAME Target\ntarget A 192.0.2.9\nMiXed TXT \"a\"\n";
    let mut subject = Subject::start(1, &set(60, 5, usual));
    let mut serial = 1;
    let mut step = |subject: &mut Subject, what: &str, soa: &str, ns: &str, lines: &str| {
        serial += 1;
        subject.primary.publish(&text(serial, soa, ns, lines));
        subject.check(what);
    };
    let it = &mut subject;
    step(it, "B9: another TTL", SOA, "ns1", &set(300, 5, usual));
    step(
        it,
        "B10: one more with a new TTL",
        SOA,
        "ns1",
        &set(120, 6, usual),
    );
    let cased = usual
        .replace("MiXed", "mIxEd")
        .replace("CNAME Target", "CNAME tARGET");
    step(it, "B11: other letters", SOA, "ns1", &set(120, 6, &cased));
    let more = format!("{cased}new A 192.0.2.77\n");
    step(
        it,
        "B11: other letters and a change",
        SOA,
        "ns1",
        &set(120, 6, &more),
    );
    let alias = usual.replace("emptied A 192.0.2.7", "emptied CNAME target");
    step(it, "B12: A to CNAME", SOA, "ns1", &set(120, 6, &alias));
    step(it, "B12: and back", SOA, "ns1", &set(120, 6, usual));
    step(it, "B12: another NS", SOA, "ns2", &set(120, 6, usual));
    let gone = usual.replace("emptied A 192.0.2.7\n", "");
    step(it, "B12: a name emptied", SOA, "ns2", &set(120, 6, &gone));
    step(
        it,
        "B18: another mailbox",
        "60 SOA ns1 Operator",
        "ns2",
        &set(120, 6, &gone),
    );
    step(
        it,
        "B18: the SOA's own TTL",
        "90 SOA ns1 Operator",
        "ns2",
        &set(120, 6, &gone),
    );
    eprintln!("{:?}", subject.fleet.transfers(&subject.primary.zonewright));
}

/// Makes four versions across 2^32 while all secondaries are stopped. One step brings them up to date, even NSD, which
/// does not follow a chain across.
#[test]
fn b14_five_secondaries_follow_across_the_wrap_by_ixfr() {
    if needs::lacks(&["bind", "knot", "nsd", "pdns", "unbound"]) {
        return;
    }
    // In two leaps: a file's serial counts where it is ahead of the clock, by less than half the circle.
    let mut subject = Subject::start(3_900_000_000, &set(60, 1, ""));
    let last = subject
        .primary
        .publish(&text(u32::MAX - 1, SOA, "ns1", &set(60, 2, "")));
    assert_eq!(last, u32::MAX - 1);
    subject.check("before the end of serials");
    for member in &mut subject.fleet.members {
        member.stop();
    }
    let mut serials = Vec::new();
    for (number, serial) in [u32::MAX, 1, 3].into_iter().enumerate() {
        serials.push(
            subject
                .primary
                .publish(&text(serial, SOA, "ns1", &set(60, 3 + number, ""))),
        );
    }
    eprintln!("{serials:?}");
    assert!(serials[2] < 1 << 31, "beyond 2^32: {serials:?}");
    for member in &mut subject.fleet.members {
        member.resume();
    }
    subject.check("B14: across 2^32");
}

/// A client whose clock is ten minutes ahead gets an error with our time, and our log has a line. With the right time
/// it is served.
#[test]
fn k4_a_clock_that_is_off_is_said_and_recovered_from() {
    if needs::lacks(&["kdig", "faketime"]) {
        return;
    }
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    let file = zonewright.folder().join("db");
    fs::write(&file, text(1, SOA, "ns1", "")).unwrap();
    let key = Key::example();
    zonewright.configure(&format!(
        "    file {} {ZONE}\n    tsig {{\n        secret {} {} {}\n    }}\n    transfer {{\n        allow \
         127.0.0.1 key {}\n    }}\n",
        file.display(),
        key.name,
        key.secret,
        key.algorithm,
        key.name
    ));
    zonewright.start();
    let port = zonewright.address().port().to_string();
    let asked = |offset: &str| {
        let output = Command::new(needs::program("faketime"))
            .args(["-f", offset])
            .arg(needs::program("kdig"))
            .args(["@127.0.0.1", "-p", &port, "-y"])
            .arg(format!("{}:{}:{}", key.algorithm, key.name, key.secret))
            .args(["+tcp", ZONE, "AXFR"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text + &String::from_utf8_lossy(&output.stderr)
    };
    for offset in ["+10m", "-10m"] {
        let text = asked(offset);
        assert!(
            text.contains("BADTIME") && !text.contains("padding-1."),
            "{offset}: {text}"
        );
    }
    let log = zonewright.log();
    let said: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("BADTIME"))
        .collect();
    assert!(
        !said.is_empty() && said.iter().all(|line| line.contains(&key.name)),
        "{log}"
    );
    let text = asked("+0m");
    assert!(text.contains("padding-1."), "{text}");
    assert_eq!(zonewright.log().matches("BADTIME").count(), said.len());
}

/// Our clock steps, while we run and between two lives: the serial never goes back, and moves by one while the clock is
/// behind it.
#[test]
fn k4_a_serial_never_goes_back_when_the_server_s_clock_does() {
    if needs::lacks(&["faketime"]) {
        return;
    }
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    let file = zonewright.folder().join("db");
    fs::write(&file, text(1, SOA, "ns1", "")).unwrap();
    let directive = format!(
        "    file {} {ZONE} {{\n        reload 1s\n    }}\n",
        file.display()
    );
    zonewright.configure(&directive);
    zonewright.set_clock("+0");
    zonewright.start();
    let mut primary = Primary { zonewright, file };
    let mut last = primary.zonewright.serial(ZONE).unwrap();
    let mut steps = Vec::new();
    for (number, (offset, is_restart)) in [
        ("-400d", false),
        ("-400d", true),
        ("-20y", true),
        ("+3d", false),
        ("-400d", false),
        ("+0", true),
    ]
    .into_iter()
    .enumerate()
    {
        primary.zonewright.set_clock(offset);
        if is_restart {
            primary.zonewright.stop();
            primary.zonewright.start();
            assert_eq!(primary.zonewright.serial(ZONE), Some(last), "{offset}");
        }
        let next = primary.publish(&text(1, SOA, "ns1", &set(60, 1 + number, "")));
        steps.push(next.wrapping_sub(last));
        last = next;
    }
    // RFC 1982: ahead by less than half the circle.
    assert!(
        steps.iter().all(|step| (1..1 << 31).contains(step)),
        "{steps:?}"
    );
    assert_eq!((steps[0], steps[1], steps[2]), (1, 1, 1), "{steps:?}");
    assert!(
        steps[3] > 2 * 86_400,
        "the clock's own time counts again: {steps:?}"
    );
    assert_eq!(steps[4..], [1, 1], "{steps:?}");
}

/// RFC 1982 section 7: secondaries that were down while the serial was moved back follow all the same, also when we were
/// started again meanwhile. Then the clock counts again. It failed as long as the change after the reset took the clock's
/// serial.
#[test]
fn secondaries_that_miss_a_reset_of_the_serial_follow_when_they_are_back() {
    if needs::lacks(&["bind", "knot", "nsd", "pdns", "unbound"]) {
        return;
    }
    // The reset leaves room for fifty versions.
    let (old, reset) = (3_900_000_000, 1_752_516_301);
    let mut subject = Subject::start(old, &set(60, 1, ""));
    for member in &mut subject.fleet.members {
        member.stop();
    }
    let primary = &mut subject.primary;
    let next = |addresses| text(reset, SOA, "ns1", &set(60, addresses, ""));
    assert_eq!(primary.publish(&next(2)), reset);
    assert_eq!(primary.publish(&next(3)), reset + 1);
    primary.zonewright.stop();
    primary.zonewright.start();
    assert_eq!(primary.publish(&next(4)), reset + 2);
    let state = primary.zonewright.status()["zones"][0]["reset"].clone();
    assert_eq!((&state["from"], &state["to"]), (&old.into(), &reset.into()));
    for member in &mut subject.fleet.members {
        member.resume();
    }
    let zonewright = &subject.primary.zonewright;
    subject.fleet.wait_until_equal(zonewright, FOLLOW);
    subject.fleet.assert_equal(zonewright);
    let serial = subject.primary.publish(&next(5));
    assert!(serial > 1_790_000_000, "the clock counts again: {serial}");
    let zonewright = &subject.primary.zonewright;
    assert!(zonewright.status()["zones"][0]["reset"].is_null());
    subject.fleet.wait_until_equal(zonewright, FOLLOW);
    subject.fleet.assert_equal(zonewright);
}

//! `why` beside the record: each name that is served with its records, and names that are not, with the reason.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::record::{answer, owner, rtype};
use super::stage::{Asked, FORWARD, REVERSE, ZONES};
use super::told::{Block, Teller, blocks, sort_at};

/// A question that no record answers.
struct Lack<'a> {
    zone: &'a str,
    name: String,
    rtype: &'a str,
    /// The outcome, and how text says it.
    outcome: (&'a str, String),
    /// Codes and texts.
    reasons: Vec<(&'a str, String)>,
}

/// All records that are served, and names that are not there at the end of the story.
pub fn check(teller: &Teller<'_>) {
    for zone in ZONES {
        let records = teller.stage.record.newest(zone).content.records.iter();
        let questions: BTreeSet<(&str, &str)> = records.map(|it| (owner(it), rtype(it))).collect();
        for (name, rtype) in questions {
            check_answered(teller, zone, name, rtype);
        }
    }
    for (service, code, reason) in [
        ("old.shop", "no-service", "no Service shop/old is seen"),
        ("cache.shop", "no-service", "no Service shop/cache is seen"),
        ("mail.shop", "no-service", "no Service shop/mail is seen"),
        (
            "invoice-1.billing",
            "no-service",
            "no Service billing/invoice-1 is seen",
        ),
        (
            "api.staging",
            "no-namespace",
            "no namespace staging is seen",
        ),
        (
            "kubernetes.default",
            "namespace-hidden",
            "`namespaces` does not name default",
        ),
    ] {
        let name = format!("{service}.svc.{FORWARD}");
        check_missing(teller, FORWARD, name, "A", code, reason);
    }
    let name = "70.0.96.10.in-addr.arpa.".to_owned();
    let reason = "no Service and no named endpoint with the address 10.96.0.70 is seen";
    check_missing(teller, REVERSE, name, "PTR", "no-holder", reason);
    let serial = teller.stage.record.newest(FORWARD).content.serial;
    let name = format!("web.shop.svc.{FORWARD}");
    let says = format!("no data of this type: in zone {FORWARD} serial {serial} {name} has A, SRV");
    let reason = "Service shop/web has the cluster addresses 10.96.0.80";
    check_lack(
        teller,
        &Lack {
            zone: FORWARD,
            name,
            rtype: "AAAA",
            outcome: ("nodata", says),
            reasons: vec![("service", reason.to_owned())],
        },
    );
}

/// What was asked of `shop/mail` and `shop/news` while an operator held the zone.
pub fn check_held(teller: &Teller<'_>) {
    let stage = teller.stage;
    for Asked {
        step,
        service,
        address,
        text,
        json,
    } in &stage.asked
    {
        let name = format!("{service}.shop.svc.{FORWARD}");
        let serial = stage.record.served(FORWARD, *step).content.serial;
        let act = stage.record.hold(FORWARD, *step);
        let hold = match act.what {
            "frozen" => "the zone is frozen".to_owned(),
            _ => format!("the zone is rolled back {}", act.about),
        };
        let reasons = [
            (
                "service",
                format!("Service shop/{service} has the cluster addresses {address}"),
            ),
            (
                "held",
                format!(
                    "a held version has other content at this name: an operator holds the zone; to publish it: \
                     zonewright release {FORWARD}"
                ),
            ),
            ("ordered", format!("{hold} by {}", act.by.text)),
        ];
        let lines = reasons.iter().map(|(_, text)| text.clone());
        let head = format!("{name} A: NXDOMAIN: zone {FORWARD} serial {serial} has no name {name}");
        teller.expect_equal(
            &name,
            &blocks(&teller.text_of(text)),
            &[Block::of(head, lines)],
        );
        let reasons = reasons
            .iter()
            .map(|(code, text)| json!({ "code": code, "text": text }));
        let mut known = line(FORWARD, serial, &name, "A", "nxdomain", reasons.collect());
        let mut told = teller.json_of(FORWARD, json);
        for line in told.iter_mut().chain([&mut known]) {
            sort_at(line, "/reasons");
        }
        teller.expect_equal(&name, &told, &[known]);
    }
    assert_eq!(stage.asked.len(), 2);
}

/// A name that is not there, for a reason.
fn check_missing(
    teller: &Teller<'_>,
    zone: &str,
    name: String,
    rtype: &str,
    code: &str,
    reason: &str,
) {
    let serial = teller.stage.record.newest(zone).content.serial;
    let says = format!("NXDOMAIN: zone {zone} serial {serial} has no name {name}");
    let lack = Lack {
        zone,
        name,
        rtype,
        outcome: ("nxdomain", says),
        reasons: vec![(code, reason.to_owned())],
    };
    check_lack(teller, &lack);
}

fn check_lack(teller: &Teller<'_>, lack: &Lack<'_>) {
    let Lack {
        zone,
        name,
        rtype,
        outcome: (outcome, says),
        reasons,
    } = lack;
    let arguments = ["why", name, rtype];
    let lines = reasons.iter().map(|(_, text)| text.clone());
    let block = Block::of(format!("{name} {rtype}: {says}"), lines);
    teller.expect_equal(name, &blocks(&teller.text(&arguments)), &[block]);
    let reasons = reasons
        .iter()
        .map(|(code, text)| json!({ "code": code, "text": text }));
    let serial = teller.stage.record.newest(zone).content.serial;
    let known = line(zone, serial, name, rtype, outcome, reasons.collect());
    teller.expect_equal(name, &teller.json(zone, &arguments), &[known]);
}

/// The line of JSON without records.
fn line(
    zone: &str,
    serial: u32,
    name: &str,
    rtype: &str,
    outcome: &str,
    reasons: Vec<Value>,
) -> Value {
    answer(json!({
        "name": name, "type": rtype, "outcome": outcome, "before": [], "zone": zone, "serial": serial,
        "records": [], "reasons": reasons, "remarks": [],
    }))
}

/// Records that are served, each with its version and causes.
fn check_answered(teller: &Teller<'_>, zone: &str, name: &str, rtype_wanted: &str) {
    let record = &teller.stage.record;
    let newest = record.newest(zone);
    let is_wanted = |it: &&String| owner(it) == name && rtype(it) == rtype_wanted;
    let records: Vec<&String> = newest.content.records.iter().filter(is_wanted).collect();
    let arguments = ["why", name, rtype_wanted];
    let what = arguments.join(" ");

    let mut text = blocks(&teller.text(&arguments));
    let serial = newest.content.serial;
    let head = format!("{name} {rtype_wanted}: answered from zone {zone} serial {serial}");
    let known = records.iter().map(|it| {
        let (version, causes) = record.added(zone, it, newest.step);
        Block::of((*it).clone(), teller.since(version, causes))
    });
    let known: Vec<Block> = [Block::of(head, [])].into_iter().chain(known).collect();
    if let Some(records) = text.get_mut(1..) {
        records.sort();
    }
    teller.expect_equal(&what, &text, &known);

    let mut told = teller.json(zone, &arguments);
    for line in &mut told {
        let records = line["records"].as_array_mut().expect("it is a list");
        records
            .iter_mut()
            .for_each(|it| sort_at(it, "/since/causes"));
        sort_at(line, "/records");
    }
    let mut known = line(zone, serial, name, rtype_wanted, "answered", Vec::new());
    let each = records.iter().map(|it| {
        let (version, causes) = record.added(zone, it, newest.step);
        json!({ "record": it, "since": teller.since_json(version, causes) })
    });
    known["records"] = each.collect();
    sort_at(&mut known, "/records");
    teller.expect_equal(&what, &told, &[known]);
}

//! `blame` beside the record: of each record, the version that added it last and the causes then.

use serde_json::{Value, json};

use super::record::{Version, answer, owner, time_of};
use super::stage::ZONES;
use super::told::{Block, Teller, blocks, sort_at};

/// Whole zones as they are.
pub fn check(teller: &Teller<'_>) {
    for zone in ZONES {
        check_name(teller, zone, teller.stage.record.newest(zone), None);
    }
}

/// Each version, each name that ever was, and one that never was.
pub fn check_parts(teller: &Teller<'_>) {
    let record = &teller.stage.record;
    for zone in ZONES {
        for version in record.versions(zone) {
            let asked = format!("{zone}@{}", version.content.serial);
            check_name(teller, &asked, version, None);
        }
        let newest = record.newest(zone);
        for name in record.names(zone) {
            check_name(teller, zone, newest, Some(&name));
        }
        let name = format!("nothing.{zone}");
        check_name(teller, zone, newest, Some(&name));
    }
}

/// A version of a zone as it is asked for, or one of its names.
fn check_name(teller: &Teller<'_>, asked: &str, version: &Version, name: Option<&str>) {
    let arguments: Vec<&str> = ["blame", asked].into_iter().chain(name).collect();
    let (what, zone) = (arguments.join(" "), asked.split('@').next().unwrap());
    let (serial, time) = (version.content.serial, time_of(version.step));
    let is_wanted = |it: &&String| name.is_none_or(|name| owner(it) == name);
    let records: Vec<&String> = version.content.records.iter().filter(is_wanted).collect();
    let added = |it: &String| teller.stage.record.added(zone, it, version.step);

    let mut text = blocks(&teller.text(&arguments));
    let mut lines = teller.json(zone, &arguments);
    if let Some(name) = name.filter(|_| records.is_empty()) {
        let absence =
            format!("; {name} has no record in {zone} serial {serial} of {time}, content hash …");
        teller.expect_equal(&what, &text, &[Block::of(absence, [])]);
        let absence = answer(json!({
            "type": "absent", "name": name, "zone": zone, "serial": serial, "time": time, "timeMs": time,
        }));
        return teller.expect_equal(&what, &lines, &[absence]);
    }
    let head = format!("; {zone} serial {serial} of {time}");
    let known = records.iter().map(|it| {
        let (version, causes) = added(it);
        Block::of((*it).clone(), teller.since(version, causes))
    });
    let known: Vec<Block> = [Block::of(head, [])].into_iter().chain(known).collect();
    if let Some(records) = text.get_mut(1..) {
        records.sort();
    }
    teller.expect_equal(&what, &text, &known);

    lines.iter_mut().for_each(|it| sort_at(it, "/since/causes"));
    lines.sort_by_key(|it| it["record"].to_string());
    let known = records.iter().map(|it| {
        let (version, causes) = added(it);
        answer(json!({
            "record": it, "zone": zone, "serial": serial, "time": time, "timeMs": time,
            "since": teller.since_json(version, causes),
        }))
    });
    let mut known: Vec<Value> = known.collect();
    known.sort_by_key(|it| it["record"].to_string());
    teller.expect_equal(&what, &lines, &known);
}

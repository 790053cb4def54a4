//! `log` beside the record: each version with its counts, causes and records, and each act.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::record::{Act, Cause, Changes, Entry, Version, answer, hour_after, owner, time_of};
use super::stage::{FORWARD, ZONES};
use super::told::{Block, Teller, blocks, sort_at, sorted};

/// The most objects that text names of a version.
const OBJECTS_SHOWN: usize = 5;

/// The log of each zone, and of both.
pub fn check(teller: &Teller<'_>) {
    for zone in ZONES {
        check_entries(
            teller,
            zone,
            &["log", zone],
            &teller.stage.record.zones[zone],
        );
    }
    check_both(teller);
}

/// The newest entries, those since each version, and those of each object.
pub fn check_parts(teller: &Teller<'_>) {
    for zone in ZONES {
        let entries = &teller.stage.record.zones[zone];
        let newest = entries.len() - 3;
        check_entries(teller, zone, &["log", zone, "-n", "3"], &entries[newest..]);
        for (place, entry) in entries.iter().enumerate() {
            if let Entry::Version(version) = entry {
                let since = version.content.serial.to_string();
                let arguments = ["log", zone, "--since", &since];
                check_entries(teller, zone, &arguments, &entries[place..]);
            }
        }
    }
    check_objects(teller);
}

/// The log of each name that ever was, and of one that never was.
pub fn check_names(teller: &Teller<'_>) {
    for zone in ZONES {
        let versions = teller.stage.record.versions(zone);
        for name in teller.stage.record.names(zone) {
            let arguments = ["log", zone, "--name", &name];
            let is_of_name = |record: &String| owner(record) == name;
            let touches = |version: &&&Version| {
                let mut changed = version.removed.keys().chain(version.added.keys());
                changed.any(is_of_name)
            };
            let known: Vec<&Version> = versions.iter().rev().filter(touches).copied().collect();
            let text = blocks(&teller.text(&arguments));
            // A search for the apex says that it looks at records alone.
            let remark = (name == zone).then(|| {
                format!(
                    "versions of {zone} that changed its SOA alone are not searched: `log` without --name lists them"
                )
            });
            let blocks: Vec<Block> = { known.iter() }
                .map(|version| block_of_name(teller, zone, version, &name))
                .chain(remark.iter().map(|it| Block::of(format!("; {it}"), [])))
                .collect();
            teller.expect_equal(&arguments.join(" "), &text, &blocks);
            let told: Vec<Value> = { teller.json(zone, &arguments).into_iter() }
                .map(resolved)
                .collect();
            let lines = known.iter().map(|it| version_json(teller, zone, it));
            let remark = remark.map(|text| {
                answer(json!({ "type": "remark", "zone": zone, "code": "soa", "text": text }))
            });
            let lines: Vec<Value> = lines.map(resolved).chain(remark).collect();
            teller.expect_equal(&arguments.join(" "), &told, &lines);
        }
        check_nothing(teller, zone);
    }
}

/// A name that never was: the log says in which versions it is not.
fn check_nothing(teller: &Teller<'_>, zone: &str) {
    let versions = teller.stage.record.versions(zone);
    let ([first, ..], [.., last]) = (&versions[..], &versions[..]) else {
        panic!("{zone} has no version");
    };
    let name = format!("nothing.{zone}");
    let arguments = ["log", zone, "--name", &name];
    let [from, to] = [first, last].map(|it| (it.content.serial, time_of(it.step)));
    let line = format!(
        "; no version of {zone} matches, from serial {} of {} to serial {} of {}, hash …",
        from.0, from.1, to.0, to.1
    );
    let text = blocks(&teller.text(&arguments));
    teller.expect_equal(&name, &text, &[Block::of(line, [])]);
    let [from, to] =
        [from, to].map(|(serial, time)| json!({ "serial": serial, "time": time, "timeMs": time }));
    let line = answer(json!({ "type": "none", "zone": zone, "from": from, "to": to }));
    teller.expect_equal(&name, &teller.json(zone, &arguments), &[line]);
}

/// Both zones in one log: in the order of time, and each in its own.
fn check_both(teller: &Teller<'_>) {
    let text = blocks(&teller.text(&["log"]));
    let steps: Vec<usize> = text.iter().map(|block| step_of(&block.head)).collect();
    assert!(
        steps.is_sorted_by(|newer, older| newer >= older),
        "{text:#?}"
    );
    let mut count = 0;
    for zone in ZONES {
        let of_zone = { text.iter() }.filter(|block| block.head.starts_with(zone));
        let of_zone: Vec<Block> = of_zone.cloned().collect();
        expect_blocks(
            teller,
            zone,
            "log",
            &of_zone,
            &teller.stage.record.zones[zone],
        );
        count += of_zone.len();
    }
    assert_eq!(text.len(), count, "{text:#?}");
}

/// The step of a line: its first time.
fn step_of(head: &str) -> usize {
    let number = { head.split_once("<step ") }.and_then(|(_, rest)| rest.split_once('>'));
    let number = number.and_then(|(number, _)| number.parse().ok());
    number.unwrap_or_else(|| panic!("no step: {head}"))
}

/// The log of each object that ever caused a version.
fn check_objects(teller: &Teller<'_>) {
    let versions = teller.stage.record.versions(FORWARD);
    let causes: BTreeSet<Cause> = versions.iter().flat_map(|it| it.causes()).collect();
    let key_of = |cause: &Cause| match cause {
        Cause::Object { object, .. } => Some(format!("{}/{}", object.kind, object.key())),
        Cause::Other { .. } => None,
    };
    let keys: BTreeSet<String> = causes.iter().filter_map(key_of).collect();
    for key in keys {
        let is_cause = |version: &&&Version| {
            version
                .causes()
                .iter()
                .any(|it| key_of(it).as_ref() == Some(&key))
        };
        let known = versions.iter().filter(is_cause);
        let known: Vec<Entry> = known.map(|it| Entry::Version((**it).clone())).collect();
        check_entries(teller, FORWARD, &["log", FORWARD, "--object", &key], &known);
    }
}

/// What the log of an object ends with once the Corefile was changed.
fn remark_of_objects(teller: &Teller<'_>, zone: &str) -> Option<String> {
    let is_change = |entry: &Entry| matches!(entry, Entry::Act(act) if act.what == "configured");
    let is_changed = teller.stage.record.zones[zone].iter().any(is_change);
    is_changed.then(|| {
        format!(
            "the Corefile changed meanwhile: a version of {zone} whose only cause is the Corefile is not listed, even if it \
             changed records of the object; `log --name` lists it"
        )
    })
}

/// The log is of these entries, in text and in JSON.
fn check_entries(teller: &Teller<'_>, zone: &str, arguments: &[&str], entries: &[Entry]) {
    let what = arguments.join(" ");
    let mut text = blocks(&teller.text(arguments));
    let told = teller.json(zone, arguments).into_iter();
    let mut told: Vec<Value> = told.map(resolved).collect();
    if let Some(remark) = arguments
        .contains(&"--object")
        .then(|| remark_of_objects(teller, zone))
        .flatten()
    {
        let line = Block::of(format!("; {remark}"), []);
        teller.expect_equal(&what, &Vec::from_iter(text.pop()), &[line]);
        let line = json!({ "type": "remark", "zone": zone, "code": "corefile", "text": remark });
        teller.expect_equal(&what, &Vec::from_iter(told.pop()), &[answer(line)]);
    }
    expect_blocks(teller, zone, &what, &text, entries);
    let known = entries.iter().rev().map(|entry| match entry {
        Entry::Version(version) => resolved(version_json(teller, zone, version)),
        Entry::Act(act) => act_json(zone, act),
    });
    teller.expect_equal(&what, &told, &known.collect::<Vec<_>>());
}

/// The blocks of a text are of these entries, newest first.
fn expect_blocks(teller: &Teller<'_>, zone: &str, what: &str, text: &[Block], entries: &[Entry]) {
    let known = entries.iter().rev().enumerate();
    let known = known.map(|(place, entry)| match entry {
        Entry::Version(version) => block(teller, zone, version, text.get(place)),
        Entry::Act(act) => Block::of(act_text(zone, act), []),
    });
    let known: Vec<Block> = known.collect();
    teller.expect_equal(what, text, &known);
}

/// The first line of a version.
fn head(zone: &str, version: &Version, whole: &str) -> String {
    let (added, removed) = (version.added.len(), version.removed.len());
    let (serial, time) = (version.content.serial, time_of(version.step));
    let records = version.record_count();
    format!("{zone} {serial} {time} +{added} -{removed}{whole} ({records} records)")
}

/// A version as text. Of many objects any five are named: those of the told block that are right.
fn block(teller: &Teller<'_>, zone: &str, version: &Version, told: Option<&Block>) -> Block {
    let mut causes = version.causes();
    causes.extend(version.of_version.iter().cloned());
    let is_object = |cause: &&Cause| matches!(cause, Cause::Object { .. });
    let (objects, others): (Vec<&Cause>, Vec<&Cause>) = causes.iter().partition(is_object);
    let mut lines: Vec<String> = others.iter().map(|it| teller.line(it)).collect();
    let objects = objects.iter().map(|it| teller.line(it));
    if let more @ 1.. = objects.len().saturating_sub(OBJECTS_SHOWN) {
        let is_told = |line: &String| told.is_some_and(|told| told.lines.contains(line));
        let (mut shown, hidden): (Vec<String>, Vec<String>) = objects.partition(is_told);
        shown.extend(hidden);
        shown.truncate(OBJECTS_SHOWN);
        lines.append(&mut shown);
        lines.push(format!("and {more} more: --output json lists all"));
    } else {
        lines.extend(objects);
    }
    Block::of(head(zone, version, ""), lines)
}

/// A version as the text of the log of a name has it.
fn block_of_name(teller: &Teller<'_>, zone: &str, version: &Version, name: &str) -> Block {
    let mut causes = version.of_version.clone();
    let mut lines = Vec::new();
    for (sign, changes) in [('-', &version.removed), ('+', &version.added)] {
        for (record, of_record) in changes.iter().filter(|(record, _)| owner(record) == name) {
            lines.push(format!("{sign} {record}"));
            causes.extend(of_record.iter().cloned());
        }
    }
    lines.extend(causes.iter().map(|it| teller.line(it)));
    Block::of(head(zone, version, " in the whole version"), lines)
}

fn act_text(zone: &str, act: &Act) -> String {
    let (serial, time, by) = (act.serial, time_of(act.step), &act.by.text);
    let what = act.what.replace('_', " ");
    let about = match &*act.about {
        "" => String::new(),
        about => format!(" {about}"),
    };
    let until = match act.is_for_an_hour {
        true => format!(" until {}", hour_after(act.step)),
        false => String::new(),
    };
    format!("{zone} {serial} {time} {what}{about}{until}, by {by}")
}

fn act_json(zone: &str, act: &Act) -> Value {
    let time = time_of(act.step);
    let until = act.is_for_an_hour.then(|| hour_after(act.step));
    let mut line = answer(json!({
        "type": "act", "zone": zone, "serial": act.serial, "time": time, "timeMs": time, "act": act.what,
        "about": act.about, "by": act.by.text, "until": until, "untilMs": until,
    }));
    let fields = act.by.fields.as_object().expect("they are fields");
    for (name, value) in fields {
        line[name] = value.clone();
    }
    line
}

/// A version as JSON. Each change has a group of causes of its own here: [`resolved`] makes both sides equal.
pub fn version_json(teller: &Teller<'_>, zone: &str, version: &Version) -> Value {
    let mut causes = vec![teller.causes(&version.of_version)];
    let mut list = |changes: &Changes| -> Vec<Value> {
        let each = changes.iter().map(|(record, of_record)| {
            causes.push(teller.causes(of_record));
            json!({ "record": record, "cause": causes.len() - 1 })
        });
        each.collect()
    };
    let (removed, added) = (list(&version.removed), list(&version.added));
    let time = time_of(version.step);
    let mut line = answer(json!({
        "zone": zone, "serial": version.content.serial, "previous": version.previous, "time": time,
        "timeMs": time, "records": version.record_count(), "addedCount": version.added.len(),
        "removedCount": version.removed.len(), "causes": causes, "removed": removed, "added": added,
    }));
    let all = teller.stage.record.versions(zone);
    let is_previous = |it: &&&Version| Some(it.content.serial) == version.previous;
    if let Some(previous) = all.iter().find(is_previous) {
        let [from, to] = [&previous.content, &version.content];
        let besides = |soa: &str, serial: u32| soa.replacen(&format!(" {serial} "), " ", 1);
        if besides(&from.soa, from.serial) != besides(&to.soa, to.serial) {
            line["fromSoa"] = from.soa.clone().into();
            line["toSoa"] = to.soa.clone().into();
        }
    }
    line
}

/// A version whose changes have their causes themselves, and whose `causes` are those that no change has.
pub fn resolved(mut version: Value) -> Value {
    let Some(groups) = version["causes"].as_array().cloned() else {
        return version;
    };
    let mut named = BTreeSet::new();
    for list in ["/removed", "/added"] {
        let changes = version.pointer_mut(list).and_then(Value::as_array_mut);
        for change in changes.expect("a version has lists") {
            let group = change["cause"].as_u64().expect("it is a number");
            let group = usize::try_from(group).unwrap();
            named.insert(group);
            change["cause"] = groups[group].clone();
            sort_at(change, "/cause");
        }
        sort_at(&mut version, list);
    }
    let others = { groups.into_iter().enumerate() }.filter(|(group, _)| !named.contains(group));
    let others = others.flat_map(|(_, group)| group.as_array().cloned().unwrap_or_default());
    version["causes"] = sorted(others);
    version
}

//! `diff` beside the record: what two transfers differ in, each record with the causes of its last change in between.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::log::{resolved, version_json};
use super::record::{Cause, Changes, Version, answer, time_of};
use super::stage::ZONES;
use super::told::{Teller, sort_at};

/// The lines before the records: both versions and both SOAs.
const HEADS: usize = 4;

/// Between neighbours both ways, from the first version to each, and from each to the newest.
pub fn check(teller: &Teller<'_>) {
    for zone in ZONES {
        let versions = teller.stage.record.versions(zone);
        for pair in versions.windows(2) {
            check_pair(teller, zone, pair, false);
            check_pair(teller, zone, pair, true);
        }
        for place in 2..versions.len() {
            check_pair(teller, zone, &versions[..=place], false);
            check_pair(teller, zone, &versions[place - 1..], false);
        }
    }
}

/// From the first version of each zone to the newest.
pub fn check_all(teller: &Teller<'_>) {
    for zone in ZONES {
        check_pair(teller, zone, &teller.stage.record.versions(zone), false);
    }
}

/// The difference between the first and the last of these versions.
struct Difference<'a> {
    removed: Vec<(&'a String, &'a Version, &'a BTreeSet<Cause>)>,
    added: Vec<(&'a String, &'a Version, &'a BTreeSet<Cause>)>,
}

impl<'a> Difference<'a> {
    fn between(versions: &[&'a Version], is_back: bool) -> Self {
        let ([first, .., last], between) = (versions, &versions[1..]) else {
            panic!("these are two versions");
        };
        let (old, new) = (&first.content.records, &last.content.records);
        let gone = why(old.difference(new), between, |it| &it.removed);
        let come = why(new.difference(old), between, |it| &it.added);
        let (removed, added) = if is_back { (come, gone) } else { (gone, come) };
        Self { removed, added }
    }
}

/// What people did in a version, whether or not records name it.
fn acts_of(version: &Version) -> BTreeSet<Cause> {
    let of_records = version.removed.values().chain(version.added.values());
    let is_act = |cause: &&Cause| match cause {
        Cause::Object { .. } => false,
        Cause::Other { verb, .. } => {
            ["configured", "restored", "rolled back", "resumed"].contains(verb)
        }
    };
    let acts = of_records.flatten().filter(is_act);
    acts.chain(&version.of_version).cloned().collect()
}

/// Records, each with the last version that changed it so, and the causes then.
fn why<'a>(
    records: impl Iterator<Item = &'a String>,
    versions: &[&'a Version],
    changes: impl Fn(&'a Version) -> &'a Changes,
) -> Vec<(&'a String, &'a Version, &'a BTreeSet<Cause>)> {
    let each = records.map(|record| {
        let mut versions = versions.iter().rev();
        let last = versions.find_map(|it| Some((*it, changes(it).get(record)?)));
        let (version, causes) = last.expect("one of them changed it");
        (record, version, causes)
    });
    each.collect()
}

fn check_pair(teller: &Teller<'_>, zone: &str, versions: &[&Version], is_back: bool) {
    let (first, last) = (versions[0], versions[versions.len() - 1]);
    let (from, to) = if is_back {
        (last, first)
    } else {
        (first, last)
    };
    let [from_serial, to_serial] = [from, to].map(|it| it.content.serial.to_string());
    let arguments = ["diff", zone, &from_serial, &to_serial];
    let what = arguments.join(" ");
    let difference = Difference::between(versions, is_back);
    let mut of_versions: BTreeSet<Cause> = { versions[1..].iter() }
        .flat_map(|it| acts_of(it))
        .collect();
    // What stands under a record already is not said twice.
    let shown = difference.removed.iter().chain(&difference.added);
    for (_, _, causes) in shown {
        of_versions.retain(|cause| !causes.contains(cause));
    }

    let text = teller.text(&arguments);
    let lines: Vec<&str> = text.lines().collect();
    let (heads, lines) = lines.split_at(HEADS.min(lines.len()));
    let versions_of = |sign, version: &Version| {
        let (serial, time) = (version.content.serial, time_of(version.step));
        format!("{sign} {zone} {serial} {time}")
    };
    let known = [
        versions_of("---", from),
        versions_of("+++", to),
        format!("-{}", from.content.soa),
        format!("+{}", to.content.soa),
    ];
    teller.expect_equal(&what, heads, &known.each_ref().map(String::as_str));
    let between = match versions.len() - 1 {
        1 => Vec::new(),
        count => vec![format!(
            "; {count} versions lead from one to the other: what was changed and changed back is not here, `log {zone}` lists it"
        )],
    };
    let (said, lines) = lines.split_at(between.len().min(lines.len()));
    teller.expect_equal(
        &what,
        said,
        &between.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let told = ToldChanges::of(lines);
    check_text(teller, &what, &difference, told, &of_versions);

    let known = difference_json(teller, zone, versions, is_back);
    let told = teller.json(zone, &arguments).into_iter().map(in_order);
    teller.expect_equal(&what, &told.collect::<Vec<_>>(), &[in_order(known)]);
}

/// A record with its sign, and the lines of its causes.
type Told = (String, Vec<String>);

/// The records of a text, each with the lines of its causes: consecutive records with the same causes share them.
#[derive(Default)]
struct ToldChanges {
    records: Vec<Told>,
    /// Lines that follow no record.
    rest: Vec<String>,
    /// The causes of whole versions.
    of_versions: Vec<String>,
}

/// The line before the causes of whole versions.
const OF_VERSIONS: &str = "; of the versions as a whole:";

impl ToldChanges {
    fn of(lines: &[&str]) -> Self {
        let mut told = Self::default();
        let end = lines.iter().position(|line| *line == OF_VERSIONS);
        if let Some(end) = end {
            told.of_versions = joined(&lines[end + 1..]);
        }
        let lines = &lines[..end.unwrap_or(lines.len())];
        for group in lines.chunk_by(|before, after| !is_cause(before) || is_cause(after)) {
            let start = group.partition_point(|line| !is_cause(line));
            let (records, causes) = group.split_at(start);
            let causes = joined(causes);
            if records.is_empty() {
                told.rest.extend(causes);
                continue;
            }
            let records = records.iter().map(|it| ((*it).to_owned(), causes.clone()));
            told.records.extend(records);
        }
        told
    }
}

fn is_cause(line: &str) -> bool {
    line.starts_with(';')
}

/// The lines of causes, each with the request below it.
fn joined(lines: &[&str]) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    for line in lines {
        let line = line.strip_prefix("; ").unwrap_or(line);
        match (line.strip_prefix("    "), causes.last_mut()) {
            (Some(request), Some(cause)) => cause.push_str(&format!("        {request}")),
            (_, _) => causes.push(line.to_owned()),
        }
    }
    causes
}

fn check_text(
    teller: &Teller<'_>,
    what: &str,
    difference: &Difference<'_>,
    told: ToldChanges,
    of_versions: &BTreeSet<Cause>,
) {
    let of_versions: Vec<String> = of_versions.iter().map(|it| teller.line(it)).collect();
    let ToldChanges {
        records: mut told,
        rest,
        of_versions: told_of_versions,
    } = told;
    teller.expect_equal(what, &sorted(told_of_versions), &sorted(of_versions));
    let Difference { removed, added } = difference;
    let mut known: Vec<Told> = Vec::new();
    for (sign, changes) in [('-', removed), ('+', added)] {
        known.extend(changes.iter().map(|(record, _, causes)| {
            let lines = causes.iter().map(|it| teller.line(it)).collect();
            (format!("{sign}{record}"), lines)
        }));
    }
    let same = "both have the same records";
    let same = known.is_empty().then(|| {
        // The SOAs are above.
        let besides = rest.iter().any(|line| line.ends_with(" besides the SOA"));
        format!("{same}{}", if besides { " besides the SOA" } else { "" })
    });
    teller.expect_equal(what, &rest, &Vec::from_iter(same));
    for (_, causes) in told.iter_mut().chain(&mut known) {
        causes.sort();
    }
    told.sort();
    known.sort();
    teller.expect_equal(what, &told, &known);
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

/// The difference as JSON.
fn difference_json(teller: &Teller<'_>, zone: &str, versions: &[&Version], is_back: bool) -> Value {
    let Difference { removed, added } = Difference::between(versions, is_back);
    let (first, last) = (versions[0], versions[versions.len() - 1]);
    let (from, to) = if is_back {
        (last, first)
    } else {
        (first, last)
    };
    let mut json = json!({
        "zone": zone, "from": from.content.serial, "to": to.content.serial,
        "fromSoa": from.content.soa, "toSoa": to.content.soa,
        "versionCount": versions.len() - 1,
    });
    for (name, changes) in [("removed", removed), ("added", added)] {
        let whys = changes
            .iter()
            .map(|(_, version, causes)| teller.since_json(version, causes));
        json[format!("{name}Why")] = whys.collect();
        json[name] = changes
            .into_iter()
            .map(|(record, _, _)| record.clone())
            .collect();
    }
    let between = versions[1..].iter();
    json["versions"] = between.map(|it| version_json(teller, zone, it)).collect();
    answer(json)
}

/// Each record beside its cause, all in an order that says nothing.
fn in_order(mut json: Value) -> Value {
    for name in ["removed", "added"] {
        let why = format!("{name}Why");
        let list = |name: &str| json[name].as_array().expect("it is a list").clone();
        let (records, whys) = (list(name), list(&why));
        json[why] = Value::Null;
        assert_eq!(records.len(), whys.len(), "{json}");
        let pairs = records.into_iter().zip(whys).map(|(record, mut why)| {
            sort_at(&mut why, "/causes");
            json!([record, why])
        });
        json[name] = super::told::sorted(pairs);
    }
    if let Some(versions) = json["versions"].as_array_mut() {
        for version in versions {
            *version = resolved(version.take());
        }
    }
    json
}

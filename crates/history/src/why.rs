//! `why`: which record, rule, object or live step answers a name, or why none does.

use std::io;

use dns::{Name, Record, RecordText, Rtype};
use serde_json::{Value, json};
use server::{LiveAnswer, LiveNames};
use writer::Reason;
use zone::lookup::{LinkSet, lookup_beside};
use zone::{Contents, Version, Zone};

use crate::blame;
use crate::error::{AuditError, Output};
use crate::past::{BlockLine, Grounds, Past};
use crate::printable::printable;

struct Finding {
    outcome: &'static str,
    says: String,
    /// The records of the answer, with the owners that they have in the zone.
    records: Vec<Record>,
    /// What else is to be known.
    reasons: Vec<Reason>,
}

/// Writes why a name has the answer that it has.
pub(super) fn write(
    past: &dyn Past,
    name: &Name,
    rtype: Rtype,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let grounds = past.grounds(name)?;
    let version = grounds.zone.as_ref().and_then(|zone| zone.current());
    let found = find(&grounds, version.as_deref(), name, rtype);
    let causes = match (&grounds.zone, &version) {
        (Some(zone), Some(version)) => {
            blame::since(past, zone.apex(), version.seq, &found.records)?
        }
        (_, _) => Vec::new(),
    };
    if output == Output::Json {
        let records: Vec<Value> = found
            .records
            .iter()
            .zip(&causes)
            .map(|(record, since)| {
                json!({ "record": RecordText(record.view()).to_string(), "since": since.json() })
            })
            .collect();
        let reasons: Vec<Value> = found
            .reasons
            .iter()
            .map(|reason| json!({ "code": reason.code, "text": reason.text }))
            .collect();
        let answer = json!({
            "name": name.to_string(),
            "type": rtype.to_string(),
            "outcome": found.outcome,
            "before": grounds.block.map(|block| block.before).unwrap_or_default(),
            "zone": grounds.zone.map(|zone| zone.apex().to_string()),
            "serial": version.map(|version| version.serial.encode()),
            "records": records,
            "reasons": reasons,
        });
        return Ok(writeln!(out, "{answer}")?);
    }
    writeln!(out, "{name} {rtype}: {}", found.says)?;
    for (record, since) in found.records.iter().zip(&causes) {
        writeln!(out, "{}", RecordText(record.view()))?;
        since.write_text(out)?;
    }
    for reason in &found.reasons {
        writeln!(out, "    {}", printable(&reason.text))?;
    }
    Ok(())
}

/// Decides what a question gets.
fn find(grounds: &Grounds, version: Option<&Version>, name: &Name, rtype: Rtype) -> Finding {
    let Grounds {
        zone,
        live,
        block,
        reasons,
    } = grounds;
    let mut notes = Vec::new();
    if let Some(block) = block
        && !block.before.is_empty()
    {
        let words = block.before.join(", ");
        let text = format!(
            "{} of {} may decide before any zone does",
            words, block.place
        );
        notes.push(Reason::new("handlers", text));
    }
    let Some(zone) = zone else {
        return outside(block.as_ref(), notes);
    };
    note_state(zone, &mut notes);
    let apex = zone.apex();
    let Some(version) = version else {
        let mut finding = Finding {
            outcome: "servfail",
            says: format!("SERVFAIL, for zone {apex} has no version yet"),
            records: Vec::new(),
            reasons: reasons.clone(),
        };
        finding.reasons.extend(notes);
        return finding;
    };
    let mut finding = in_zone(version, live, name, rtype);
    // A name that is an alias is not missing, wherever the alias leads.
    if finding.outcome == "nxdomain"
        && finding.records.is_empty()
        && let Some(block) = block
    {
        fall_through(block, apex, name, &mut finding);
    }
    if !matches!(finding.outcome, "answered" | "referral") {
        finding.reasons.extend(reasons.iter().cloned());
    } else {
        let is_note = |reason: &&Reason| reason.code == "held" || reason.code == "not-synced";
        finding
            .reasons
            .extend(reasons.iter().filter(is_note).cloned());
    }
    finding.reasons.extend(notes);
    if let Some(block) = block
        && !block.before.is_empty()
    {
        let unless = format!(", unless {} decides before", block.before.join(" or "));
        finding.says.push_str(&unless);
    }
    finding
}

/// What becomes of a name that lies in no zone.
fn outside(block: Option<&BlockLine>, notes: Vec<Reason>) -> Finding {
    let (outcome, says) = match block {
        None => (
            "refused",
            "REFUSED, for no block has a key for it".to_owned(),
        ),
        Some(block) if block.after.is_empty() => {
            let unless = match block.before.join(", ") {
                words if words.is_empty() => String::new(),
                words => format!(" unless it is a matter of {words}"),
            };
            let place = &block.place;
            (
                "refused",
                format!("refused{unless}: no zone has it, and {place} has nobody to ask"),
            )
        }
        Some(block) => {
            let after = block.after.join(", then ");
            (
                "handler",
                format!("in no zone: {} has it answered by {after}", block.place),
            )
        }
    };
    Finding {
        outcome,
        says,
        records: Vec::new(),
        reasons: notes,
    }
}

/// Notes what is special about a zone now.
fn note_state(zone: &Zone, notes: &mut Vec<Reason>) {
    if zone.stale_since_ms().is_some() {
        let text = "the source of the zone is away: this is what it said last";
        notes.push(Reason::new("stale", text));
    }
    if let Some(pin) = zone.pin() {
        let text = match pin.rollback {
            Some(rollback) => format!("the zone is rolled back to serial {}", rollback.to),
            None => "the zone is frozen".to_owned(),
        };
        notes.push(Reason::new("ordered", format!("{text} by {}", pin.by)));
    }
}

/// What a version of a zone says, and what is live beside it.
fn in_zone(version: &Version, live: &LiveNames, name: &Name, rtype: Rtype) -> Finding {
    let contents = &version.contents;
    let (apex, serial) = (contents.apex(), version.serial);
    let lower = name.to_lower();
    let is_live = |name: &[u8]| !matches!(live.answer(version, name), LiveAnswer::Missing);
    let answer = lookup_beside(version, lower.as_wire(), rtype, &mut Vec::new(), is_live);
    let mut records: Vec<Record> = Vec::new();
    let mut reasons = Vec::new();
    for link in answer.links() {
        let asked = link.owner.and_then(|wire| Name::from_wire(wire).ok());
        let asked = asked.unwrap_or_else(|| lower.clone());
        let LinkSet::Rrset(rrset) = link.set else {
            continue;
        };
        let owner = source_of(contents, &asked);
        if owner != asked {
            let text = format!("{asked} does not exist: the wildcard {owner} answers for it");
            reasons.push(Reason::new("wildcard", text));
        }
        records.extend(rrset.records(owner.as_wire(), 0).map(|rr| rr.to_record()));
    }
    let last = answer.end().and_then(|wire| Name::from_wire(wire).ok());
    let last = last.unwrap_or_else(|| lower.clone());
    let from = format!("zone {apex} serial {serial}");
    let (outcome, says) = if let Some(referral) = answer.referral {
        let text = format!(
            "{} name servers of a delegation are asked instead",
            referral.servers.count
        );
        reasons.push(Reason::new("delegation", text));
        ("referral", format!("delegated, by {from}"))
    } else if answer.negative && !answer.exists {
        live_at(version, live, &last).unwrap_or_else(|| {
            let says = format!("NXDOMAIN, for {from} has no name {last}");
            ("nxdomain", says)
        })
    } else if answer.negative {
        let key = last.sort_key(apex);
        let node = key.and_then(|key| contents.get(key.as_bytes()));
        let types: Vec<String> = node
            .into_iter()
            .flat_map(|node| node.rrsets().map(|rrset| rrset.rtype.to_string()))
            .collect();
        let what = match types.is_empty() {
            true => "names below it alone".to_owned(),
            false => types.join(", "),
        };
        (
            "nodata",
            format!("no data of this type: in {from} {last} has {what}"),
        )
    } else {
        ("answered", format!("answered from {from}"))
    };
    let leaves = records.last().filter(|last| last.rtype == Rtype::CNAME);
    if let Some(alias) = leaves.filter(|_| rtype != Rtype::CNAME && outcome == "answered") {
        let text = format!(
            "the alias leads out of the zone: {}",
            RecordText(alias.view())
        );
        reasons.push(Reason::new("alias", text));
    }
    Finding {
        outcome,
        says,
        records,
        reasons,
    }
}

/// The name whose records answer for a name: itself, or the wildcard of its closest encloser.
fn source_of(contents: &Contents, name: &Name) -> Name {
    let apex = contents.apex();
    let has = |name: &Name| {
        let key = name.sort_key(apex);
        key.is_some_and(|key| contents.exists(key.as_bytes()))
    };
    if has(name) {
        return name.clone();
    }
    let mut above = name.parent();
    while let Some(encloser) = above {
        if has(&encloser) {
            return encloser.child_octets(b"*").unwrap_or_else(|_| name.clone());
        }
        above = encloser.parent();
    }
    name.clone()
}

/// What is live at a name that a version does not hold: the outcome, and the same for people.
fn live_at(version: &Version, live: &LiveNames, name: &Name) -> Option<(&'static str, String)> {
    let (node, by) = match live.answer(version, name.to_lower().as_wire()) {
        LiveAnswer::Missing => return None,
        LiveAnswer::Unknown => {
            let says = "SERVFAIL, for it is not known yet what the cluster has there";
            return Some(("servfail", says.to_owned()));
        }
        LiveAnswer::Exists { node, by } => (node, by),
    };
    let what = match node {
        None => "has no records here, but the name exists".to_owned(),
        Some(node) => {
            let mut records = node.records(&[0], 0);
            match (records.next().map(|rr| rr.address()), records.next()) {
                (Some(Some(address)), None) => format!("makes {address} of the name"),
                (_, _) => format!("has {} records here", node.record_count()),
            }
        }
    };
    let says = format!("answered live: {by} {what}; no secondary has it");
    Some(("live", says))
}

/// Says whether others are asked for a name that the zone does not have.
fn fall_through(block: &BlockLine, apex: &Name, name: &Name, finding: &mut Finding) {
    let mut below = block.falls_through.get(apex).into_iter().flatten();
    if !block.after.is_empty() && below.any(|zone| name.is_within(zone)) {
        let after = block.after.join(", then ");
        let text = format!("`fallthrough`: then answered by {after}");
        finding.reasons.push(Reason::new("fallthrough", text));
        finding.outcome = "handler";
        finding.says = format!(
            "not in zone {apex}: {} has it answered by {after}",
            block.place
        );
    }
}

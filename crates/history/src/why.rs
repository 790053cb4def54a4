//! `why`: the record, rule, object or handler that answers a name, or the reason why none does.

use std::io;

use dns::{Name, Record, RecordText, Rtype};
use serde_json::{Value, json};
use server::{Question, Resolution, SynthesizedName, View, ZoneAnswer, resolve};
use writer::Reason;
use zone::lookup::{End, LinkSet};
use zone::{Contents, Zone};

use crate::blame;
use crate::error::{AuditError, Output, SCHEMA};
use crate::past::{BlockLine, Grounds, Past};
use crate::printable::printable;

struct Finding {
    outcome: &'static str,
    says: String,
    /// The records of the answer, with their owners in the zone.
    records: Vec<Record>,
    /// Further remarks.
    reasons: Vec<Reason>,
}

/// Parses name and type of a question, which is about the present. An address stands for its name in the reverse zone.
///
/// # Errors
/// [`AuditError::WhyOfVersion`] for an @ that is not escaped, [`AuditError::Name`] and [`AuditError::Type`] for what is none.
pub(super) fn parse(text: &str, rtype: Option<&str>) -> Result<(Name, Rtype), AuditError> {
    let rtype = rtype.map(str::parse).transpose()?;
    if let Ok(address) = text.parse() {
        let name = Name::reverse_of(address);
        return Ok((name, rtype.unwrap_or(Rtype::PTR)));
    }
    let mut octets = text.bytes();
    while let Some(octet) = octets.next() {
        match octet {
            b'@' => return Err(AuditError::WhyOfVersion(text.to_owned())),
            b'\\' => _ = octets.next(),
            _ => {}
        }
    }
    Ok((Name::parse(text)?, rtype.unwrap_or(Rtype::A)))
}

/// Writes why a name has its answer.
pub(super) fn write(
    past: &dyn Past,
    name: &Name,
    rtype: Rtype,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let Grounds { block, reasons } = past.grounds(name, rtype)?;
    let lower = name.to_lower();
    let question = Question::of(lower.as_wire(), rtype);
    let view = View::new(&block.zones, &question, !block.after.is_empty(), false);
    let found = find(&block, reasons, &view, &question);
    let (zone, version) = (view.zone().map(|zone| zone.apex()), view.version());
    let (causes, found_remarks) = match (zone, version) {
        (Some(zone), Some(version)) => blame::since(past, zone, version.seq, &found.records)?,
        (_, _) => (Vec::new(), Vec::new()),
    };
    let remarks = zone.into_iter();
    let remarks = remarks.flat_map(|zone| found_remarks.iter().map(move |remark| (zone, remark)));
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
        let remarks: Vec<Value> = remarks.map(|(zone, remark)| remark.json(zone)).collect();
        let answer = json!({
            "schema": SCHEMA,
            "name": name.to_string(),
            "type": rtype.to_string(),
            "outcome": found.outcome,
            "before": block.before,
            "zone": zone.map(ToString::to_string),
            "serial": version.map(|version| version.serial.encode()),
            "records": records,
            "reasons": reasons,
            "remarks": remarks,
        });
        return Ok(writeln!(out, "{answer}")?);
    }
    writeln!(out, "{name} {rtype}: {}", found.says)?;
    for (record, since) in found.records.iter().zip(&causes) {
        writeln!(out, "{}", RecordText(record.view()))?;
        since.write_text(out)?;
    }
    for (zone, remark) in remarks {
        remark.write(zone, output, out)?;
    }
    for reason in &found.reasons {
        writeln!(out, "    {}", printable(&reason.text))?;
    }
    Ok(())
}

/// Finds out what a question is answered with.
fn find(
    block: &BlockLine,
    mut facts: Vec<Reason>,
    view: &View<'_>,
    question: &Question<'_>,
) -> Finding {
    let mut notes = Vec::new();
    if !block.before.is_empty() {
        let words = block.before.join(", ");
        let text = format!(
            "{} of {} may decide before any zone does",
            words, block.place
        );
        notes.push(Reason::new("handlers", text));
    }
    let Some(zone) = view.zone() else {
        return outside(block, notes);
    };
    note_state(zone, &mut notes);
    let apex = zone.apex();
    if view.version().is_none() {
        let says = format!("SERVFAIL: zone {apex} has no version yet");
        facts.extend(notes);
        return Finding::without_records("servfail", says, facts);
    }
    let mut finding = match resolve(view, question, &mut Vec::new()) {
        Resolution::NoZone => return outside(block, notes),
        Resolution::NotReady => {
            let says = "SERVFAIL: the names there are not known yet";
            Finding::without_records("servfail", says.to_owned(), Vec::new())
        }
        Resolution::FallThrough { .. } => {
            let after = block.after.join(", then ");
            let text = format!("`fallthrough`: then answered by {after}");
            let says = format!("not in zone {apex}: {after} of {} answers it", block.place);
            let reasons = vec![Reason::new("fallthrough", text)];
            Finding::without_records("handler", says, reasons)
        }
        Resolution::Answer(answer) => answered(&answer, question),
        Resolution::FollowAlias { answer, target } => {
            let apex = answer.version.contents.apex();
            let why = if dns::wire_is_within(target, apex.as_wire()) {
                "the aliases form a loop, or are too many"
            } else {
                "the target of the alias is outside the zone"
            };
            let mut finding = answered(&answer, question);
            if let Some(alias) = finding.records.last() {
                let alias = RecordText(alias.view());
                let text = format!("{why}: {alias}");
                finding.reasons.push(Reason::new("alias", text));
            }
            finding
        }
    };
    if matches!(finding.outcome, "answered" | "referral") {
        facts.retain(|reason| ["held", "not-synced", "unknown"].contains(&reason.code));
    }
    finding.reasons.extend(facts);
    finding.reasons.extend(notes);
    if !block.before.is_empty() {
        let unless = format!(", unless {} decides first", block.before.join(" or "));
        finding.says.push_str(&unless);
    }
    finding
}

impl Finding {
    fn without_records(outcome: &'static str, says: String, reasons: Vec<Reason>) -> Self {
        Self {
            outcome,
            says,
            records: Vec::new(),
            reasons,
        }
    }
}

/// The answer to a name outside all zones.
fn outside(block: &BlockLine, notes: Vec<Reason>) -> Finding {
    let place = &block.place;
    let (outcome, says) = if block.keys.is_empty() {
        let says = "REFUSED: no server block has a zone for this name".to_owned();
        ("refused", says)
    } else if block.after.is_empty() {
        let unless = match block.before.join(", ") {
            words if words.is_empty() => String::new(),
            words => format!(" unless {words} answers it"),
        };
        let says =
            format!("REFUSED{unless}: no zone has it, and {place} has no handler for other names");
        ("refused", says)
    } else {
        let after = block.after.join(", then ");
        let says = format!("in no zone: {after} of {place} answers it");
        ("handler", says)
    };
    Finding::without_records(outcome, says, notes)
}

/// Adds remarks about the state of a zone.
fn note_state(zone: &Zone, notes: &mut Vec<Reason>) {
    if zone.stale_since_ms().is_some() {
        let text = "the source of the zone is unreachable: this is its last known state";
        notes.push(Reason::new("stale", text));
    }
    if let Some(hold) = zone.hold() {
        let text = match hold.rollback {
            Some(rollback) => format!("the zone is rolled back to serial {}", rollback.to),
            None => "the zone is frozen".to_owned(),
        };
        notes.push(Reason::new("ordered", format!("{text} by {}", hold.by)));
    }
}

/// The answer of a zone.
fn answered(of: &ZoneAnswer<'_>, question: &Question<'_>) -> Finding {
    let ZoneAnswer {
        version, answer, ..
    } = of;
    let contents = &version.contents;
    let (apex, serial) = (contents.apex(), version.serial);
    let name_of = |wire: Option<&[u8]>| name_of(wire.unwrap_or(question.name));
    let mut reasons = Vec::new();
    let records = records_of(of, question, &mut reasons);
    let from = format!("zone {apex} serial {serial}");
    let (outcome, says) = match (answer.end, of.synthesized) {
        (_, Some(name)) => ("live", synthesized(&name)),
        (End::Referral(referral), None) => {
            let text = format!(
                "{} name servers of a delegation are asked instead",
                referral.servers.count
            );
            reasons.push(Reason::new("delegation", text));
            ("referral", format!("delegated, by {from}"))
        }
        (End::TooLong { at }, None) => {
            let name = name_of(at);
            let says = format!(
                "YXDOMAIN: in {from} a DNAME makes a name of more than 255 bytes from {name}"
            );
            ("yxdomain", says)
        }
        (End::NxDomain { at }, None) => {
            let says = format!("NXDOMAIN: {from} has no name {}", name_of(at));
            ("nxdomain", says)
        }
        (End::NoData { at }, None) => {
            let last = name_of(at);
            let key = last.sort_key(apex);
            let node = key.and_then(|key| contents.get(key.as_bytes()));
            let types: Vec<String> = node
                .into_iter()
                .flat_map(|node| node.rrsets().map(|rrset| rrset.rtype.to_string()))
                .collect();
            let what = match types.is_empty() {
                true => "only names below it".to_owned(),
                false => types.join(", "),
            };
            let says = format!("no data of this type: in {from} {last} has {what}");
            ("nodata", says)
        }
        (End::Data | End::Alias(_) | End::Synthesized { .. }, None) => {
            ("answered", format!("answered from {from}"))
        }
    };
    Finding {
        outcome,
        says,
        records,
        reasons,
    }
}

/// The name of a question or of a zone.
fn name_of(wire: &[u8]) -> Name {
    Name::from_wire(wire).expect("the question and the zone have whole names")
}

/// The records of the zone in an answer, with their owners in the zone. Adds the reasons for names that have none.
fn records_of(
    of: &ZoneAnswer<'_>,
    question: &Question<'_>,
    reasons: &mut Vec<Reason>,
) -> Vec<Record> {
    let ZoneAnswer {
        version, answer, ..
    } = of;
    let mut records: Vec<Record> = Vec::new();
    // A synthesized name is no record of the zone.
    let is_synthesized = of.synthesized.is_some() && matches!(answer.end, End::Data);
    let held = answer.links().count() - usize::from(is_synthesized);
    let mut is_redirected = false;
    for link in answer.links().take(held) {
        let LinkSet::Rrset(rrset) = link.set else {
            continue;
        };
        let asked = name_of(link.owner(question.name));
        if link.skip > 0 {
            is_redirected = true;
            let name = name_of(link.name.unwrap_or(question.name));
            let text = format!("{name} does not exist: the DNAME of {asked} redirects it");
            reasons.push(Reason::new("dname", text));
        } else if std::mem::take(&mut is_redirected) {
            // The CNAME that the DNAME makes is no record of the zone.
            continue;
        }
        let owner = source_of(&version.contents, &asked);
        if owner != asked {
            let text = format!("{asked} does not exist: the wildcard {owner} answers for it");
            reasons.push(Reason::new("wildcard", text));
        }
        records.extend(rrset.records(owner.as_wire(), 0).map(|rr| rr.to_record()));
    }
    records
}

/// The owner whose records answer a name: the name itself, or the wildcard of its closest encloser.
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

/// Describes a synthesized name.
fn synthesized(name: &SynthesizedName<'_>) -> String {
    let what = match name.node {
        None => "has no records here, but the name exists".to_owned(),
        Some(node) => {
            let mut records = node.records(&[0], 0);
            match (records.next().map(|rr| rr.address()), records.next()) {
                (Some(Some(address)), None) => format!("gives it {address}"),
                (_, _) => format!("has {} records here", node.record_count()),
            }
        }
    };
    format!("synthesized: {} {what}; no secondary has it", name.by)
}

//! `verify`: checks that the history is as it was written, zone by zone, and that noted hashes are in it.

use std::io;

use dns::Name;
use serde_json::{Value, json};
use zone::Hash;
use zone::journal::{Anchored, Damage, Fault, Verdict};

use crate::error::{AuditError, Output, SCHEMA};
use crate::evidence::FileVerdict;
use crate::moment::TimeText;
use crate::past::Past;

/// What is said of a history that the manifest beside it does not list.
pub const NOT_NAMED: &str = "the manifest beside it does not name it";
/// The most faults in the text.
const FAULTS_SHOWN: usize = 5;

/// A hash that was noted elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Anchor {
    /// The zone that it is of; `None`: of one of the verified zones.
    zone: Option<Name>,
    hash: Hash,
}

impl Anchor {
    /// Parses `HASH` or `ZONE=HASH`.
    ///
    /// # Errors
    /// [`AuditError::Anchor`].
    pub(super) fn parse(text: &str) -> Result<Self, AuditError> {
        let wrong = || AuditError::Anchor(text.to_owned());
        let (zone, hash) = match text.split_once('=') {
            None => (None, text),
            Some((zone, hash)) => (Some(Name::parse(zone)?.to_lower()), hash),
        };
        let hash = hash.trim().parse().map_err(|_| wrong())?;
        Ok(Self { zone, hash })
    }

    fn is_of(&self, zone: &Name) -> bool {
        self.zone.as_ref().is_none_or(|own| own == zone)
    }
}

/// Parses hashes that were noted elsewhere.
///
/// # Errors
/// [`AuditError::Anchor`].
pub(super) fn anchors_of(texts: &[String]) -> Result<Vec<Anchor>, AuditError> {
    texts.iter().map(|text| Anchor::parse(text)).collect()
}

/// The hashes to look for in a zone.
fn hashes_of(anchors: &[Anchor], zone: &Name) -> Vec<Hash> {
    let own = anchors.iter().filter(|anchor| anchor.is_of(zone));
    own.map(|anchor| anchor.hash).collect()
}

/// Verifies the zones and writes the results.
///
/// # Errors
/// After everything was written: [`AuditError::Broken`] when a history is damaged, else [`AuditError::NotAnchored`] when
/// no version that is kept has a hash.
pub(super) fn write(
    past: &dyn Past,
    zones: &[Name],
    anchors: &[Anchor],
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let mut found = Vec::new();
    for zone in zones {
        let verdict = past.verify(zone, &hashes_of(anchors, zone))?;
        found.push((zone.clone(), verdict));
    }
    let not_anchored = judge_anchors(&mut found, anchors)?;
    let mut broken = Vec::new();
    for (zone, verdict) in &found {
        match output {
            Output::Text => write_text(&zone.to_string(), verdict, out)?,
            Output::Json => writeln!(out, "{}", verdict_json(zone, verdict))?,
        }
        if !verdict.faults.is_empty() {
            broken.push(zone.clone());
        }
    }
    if broken.is_empty() {
        not_anchored.map_or(Ok(()), Err)
    } else {
        Err(AuditError::Broken(broken))
    }
}

/// A hash that no version has is a fault of a zone whose history is kept from its first version on. If older versions
/// were dropped, the hash may be that of one of them: the first such hash is returned as an error to report at the end.
fn judge_anchors(
    found: &mut [(Name, Verdict)],
    anchors: &[Anchor],
) -> Result<Option<AuditError>, AuditError> {
    let mut not_anchored = None;
    for anchor in anchors {
        if let Some(zone) = &anchor.zone
            && !found.iter().any(|(known, _)| known == zone)
        {
            return Err(AuditError::NoZone {
                zone: zone.clone(),
                known: found.iter().map(|(zone, _)| zone.clone()).collect(),
            });
        }
        let is_it = |verdict: &Verdict| verdict.anchored.iter().any(|it| it.hash == anchor.hash);
        let of_zone = |(zone, _): &&mut (Name, Verdict)| anchor.is_of(zone);
        let mut own: Vec<_> = found.iter_mut().filter(of_zone).collect();
        if own.iter().any(|(_, verdict)| is_it(verdict)) {
            continue;
        }
        if let [(_, verdict)] = own.as_mut_slice()
            && (verdict.oldest.0 <= 1 || !verdict.faults.is_empty())
        {
            verdict.faults.push(Fault {
                seq: verdict.newest.0,
                serial: Some(verdict.newest.1.encode()),
                damage: Damage::Chain,
                what: format!("no version has the hash {} that was noted", anchor.hash),
            });
            continue;
        }
        let zones = own.iter().map(|(zone, _)| zone.clone()).collect();
        let hash = anchor.hash;
        not_anchored.get_or_insert(AuditError::NotAnchored { hash, zones });
    }
    Ok(not_anchored)
}

/// Writes what checking an exported history found.
///
/// # Errors
/// After everything was written: [`AuditError::BrokenFile`], else [`AuditError::NotAnchored`]; see the zones of a store.
pub fn write_file_verdict(
    path: &str,
    file: &FileVerdict,
    anchors: &[String],
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let zone = file.zone.clone().unwrap_or_else(Name::root);
    let mut found = [(zone, file.verdict.clone())];
    let not_anchored = judge_anchors(&mut found, &anchors_of(anchors)?)?;
    let [(zone, verdict)] = found;
    match output {
        Output::Text => {
            write_text(&format!("{path}: {zone}"), &verdict, out)?;
            if file.is_named == Some(false) && verdict.faults.is_empty() {
                writeln!(out, "    {NOT_NAMED}: it may be of another export")?;
            }
        }
        Output::Json => {
            let mut line = verdict_json(&zone, &verdict);
            line["file"] = path.into();
            if let Some(is_named) = file.is_named {
                line["named"] = is_named.into();
            }
            writeln!(out, "{line}")?;
        }
    }
    if verdict.faults.is_empty() {
        not_anchored.map_or(Ok(()), Err)
    } else {
        Err(AuditError::BrokenFile(path.to_owned()))
    }
}

/// The hashes to look for in an exported history.
///
/// # Errors
/// [`AuditError::Anchor`].
pub fn anchored_hashes(texts: &[String]) -> Result<Vec<Hash>, AuditError> {
    let anchors = anchors_of(texts)?;
    Ok(anchors.into_iter().map(|anchor| anchor.hash).collect())
}

fn head_text(verdict: &Verdict) -> String {
    verdict
        .head
        .map_or_else(|| "none yet".to_owned(), |hash| hash.to_string())
}

fn write_text(zone: &str, verdict: &Verdict, out: &mut dyn io::Write) -> Result<(), AuditError> {
    let Verdict {
        oldest: (oldest, first_serial, since_ms),
        newest: (_, newest),
        versions,
        unhashed,
        archived,
        condensed,
        anchor: _,
        head: _,
        anchored,
        faults,
    } = verdict;
    let since = TimeText(*since_ms);
    if let Some(first) = faults.first() {
        writeln!(out, "{zone}: BROKEN at {}", fault_text(first))?;
        for fault in faults.iter().take(FAULTS_SHOWN).skip(1) {
            writeln!(out, "    also {}", fault_text(fault))?;
        }
        if faults.len() > FAULTS_SHOWN {
            writeln!(out, "    and more: --output json lists them")?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "{zone}: good; {versions} versions since {since}, newest serial {newest}, hash {}",
        head_text(verdict)
    )?;
    if let (Some(serial), 2..) = (first_serial, oldest) {
        writeln!(
            out,
            "    history begins at serial {serial}, {since}: older versions were dropped by the limits of `history`"
        )?;
    }
    if *archived > 0 {
        writeln!(
            out,
            "    before it, {archived} older entries were kept from being dropped: good"
        )?;
    }
    if *condensed > 0 {
        writeln!(
            out,
            "    {condensed} of the older versions are condensed: only their last hashes and contents can be checked"
        )?;
    }
    if *unhashed > 0 {
        writeln!(
            out,
            "    the oldest {unhashed} were stored before there were hashes: only their form can be checked"
        )?;
    }
    // The hashes within a condensed entry are gone, so no later hash proves what is before it.
    let proves = match condensed {
        0 => "up to it",
        _ => "from the last condensed version before it on",
    };
    for Anchored { hash, seq, serial } in anchored {
        writeln!(
            out,
            "    hash {hash} is that of serial {serial} (version {seq}): {proves} nothing was changed since it was noted"
        )?;
    }
    Ok(())
}

fn fault_text(fault: &Fault) -> String {
    let Fault {
        seq,
        serial,
        damage,
        what,
    } = fault;
    match serial {
        // For a version that does not exist.
        Some(serial) if *seq == 0 => format!("serial {serial}, {damage}: {what}"),
        Some(serial) => format!("serial {serial} (version {seq}), {damage}: {what}"),
        // For a line of a file.
        None if *seq == 0 => format!("an unknown version, {damage}: {what}"),
        None => format!("version {seq}, {damage}: {what}"),
    }
}

fn verdict_json(zone: &Name, verdict: &Verdict) -> Value {
    let Verdict {
        oldest: (_, oldest, since_ms),
        newest: (_, newest),
        versions,
        unhashed,
        archived,
        condensed,
        anchor,
        head,
        anchored,
        faults,
    } = verdict;
    let faults: Vec<Value> = faults.iter().map(fault_json).collect();
    let anchored: Vec<Value> = anchored.iter().map(anchored_json).collect();
    json!({
        "schema": SCHEMA,
        "zone": zone.to_string(),
        "good": faults.is_empty(),
        "versions": versions,
        "unhashed": unhashed,
        "archived": archived,
        "condensed": condensed,
        "oldest": oldest.map(dns::Serial::encode),
        "since": TimeText(*since_ms).to_string(),
        "sinceMs": since_ms,
        "newest": newest.encode(),
        "before": anchor.to_string(),
        "hash": head.map(|hash| hash.to_string()),
        "anchored": anchored,
        "faults": faults,
    })
}

fn fault_json(fault: &Fault) -> Value {
    let Fault {
        seq,
        serial,
        damage,
        what,
    } = fault;
    json!({ "version": seq, "serial": serial, "damage": damage.as_str(), "what": what })
}

fn anchored_json(anchored: &Anchored) -> Value {
    let Anchored { hash, seq, serial } = anchored;
    json!({ "hash": hash.to_string(), "version": seq, "serial": serial.encode() })
}

//! `verify`: checks that the history is as it was written, zone by zone, and that noted hashes are in it.

use std::collections::BTreeMap;
use std::io;

use dns::Name;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zone::Hash;
use zone::journal::{Anchored, Damage, Fault, Verdict};

use crate::error::{AuditError, Output, SCHEMA};
use crate::evidence::FileVerdict;
use crate::moment::TimeText;
use crate::past::Past;

/// What is said of a history that the manifest beside it does not list.
pub const NOT_NAMED: &str = "the manifest beside it does not name it";
/// Where the versions before the history of a store are that has no old part.
const DROPPED: &str = "older versions were dropped by the limits of `history`";
/// Where the versions before those of an export are.
const ELSEWHERE: &str = "older versions are not in this export";
/// Where they are if the archive cannot be read.
const UNREAD: &str = "older versions are in the archive, of which not all could be read";
/// The most faults in the text.
const FAULTS_SHOWN: usize = 5;
/// The most noted hashes in the text.
const ANCHORS_SHOWN: usize = 5;

/// A version that a signed note names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// The zone.
    pub zone: String,
    /// The number of the version.
    pub version: u64,
    /// Its hash.
    pub hash: String,
}

/// A hash that was noted elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Anchor {
    /// The zone that it is of; `None`: of one of the verified zones.
    zone: Option<Name>,
    /// The number of the version, if a note says it.
    version: Option<u64>,
    hash: Hash,
}

impl Anchor {
    /// Parses `HASH` or `ZONE=HASH`.
    ///
    /// # Errors
    /// [`AuditError::Anchor`].
    fn parse(text: &str) -> Result<Self, AuditError> {
        let wrong = || AuditError::Anchor(text.to_owned());
        let (zone, hash) = match text.split_once('=') {
            None => (None, text),
            Some((zone, hash)) => (Some(Name::parse(zone)?.to_lower()), hash),
        };
        let hash = hash.trim().parse().map_err(|_| wrong())?;
        Ok(Self {
            zone,
            version: None,
            hash,
        })
    }

    fn of_note(noted: &Noted) -> Result<Self, AuditError> {
        let Noted {
            zone,
            version,
            hash,
        } = noted;
        Ok(Self {
            zone: Some(Name::parse(zone)?.to_lower()),
            version: Some(*version),
            hash: hash
                .parse()
                .map_err(|_| AuditError::Anchor(hash.to_owned()))?,
        })
    }

    fn is_of(&self, zone: &Name) -> bool {
        self.zone.as_ref().is_none_or(|own| own == zone)
    }

    /// Whether a note names a zone that is not there.
    fn is_gone(&self, found: &[(Name, Verdict)]) -> bool {
        let is_there = |zone| found.iter().any(|(known, _)| known == zone);
        self.version.is_some() && self.zone.as_ref().is_some_and(|zone| !is_there(zone))
    }

    /// Whether a history would have the hash if it were the one that was noted.
    fn must_be_kept(&self, verdict: &Verdict, may_lack: bool) -> bool {
        let (oldest, newest) = (verdict.oldest.0, verdict.newest.0);
        match self.version {
            Some(version) if version > newest => true,
            Some(version) => {
                let mut unread = verdict.unread.iter();
                version >= oldest
                    && !unread.any(|(first, last)| (*first..=*last).contains(&version))
            }
            None => {
                // A version that is lost, or may be, may have had it, too.
                let mut faults = verdict.faults.iter();
                let is_gap = |damage| matches!(damage, Damage::Unknown | Damage::Lost);
                let is_all_known = !faults.any(|it| is_gap(it.damage));
                (oldest <= 1 || is_broken(verdict)) && is_all_known && !may_lack
            }
        }
    }

    /// The fault of a version that has to be kept and does not have the hash.
    fn fault(&self, verdict: &Verdict) -> Fault {
        let (newest, serial) = verdict.newest;
        let hash = self.hash;
        let (seq, damage, what) = match self.version {
            Some(version) if version > newest => {
                let what = format!("a note has version {version}, and it is not there");
                (newest, Damage::Lost, what)
            }
            Some(version) => {
                let what = format!("version {version} does not have the hash {hash} of a note");
                (newest, Damage::Chain, what)
            }
            None => {
                let all = match verdict.oldest.0 <= 1 {
                    true => ", and no version is missing: it is the hash of another history",
                    false => "",
                };
                let what = format!("no version has the hash {hash} that was noted{all}");
                (newest, Damage::Chain, what)
            }
        };
        Fault {
            seq,
            serial: (seq > 0).then(|| serial.encode()),
            damage,
            what,
        }
    }
}

/// Hashes that were noted elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Anchors {
    all: Vec<Anchor>,
    /// Whether versions may be lost of which the histories say nothing.
    may_lack: bool,
}

impl Anchors {
    /// Parses hashes that a person noted, and takes those of notes.
    ///
    /// # Errors
    /// [`AuditError::Anchor`], [`AuditError::Name`].
    pub fn parse(texts: &[String], noted: &[Noted]) -> Result<Self, AuditError> {
        let typed = texts.iter().map(|text| Anchor::parse(text));
        let all = typed.chain(noted.iter().map(Anchor::of_note));
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
            may_lack: false,
        })
    }

    /// The same for a store of which not all is known, as for a copy: a version that is lost may have had a hash.
    #[must_use]
    pub fn of_unknown(self, may_lack: bool) -> Self {
        Self { may_lack, ..self }
    }

    /// All hashes.
    #[must_use]
    pub fn hashes(&self) -> Vec<Hash> {
        self.all.iter().map(|anchor| anchor.hash).collect()
    }

    /// The hashes to look for in a zone.
    fn hashes_of(&self, zone: &Name) -> Vec<Hash> {
        self.hashes_among(zone, &|_| true)
    }

    /// The hashes to look for among the versions of a zone with certain numbers.
    #[must_use]
    pub fn hashes_among(&self, zone: &Name, is_there: &dyn Fn(u64) -> bool) -> Vec<Hash> {
        // A hash that a person typed may be that of another zone than the one beside it.
        let may_be_there = |anchor: &&Anchor| match anchor.version {
            None => true,
            Some(version) => anchor.is_of(zone) && is_there(version),
        };
        let own = self.all.iter().filter(may_be_there);
        own.map(|anchor| anchor.hash).collect()
    }

    /// Leaves out what notes say of other zones.
    ///
    /// # Errors
    /// [`AuditError::NotNoted`] when nothing of a note is left.
    pub fn about(mut self, zone: &Name) -> Result<Self, AuditError> {
        let has_notes = |all: &[Anchor]| all.iter().any(|anchor| anchor.version.is_some());
        let had_notes = has_notes(&self.all);
        self.all
            .retain(|anchor| anchor.version.is_none() || anchor.is_of(zone));
        if had_notes && !has_notes(&self.all) {
            return Err(AuditError::NotNoted(zone.clone()));
        }
        Ok(self)
    }

    /// How many of the noted versions of a zone are older than its history.
    fn older_than(&self, zone: &Name, verdict: &Verdict) -> usize {
        let is_older = |anchor: &&Anchor| {
            let version = anchor.version.filter(|version| *version < verdict.oldest.0);
            anchor.is_of(zone) && version.is_some() && !has(verdict, anchor.hash)
        };
        self.all.iter().filter(is_older).count()
    }

    /// A hash that no version has is a fault of a zone whose history is kept from its first version on, or from the version
    /// on that a note names. If older versions were dropped, the hash may be that of one of them: the first such hash is
    /// returned as an error to report at the end. Of noted versions that were dropped only if no other note of the zone
    /// could be confirmed.
    ///
    /// The notes of a zone that is not there say nothing of the others: see [`Anchors::gone`].
    fn judge(&self, found: &mut [(Name, Verdict)]) -> Result<Option<AuditError>, AuditError> {
        let mut not_anchored = None;
        for anchor in &self.all {
            if anchor.is_gone(found) {
                continue;
            }
            if let Some(zone) = &anchor.zone
                && !found.iter().any(|(known, _)| known == zone)
            {
                return Err(AuditError::NoZone {
                    zone: zone.clone(),
                    known: found.iter().map(|(zone, _)| zone.clone()).collect(),
                });
            }
            let mut having = found.iter().filter(|(_, it)| has(it, anchor.hash));
            let other = having.next().map(|(zone, _)| zone.clone());
            let of_zone = |(zone, _): &&mut (Name, Verdict)| anchor.is_of(zone);
            let mut own: Vec<_> = found.iter_mut().filter(of_zone).collect();
            if own.iter().any(|(_, verdict)| has(verdict, anchor.hash)) {
                continue;
            }
            if let (Some(zone), None, Some(other)) = (&anchor.zone, anchor.version, other) {
                not_anchored = Some(AuditError::OfAnotherZone {
                    hash: anchor.hash,
                    zone: zone.clone(),
                    other,
                });
                continue;
            }
            if let [(zone, verdict)] = own.as_mut_slice() {
                if anchor.must_be_kept(verdict, self.may_lack) {
                    verdict.faults.push(anchor.fault(verdict));
                    continue;
                }
                if anchor.version.is_some() && self.confirms(zone, verdict) {
                    continue;
                }
            }
            let is_nowhere =
                { own.iter() }.all(|(_, verdict)| anchor.must_be_kept(verdict, self.may_lack));
            let zones = own.iter().map(|(zone, _)| zone.clone()).collect();
            let hash = anchor.hash;
            let error = match is_nowhere {
                true => AuditError::OfAnother { hash, zones },
                false => AuditError::NotAnchored { hash, zones },
            };
            // What is certain comes first.
            if is_nowhere || not_anchored.is_none() {
                not_anchored = Some(error);
            }
        }
        Ok(not_anchored)
    }

    /// The zones of notes that are not there, each with its newest noted version.
    fn gone(&self, found: &[(Name, Verdict)]) -> BTreeMap<Name, u64> {
        let mut gone = BTreeMap::new();
        for anchor in self.all.iter().filter(|anchor| anchor.is_gone(found)) {
            if let (Some(zone), Some(version)) = (&anchor.zone, anchor.version) {
                let newest: &mut u64 = gone.entry(zone.clone()).or_default();
                *newest = version.max(*newest);
            }
        }
        gone
    }

    /// Whether a version of the zone has the hash of a note.
    fn confirms(&self, zone: &Name, verdict: &Verdict) -> bool {
        let mut noted = { self.all.iter() }.filter(|anchor| anchor.version.is_some());
        noted.any(|anchor| anchor.is_of(zone) && has(verdict, anchor.hash))
    }
}

/// Whether a history is not as it was written.
fn is_broken(verdict: &Verdict) -> bool {
    let mut faults = verdict.faults.iter();
    faults.any(|fault| fault.damage != Damage::Unknown)
}

/// Whether a version has a hash.
fn has(verdict: &Verdict, hash: Hash) -> bool {
    verdict.anchored.iter().any(|found| found.hash == hash)
}

/// Verifies the zones and writes the results.
///
/// # Errors
/// See [`write_verdicts`].
pub(super) fn write(
    past: &dyn Past,
    zones: &[Name],
    anchors: &Anchors,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let mut found = Vec::new();
    for zone in zones {
        let verdict = past.verify(zone, &anchors.hashes_of(zone))?;
        found.push((zone.clone(), verdict));
    }
    write_verdicts(found, anchors, output, out)
}

/// Writes what verifying zones found.
///
/// # Errors
/// After everything was written: [`AuditError::Broken`] when a history is damaged, else [`AuditError::OfAnotherZone`],
/// [`AuditError::OfAnother`] or [`AuditError::NotAnchored`] when no version that is kept has a hash, else [`AuditError::NotAllKnown`].
pub fn write_verdicts(
    mut found: Vec<(Name, Verdict)>,
    anchors: &Anchors,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let not_anchored = anchors.judge(&mut found)?;
    let (mut broken, mut unknown) = (Vec::new(), Vec::new());
    for (zone, verdict) in &found {
        let older = anchors.older_than(zone, verdict);
        match output {
            Output::Text => write_text(&zone.to_string(), verdict, (older, DROPPED), out)?,
            Output::Json => writeln!(out, "{}", verdict_json(zone, verdict, older))?,
        }
        if is_broken(verdict) {
            broken.push(zone.clone());
        } else if !verdict.faults.is_empty() {
            unknown.push(zone.clone());
        }
    }
    for (zone, version) in anchors.gone(&found) {
        write_gone(&zone, version, output, out)?;
        broken.push(zone);
    }
    match (broken.is_empty(), not_anchored) {
        (false, _) => Err(AuditError::Broken(broken)),
        (true, Some(error)) => Err(error),
        (true, None) if unknown.is_empty() => Ok(()),
        (true, None) => Err(AuditError::NotAllKnown(unknown)),
    }
}

/// Writes that a zone is not there though a note has this version of it.
fn write_gone(
    zone: &Name,
    version: u64,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let fault = Fault {
        seq: version,
        serial: None,
        damage: Damage::Lost,
        what: "a note has this version, and the zone is not there".to_owned(),
    };
    match output {
        Output::Text => writeln!(out, "{zone}: BROKEN at {}", fault_text(&fault))?,
        Output::Json => {
            let faults = [fault_json(&fault)];
            let line = json!({ "schema": SCHEMA, "zone": zone.to_string(), "good": false, "faults": faults });
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Writes what checking an exported history found.
///
/// # Errors
/// [`AuditError::NotNoted`]. After everything was written: [`AuditError::BrokenFile`], else [`AuditError::NotAnchored`], else
/// [`AuditError::NotAllKnown`]; see the zones of a store.
pub fn write_file_verdict(
    path: &str,
    file: &FileVerdict,
    anchors: &Anchors,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let zone = file.zone.clone().unwrap_or_else(Name::root);
    let anchors = anchors.clone().about(&zone)?;
    let mut found = [(zone, file.verdict.clone())];
    let not_anchored = anchors.judge(&mut found)?;
    let [(zone, verdict)] = found;
    let older = anchors.older_than(&zone, &verdict);
    match output {
        Output::Text => {
            let label = match &file.zone {
                Some(zone) => format!("{path}: {zone}"),
                None => path.to_owned(),
            };
            write_text(&label, &verdict, (older, ELSEWHERE), out)?;
            if file.is_named == Some(false) && verdict.faults.is_empty() {
                writeln!(out, "    {NOT_NAMED}: it may be of another export")?;
            }
        }
        Output::Json => {
            let mut line = verdict_json(&zone, &verdict, older);
            line["file"] = path.into();
            if file.zone.is_none() {
                line["zone"] = Value::Null;
            }
            if let Some(is_named) = file.is_named {
                line["named"] = is_named.into();
            }
            writeln!(out, "{line}")?;
        }
    }
    match (is_broken(&verdict), not_anchored) {
        (true, _) => Err(AuditError::BrokenFile(path.to_owned())),
        (false, Some(error)) => Err(error),
        (false, None) if verdict.faults.is_empty() => Ok(()),
        (false, None) => Err(AuditError::NotAllKnown(vec![zone])),
    }
}

fn head_text(verdict: &Verdict) -> String {
    verdict
        .head
        .map_or_else(|| "none yet".to_owned(), |hash| hash.to_string())
}

/// Writes a result; `older` noted versions are older than the history, and `before` says where older versions are.
fn write_text(
    zone: &str,
    verdict: &Verdict,
    (older, before): (usize, &str),
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let Verdict {
        oldest: (oldest, first_serial, since_ms),
        newest: (_, newest),
        versions,
        unhashed,
        archived,
        condensed,
        segments,
        reused_segments: reused,
        anchor: _,
        head: _,
        anchored,
        faults,
        unread: _,
    } = verdict;
    let since = TimeText(*since_ms);
    if !faults.is_empty() {
        write_faults(zone, faults, out)?;
        if is_broken(verdict) || *versions == 0 {
            return Ok(());
        }
    }
    let begin = match faults.is_empty() {
        true => format!("{zone}:"),
        false => "    what could be checked is".to_owned(),
    };
    writeln!(
        out,
        "{begin} good; {versions} versions since {since}, newest serial {newest}, hash {}",
        head_text(verdict)
    )?;
    if let (Some(serial), 2..) = (first_serial, oldest) {
        let is_unread = faults.iter().any(|fault| fault.seq < *oldest);
        let before = match archived {
            _ if is_unread => UNREAD.to_owned(),
            0 => before.to_owned(),
            entries => format!("its old part has {entries} entries of older versions: good"),
        };
        writeln!(
            out,
            "    history begins at serial {serial}, {since}: {before}"
        )?;
    }
    if *segments > 0 {
        let again = match reused {
            0 => String::new(),
            reused => {
                format!("; {reused} of them were good in an earlier run and were not read again")
            }
        };
        writeln!(
            out,
            "    the oldest are in {segments} segments of the archive: good{again}"
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
    write_anchored(anchored, *condensed, older, out)?;
    Ok(())
}

/// Writes what is wrong with a history, and then what is not known of it.
fn write_faults(zone: &str, faults: &[Fault], out: &mut dyn io::Write) -> io::Result<()> {
    let (unknown, broken): (Vec<_>, Vec<_>) =
        (faults.iter()).partition(|fault| fault.damage == Damage::Unknown);
    for (place, fault) in broken.iter().chain(&unknown).take(FAULTS_SHOWN).enumerate() {
        match (place, fault.damage) {
            (0, Damage::Unknown) => writeln!(out, "{zone}: NOT KNOWN: {}", fault.what)?,
            (_, Damage::Unknown) => writeln!(out, "    also not known: {}", fault.what)?,
            (0, Damage::Changed | Damage::Lost | Damage::Chain) => {
                writeln!(out, "{zone}: BROKEN at {}", fault_text(fault))?;
            }
            (_, Damage::Changed | Damage::Lost | Damage::Chain) => {
                writeln!(out, "    also {}", fault_text(fault))?;
            }
        }
    }
    if faults.len() > FAULTS_SHOWN {
        writeln!(out, "    and more: --output json lists them")?;
    }
    Ok(())
}

/// Writes which noted hashes were found.
fn write_anchored(
    anchored: &[Anchored],
    condensed: u64,
    older: usize,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    // The hashes within a condensed entry are gone, so no later hash proves what is before it.
    let proves = match condensed {
        0 => "up to it",
        _ => "from the last condensed version before it on",
    };
    let mut shown = anchored;
    if anchored.len() > ANCHORS_SHOWN {
        // The latest proves most.
        let latest = anchored.iter().max_by_key(|found| found.seq);
        shown = latest.map_or(&[][..], std::slice::from_ref);
        let count = anchored.len();
        writeln!(
            out,
            "    {count} noted hashes are those of versions. The latest:"
        )?;
    }
    for Anchored { hash, seq, serial } in shown {
        writeln!(
            out,
            "    hash {hash} is that of serial {serial} (version {seq}): {proves} nothing was changed since it was noted"
        )?;
    }
    if older > 0 {
        writeln!(
            out,
            "    {older} noted versions are older than the history: their hashes are not known here"
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

fn verdict_json(zone: &Name, verdict: &Verdict, older: usize) -> Value {
    let Verdict {
        oldest: (_, oldest, since_ms),
        newest: (_, newest),
        versions,
        unhashed,
        archived,
        condensed,
        segments,
        reused_segments,
        anchor,
        head,
        anchored,
        faults,
        unread: _,
    } = verdict;
    let faults: Vec<Value> = faults.iter().map(fault_json).collect();
    let anchored: Vec<Value> = anchored.iter().map(anchored_json).collect();
    let mut line = json!({
        "schema": SCHEMA,
        "zone": zone.to_string(),
        "good": faults.is_empty(),
        "versions": versions,
        "unhashed": unhashed,
        "archived": archived,
        "condensed": condensed,
        "segments": segments,
        "oldest": oldest.map(dns::Serial::encode),
        "since": TimeText(*since_ms).to_string(),
        "sinceMs": since_ms,
        "newest": newest.encode(),
        "before": anchor.to_string(),
        "hash": head.map(|hash| hash.to_string()),
        "anchored": anchored,
        "faults": faults,
    });
    if older > 0 {
        line["olderNotes"] = older.into();
    }
    if *reused_segments > 0 {
        line["segmentsNotReadAgain"] = (*reused_segments).into();
    }
    line
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

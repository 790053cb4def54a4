//! `log`: versions, newest first, with their changes and causes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet, VecDeque};
use std::io;

use dns::{Name, RecordText, RrList, RrRef, Rtype, Serial, Soa};
use provenance::{Cause, FactKey, Kind, ObjectKey, Verb, is_subdomain};
use serde_json::{Value, json};
use zone::Step;
use zone::journal::{Act, Acts, Archived, KeptCorefile, Topic};

use crate::act;
use crate::doubts::{Absence, LOST};
use crate::error::{AuditError, Output, SCHEMA};
use crate::moment::TimeText;
use crate::old_part::condensed_json;
use crate::past::{Past, begins, last_version};
use crate::printable::printable;
use crate::remark::Remark;
use crate::set_back::SetBack;

/// The most objects in the text of a version.
const CAUSES_SHOWN: usize = 5;
/// The most records in a version's JSON. For a larger version, the number of omitted records is given.
const RECORDS_SHOWN: usize = 10_000;
/// How many versions the index names at once.
const FOUND_AT_ONCE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Filter {
    /// In milliseconds since 1970 UTC.
    pub(super) since_ms: Option<u64>,
    pub(super) until_ms: Option<u64>,
    /// Only versions that changed a record at this name.
    pub(super) name: Option<Name>,
    /// Only versions with this object among their causes.
    pub(super) object: Option<FactKey>,
    /// No more than this many versions.
    pub(super) count: Option<u64>,
}

/// Parses `KIND/NAMESPACE/NAME`, or `KIND/NAME` for objects without a namespace.
pub(super) fn parse_object(text: &str) -> Result<FactKey, AuditError> {
    let wrong = |why: String| AuditError::Object {
        text: text.to_owned(),
        why,
    };
    let mut parts = text.split('/');
    let word = parts.next().unwrap_or_default();
    let Some(kind) = Kind::named(word) else {
        let kinds: Vec<&str> = Kind::ALL.into_iter().map(Kind::as_str).collect();
        return Err(wrong(format!(
            "\"{word}\" is none of the kinds that records come from: {}",
            kinds.join(", ")
        )));
    };
    let key: Vec<&str> = parts.collect();
    let (namespace, name) = match (kind.has_namespace(), &key[..]) {
        (true, [namespace, name]) if !namespace.is_empty() => (*namespace, *name),
        (false, [name]) => ("", *name),
        (true, _) => return Err(wrong(format!("write {kind}/NAMESPACE/NAME"))),
        (false, _) => return Err(wrong(format!("write {kind}/NAME"))),
    };
    if name.is_empty() {
        return Err(wrong("its name is missing".to_owned()));
    }
    for part in [namespace, name] {
        if !part.is_empty() && !is_subdomain(part) {
            return Err(wrong(format!(
                "no object can be named \"{part}\": names have at most 253 small letters, digits, - and . (RFC 1123)"
            )));
        }
    }
    Ok(kind.of(&ObjectKey::new(namespace, name)))
}

impl Filter {
    /// The topic that finds these versions in the index.
    pub(super) fn topic(&self) -> Option<Topic> {
        let by_object = || {
            let FactKey { kind, key } = self.object.as_ref()?;
            Some(Topic::object(Some(*kind), key))
        };
        self.name.as_ref().map(Topic::name).or_else(by_object)
    }

    /// Whether only versions with certain changes are selected.
    pub(super) const fn is_of_changes(&self) -> bool {
        self.name.is_some() || self.object.is_some()
    }

    /// The acts of a zone that are selected, oldest first: none if only versions with certain changes are. With the
    /// faults of the others, and the oldest act if older ones that could have been selected are not there.
    fn acts_of(&self, past: &dyn Past, zone: &Name) -> Result<ActsFound, AuditError> {
        let is_of_time = |act: &Act| {
            self.since_ms.is_none_or(|since| since <= act.time_ms)
                && self.until_ms.is_none_or(|until| act.time_ms <= until)
        };
        // What is lost was published between the version before and the one that tells of it.
        let is_loss_of_time = |act: &Act| {
            let is_early = |until: u64| {
                let before = act.seq.and_then(|seq| seq.checked_sub(1));
                let before = before.and_then(|before| past.moment(zone, before).ok());
                before.is_none_or(|(_, time_ms)| time_ms <= until)
            };
            act.what == LOST
                && self.since_ms.is_none_or(|since| since <= act.time_ms)
                && self.until_ms.is_none_or(is_early)
        };
        let Acts { mut all, faults } = past.acts(zone, 0)?;
        let is_cut = |oldest: &&Act| {
            let is_before = |since: u64| since < oldest.time_ms;
            oldest.number > 1 && self.since_ms.is_none_or(is_before)
        };
        if self.is_of_changes() {
            let is_later = |to_ms: u64| self.since_ms.is_none_or(|since| since < to_ms);
            let absences = Absence::all(&all).filter(|absence| {
                absence.to_ms.is_none_or(is_later)
                    && self.until_ms.is_none_or(|until| absence.from_ms <= until)
            });
            let absences = absences.collect();
            all.retain(|act| is_loss_of_time(act));
            return Ok(ActsFound {
                lost: all,
                absences,
                ..ActsFound::default()
            });
        }
        let oldest = all.first().filter(is_cut).cloned();
        let lost = all
            .iter()
            .filter(|act| is_loss_of_time(act) && !is_of_time(act));
        let lost = lost.cloned().collect();
        all.retain(is_of_time);
        Ok(ActsFound {
            all,
            faults,
            oldest,
            lost,
            ..ActsFound::default()
        })
    }

    /// Whether versions of an object are selected, and another Corefile came into use in the time, or it is not known.
    fn is_reconfigured(&self, past: &dyn Past) -> Result<bool, AuditError> {
        if self.object.is_none() {
            return Ok(false);
        }
        let mut later = past.corefiles()?.into_iter().skip(1);
        Ok(later.any(|corefile| {
            corefile.is_none_or(|KeptCorefile { since_ms, .. }| {
                self.since_ms.is_none_or(|since| since <= since_ms)
                    && self.until_ms.is_none_or(|until| since_ms <= until)
            })
        }))
    }

    /// Whether a step is selected, ignoring its time.
    pub(super) fn fits(&self, step: &Step) -> bool {
        let by_name = self.name.as_ref().is_none_or(|name| {
            let at = |list: &RrList| {
                list.iter()
                    .any(|rr| rr.owner.eq_ignore_ascii_case(name.as_wire()))
            };
            at(&step.added) || at(&step.removed)
        });
        let by_object = self.object.as_ref().is_none_or(|FactKey { kind, key }| {
            let is_it = |cause: &Cause| cause.kind == Some(*kind) && cause.key == *key;
            step.causes.iter().flatten().any(is_it)
        });
        by_name && by_object
    }
}

/// Writes the selected versions of all zones, the newest first. Says where the history begins if older versions could
/// have been selected.
///
/// # Errors
/// [`AuditError::NoneKept`] when none is selected, and older ones could have been.
pub(super) fn write(
    past: &dyn Past,
    zones: &[Name],
    filter: &Filter,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    if let (Some(since), Some(until)) = (filter.since_ms, filter.until_ms)
        && until < since
    {
        let (since, until) = (TimeText(since), TimeText(until));
        return Err(AuditError::EmptyRange { since, until });
    }
    let is_reconfigured = filter.is_reconfigured(past)?;
    let mut tracks = Vec::new();
    for zone in zones {
        if let Some(kept) = past.range(zone) {
            let track = Track::new(past, zone, kept, filter)?;
            tracks.push(Track {
                is_reconfigured,
                ..track
            });
        }
    }
    if tracks.is_empty() {
        return Err(AuditError::NothingStored);
    }
    // By time, then in the order of zones. Those of a zone are in their own order.
    let mut next = BinaryHeap::new();
    for (place, track) in tracks.iter_mut().enumerate() {
        let entry = track.next(past, filter)?;
        next.extend(entry.map(|(time, entry)| (time, Reverse(place), entry)));
    }
    let mut written = 0;
    while let Some((_, Reverse(place), entry)) = next.pop() {
        if filter.count.is_some_and(|count| written >= count) {
            return write_remarks(&tracks, filter, output, out);
        }
        let track = &mut tracks[place];
        let seq = match entry {
            LogEntry::Version(seq) => seq,
            LogEntry::Act(act) => {
                act::write(track.zone, &act, output, out)?;
                written += 1;
                let entry = track.next(past, filter)?;
                next.extend(entry.map(|(time, entry)| (time, Reverse(place), entry)));
                continue;
            }
        };
        let version = (seq, track.older.get(&seq));
        let is_gone = || !past.archived(track.zone).iter().any(|it| it.seq == seq);
        match write_version(past, track.zone, version, filter, output, out) {
            Ok(is_written) => written += u64::from(is_written),
            // It was condensed with later ones meanwhile.
            Err(_) if version.1.is_some() && is_gone() => {}
            Err(error) => return Err(error),
        }
        track.handled = seq;
        let entry = track.next(past, filter)?;
        next.extend(entry.map(|(time, entry)| (time, Reverse(place), entry)));
    }
    write_ends(past, &tracks, (filter, written), output, out)
}

/// Writes what is to be said after so many entries: where nothing is found, what is condensed, where the history begins.
fn write_ends(
    past: &dyn Past,
    tracks: &[Track<'_>],
    (filter, written): (&Filter, u64),
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let cut: Vec<&Track<'_>> = tracks.iter().filter(|track| track.is_cut).collect();
    if written == 0 {
        let mut unknown = Vec::new();
        for track in &cut {
            let begins = begins(past, track.zone)?;
            unknown.push(format!("the history of {} begins at {begins}", track.zone));
        }
        let remarks = tracks.iter().flat_map(|track| track.unknown(filter));
        unknown.extend(remarks.map(|remark| remark.text));
        if !unknown.is_empty() {
            return Err(AuditError::NoneKept(unknown.join("; ")));
        }
    }
    if written == 0 {
        for track in tracks {
            track.write_nothing_found(past, output, out)?;
        }
    }
    write_remarks(tracks, filter, output, out)?;
    for track in tracks {
        if let Some(oldest) = &track.acts.oldest {
            Remark::older_acts(track.zone, oldest).write(track.zone, output, out)?;
        }
    }
    for track in cut {
        track.write_beginning(past, output, out)?;
    }
    Ok(())
}

/// Writes what the versions and acts that were looked at do not say.
fn write_remarks(
    tracks: &[Track<'_>],
    filter: &Filter,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    for track in tracks {
        for remark in track.remarks(filter) {
            remark.write(track.zone, output, out)?;
        }
    }
    Ok(())
}

/// What is to be said of the begin and the end of the time that is asked for, where the clock was set back.
fn set_back(
    past: &dyn Past,
    zone: &Name,
    (oldest, newest): (u64, u64),
    filter: &Filter,
) -> Result<BTreeSet<String>, AuditError> {
    let mut said = BTreeSet::new();
    for time_ms in [filter.since_ms, filter.until_ms].into_iter().flatten() {
        let seq = last_version(past, zone, (oldest, newest), &|(_, it)| it <= time_ms)?;
        let found = match seq < oldest {
            true => SetBack::before_all(past, zone, time_ms)?,
            false => SetBack::find(past, zone, seq, time_ms)?,
        };
        said.extend(found.map(|it| it.text()));
    }
    Ok(said)
}

/// The acts of a zone that are selected.
#[derive(Debug, Default)]
struct ActsFound {
    /// Oldest first.
    all: Vec<Act>,
    /// What is wrong with the others.
    faults: Vec<String>,
    /// The oldest act that is kept, if it is not the first one and older ones could have been selected.
    oldest: Option<Act>,
    /// Losses among the versions that were searched, where these acts are not selected.
    lost: Vec<Act>,
    /// Times in which the server did not have the zone, where acts are not selected.
    absences: Vec<Absence>,
}

/// An entry of the log.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LogEntry {
    /// The number of a version.
    Version(u64),
    Act(Box<Act>),
}

/// The versions and acts of one zone that may be selected.
struct Track<'a> {
    zone: &'a Name,
    /// The oldest kept version, and the oldest and the newest one of the time.
    oldest: u64,
    first: u64,
    last: u64,
    /// Whether versions that are not kept may be selected.
    is_cut: bool,
    /// Those that the index named, newest first.
    found: VecDeque<u64>,
    /// All versions from here on are written or in `found`.
    searched: u64,
    /// The older versions of the time that are not in the history any more, by number.
    older: BTreeMap<u64, Archived>,
    /// All older versions from here on are written.
    older_below: u64,
    /// The version that comes before those of the time in the old part of the history.
    before: Option<u64>,
    /// All versions of the time from here on are written, or do not match.
    handled: u64,
    /// What was done to the zone, newest last.
    acts: ActsFound,
    /// The time and the number of the next version, if it is known.
    upcoming: Option<(u64, u64)>,
    /// The time of the newest version of all, if the clock has not reached it.
    ahead_ms: Option<u64>,
    /// What is to be said of the begin and the end of the time.
    set_back: BTreeSet<String>,
    /// Which versions after the newest one may be lost, if they may be of the time.
    doubt: Option<String>,
    /// Whether another Corefile came into use in the time.
    is_reconfigured: bool,
}

impl<'a> Track<'a> {
    fn new(
        past: &dyn Past,
        zone: &'a Name,
        kept: (u64, u64),
        filter: &Filter,
    ) -> Result<Self, AuditError> {
        let (oldest, newest) = kept;
        let archived = past.archived(zone);
        let (oldest_seq, oldest_ms) = match archived.first() {
            Some(entry) => (entry.first, entry.first_ms),
            None => (oldest, past.moment(zone, oldest)?.1),
        };
        let is_of_time = |entry: &Archived| {
            filter.since_ms.is_none_or(|since| since <= entry.time_ms)
                && filter.until_ms.is_none_or(|until| entry.first_ms <= until)
        };
        let is_before =
            |entry: &&Archived| filter.since_ms.is_some_and(|since| entry.time_ms < since);
        let before = archived.iter().rfind(is_before).map(|entry| entry.seq);
        let older = archived.into_iter().filter(is_of_time);
        let older = older.map(|entry| (entry.seq, entry)).collect();
        let (mut first, mut last) = (oldest, newest);
        if let Some(since) = filter.since_ms {
            first = last_version(past, zone, kept, &|(_, time_ms)| time_ms < since)? + 1;
        }
        if let Some(until) = filter.until_ms {
            last = last_version(past, zone, kept, &|(_, time_ms)| time_ms <= until)?;
        }
        let (_, newest_ms) = past.moment(zone, newest)?;
        Ok(Self {
            zone,
            oldest,
            first,
            last,
            is_cut: filter
                .since_ms
                .map_or(oldest_seq > 1, |since| since < oldest_ms)
                || filter.until_ms.is_some_and(|until| until < oldest_ms),
            found: VecDeque::new(),
            searched: last + 1,
            older,
            older_below: oldest,
            before,
            handled: u64::MAX,
            acts: filter.acts_of(past, zone)?,
            upcoming: None,
            ahead_ms: Some(newest_ms).filter(|time_ms| past.now_ms() < *time_ms),
            set_back: set_back(past, zone, kept, filter)?,
            doubt: past.doubt(zone).filter(|_| {
                let is_later = |until: u64| newest_ms <= until;
                filter.until_ms.is_none_or(is_later)
            }),
            is_reconfigured: false,
        })
    }

    /// The time of the next entry, and the entry. An act comes before the version that was served then.
    fn next(
        &mut self,
        past: &dyn Past,
        filter: &Filter,
    ) -> Result<Option<(u64, LogEntry)>, AuditError> {
        if self.upcoming.is_none() {
            self.upcoming = self.next_version(past, filter)?;
        }
        let is_next = |act: &Act| match (self.upcoming, act.seq) {
            (None, _) => true,
            (Some((_, seq)), Some(served)) => seq <= served,
            (Some((time_ms, _)), None) => time_ms <= act.time_ms,
        };
        if self.acts.all.last().is_some_and(is_next)
            && let Some(act) = self.acts.all.pop()
        {
            return Ok(Some((act.time_ms, LogEntry::Act(Box::new(act)))));
        }
        let version = self.upcoming.take();
        Ok(version.map(|(time_ms, seq)| (time_ms, LogEntry::Version(seq))))
    }

    /// The time and the number of the next version.
    fn next_version(
        &mut self,
        past: &dyn Past,
        filter: &Filter,
    ) -> Result<Option<(u64, u64)>, AuditError> {
        if self.found.is_empty() && self.first < self.searched {
            self.search(past, filter)?;
        }
        let Some(seq) = self.found.pop_front() else {
            let next = self.older.range(..self.older_below).next_back();
            return Ok(next.map(|(seq, entry)| {
                self.older_below = *seq;
                (entry.time_ms, *seq)
            }));
        };
        let (_, time_ms) = past.moment(self.zone, seq)?;
        Ok(Some((time_ms, seq)))
    }

    /// Asks the index for more versions.
    fn search(&mut self, past: &dyn Past, filter: &Filter) -> Result<(), AuditError> {
        let Some(topic) = filter.topic() else {
            self.searched -= 1;
            self.found.push_back(self.searched);
            return Ok(());
        };
        let found = &mut self.found;
        past.find(
            self.zone,
            topic,
            self.first..=self.searched - 1,
            &mut |seq| {
                found.push_back(seq);
                Ok(found.len() < FOUND_AT_ONCE)
            },
        )?;
        let is_more = self.found.len() >= FOUND_AT_ONCE;
        self.searched = match self.found.back() {
            Some(last) if is_more => *last,
            _ => self.first,
        };
        Ok(())
    }

    /// The entries of the old part of the history that were looked at.
    fn looked_at(&self) -> impl Iterator<Item = &Archived> {
        self.older.range(self.handled..).map(|(_, entry)| entry)
    }

    /// What may be missing: what could not be searched, what was undone within condensed versions, and what may be lost.
    fn unknown(&self, filter: &Filter) -> Vec<Remark> {
        let mut unknown = Vec::new();
        if filter.is_of_changes() {
            unknown.extend(Remark::unsearched(self.zone, self.looked_at()));
            unknown.extend(Remark::condensed(self.zone, self.looked_at()));
        }
        let lost = self.acts.lost.iter();
        unknown.extend(lost.map(|act| Remark::lost(self.zone, act)));
        let doubt = self.doubt.as_deref();
        unknown.extend(doubt.map(|what| Remark::lost_at_end(self.zone, what)));
        unknown
    }

    /// What the versions and acts that were looked at do not say.
    fn remarks(&self, filter: &Filter) -> Vec<Remark> {
        let mut remarks = self.unknown(filter);
        if { filter.name.as_ref() }.is_some_and(|name| name == self.zone) {
            remarks.push(Remark::soa(self.zone));
        }
        let absences = self.acts.absences.iter();
        remarks.extend(absences.map(|absence| Remark::not_served(self.zone, absence)));
        if self.is_reconfigured {
            remarks.push(Remark::configured(self.zone));
        }
        let ahead = self.ahead_ms;
        remarks.extend(ahead.map(|time_ms| Remark::clock(self.zone, time_ms)));
        remarks.extend(self.set_back.iter().cloned().map(Remark::set_back));
        let faults = self.acts.faults.iter();
        remarks.extend(faults.map(|fault| Remark::act_fault(self.zone, fault)));
        remarks
    }

    /// The first and the last version that were searched. Where no version is of the time, it is the one before, which
    /// was current.
    fn searched_versions(&self) -> (u64, u64) {
        let of_time = self.older.keys();
        let (first, last) = (of_time.clone().next(), of_time.clone().next_back());
        let current = last.copied().or(self.before);
        let last = match current {
            Some(current) if self.last < self.oldest => current,
            Some(_) | None => self.last.max(self.oldest),
        };
        let first = first.copied();
        (first.unwrap_or(self.first.min(last)), last)
    }

    /// Writes which versions were searched, when none was selected.
    fn write_nothing_found(
        &self,
        past: &dyn Past,
        output: Output,
        out: &mut dyn io::Write,
    ) -> Result<(), AuditError> {
        let zone = self.zone;
        let (first, last) = self.searched_versions();
        let (from, to) = (
            past.moment(zone, first)?,
            past.step_of(zone, last, zone)?.step,
        );
        let link = to.link.as_ref();
        match output {
            Output::Text => {
                let hash = link.map(|link| format!(", hash {}", link.hash));
                writeln!(
                    out,
                    "; no version of {zone} matches, from serial {} of {} to serial {} of {}{}",
                    from.0,
                    TimeText(from.1),
                    to.serial,
                    TimeText(to.time_ms),
                    hash.unwrap_or_default()
                )?;
            }
            Output::Json => {
                let line = json!({
                    "schema": SCHEMA,
                    "type": "none",
                    "zone": zone.to_string(),
                    "from": {
                        "serial": from.0.encode(),
                        "time": TimeText(from.1).to_string(),
                        "timeMs": from.1,
                    },
                    "to": {
                        "serial": to.serial.encode(),
                        "time": TimeText(to.time_ms).to_string(),
                        "timeMs": to.time_ms,
                        "hash": link.map(|link| link.hash.to_string()),
                    },
                });
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    /// Writes where the history begins.
    fn write_beginning(
        &self,
        past: &dyn Past,
        output: Output,
        out: &mut dyn io::Write,
    ) -> Result<(), AuditError> {
        let zone = self.zone;
        match output {
            Output::Text => {
                writeln!(
                    out,
                    "; the history of {zone} begins at {}",
                    begins(past, zone)?
                )?;
            }
            Output::Json => {
                let archived = past.archived(zone);
                let entry = archived.first();
                let (serial, time_ms) = match entry {
                    Some(entry) => (entry.serial, entry.time_ms),
                    None => past.moment(zone, self.oldest)?,
                };
                let mut line = json!({
                    "schema": SCHEMA,
                    "type": "begins",
                    "zone": zone.to_string(),
                    "serial": serial.encode(),
                    "time": TimeText(time_ms).to_string(),
                    "timeMs": time_ms,
                });
                if let Some(entry) = entry.filter(|entry| !entry.is_whole()) {
                    line["condensed"] = condensed_json(entry);
                }
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }
}

/// Writes a version if it is selected, ignoring its time. Returns whether it was. An older one comes with its entry.
pub(super) fn write_version(
    past: &dyn Past,
    zone: &Name,
    (seq, older): (u64, Option<&Archived>),
    filter: &Filter,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<bool, AuditError> {
    let name = filter.name.as_ref();
    if let (Some(name), None, Output::Text) = (name, &filter.object, output) {
        let part = past.step_of(zone, seq, name)?;
        let is_wanted = filter.fits(&part.step);
        if is_wanted {
            write_text(
                zone,
                (&part.step, part.added, part.removed),
                Some(name),
                out,
            )?;
            write_condensed(older, out)?;
        }
        return Ok(is_wanted);
    }
    let step = past.step(zone, seq)?;
    let is_wanted = filter.fits(&step);
    if is_wanted {
        match output {
            Output::Text => {
                let counts = (&*step, step.added.len(), step.removed.len());
                write_text(zone, counts, name, out)?;
                write_condensed(older, out)?;
            }
            Output::Json => {
                let condensed = older.filter(|entry| !entry.is_whole());
                writeln!(out, "{}", version_json(zone, &step, condensed))?;
            }
        }
    }
    Ok(is_wanted)
}

/// Writes how many versions an entry stands for, unless it is one that is whole.
fn write_condensed(older: Option<&Archived>, out: &mut dyn io::Write) -> io::Result<()> {
    let Some(entry) = older.filter(|entry| !entry.is_whole()) else {
        return Ok(());
    };
    let share = { entry.share.as_ref() }.map_or_else(String::new, |share| format!(" of {share}"));
    let dropped = match entry.has_records {
        true => "",
        false => "; their records were dropped",
    };
    match entry.versions() {
        1 => writeln!(out, "    ; a version{share}{dropped}"),
        versions => {
            let first = TimeText(entry.first_ms);
            writeln!(
                out,
                "    ; {versions} versions{share} condensed, the first of {first}{dropped}"
            )
        }
    }
}

/// Writes one version as text, with the number of removed and added records.
fn write_text(
    zone: &Name,
    (step, added, removed): (&Step, usize, usize),
    name: Option<&Name>,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    // With a name, its own records follow.
    let whole = name.map_or("", |_| " in the whole version");
    writeln!(
        out,
        "{zone} {} {} +{added} -{removed}{whole} ({} records)",
        step.serial,
        TimeText(step.time_ms),
        step.records
    )?;
    let is_shown =
        |rr: &RrRef<'_>| name.is_some_and(|name| rr.owner.eq_ignore_ascii_case(name.as_wire()));
    let records = || step.removed.iter().chain(&step.added);
    let shown: BTreeSet<u32> = records().filter(is_shown).map(|rr| rr.tag).collect();
    let named: BTreeSet<u32> = records().map(|rr| rr.tag).collect();
    // Causes that no record names belong to the whole version, and so to all its records.
    let is_of_version =
        |tag: &u32, group: &[Cause]| !named.contains(tag) && group.iter().all(Cause::is_of_version);
    let groups = (0..).zip(&step.causes);
    let groups = groups
        .filter(|(tag, group)| name.is_none() || shown.contains(tag) || is_of_version(tag, group));
    let mut known = HashSet::new();
    let causes = groups.flat_map(|(_, group)| group);
    let (people, objects): (Vec<&Cause>, Vec<&Cause>) = causes
        .filter(|cause| known.insert(*cause))
        .partition(|cause| cause.is_of_version());
    // What people did comes first, and all of it.
    for cause in people.iter().chain(objects.iter().take(CAUSES_SHOWN)) {
        writeln!(out, "    {}", cause_text(cause))?;
    }
    if let more @ 1.. = objects.len().saturating_sub(CAUSES_SHOWN) {
        writeln!(out, "    and {more} more: --output json lists all")?;
    }
    if name.is_some() {
        for (sign, list) in [('-', &step.removed), ('+', &step.added)] {
            for rr in list.iter().filter(is_shown) {
                writeln!(out, "    {sign} {}", RecordText(rr))?;
            }
        }
    }
    Ok(())
}

pub(super) fn cause_text(cause: &Cause) -> String {
    let Cause {
        verb,
        kind,
        key,
        origin,
    } = cause;
    let mut text = match kind {
        Some(kind) => format!("{} {kind} {key}", verb.as_str()),
        None => match verb {
            Verb::RolledBack => format!("rolled back to {key}"),
            Verb::Resumed => format!("resumed after {key}"),
            Verb::Applied
            | Verb::Deleted
            | Verb::Listed
            | Verb::Vanished
            | Verb::Configured
            | Verb::Restored => format!("{} from {key}", verb.as_str()),
        },
    };
    let mut known = Vec::new();
    if !origin.place.is_empty() {
        known.push(origin.place.to_string());
    }
    if !origin.uid.is_empty() {
        known.push(format!("uid {}", origin.uid));
    }
    if !origin.resource_version.is_empty() {
        // Only keys of etcd have a revision and no kind.
        let word = kind.map_or("revision", |_| "resourceVersion");
        known.push(format!("{word} {}", origin.resource_version));
    }
    if !origin.manager.is_empty() {
        let done = match &*origin.operation {
            "" => String::new(),
            operation => format!(", {operation}"),
        };
        let by = if verb.ends_object() {
            "last changed by"
        } else {
            "by"
        };
        known.push(format!("{by} {}{done}", origin.manager));
    }
    if !known.is_empty() {
        text.push_str(&format!(" ({})", known.join(", ")));
    }
    printable(&text).into_owned()
}

/// A cause. Nobody knows who deleted an object, as `managedFields` ends with the last change before: `lastManager`.
pub(super) fn cause_json(cause: &Cause) -> Value {
    let mut json = hashed_cause_json(cause);
    let (manager, last_manager) = match cause.verb.ends_object() {
        true => ("", &*cause.origin.manager),
        false => (&*cause.origin.manager, ""),
    };
    json["manager"] = manager.into();
    json["lastManager"] = last_manager.into();
    json
}

/// A cause with the fields of which the hash of a version is made.
pub(super) fn hashed_cause_json(cause: &Cause) -> Value {
    let Cause {
        verb,
        kind,
        key,
        origin,
    } = cause;
    json!({
        "verb": verb.as_str(),
        "kind": kind.map(Kind::as_str),
        "namespace": &*key.namespace,
        "name": &*key.name,
        "uid": &*origin.uid,
        "resourceVersion": &*origin.resource_version,
        "manager": &*origin.manager,
        "operation": &*origin.operation,
        "place": &*origin.place,
    })
}

/// A version; `condensed` is the entry of several that it stands for.
pub(super) fn version_json(zone: &Name, step: &Step, condensed: Option<&Archived>) -> Value {
    let records = |list: &RrList| -> Vec<Value> {
        let record =
            |rr: RrRef<'_>| json!({ "record": RecordText(rr).to_string(), "cause": rr.tag });
        list.iter().take(RECORDS_SHOWN).map(record).collect()
    };
    let causes: Vec<Vec<Value>> = step
        .causes
        .iter()
        .map(|group| group.iter().map(cause_json).collect())
        .collect();
    let mut version = json!({
        "schema": SCHEMA,
        "zone": zone.to_string(),
        "serial": step.serial.encode(),
        "previous": step.from.as_ref().map(|(serial, _)| serial.encode()),
        "time": TimeText(step.time_ms).to_string(),
        "timeMs": step.time_ms,
        "records": step.records,
        "hash": step.link.map(|link| link.hash.to_string()),
        "contentHash": step.link.map(|link| link.content.to_string()),
        "addedCount": step.added.len(),
        "removedCount": step.removed.len(),
        "causes": causes,
        "added": records(&step.added),
        "removed": records(&step.removed),
    });
    // The serial alone is in each version already.
    if let Some((serial, soa)) = step.from.as_ref().filter(|(_, soa)| *soa != step.soa) {
        version["fromSoa"] = soa_text(zone, soa, *serial).into();
        version["toSoa"] = soa_text(zone, &step.soa, step.serial).into();
    }
    if let Some(entry) = condensed {
        version["condensed"] = condensed_json(entry);
    }
    version
}

/// The SOA record of a version.
pub(super) fn soa_text(zone: &Name, soa: &Soa, serial: Serial) -> String {
    let data = soa.rdata(serial);
    let rr = RrRef {
        owner: zone.as_wire(),
        rtype: Rtype::SOA,
        ttl: soa.ttl,
        data: data.as_octets(),
        tag: 0,
    };
    RecordText(rr).to_string()
}

//! Checks an exported history: each line is written again from its values and compared, each version is hashed and
//! applied to the records before it, and the versions must follow each other.
//!
//! The check costs what the store's `verify` costs. Memory is needed for the zone and for the longest line, which has a
//! limit: the file may be anybody's.

use std::io::{self, BufRead, Read};

use dns::{Name, RrList, Serial};
use zone::chain::{Before, Checked};
use zone::journal::{Anchored, Damage, Fault, Lost, Verdict};
use zone::{ContentTree, Contents, Hash, Step};

use crate::evidence::version_line::{Line, ZoneLine};
use crate::export::{FORM, record_line, version_json, zone_line};

/// The most faults that are reported.
const FAULTS_KEPT: usize = 100;
/// The most bytes of a line: several times the first version of a zone with a million records.
const LINE_OCTETS: u64 = 1 << 30;

/// The result of checking an exported history.
#[derive(Debug, Clone)]
pub struct FileVerdict {
    /// The zone; `None` when the file does not say it.
    pub zone: Option<Name>,
    /// The result.
    pub verdict: Verdict,
    /// The time of the newest version, milliseconds since 1970 UTC.
    pub newest_ms: u64,
    /// Whether the manifest beside the file lists it; `None` without one. [`check_history`] does not look for it.
    pub is_named: Option<bool>,
}

/// Checks an exported history, and finds the versions with these hashes. Damage is no error.
///
/// # Errors
/// When the file cannot be read.
pub fn check_history(input: &mut dyn BufRead, anchors: &[Hash]) -> io::Result<FileVerdict> {
    check_lines(input, anchors, LINE_OCTETS)
}

/// The same with lines of at most this many bytes.
pub(crate) fn check_lines(
    input: &mut dyn BufRead,
    anchors: &[Hash],
    most: u64,
) -> io::Result<FileVerdict> {
    let mut walk = Walk::new(anchors);
    let mut text = Vec::new();
    loop {
        text.clear();
        // The borrow keeps the rest of the input for the next line.
        let octets = (&mut *input).take(most).read_until(b'\n', &mut text)?;
        if octets == 0 {
            return Ok(walk.finish());
        }
        walk.line += 1;
        let is_cut = u64::try_from(octets) == Ok(most) && text.last() != Some(&b'\n');
        if is_cut && input.skip_until(b'\n')? > 0 {
            walk.too_long(most);
        } else {
            walk.take_in(&text);
        }
    }
}

/// A file that is being checked.
struct Walk<'a> {
    anchors: &'a [Hash],
    /// The number of the line.
    line: u64,
    zone: Option<Name>,
    head: Option<ZoneLine>,
    /// The records from before the oldest version.
    start: RrList,
    /// The contents at the current version; `None` when they are not known.
    contents: Option<(Contents, ContentTree)>,
    before: Option<Before>,
    faults: Vec<Fault>,
    verdict: Verdict,
    newest_ms: u64,
}

impl<'a> Walk<'a> {
    fn new(anchors: &'a [Hash]) -> Self {
        Self {
            anchors,
            line: 0,
            zone: None,
            head: None,
            start: RrList::default(),
            contents: None,
            before: None,
            faults: Vec::new(),
            verdict: Verdict::unread(0, (0, Serial::decode(0))),
            newest_ms: 0,
        }
    }

    fn fault(&mut self, of: Option<&Step>, damage: Damage, what: &str) {
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push(Fault {
                seq: of.map_or(0, |step| step.seq),
                serial: of.map(|step| step.serial.encode()),
                damage,
                what: format!("line {}: {what}", self.line),
            });
        }
    }

    /// Leaves out a line of more than `most` bytes.
    fn too_long(&mut self, most: u64) {
        let what = format!("it is longer than {most} bytes, the longest line that is read");
        self.fault(None, Damage::Changed, &what);
        self.forget();
    }

    fn take_in(&mut self, text: &[u8]) {
        let line = Line::parse(text);
        let Some(bare) = text.strip_suffix(b"\n") else {
            self.fault(None, Damage::Changed, "it does not end as it was written");
            return self.forget();
        };
        match line {
            None => {
                self.fault(None, Damage::Changed, "it is no line of a history");
                self.forget();
            }
            Some(Line::Zone(head)) => self.zone_line(head, bare),
            Some(Line::Record(record)) => {
                let mut one = RrList::default();
                let is_read = record.push(&mut one).is_some();
                let same = one
                    .iter()
                    .next()
                    .is_some_and(|rr| record_line(rr).as_bytes() == bare);
                if !is_read || !same {
                    self.fault(None, Damage::Changed, "the record is not as it was written");
                } else if self.verdict.versions > 0 || self.head.is_none() {
                    self.fault(None, Damage::Chain, "a record is not before the versions");
                }
                self.start = std::mem::take(&mut self.start).and(&one);
            }
            Some(Line::Version(version)) => match (version.step(), self.zone.clone()) {
                (Some(step), Some(zone)) => self.version(&zone, step, bare),
                (Some(_), None) => {
                    self.fault(None, Damage::Lost, "the line of the zone is missing")
                }
                (None, _) => {
                    self.fault(None, Damage::Changed, "a value of the version is malformed");
                    self.forget();
                }
            },
        }
    }

    /// Continues without what was known before: it is unknown which part of it a damaged line changed.
    fn forget(&mut self) {
        self.before = None;
        self.contents = None;
    }

    fn zone_line(&mut self, head: ZoneLine, bare: &[u8]) {
        let zone = Name::parse(&head.zone).ok().map(|zone| zone.to_lower());
        let (after, count) = (head.after, head.records_before);
        if head.form != FORM {
            let what = format!(
                "its form is \"{}\", this program reads \"{FORM}\"",
                head.form
            );
            self.fault(None, Damage::Changed, &what);
        }
        let again = zone.as_ref().map(|zone| zone_line(zone, after, count));
        if again.is_none_or(|again| again.as_bytes() != bare) {
            self.fault(
                None,
                Damage::Changed,
                "the line of the zone is not as it was written",
            );
        }
        if self.line > 1 {
            self.fault(None, Damage::Chain, "a history begins within another one");
        }
        self.zone = zone;
        self.head = Some(head);
    }

    fn version(&mut self, zone: &Name, step: Step, bare: &[u8]) {
        let is_first = self.verdict.versions == 0;
        if is_first {
            self.begin(zone, &step);
            self.verdict.oldest = (step.seq, Some(step.serial), step.time_ms);
        }
        self.verdict.versions += 1;
        let last = self.before.take();
        let previous = step.seq.saturating_sub(1);
        let missing = last.as_ref().filter(|last| last.seq < previous);
        let missing = missing.map(|last| last.seq.saturating_add(1));
        let last = last.filter(|_| missing.is_none());
        let checked = Checked::of(&step, zone, last.as_ref());
        let is_own = checked.is_own();
        if is_own && version_json(zone, &step).to_string().as_bytes() != bare {
            let what = "it is not written as it was exported";
            self.fault(Some(&step), Damage::Changed, what);
        }
        if let Some(first) = missing {
            let what = format!("the versions {first} to {previous} are missing");
            self.fault(Some(&step), Damage::Lost, &what);
        }
        if let Some((damage, what)) = checked.fault {
            self.fault(Some(&step), damage, what);
        }
        for (damage, what) in step.causes.iter().flatten().filter_map(Lost::told_by) {
            self.fault(Some(&step), damage, &what);
        }
        if step.link.is_none() {
            self.verdict.unhashed += 1;
        }
        self.anchor(&step);
        self.apply(&step, is_own);
        self.verdict.newest = (step.seq, step.serial);
        self.verdict.head = step.link.map(|link| link.hash);
        self.newest_ms = step.time_ms;
        self.before = Some(checked.before);
    }

    /// Puts the records from before the oldest version together.
    fn begin(&mut self, zone: &Name, first: &Step) {
        let expected = self
            .head
            .as_ref()
            .map(|head| (head.after, head.records_before));
        let (after, records) = expected.unwrap_or_default();
        if after.checked_add(1) != Some(first.seq) {
            let what = format!(
                "the versions {} to {} are missing",
                after.saturating_add(1),
                first.seq.saturating_sub(1)
            );
            self.fault(Some(first), Damage::Lost, &what);
        }
        let count = self.start.len() as u64;
        if count != records {
            let what = format!("{count} records are before the oldest version, not {records}");
            let damage = if count < records {
                Damage::Lost
            } else {
                Damage::Chain
            };
            self.fault(Some(first), damage, &what);
        }
        let soa = first
            .from
            .as_ref()
            .map_or(&first.soa, |(_, soa)| soa)
            .clone();
        let added = std::mem::take(&mut self.start);
        let step = Step {
            seq: 0,
            time_ms: 0,
            from: None,
            serial: first.serial,
            soa: soa.clone(),
            removed: RrList::default(),
            added,
            causes: Vec::new(),
            records: 0,
            link: None,
        };
        match step.apply(&Contents::empty(zone, soa)) {
            Ok(contents) => {
                let tree = ContentTree::of(&contents);
                self.contents = Some((contents, tree));
            }
            Err(error) => self.fault(Some(first), Damage::Changed, &error.to_string()),
        }
    }

    fn anchor(&mut self, step: &Step) {
        let Some(link) = step.link else {
            return;
        };
        let is_first = self.verdict.versions == self.verdict.unhashed + 1;
        if is_first {
            self.verdict.anchor = link.previous;
        }
        if let Some((serial, _)) = step.from.as_ref().filter(|_| is_first)
            && self.anchors.contains(&link.previous)
        {
            self.verdict.anchored.push(Anchored {
                hash: link.previous,
                seq: step.seq.saturating_sub(1),
                serial: *serial,
            });
        }
        if self.anchors.contains(&link.hash) {
            self.verdict.anchored.push(Anchored {
                hash: link.hash,
                seq: step.seq,
                serial: step.serial,
            });
        }
    }

    /// Applies a version to the records before it, and checks the content.
    fn apply(&mut self, step: &Step, is_own: bool) {
        let Some((before, tree)) = self.contents.take() else {
            return;
        };
        let damage = if is_own {
            Damage::Chain
        } else {
            Damage::Changed
        };
        let contents = match step.apply(&before) {
            Ok(contents) => contents,
            Err(error) => return self.fault(Some(step), damage, &error.to_string()),
        };
        let tree = tree.updated(&contents, &step.touched(contents.apex()).collect());
        if contents.record_count() != step.records {
            let what = "it has another number of records than it says";
            self.fault(Some(step), damage, what);
        } else if step
            .link
            .is_some_and(|link| link.content != tree.content_hash(&contents))
        {
            let what = "its records do not have its content hash";
            self.fault(Some(step), Damage::Changed, what);
        }
        self.contents = Some((contents, tree));
    }

    fn finish(mut self) -> FileVerdict {
        if self.head.is_none() && self.faults.is_empty() {
            self.fault(None, Damage::Lost, "the line of the zone is missing");
        } else if self.verdict.versions == 0 && self.faults.is_empty() {
            self.fault(None, Damage::Lost, "the file ends before the first version");
        }
        self.verdict.faults = self.faults;
        FileVerdict {
            zone: self.zone,
            verdict: self.verdict,
            newest_ms: self.newest_ms,
            is_named: None,
        }
    }
}

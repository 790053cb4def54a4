//! A past made by hand, and how it is asked.

use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::sync::Arc;

use dns::{Name, Rdata, RrList, RrRef, Rtype, Serial, Soa, Ttl};
use provenance::{Cause, Kind, ObjectKey, Operator, Origin, Verb};
use writer::Waiting;
use zone::journal::{
    Act, Acts, Archived, KeptCorefile, PartVerdict, PartialStep, SegmentPart, SerialPlace, Topic,
    Verdict, find_serial,
};
use zone::{Contents, Hash, Net, Step};

use crate::{
    AuditError, Grounds, HistoryLine, Order, OrderText, Output, Past, Question, Request, Status,
    answer,
};

/// The time of the third version: 2026-11-21T14:00:02Z.
pub(super) const THIRD_MS: u64 = 1_795_269_602_000;

/// A past with one zone of three versions, a second apart: serials 100, 101 and 200. Where there are more zones, each
/// has them.
pub(super) struct Fake {
    pub(super) zones: Vec<Name>,
    pub(super) steps: Vec<Arc<Step>>,
    pub(super) status: Option<Status>,
    /// What going through the history gives.
    pub(super) verdict: Verdict,
    /// What was done to the zone, oldest first.
    pub(super) acts: Vec<Act>,
    /// What is wrong with other acts.
    pub(super) act_faults: Vec<String>,
    /// The old part of the history: its entries lead to the first of the steps.
    pub(super) archived: Vec<Archived>,
    /// The versions that were read, wholly or in part.
    pub(super) looked_at: RefCell<Vec<u64>>,
    /// How many versions the index named.
    pub(super) found: Cell<usize>,
    /// The operator of the last order, as it is recorded.
    pub(super) operator: RefCell<Option<String>>,
    pub(super) requires_reason: bool,
    /// What waits to be published, with a server.
    pub(super) waiting: Option<Waiting>,
    /// Which versions after the newest one may be lost.
    pub(super) doubt: Option<String>,
    /// The Corefiles that were in use.
    pub(super) corefiles: Vec<Option<KeptCorefile>>,
    /// The zones that lost all versions.
    pub(super) lost: Vec<Name>,
    /// The versions of an archive that cannot be reached.
    pub(super) away: Vec<u64>,
    /// The segments of an archive.
    pub(super) segments: Vec<SegmentPart>,
    /// By how many milliseconds the clock is ahead of the newest version; it was set back where this is negative.
    pub(super) clock_ahead_ms: i64,
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).expect("names of tests are good")
}

/// The SOA of the zone.
pub(super) fn soa() -> Soa {
    let ttl = Ttl::decode(5);
    Soa {
        mname: name("ns.z."),
        rname: name("mbox.z."),
        refresh: Ttl::decode(300),
        retry: Ttl::decode(30),
        expire: Ttl::decode(86400),
        minimum: ttl,
        ttl,
    }
}

/// A list of A records: owner, last octet, cause.
pub(super) fn list(records: &[(&str, u8, u32)]) -> RrList {
    let mut list = RrList::default();
    for (owner, octet, tag) in records {
        let owner = name(owner);
        let (rtype, data) = Rdata::address([192, 0, 2, *octet].into());
        list.push(RrRef {
            owner: owner.as_wire(),
            rtype,
            ttl: Ttl::decode(5),
            data: data.as_octets(),
            tag: *tag,
        });
    }
    list
}

/// A cause: what was done to a Service of namespace `shop`.
pub(super) fn cause(verb: Verb, service: &str, place: &str, version: &str) -> Cause {
    Cause {
        verb,
        kind: Some(Kind::Service),
        key: ObjectKey::new("shop", service),
        origin: Origin {
            uid: "".into(),
            resource_version: version.into(),
            manager: if version.is_empty() { "" } else { "kubectl" }.into(),
            operation: if version.is_empty() { "" } else { "Update" }.into(),
            place: place.into(),
        },
    }
}

impl Fake {
    /// The past, without a server.
    pub(super) fn new() -> Self {
        let step = |seq: u64, from: Option<u32>, serial: u32, removed, added, causes, records| {
            Arc::new(Step {
                seq,
                time_ms: THIRD_MS - 1000 * (3 - seq),
                from: from.map(|from| (Serial::decode(from), soa())),
                serial: Serial::decode(serial),
                soa: soa(),
                removed,
                added,
                causes,
                records,
                link: None,
            })
        };
        let web = cause(Verb::Listed, "web", "shop.yaml:4", "");
        let changed = cause(Verb::Applied, "web", "", "77");
        let gone = cause(Verb::Deleted, "web", "shop.yaml:4", "");
        let db = cause(Verb::Applied, "db", "shop.yaml:9", "");
        let steps = vec![
            step(
                1,
                None,
                100,
                list(&[]),
                list(&[("web.z.", 1, 0)]),
                vec![vec![web]],
                2,
            ),
            step(
                2,
                Some(100),
                101,
                list(&[("web.z.", 1, 0)]),
                list(&[("web.z.", 2, 0)]),
                vec![vec![changed]],
                2,
            ),
            step(
                3,
                Some(101),
                200,
                list(&[("web.z.", 2, 0)]),
                list(&[("db.z.", 3, 1)]),
                vec![vec![gone], vec![db]],
                2,
            ),
        ];
        Self {
            zones: vec![name("z.")],
            steps,
            status: None,
            operator: RefCell::default(),
            requires_reason: false,
            waiting: None,
            doubt: None,
            // One that was in use all the time.
            corefiles: vec![corefile(1)],
            lost: Vec::new(),
            away: Vec::new(),
            segments: Vec::new(),
            clock_ahead_ms: 1000,
            verdict: verdict(),
            acts: Vec::new(),
            act_faults: Vec::new(),
            archived: Vec::new(),
            looked_at: RefCell::default(),
            found: Cell::default(),
        }
    }

    fn is_archived(&self, step: &Step) -> bool {
        self.archived.iter().any(|entry| entry.seq == step.seq)
    }

    pub(super) fn version(&self, seq: u64) -> Option<Arc<Step>> {
        self.steps.iter().find(|step| step.seq == seq).cloned()
    }
}

/// What going through the history of three versions gives.
fn verdict() -> Verdict {
    Verdict {
        segments: 0,
        reused_segments: 0,
        oldest: (1, Some(Serial::decode(100)), THIRD_MS - 2000),
        newest: (3, Serial::decode(200)),
        versions: 3,
        unhashed: 0,
        archived: 0,
        condensed: 0,
        anchor: Hash::ZERO,
        anchored: Vec::new(),
        head: Some(Hash::from_octets([0xab; 32])),
        faults: Vec::new(),
        unread: Vec::new(),
    }
}

/// A Corefile that came into use at this time, milliseconds since 1970 UTC.
pub(super) fn corefile(since_ms: u64) -> Option<KeptCorefile> {
    Some(KeptCorefile {
        since_ms,
        digest: "ab".repeat(64),
        text: "z {\n}\n".to_owned(),
    })
}

fn missing() -> AuditError {
    AuditError::Store("no such version".to_owned())
}

impl Past for Fake {
    fn corefiles(&self) -> Result<Vec<Option<KeptCorefile>>, AuditError> {
        Ok(self.corefiles.clone())
    }

    fn zones(&self) -> Vec<Name> {
        self.zones.clone()
    }

    fn lost(&self) -> Vec<Name> {
        self.lost.clone()
    }

    fn waiting(&self, _: &Name) -> Result<Option<Waiting>, AuditError> {
        Ok(self.waiting.clone())
    }

    fn is_running(&self) -> bool {
        self.status.is_some()
    }

    fn doubt(&self, _: &Name) -> Option<String> {
        self.doubt.clone()
    }

    fn place_of(
        &self,
        zone: &Name,
        serial: Serial,
        newest: u64,
    ) -> Result<SerialPlace, AuditError> {
        let (oldest, _) = self
            .range(zone)
            .expect("the tests ask for zones that are there");
        find_serial(oldest..=newest, serial, |seq| Ok(self.moment(zone, seq)?.0))
    }

    fn range(&self, zone: &Name) -> Option<(u64, u64)> {
        let mut kept = self.steps.iter().filter(|step| !self.is_archived(step));
        let (first, last) = (kept.next()?, self.steps.last()?);
        self.zones.contains(zone).then_some((first.seq, last.seq))
    }

    fn acts(&self, _: &Name, after: u64) -> Result<Acts, AuditError> {
        let acts = self.acts.iter().filter(|act| act.number > after);
        Ok(Acts {
            all: acts.cloned().collect(),
            faults: self.act_faults.clone(),
        })
    }

    fn archived(&self, _: &Name) -> Vec<Archived> {
        self.archived.clone()
    }

    fn segment_parts(&self, _: &Name) -> Vec<SegmentPart> {
        self.segments.clone()
    }

    fn step(&self, _: &Name, seq: u64) -> Result<Arc<Step>, AuditError> {
        self.looked_at.borrow_mut().push(seq);
        self.version(seq).ok_or_else(missing)
    }

    fn steps(&self, zone: &Name, seqs: RangeInclusive<u64>) -> Result<Vec<Arc<Step>>, AuditError> {
        let kept = seqs.filter(|seq| self.version(*seq).is_some());
        kept.map(|seq| self.step(zone, seq)).collect()
    }

    fn step_of(&self, zone: &Name, seq: u64, _: &Name) -> Result<PartialStep, AuditError> {
        let step = self.step(zone, seq)?;
        Ok(PartialStep {
            step: (*step).clone(),
            removed: step.removed.len(),
            added: step.added.len(),
        })
    }

    fn moment(&self, zone: &Name, seq: u64) -> Result<(Serial, u64), AuditError> {
        assert!(self.zones.contains(zone), "{zone}");
        if self.away.contains(&seq) {
            return Err(AuditError::ArchiveAway("it is away".to_owned()));
        }
        let step = self.version(seq).ok_or_else(missing)?;
        Ok((step.serial, step.time_ms))
    }

    fn find(
        &self,
        _: &Name,
        topic: Topic,
        seqs: RangeInclusive<u64>,
        call: &mut dyn FnMut(u64) -> Result<bool, AuditError>,
    ) -> Result<(), AuditError> {
        let may_concern = |step: &&Arc<Step>| {
            let records = step.removed.iter().chain(&step.added);
            let mut by_record =
                records.flat_map(|rr| [Topic::name(&rr.to_record().owner), Topic::record(rr)]);
            let mut by_object = step.causes.iter().flatten();
            let is_indexed = seqs.contains(&step.seq) && !self.is_archived(step);
            is_indexed
                && (by_record.any(|it| it == topic)
                    || by_object.any(|it| Topic::object(it.kind, &it.key) == topic))
        };
        for step in self.steps.iter().rev().filter(may_concern) {
            self.found.set(self.found.get() + 1);
            if !call(step.seq)? {
                break;
            }
        }
        Ok(())
    }

    fn contents_of(&self, zone: &Name, seq: u64, _: &Name) -> Result<Contents, AuditError> {
        self.contents(zone, seq)
    }

    fn verify(&self, _: &Name, _: &[Hash]) -> Result<Verdict, AuditError> {
        Ok(self.verdict.clone())
    }

    fn verify_here(&self, _: &Name, _: &[Hash]) -> Result<PartVerdict, AuditError> {
        Ok(self.verdict.clone().into())
    }

    fn verify_segment(&self, _: &Name, _: u64, _: &[Hash]) -> Result<PartVerdict, AuditError> {
        Ok(self.verdict.clone().into())
    }

    fn contents(&self, zone: &Name, seq: u64) -> Result<Contents, AuditError> {
        let mut contents = Contents::empty(zone, soa());
        for step in self.steps.iter().filter(|step| step.seq <= seq) {
            contents = step
                .apply(&contents)
                .map_err(|error| AuditError::Store(error.to_string()))?;
        }
        Ok(contents)
    }

    fn difference(&self, _: &Name, older: u64, newer: u64) -> Result<Option<Net>, AuditError> {
        let between = |step: &&Arc<Step>| older < step.seq && step.seq <= newer;
        let steps: Vec<_> = self.steps.iter().filter(between).cloned().collect();
        Ok(Net::of(&steps))
    }

    fn status(&self) -> Option<Status> {
        let mut status = self.status.clone()?;
        for line in &mut status.zones {
            line.history = None;
        }
        Some(status)
    }

    fn history(&self, zone: &Name) -> Option<HistoryLine> {
        let mut zones = self.status.iter().flat_map(|status| &status.zones);
        let line = zones.find(|line| line.zone == zone.to_string());
        line.and_then(|line| line.history.clone())
    }

    fn requires_reason(&self, _: &Name) -> bool {
        self.requires_reason
    }

    fn order(&self, zone: &Name, order: Order, by: &Operator) -> Result<Serial, AuditError> {
        self.operator.replace(Some(by.to_string()));
        if let Order::Rollback { seq, .. } = order {
            return Ok(Serial::decode(100 + u32::try_from(seq).unwrap()));
        }
        if *zone == name("z.") {
            return Ok(Serial::decode(7));
        }
        Err(AuditError::Refused(format!("no version of {zone} is held")))
    }

    fn grounds(&self, _: &Name, _: Rtype) -> Result<Grounds, AuditError> {
        Err(AuditError::NoServer)
    }

    fn now_ms(&self) -> u64 {
        let newest_ms = self.steps.last().map_or(THIRD_MS, |step| step.time_ms);
        newest_ms.saturating_add_signed(self.clock_ahead_ms)
    }
}

pub(super) const ASKER: &str = "a test";

/// The answer to an order without a reason.
pub(super) fn ordered(
    past: &Fake,
    zone: &str,
    order: OrderText,
    output: Output,
) -> Result<String, String> {
    let request = Request::Order {
        zone: zone.into(),
        order,
        reason: None,
        with_reverse: false,
    };
    asked(past, request, output)
}

/// The answer to a question, or why there is none.
pub(super) fn asked(past: &Fake, request: Request, output: Output) -> Result<String, String> {
    let mut text = Vec::new();
    let question = Question { request, output };
    answer(&question, past, &ASKER.into(), &mut text).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(text).expect("answers are UTF-8"))
}

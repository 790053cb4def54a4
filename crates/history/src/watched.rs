//! The past for one answer: before each read it is checked whether the answer may go on.
//!
//! So an answer ends when its time is over or its reader is gone, and others have a turn, also where it writes nothing for
//! long. Orders and what reads nothing are not checked.

use std::ops::RangeInclusive;
use std::sync::Arc;

use dns::{Name, Rtype, Serial};
use provenance::Operator;
use writer::Waiting;
use zone::journal::{
    Acts, Archived, KeptCorefile, PartVerdict, PartialStep, SegmentPart, SegmentsVerdict,
    SerialPlace, Topic, Verdict,
};
use zone::{Contents, Hash, Net, Step};

use crate::error::AuditError;
use crate::making::Making;
use crate::past::{Grounds, Order, Past};
use crate::status::{HistoryLine, Status};

/// The past for one answer.
pub(super) struct Watched<'a> {
    /// Where it is read.
    pub(super) past: &'a dyn Past,
    /// The answer.
    pub(super) making: &'a Making,
}

impl Past for Watched<'_> {
    fn zones(&self) -> Vec<Name> {
        self.past.zones()
    }

    fn lost(&self) -> Vec<Name> {
        self.past.lost()
    }

    fn doubt(&self, zone: &Name) -> Option<String> {
        self.past.doubt(zone)
    }

    fn is_running(&self) -> bool {
        self.past.is_running()
    }

    fn range(&self, zone: &Name) -> Option<(u64, u64)> {
        self.past.range(zone)
    }

    fn archived(&self, zone: &Name) -> Vec<Archived> {
        self.past.archived(zone)
    }

    fn acts(&self, zone: &Name, after: u64) -> Result<Acts, AuditError> {
        self.making.go_on()?;
        self.past.acts(zone, after)
    }

    fn corefiles(&self) -> Result<Vec<Option<KeptCorefile>>, AuditError> {
        self.making.go_on()?;
        self.past.corefiles()
    }

    fn step(&self, zone: &Name, seq: u64) -> Result<Arc<Step>, AuditError> {
        self.making.go_on()?;
        self.past.step(zone, seq)
    }

    fn steps(&self, zone: &Name, seqs: RangeInclusive<u64>) -> Result<Vec<Arc<Step>>, AuditError> {
        self.making.go_on()?;
        self.past.steps(zone, seqs)
    }

    fn step_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<PartialStep, AuditError> {
        self.making.go_on()?;
        self.past.step_of(zone, seq, name)
    }

    fn place_of(
        &self,
        zone: &Name,
        serial: Serial,
        newest: u64,
    ) -> Result<SerialPlace, AuditError> {
        self.making.go_on()?;
        self.past.place_of(zone, serial, newest)
    }

    fn moment(&self, zone: &Name, seq: u64) -> Result<(Serial, u64), AuditError> {
        self.making.go_on()?;
        self.past.moment(zone, seq)
    }

    fn find(
        &self,
        zone: &Name,
        topic: Topic,
        seqs: RangeInclusive<u64>,
        call: &mut dyn FnMut(u64) -> Result<bool, AuditError>,
    ) -> Result<(), AuditError> {
        self.making.go_on()?;
        self.past.find(zone, topic, seqs, &mut |seq| {
            self.making.go_on()?;
            call(seq)
        })
    }

    fn contents(&self, zone: &Name, seq: u64) -> Result<Contents, AuditError> {
        self.making.go_on()?;
        self.past.contents(zone, seq)
    }

    fn contents_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<Contents, AuditError> {
        self.making.go_on()?;
        self.past.contents_of(zone, seq, name)
    }

    fn difference(&self, zone: &Name, older: u64, newer: u64) -> Result<Option<Net>, AuditError> {
        self.making.go_on()?;
        self.past.difference(zone, older, newer)
    }

    /// Segment by segment, with a check before each.
    fn verify(&self, zone: &Name, anchors: &[Hash]) -> Result<Verdict, AuditError> {
        let parts = self.segment_parts(zone);
        let here = self.verify_here(zone, anchors)?;
        let mut segments = SegmentsVerdict::default();
        for part in parts {
            segments.add(&part, self.verify_segment(zone, part.first, anchors)?);
        }
        Ok(segments.join(here))
    }

    fn oldest_here(&self, zone: &Name) -> Option<u64> {
        self.past.oldest_here(zone)
    }

    fn verify_here(&self, zone: &Name, anchors: &[Hash]) -> Result<PartVerdict, AuditError> {
        self.making.go_on()?;
        self.past.verify_here(zone, anchors)
    }

    fn segment_parts(&self, zone: &Name) -> Vec<SegmentPart> {
        self.past.segment_parts(zone)
    }

    fn verify_segment(
        &self,
        zone: &Name,
        first: u64,
        anchors: &[Hash],
    ) -> Result<PartVerdict, AuditError> {
        self.making.go_on()?;
        self.past.verify_segment(zone, first, anchors)
    }

    fn status(&self) -> Option<Status> {
        self.past.status()
    }

    fn history(&self, zone: &Name) -> Option<HistoryLine> {
        self.past.history(zone)
    }

    fn reverse_of(&self, zone: &Name) -> Vec<Name> {
        self.past.reverse_of(zone)
    }

    fn requires_reason(&self, zone: &Name) -> bool {
        self.past.requires_reason(zone)
    }

    fn order(&self, zone: &Name, order: Order, by: &Operator) -> Result<Serial, AuditError> {
        self.past.order(zone, order, by)
    }

    fn reload(&self, by: &Operator) -> Result<(), AuditError> {
        self.past.reload(by)
    }

    fn promote(&self, by: &Operator) -> Result<(), AuditError> {
        self.past.promote(by)
    }

    fn stop(&self, by: &Operator) -> Result<(), AuditError> {
        self.past.stop(by)
    }

    fn notify(&self, zone: &Name, by: &Operator) -> Result<Vec<String>, AuditError> {
        self.past.notify(zone, by)
    }

    fn waiting(&self, zone: &Name) -> Result<Option<Waiting>, AuditError> {
        self.making.go_on()?;
        self.past.waiting(zone)
    }

    fn grounds(&self, name: &Name, rtype: Rtype) -> Result<Grounds, AuditError> {
        self.making.go_on()?;
        self.past.grounds(name, rtype)
    }

    fn now_ms(&self) -> u64 {
        self.past.now_ms()
    }
}

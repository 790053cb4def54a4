//! The past as the server answers from it: the journal's reader beside the version that is served.

use std::sync::Arc;

use zonewright::audit::{AuditError, Grounds, Order, Past, Status};
use zonewright::dns::{Name, Serial};
use zonewright::zone::journal::{PartStep, Reader, Topic, Verdict};
use zonewright::zone::{Contents, Net, Step, Version};

/// A reader and the version that is served.
pub(crate) struct BenchPast {
    /// Reads the journal.
    reader: Reader,
    /// What is served.
    served: Arc<Version>,
}

impl BenchPast {
    /// What is served and what was.
    pub(crate) const fn new(reader: Reader, served: Arc<Version>) -> Self {
        Self { reader, served }
    }
}

impl Past for BenchPast {
    fn zones(&self) -> Vec<Name> {
        let zones = self.reader.zones();
        zones.into_iter().map(|zone| zone.apex).collect()
    }

    fn range(&self, zone: &Name) -> Option<(u64, u64)> {
        let zone = self.reader.zone(zone)?;
        Some((zone.oldest, zone.newest))
    }

    fn step(&self, zone: &Name, seq: u64) -> Result<Option<Arc<Step>>, String> {
        let step = self.reader.step(zone, seq);
        step.map(|step| Some(Arc::new(step)))
            .map_err(|error| error.to_string())
    }

    fn step_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<PartStep, String> {
        self.reader
            .step_of(zone, seq, name)
            .map_err(|error| error.to_string())
    }

    fn moment(&self, zone: &Name, seq: u64) -> Result<(Serial, u64), String> {
        let moment = self.reader.moment(zone, seq);
        moment.map_err(|error| error.to_string())
    }

    fn find(
        &self,
        zone: &Name,
        topic: Topic,
        high: u64,
        call: &mut dyn FnMut(u64) -> Result<bool, AuditError>,
    ) -> Result<(), AuditError> {
        self.reader.find(zone, topic, high, call)
    }

    fn contents(&self, zone: &Name, seq: u64) -> Result<Contents, String> {
        let found = self.reader.contents_at(zone, seq, Some(&self.served));
        found.map_err(|error| error.to_string())
    }

    fn contents_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<Contents, String> {
        let found = self.reader.contents_of(zone, seq, name, Some(&self.served));
        found.map_err(|error| error.to_string())
    }

    fn difference(&self, zone: &Name, older: u64, newer: u64) -> Result<Option<Net>, String> {
        let found = self
            .reader
            .difference(zone, (older, newer), Some(&self.served));
        found.map_err(|error| error.to_string())
    }

    fn verify(&self, zone: &Name) -> Result<Verdict, String> {
        self.reader.verify(zone).map_err(|error| error.to_string())
    }

    fn status(&self) -> Option<Status> {
        None
    }

    fn order(&self, _zone: &Name, _order: Order, _by: &str) -> Result<Serial, AuditError> {
        Err(AuditError::NoServer)
    }

    fn grounds(&self, _name: &Name) -> Result<Grounds, AuditError> {
        Err(AuditError::NoServer)
    }

    fn now_ms(&self) -> u64 {
        self.served.time_ms
    }
}

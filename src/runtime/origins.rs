//! Causes of records, as the history has them.

use dns::{Name, RrRef};
use provenance::Cause;
use zone::journal::{ReadError, Reader, StepCache, Topic};

/// Looks up causes of records of the newest version.
#[derive(Debug)]
pub(crate) struct Origins {
    reader: Reader,
    /// Steps that records were looked up in since the last commit, with their zone.
    step_cache: Option<(Name, StepCache)>,
}

impl Origins {
    /// Reads the history.
    pub(crate) fn new(reader: Reader) -> Self {
        Self {
            reader,
            step_cache: None,
        }
    }

    /// Forgets the steps that were looked up.
    pub(crate) fn forget(&mut self) {
        self.step_cache = None;
    }

    /// The causes of a record of the newest version; none if the history has them not.
    pub(crate) fn of(&mut self, apex: &Name, record: RrRef<'_>) -> Vec<Cause> {
        let reader = self.reader.clone().local();
        let owner = record.to_record().owner;
        let known = self.step_cache.take().filter(|(zone, _)| zone == apex);
        let (_, steps) = self
            .step_cache
            .insert(known.unwrap_or_else(|| (apex.clone(), StepCache::default())));
        let mut causes = Vec::new();
        let mut look = |seq| -> Result<bool, ReadError> {
            let step = steps.get(&owner, seq, || reader.step_of(apex, seq, &owner))?;
            let tag = step.added.tag_of(record);
            causes = tag.map_or(Vec::new(), |tag| step.causes_of(tag).to_vec());
            Ok(tag.is_none())
        };
        if let Err(error) = reader.find(apex, Topic::record(record), 0..=u64::MAX, &mut look) {
            tracing::debug!(zone = %apex, %error, "the cause of a record is not known");
        }
        causes
    }
}

//! Finds out from the files beside the database which versions are lost, and above which serials the next ones must
//! be.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use dns::{Name, Serial};
use provenance::{Cause, Verb};

use crate::journal::Zones;
use crate::journal::serial_files::{Known, Serials};

/// The key of causes that record lost versions.
const STORE: &str = "the store";

/// Versions that were published but are no longer in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The newest serial that is left, if any.
    pub kept: Option<Serial>,
    /// The newest serial that is lost.
    pub newest: Serial,
    /// Whether `newest` was published. Otherwise it is only known that no higher serial was.
    pub is_exact: bool,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kept,
            newest,
            is_exact,
        } = self;
        match (kept, is_exact) {
            (Some(kept), true) => write!(
                f,
                "the versions after serial {kept} up to {newest} are lost"
            ),
            (Some(kept), false) => write!(
                f,
                "versions after serial {kept} may be lost, with serials up to {newest} at most"
            ),
            (None, true) => write!(f, "all versions up to serial {newest} are lost"),
            (None, false) => write!(
                f,
                "all versions are lost, with serials up to {newest} at most"
            ),
        }
    }
}

impl Lost {
    /// The cause that the next version records, so that the history shows the loss for good.
    #[must_use]
    pub fn cause(&self) -> Cause {
        Cause::of(Verb::Restored, &format!("{STORE}: {self}"))
    }

    /// The loss that a cause records; `None` for other causes.
    pub(super) fn told_by(cause: &Cause) -> Option<String> {
        let is_it = cause.verb == Verb::Restored && cause.kind.is_none();
        let rest = cause.key.name.strip_prefix(STORE).filter(|_| is_it)?;
        Some(match rest.strip_prefix(": ") {
            Some(what) => format!("{what}: this version replaces them"),
            // Written by older releases.
            None => "versions before it are lost: this version replaces them".to_owned(),
        })
    }
}

/// Lost versions by zone, until a version records the loss.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses(Arc<RwLock<BTreeMap<Name, Lost>>>);

impl Losses {
    /// Finds losses by comparing the files beside the database with its zones.
    pub(super) fn found(serials: &Serials, known: &Known, zones: &Zones) -> Self {
        let mut lost = BTreeMap::new();
        let unsure = (known.unsure.iter()).map(|(apex, newest)| (apex, *newest));
        // It is unknown whether the first version of such a zone was ever published.
        let covered = serials.all().filter(|_| !known.is_exact);
        let covered = covered.filter(|(apex, _)| !zones.contains_key(*apex));
        let kept = |apex: &Name| zones.get(apex).map(|stored| stored.head.serial);
        let missing = unsure.chain(covered);
        let missing =
            missing.filter(|(apex, newest)| kept(apex).is_none_or(|kept| newest.is_after(kept)));
        lost.extend(missing.map(|(apex, newest)| {
            let (kept, is_exact) = (kept(apex), false);
            let lost = Lost {
                kept,
                newest,
                is_exact,
            };
            (apex.clone(), lost)
        }));
        for line in &known.serials {
            let (apex, newest) = (&line.apex, &line.serial);
            let kept = zones.get(apex).map(|stored| stored.head.serial);
            if kept.is_none_or(|kept| newest.is_after(kept)) {
                let (newest, is_exact) = (*newest, true);
                let lost_here = Lost {
                    kept,
                    newest,
                    is_exact,
                };
                lost.insert(apex.clone(), lost_here);
            }
        }
        Self(Arc::new(RwLock::new(lost)))
    }

    pub(super) fn get(&self, apex: &Name) -> Option<Lost> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(apex).copied()
    }

    pub(super) fn all(&self) -> Vec<(Name, Lost)> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .map(|(apex, lost)| (apex.clone(), *lost))
            .collect()
    }

    /// Records that a zone lost its newest versions, perhaps not for the first time.
    pub(super) fn add(&self, apex: &Name, kept: Option<Serial>, newest: Serial) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(apex).filter(|known| known.newest.is_after(newest));
        let newest = known.map_or(newest, |known| known.newest);
        let lost = Lost {
            kept,
            newest,
            is_exact: known.is_none_or(|known| known.is_exact),
        };
        all.insert(apex.clone(), lost);
    }

    /// Records that a zone may have lost versions after its newest one.
    pub(super) fn doubt(&self, apex: &Name, kept: Option<Serial>, newest: Serial) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_exact = false;
        let lost = Lost {
            kept,
            newest,
            is_exact,
        };
        all.insert(apex.clone(), lost);
    }

    /// A version has recorded the loss.
    pub(super) fn remove(&self, apex: &Name) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(apex);
    }
}

/// The sentence for an operator about the loss; `None` when it is not certain.
pub(super) fn lost_note(apex: &Name, lost: Lost) -> Option<String> {
    match lost.kept {
        Some(_) => Some(format!(
            "zone {apex}: {lost}, the next serial is above them"
        )),
        None if lost.is_exact => Some(format!(
            "zone {apex}: {lost}, its history starts again above it"
        )),
        None => None,
    }
}

/// The ceilings that are above the serials of the heads.
pub(super) fn floors(serials: &Serials, zones: &Zones) -> BTreeMap<Name, Serial> {
    serials
        .all()
        .filter(|(apex, ceiling)| {
            zones
                .get(apex)
                .is_none_or(|stored| stored.head.serial != *ceiling)
        })
        .map(|(apex, ceiling)| (apex.clone(), ceiling))
        .collect()
}

/// Removes the ceilings of zones that have lost nothing: their next serial need not be above them.
pub(super) fn lower(floors: &mut BTreeMap<Name, Serial>, known: &Known, zones: &Zones) {
    if !known.is_exact {
        return;
    }
    for line in known.serials.iter().filter(|line| line.is_newest) {
        if zones
            .get(&line.apex)
            .is_some_and(|stored| stored.head.serial == line.serial)
        {
            floors.remove(&line.apex);
        }
    }
}

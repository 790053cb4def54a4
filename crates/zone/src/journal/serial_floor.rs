//! Finds out from the files beside the database which versions are lost, and above which serials the next ones must
//! be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use dns::{Name, Serial};
use provenance::{Cause, Verb};

use crate::Step;
use crate::chain::Damage;
use crate::journal::Zones;
use crate::journal::serial_files::{Known, NEWEST, NewestFault, SERIALS, Serials};

/// The key of causes that record lost versions.
const STORE: &str = "the store";
/// The end of the text of a loss that is not certain.
const AT_MOST: &str = " at most";

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
                "versions after serial {kept} may be lost, with serials up to {newest}{AT_MOST}"
            ),
            (None, true) => write!(f, "all versions up to serial {newest} are lost"),
            (None, false) => write!(
                f,
                "all versions are lost, with serials up to {newest}{AT_MOST}"
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

    /// What a step says of the versions before it that are lost, or may be.
    #[must_use]
    pub fn before(step: &Step) -> Option<String> {
        let mut causes = step.causes.iter().flatten();
        causes.find_map(Self::text_in).map(ToOwned::to_owned)
    }

    /// The sentence about a loss in a cause.
    fn text_in(cause: &Cause) -> Option<&str> {
        let is_it = cause.verb == Verb::Restored && cause.kind.is_none();
        let rest = cause.key.name.strip_prefix(STORE).filter(|_| is_it)?;
        // Older releases wrote no more than the key.
        Some({ rest.strip_prefix(": ") }.unwrap_or("versions before it are lost"))
    }

    /// The loss that a cause records; `None` for other causes.
    #[must_use]
    pub fn told_by(cause: &Cause) -> Option<(Damage, String)> {
        let what = Self::text_in(cause)?;
        let damage = match what.ends_with(AT_MOST) {
            true => Damage::Unknown,
            false => Damage::Lost,
        };
        Some((damage, format!("{what}: this version replaces them")))
    }

    /// What is known of the loss, with the reason why it is not more.
    fn known(&self, newest_fault: Option<NewestFault>) -> (Damage, String) {
        let Self {
            kept,
            newest,
            is_exact,
        } = self;
        if *is_exact {
            return (Damage::Lost, self.to_string());
        }
        let after = match kept {
            Some(kept) => format!("versions after serial {kept} were announced"),
            None => "versions were announced, as none is kept".to_owned(),
        };
        let why = newest_fault.map_or_else(String::new, |fault| {
            format!(": the file {NEWEST} {}", fault.as_str())
        });
        let what =
            format!("it is not known whether {after}, with serials up to {newest}{AT_MOST}{why}");
        (Damage::Unknown, what)
    }
}

/// Lost versions by zone, until a version records the loss.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    /// The lock protects the map alone.
    lost: Arc<RwLock<BTreeMap<Name, Lost>>>,
    /// What was wrong with the file `newest` when the folder was opened.
    newest_fault: Option<NewestFault>,
    /// Zones of which no file beside the database said then what was announced, until they are doubted. The lock protects
    /// the set alone.
    unnoted: Arc<RwLock<BTreeSet<Name>>>,
}

impl Losses {
    /// Finds losses by comparing the files beside the database with its zones.
    pub(super) fn found(serials: &Serials, known: &Known, zones: &Zones) -> Self {
        let mut lost = BTreeMap::new();
        let unsure = (known.unsure.iter()).map(|(apex, newest)| (apex, *newest));
        // Serials up to the ceiling were reserved. It is unknown whether a version with one of them was published: the
        // first version of a zone that has none, or one after the newest of a zone of which `newest` says nothing.
        let covered = serials.all().filter(|_| !known.is_exact);
        let covered = covered.filter(|(apex, _)| !zones.contains_key(*apex) || !known.has(apex));
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
        let unnoted = zones.keys();
        let unnoted = unnoted.filter(|apex| !serials.has(apex) && !known.has(apex));
        Self {
            lost: Arc::new(RwLock::new(lost)),
            newest_fault: known.fault,
            unnoted: Arc::new(RwLock::new(unnoted.cloned().collect())),
        }
    }

    /// Whether no file beside the database said what was announced of a zone, when the folder was opened.
    pub(super) fn is_unnoted(&self, apex: &Name) -> bool {
        let unnoted = self.unnoted.read().unwrap_or_else(PoisonError::into_inner);
        unnoted.contains(apex)
    }

    /// What is known of the loss of a zone whose newest version here has this serial; `None` when it lost nothing.
    pub(super) fn known(
        &self,
        apex: &Name,
        newest: Option<Serial>,
    ) -> Option<(Lost, Damage, String)> {
        let Some(lost) = self.get(apex) else {
            let newest = newest.filter(|_| self.is_unnoted(apex))?;
            let what = format!(
                "it is not known whether versions after serial {newest} were announced: neither the file {SERIALS} nor \
                 the file {NEWEST} names the zone"
            );
            let (kept, is_exact) = (Some(newest), false);
            let lost = Lost {
                kept,
                newest,
                is_exact,
            };
            return Some((lost, Damage::Unknown, what));
        };
        let (damage, what) = lost.known(self.newest_fault);
        Some((lost, damage, what))
    }

    pub(super) fn get(&self, apex: &Name) -> Option<Lost> {
        let all = self.lost.read().unwrap_or_else(PoisonError::into_inner);
        all.get(apex).copied()
    }

    pub(super) fn all(&self) -> Vec<(Name, Lost)> {
        let all = self.lost.read().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .map(|(apex, lost)| (apex.clone(), *lost))
            .collect()
    }

    /// Records that a zone lost its newest versions, perhaps not for the first time.
    pub(super) fn add(&self, apex: &Name, kept: Option<Serial>, newest: Serial) {
        let mut all = self.lost.write().unwrap_or_else(PoisonError::into_inner);
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
        let mut unnoted = self.unnoted.write().unwrap_or_else(PoisonError::into_inner);
        unnoted.remove(apex);
        drop(unnoted);
        let mut all = self.lost.write().unwrap_or_else(PoisonError::into_inner);
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
        let mut all = self.lost.write().unwrap_or_else(PoisonError::into_inner);
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

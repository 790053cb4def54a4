//! Whether a version is what it says, and follows the one before it: for `verify` of a store and of an exported history.
//!
//! A version whose own hash is wrong gets that fault alone: which of its other values were changed is unknown.

use std::fmt;

use dns::{Name, Serial, Soa};
use serde::{Deserialize, Serialize};

use crate::{Hash, Link, Step};

/// What happened to a history that is not as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Damage {
    /// Bytes of a version differ from those that were written.
    Changed,
    /// Versions are missing.
    Lost,
    /// Versions are whole, but do not follow each other.
    Chain,
    /// Nothing is known to have happened, but not all is known: a file or an archive that would show it cannot be read.
    Unknown,
}

impl Damage {
    /// The word for programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Lost => "lost",
            Self::Chain => "chain",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed bytes",
            Self::Lost => "lost versions",
            Self::Chain => "broken chain",
            Self::Unknown => "not known",
        })
    }
}

/// A version that was checked, as the next one must name it.
#[derive(Debug, Clone)]
pub struct Before {
    /// Its number.
    pub seq: u64,
    serial: Serial,
    soa: Soa,
    /// The hash that it has, and the one that its data make.
    hashes: Option<[Hash; 2]>,
}

/// The result of checking a version.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The version, for the check of the next one.
    pub before: Before,
    /// What is wrong with it.
    pub fault: Option<(Damage, &'static str)>,
}

impl Checked {
    /// Checks a version's hash, and that it follows the version before it; `None` when that one is not known.
    #[must_use]
    pub fn of(step: &Step, zone: &Name, before: Option<&Before>) -> Self {
        let computed = |link: Link| Link::of(step, zone, link.previous, link.content).hash;
        let hashes = step.link.map(|link| [link.hash, computed(link)]);
        let is_own = hashes.is_none_or(|[own, computed]| own == computed);
        let fault = if is_own {
            let fault = match before {
                Some(before) => before.fault_of_next(step),
                None => fault_of_first(step),
            };
            fault.map(|what| (Damage::Chain, what))
        } else {
            Some((Damage::Changed, "its hash does not match its data"))
        };
        let before = Before {
            seq: step.seq,
            serial: step.serial,
            soa: step.soa.clone(),
            hashes,
        };
        Self { before, fault }
    }

    /// Whether the version has the hash that its data make.
    #[must_use]
    pub const fn is_own(&self) -> bool {
        !matches!(self.fault, Some((Damage::Changed, _)))
    }
}

/// A version without one before it begins the chain.
fn fault_of_first(step: &Step) -> Option<&'static str> {
    let link = step.link.filter(|_| step.from.is_none())?;
    (link.previous != Hash::ZERO).then_some("it is the first version but names a hash before it")
}

impl Before {
    fn fault_of_next(&self, step: &Step) -> Option<&'static str> {
        let is_linked = match (self.hashes, step.link) {
            (Some(hashes), Some(link)) => hashes.contains(&link.previous),
            // The first version with a hash.
            (None, Some(link)) => link.previous == Hash::ZERO,
            (None, None) => true,
            (Some(_), None) => false,
        };
        let is_next = |(serial, soa): &(Serial, Soa)| {
            *serial == self.serial && *soa == self.soa && step.serial.is_after(*serial)
        };
        if !is_linked {
            Some("it names another hash than that of the version before")
        } else if self.seq.checked_add(1) != Some(step.seq)
            || !step.from.as_ref().is_some_and(is_next)
        {
            Some("it does not follow the version before")
        } else {
            None
        }
    }
}

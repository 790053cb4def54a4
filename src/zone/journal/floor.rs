//! What the serials beside the database say: what is lost, and above which serials the next ones have to be.

use std::collections::BTreeMap;

use crate::dns::{Name, Serial};
use crate::zone::journal::Zones;
use crate::zone::journal::sidefile::{Known, Serials};

/// The sentence about what a zone lost, if it did.
pub(super) fn lost_note(apex: &Name, newest: Serial, kept: Option<Serial>) -> Option<String> {
    match kept {
        None => Some(format!(
            "zone {apex}: all versions up to serial {newest} are lost, its history starts anew above it"
        )),
        Some(kept) if newest.is_after(kept) => Some(format!(
            "zone {apex}: the versions after serial {kept} up to {newest} are lost, the next serial is above them"
        )),
        Some(_) => None,
    }
}

/// The ceilings that say more than the heads do.
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

/// Takes the ceilings away of zones that have lost nothing: their next serial need not pass them.
pub(super) fn lower(floors: &mut BTreeMap<Name, Serial>, known: &Known, zones: &Zones) {
    if !known.is_exact {
        return;
    }
    for (apex, serial) in &known.serials {
        if zones
            .get(apex)
            .is_some_and(|stored| stored.head.serial == *serial)
        {
            floors.remove(apex);
        }
    }
}

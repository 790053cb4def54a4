//! A secondary: it asks any replica, and takes what is later than what it has.

use dns::Name;

use std::collections::BTreeMap;

use crate::chain::Tip;
use crate::tests::content::Stored;
use crate::tests::disk::ZoneFile;

/// A secondary.
#[derive(Debug, Default)]
pub(super) struct Secondary {
    /// What it has of each zone.
    pub(super) zones: BTreeMap<Name, Stored>,
    /// Transfers of a difference.
    pub(super) incremental: u64,
    /// Transfers of a whole zone.
    pub(super) full: u64,
}

impl Secondary {
    /// Asks a replica that shows this version of this journal. Gives what it has afterwards if that is new, or what is wrong.
    pub(super) fn refresh(
        &mut self,
        zone: &Name,
        visible: &Tip,
        file: &ZoneFile,
    ) -> Result<Option<Stored>, String> {
        let Some(place) = file.place(visible).filter(|place| *place > 0) else {
            return Ok(None);
        };
        let shown = &file.versions[place - 1];
        if let Some(own) = self.zones.get(zone) {
            if !shown.tip.serial.is_after(own.tip.serial) {
                return Ok(None);
            }
            let same = |it: &&Stored| it.tip.serial == own.tip.serial;
            match file.versions[..place].iter().find(same) {
                // The difference is taken from another content than the secondary has.
                Some(base) if base.tip.hash != own.tip.hash => {
                    return Err(format!("{zone}: IXFR from {:?} to {own:?}", base.tip));
                }
                Some(_) => self.incremental += 1,
                None => self.full += 1,
            }
        }
        self.zones.insert(zone.clone(), shown.clone());
        Ok(Some(shown.clone()))
    }
}

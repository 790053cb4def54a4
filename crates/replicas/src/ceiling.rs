//! The reserve of serials: no leader announces a serial above the ceiling that it wrote to the Lease at its own epoch, and a new leader
//! starts above the ceiling that it finds.
//!
//! So two leaders that do not see each other cannot use the same serial, whatever their clocks say.

use dns::{Name, Serial};

use std::collections::BTreeMap;

/// Serials that a leader reserves at a time: with a change a second for a renewal every 2 s it is a reserve of minutes.
pub const RESERVE: u32 = 256;
/// The largest reserve, after doublings in bursts.
pub const RESERVE_MAX: u32 = 1 << 16;
/// How far after the common ceiling a zone's own need may be to raise the common one: a day of changes at one a second.
const NEAR: u32 = 86_400;

/// The highest serials that may be in use: one for all zones, and more for zones that are ahead of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// For all zones; `None` before anything was reserved.
    pub common: Option<Serial>,
    /// For zones with serials far above the common one, as those that are taken from files.
    pub above: BTreeMap<Name, Serial>,
}

impl Ceiling {
    /// The ceiling of one zone.
    #[must_use]
    pub fn of(&self, zone: &Name) -> Option<Serial> {
        later(self.common, self.above.get(zone).copied())
    }

    /// Whether a serial of a zone is reserved.
    #[must_use]
    pub fn covers(&self, zone: &Name, serial: Serial) -> bool {
        self.of(zone).is_some_and(|top| !serial.is_after(top))
    }

    /// Whether another one is nowhere above it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        let is_below = |one: Option<Serial>, other: Option<Serial>| match (one, other) {
            (Some(one), Some(other)) => !other.is_after(one),
            (_, None) => true,
            (None, Some(_)) => false,
        };
        is_below(self.common, other.common) && { other.above.iter() }
            .all(|(zone, serial)| self.covers(zone, *serial))
    }

    /// Raises it to cover a serial of a zone.
    pub fn raise(&mut self, zone: &Name, serial: Serial) {
        if self.covers(zone, serial) {
            return;
        }
        let near = |common: Serial| common.distance_to(serial).unwrap_or(0) <= NEAR;
        if self.common.is_none_or(near) {
            self.common = Some(serial);
            self.tidy();
        } else {
            self.above.insert(zone.clone(), serial);
        }
    }

    /// Raises it to at least another one.
    pub fn join(&mut self, other: &Self) {
        self.common = later(self.common, other.common);
        for (zone, serial) in &other.above {
            let own = self.above.get(zone).copied();
            let own = later(own, Some(*serial)).unwrap_or(*serial);
            self.above.insert(zone.clone(), own);
        }
        self.tidy();
    }

    /// Raises all of it by a number of serials.
    pub fn add(&mut self, serials: u32) {
        self.common = self.common.map(|common| common.next(serials));
        for serial in self.above.values_mut() {
            *serial = serial.next(serials);
        }
    }

    /// The ceiling that a leader writes: a reserve above the clock and above what each zone needs, and never lower than this one.
    #[must_use]
    pub fn reserved<'a>(
        &self,
        clock: Serial,
        needs: impl IntoIterator<Item = (&'a Name, Serial)>,
        reserve: u32,
    ) -> Self {
        let mut next = self.clone();
        next.common = later(next.common, Some(clock.next(reserve)));
        for (zone, serial) in needs {
            next.raise(zone, serial.next(reserve));
        }
        next.tidy();
        next
    }

    /// Whether a zone has used three quarters of the reserve.
    #[must_use]
    pub fn is_short(&self, zone: &Name, newest: Serial, reserve: u32) -> bool {
        let left = self
            .of(zone)
            .map_or(0, |top| newest.distance_to(top).unwrap_or(0));
        left < reserve / 4
    }

    /// Forgets what the common ceiling covers.
    fn tidy(&mut self) {
        let common = self.common;
        let is_above = |serial: Serial| common.is_none_or(|common| serial.is_after(common));
        self.above.retain(|_, serial| is_above(*serial));
    }
}

/// The later one of two serials where either may be unknown.
pub(crate) fn later(one: Option<Serial>, other: Option<Serial>) -> Option<Serial> {
    one.into_iter().chain(other).reduce(Serial::later)
}

#[cfg(test)]
mod tests {
    use dns::testing::name;

    use super::*;

    /// A ceiling for all zones.
    fn common(serial: u32) -> Ceiling {
        Ceiling {
            common: Some(Serial::decode(serial)),
            above: BTreeMap::new(),
        }
    }

    #[test]
    fn a_reserve_is_above_the_clock_and_above_each_zone_and_never_lower_than_before() {
        let (near, far) = (name("near."), name("far."));
        let clock = Serial::decode(1000);
        let needs = [
            (&near, Serial::decode(1100)),
            (&far, Serial::decode(2_026_112_405)),
        ];
        let next = common(900).reserved(clock, needs, RESERVE);
        assert_eq!(next.of(&near), Some(Serial::decode(1356)));
        assert_eq!(next.of(&far), Some(Serial::decode(2_026_112_661)));
        assert_eq!(next.of(&name("idle.")), Some(Serial::decode(1356)));
        let again = next.reserved(Serial::decode(500), [], RESERVE);
        assert_eq!(again, next);
        assert!(next.contains(&common(1356)) && !next.contains(&common(1357)));
    }

    #[test]
    fn a_reserve_is_short_when_three_quarters_are_used() {
        let zone = name("a.");
        let ceiling = common(1256);
        assert!(!ceiling.is_short(&zone, Serial::decode(1192), RESERVE));
        assert!(ceiling.is_short(&zone, Serial::decode(1193), RESERVE));
        assert!(ceiling.covers(&zone, Serial::decode(1256)));
        assert!(!ceiling.covers(&zone, Serial::decode(1257)));
        assert!(!Ceiling::default().covers(&zone, Serial::decode(1)));
    }

    #[test]
    fn what_the_common_ceiling_covers_has_no_ceiling_of_its_own() {
        let zone = name("a.");
        let mut ceiling = common(1000);
        ceiling.raise(&zone, Serial::decode(1_000_000));
        assert_eq!(ceiling.above.len(), 1);
        ceiling.join(&common(2_000_000));
        assert_eq!(ceiling, common(2_000_000));
    }
}

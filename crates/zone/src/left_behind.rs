//! Serials that secondaries may still have after a step that leaves little room for the next one.
//!
//! A serial is moved "back" by a step of up to 2^31-1 (RFC 1982 section 7). A secondary that has not followed yet and then
//! meets a serial more than 2^31-1 after its own believes that it is ahead. So the next serials rise by one until the
//! secondaries have followed, or their copies have expired.

use dns::{Serial, Soa};

use crate::next_serial::PLAUSIBLE_STEP;

/// The serial before a wide step, which secondaries may still have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftBehind {
    /// The serial.
    pub serial: Serial,
    /// The first serial after the step.
    pub reset: Serial,
    /// When all copies with the serial have expired, milliseconds since 1970 UTC.
    pub until_ms: u64,
}

impl LeftBehind {
    /// What holds after a step, made at `time_ms`, from a version with `known` to a serial. The SOAs are those before and
    /// after the step. A step of at most a year of seconds is ordinary: it leaves `known` as it is.
    #[must_use]
    pub(crate) fn after_step(
        known: Option<Self>,
        (from, before): (Serial, &Soa),
        (serial, after): (Serial, &Soa),
        time_ms: u64,
    ) -> Option<Self> {
        let known = known.filter(|known| !known.is_over(time_ms));
        if matches!(from.distance_to(serial), Some(..=PLAUSIBLE_STEP)) {
            return known;
        }
        let expire = before.expire.seconds().max(after.expire.seconds());
        // The oldest serial that can still follow.
        let older = known.into_iter().flat_map(|it| [it.serial, it.reset]);
        let oldest = older.into_iter().find(|old| serial.is_after(*old));
        Some(Self {
            serial: oldest.unwrap_or(from),
            reset: serial,
            until_ms: time_ms.saturating_add(u64::from(expire).saturating_mul(1000)),
        })
    }

    /// Whether all copies have expired.
    #[must_use]
    pub const fn is_over(&self, now_ms: u64) -> bool {
        self.until_ms <= now_ms
    }

    /// Whether a peer with this serial has not followed to `reset` and on to `current`. RFC 1982's order cannot tell: behind
    /// are the serials that are nearer to the one before the step than to the current one.
    #[must_use]
    pub fn includes(&self, serial: Serial, current: Serial) -> bool {
        if self.reset.up_to(serial) <= self.reset.up_to(current) {
            return false;
        }
        let from_old = serial.up_to(self.serial).min(self.serial.up_to(serial));
        from_old <= current.up_to(serial)
    }
}

#[cfg(test)]
mod tests {
    use dns::testing::{name, soa};
    use proptest::prelude::*;

    use super::*;
    use crate::next_serial;

    /// The expiry of [`soa`], in milliseconds.
    fn expire_ms() -> u64 {
        u64::from(soa(&name("z."), 60).expire.seconds()) * 1000
    }

    /// What holds after a step between two serials.
    fn step(known: Option<LeftBehind>, from: u32, to: u32, time_ms: u64) -> Option<LeftBehind> {
        let soa = soa(&name("z."), 60);
        let [from, to] = [from, to].map(Serial::decode);
        LeftBehind::after_step(known, (from, &soa), (to, &soa), time_ms)
    }

    /// Changes of a zone: the seconds since the one before, and the serial that an operator gives it. Of three resets within
    /// one expiry only the last two are known.
    fn changes() -> impl Strategy<Value = Vec<(u64, Option<u32>)>> {
        let wishes = proptest::collection::vec((0..12_usize, any::<u32>()), 0..3);
        let pauses = proptest::collection::vec(0..5_000_u64, 1..12);
        (pauses, wishes).prop_map(|(pauses, wishes)| {
            let wish = |place| wishes.iter().find(|wish| wish.0 == place);
            let pauses = pauses.into_iter().enumerate();
            let change = pauses.map(|(place, pause)| (pause, wish(place).map(|wish| wish.1)));
            change.collect()
        })
    }

    proptest! {
        // transfer D5: it failed as long as the change after a reset took the clock's serial.
        #[test]
        fn who_could_follow_can_follow_the_next_version_that_no_operator_numbers(
            start: u32, clock in 0..1_u64 << 33, changes in changes(),
        ) {
            let mut seconds = clock;
            let mut left = None;
            // Each version with the time when it was replaced.
            let mut replaced: Vec<(Serial, u64)> = Vec::new();
            let mut current = Serial::decode(start);
            for (pause, wish) in changes {
                seconds += pause;
                // Small steps of an operator are no resets.
                let wish = wish.map(Serial::decode).filter(|wish| {
                    current.distance_to(*wish).is_some_and(|step| step > PLAUSIBLE_STEP)
                });
                let known = left.filter(|left: &LeftBehind| !left.is_over(seconds * 1000));
                let behind = known.map(|left| left.serial);
                let next = next_serial(Some(current), None, behind, seconds);
                let next = wish.map_or(next, |wish| next.later(wish));
                prop_assert!(next.is_after(current));
                let is_held = |until: &u64| seconds * 1000 < until * 1000 + expire_ms();
                for (serial, _) in replaced.iter().filter(|(_, until)| wish.is_none() && is_held(until)) {
                    let could = current.is_after(*serial) && current.next(1).is_after(*serial);
                    prop_assert!(!could || next.is_after(*serial), "{serial} {current} {next}");
                }
                left = step(left, current.encode(), next.encode(), seconds * 1000);
                replaced.push((current, seconds));
                current = next;
            }
        }
    }

    #[test]
    fn a_reset_leaves_the_serial_before_it_behind_until_copies_expire() {
        let max = Serial::MAX_STEP;
        assert_eq!(step(None, 7, 8, 0), None);
        let left = step(None, 7, 7 + max, 5_000).unwrap();
        let (serial, reset) = (left.serial.encode(), left.reset.encode());
        assert_eq!((serial, reset), (7, 7 + max));
        assert_eq!(left.until_ms, 5_000 + expire_ms());
        assert_eq!(step(Some(left), 7 + max, 8 + max, 6_000), Some(left));
        let end = left.until_ms;
        assert_eq!(step(Some(left), 7 + max, 8 + max, end), None);
        // A second reset: one at 7 cannot follow, one at the first reset can.
        let second = step(Some(left), 8 + max, 5, 6_000).unwrap();
        assert_eq!(second.serial.encode(), 7 + max);
        // Two steps that one at 7 can follow.
        let first = step(None, 7, 1 << 30, 5_000);
        let both = step(first, 1 << 30, 1 << 31, 6_000).unwrap();
        assert_eq!((both.serial.encode(), both.reset.encode()), (7, 1 << 31));
        assert_eq!(both.until_ms, 6_000 + expire_ms());
    }

    #[test]
    fn who_had_an_older_version_than_the_last_before_the_reset_is_behind_too() {
        let old = 3_900_000_000;
        let reset = 1_752_516_351;
        let left = step(None, old, reset, 0).unwrap();
        for (serial, is_behind) in [
            (old, true),
            (old - 100, true),
            (reset, false),
            (reset + 1, false),
            (reset + 2, false),
            (reset + 3, false),
            (reset - 1, true),
        ] {
            let current = Serial::decode(reset + 2);
            let found = left.includes(Serial::decode(serial), current);
            assert_eq!(found, is_behind, "{serial}");
        }
    }
}

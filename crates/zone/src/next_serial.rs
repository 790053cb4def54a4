//! The serial of the next version, and which serials of peers it has to be above.
//!
//! RFC 1982's order of serials is not transitive: of three serials each may come before the next one. So all distances
//! are measured from one serial, the previous version's.

use std::net::SocketAddr;

use dns::{Name, Serial};

/// How far an unproven serial may be ahead of ours and of the clock: a year of seconds.
pub(crate) const PLAUSIBLE_STEP: u32 = 365 * 86_400;

/// The serial of a zone that a peer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSerial {
    /// The zone.
    pub zone: Name,
    /// The peer.
    pub peer: SocketAddr,
    /// Its serial.
    pub serial: Serial,
    /// What shows that the serial is the peer's.
    pub proof: Proof,
}

/// What shows that a message is the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// A TSIG signature.
    Signature,
    /// An answer to our question, or a connection: others cannot easily forge it.
    Exchange,
    /// Nothing: a single datagram from an address that anybody can write.
    Nothing,
}

impl PeerSerial {
    /// Whether the next serial has to be above this one: when it is signed, or when it comes from an exchange and is
    /// at most a year of seconds ahead of our serial and of the clock. Anybody who could forge another one would
    /// move our serial for ever.
    #[must_use]
    pub fn counts(&self, ours: Option<Serial>, unix_seconds: u64) -> bool {
        let is_near = |anchor: Serial| {
            anchor == self.serial
                || matches!(anchor.distance_to(self.serial), Some(..=PLAUSIBLE_STEP))
        };
        let clock = Serial::from_wall(unix_seconds);
        match self.proof {
            Proof::Signature => true,
            Proof::Exchange => {
                ours.is_none_or(is_near) && (clock.is_after(self.serial) || is_near(clock))
            }
            Proof::Nothing => false,
        }
    }
}

/// Returns the serial of the next version: after the previous one and after the floors, or the clock when it is ahead
/// of all. It is always after the previous one. A floor that is as far ahead as a serial can be is reached, not
/// exceeded. Without a previous version, the first floor takes its place.
///
/// The clock does not count if a secondary that still has the serial `left_behind` could not follow. Neither does a clock
/// that is within a year of the farthest serial: a secondary that is one ordinary step late could not follow.
#[must_use]
pub fn next_serial(
    previous: Option<Serial>,
    floors: impl IntoIterator<Item = Serial>,
    left_behind: Option<Serial>,
    unix_seconds: u64,
) -> Serial {
    let clock = Serial::from_wall(unix_seconds);
    let mut floors = floors.into_iter();
    let Some(base) = previous.or_else(|| floors.next()) else {
        return clock;
    };
    let above = floors.filter_map(|floor| Some(base.distance_to(floor)?.saturating_add(1)));
    let is_near = |step: &u32| *step <= Serial::MAX_STEP - PLAUSIBLE_STEP;
    let can_follow = left_behind.is_none_or(|left| clock.is_after(left));
    let to_clock = base.distance_to(clock).filter(is_near);
    let step = above
        .chain(to_clock.filter(|_| can_follow))
        .fold(1, u32::max);
    base.next(step)
}

#[cfg(test)]
mod tests {
    use dns::testing::name;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // security 2: it failed as long as serials were compared in pairs.
        #[test]
        fn the_next_serial_is_after_the_previous_one_and_all_floors_that_can_be_passed(
            previous: u32, floors in proptest::collection::vec(any::<u32>(), 0..4), clock: u64,
        ) {
            let previous = Serial::decode(previous);
            let floors: Vec<_> = floors.into_iter().map(Serial::decode).collect();
            let next = next_serial(Some(previous), floors.iter().copied(), None, clock);
            prop_assert!(next.is_after(previous));
            for floor in floors {
                match previous.distance_to(floor) {
                    Some(Serial::MAX_STEP) => prop_assert_eq!(next, floor),
                    Some(_) => prop_assert!(next == previous.next(Serial::MAX_STEP) || next.is_after(floor)),
                    None => {}
                }
            }
            let clock = Serial::from_wall(clock);
            let is_near = matches!(previous.distance_to(clock), Some(step) if step <= Serial::MAX_STEP - PLAUSIBLE_STEP);
            prop_assert!(!is_near || !clock.is_after(next));
        }
    }

    #[test]
    fn what_is_not_signed_moves_the_serial_by_a_year_at_most() {
        let counts = |ours: Option<u32>, serial: u32, clock, proof| {
            let (zone, peer) = (name("z."), "192.0.2.1:53".parse().unwrap());
            let serial = Serial::decode(serial);
            let told = PeerSerial {
                zone,
                peer,
                serial,
                proof,
            };
            told.counts(ours.map(Serial::decode), clock)
        };
        let (now, far) = (1_800_000_000, 1 << 30);
        let clock = u64::from(now);
        for (ours, serial, exchange) in [
            (Some(now), now + 1, true),
            (Some(now), now + PLAUSIBLE_STEP, true),
            (Some(now), now + PLAUSIBLE_STEP + 1, false),
            (Some(now), now + far, false),
            (Some(now), now.wrapping_add(Serial::MAX_STEP), false),
            // A year at each start would be for ever: the clock bounds it, too.
            (Some(now + PLAUSIBLE_STEP), now + PLAUSIBLE_STEP + 1, false),
            (Some(now - far), now, false),
            (Some(now - far), now - far + 1, true),
            (None, now + 1, true),
            (None, now - far, true),
            (None, now + far, false),
        ] {
            assert_eq!(
                counts(ours, serial, clock, Proof::Exchange),
                exchange,
                "{ours:?} {serial}"
            );
            assert!(
                counts(ours, serial, clock, Proof::Signature),
                "{ours:?} {serial}"
            );
            assert!(
                !counts(ours, serial, clock, Proof::Nothing),
                "{ours:?} {serial}"
            );
        }
    }
}

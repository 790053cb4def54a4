//! The zone serial and its arithmetic (RFC 1982).
//!
//! There is no `Ord`: serials have no total order. `partial_cmp` is the only comparison.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The serial of a zone version: 32 bits, compared in sequence space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Serial(u32);

impl Serial {
    /// The largest step a serial may take at once (RFC 1982 section 3.1).
    pub const MAX_STEP: u32 = (1 << 31) - 1;

    /// The serial of a number on the wire.
    #[must_use]
    pub const fn decode(wire: u32) -> Self {
        Self(wire)
    }

    /// The number as it is on the wire.
    #[must_use]
    pub const fn encode(self) -> u32 {
        self.0
    }

    /// The serial `step` later (RFC 1982 section 3.1); steps over [`Self::MAX_STEP`] are cut to it.
    #[must_use]
    pub const fn next(self, step: u32) -> Self {
        let step = if step > Self::MAX_STEP {
            Self::MAX_STEP
        } else {
            step
        };
        Self(self.0.wrapping_add(step))
    }

    /// The serial for a time of the wall clock: the low 32 bits of its seconds.
    #[must_use]
    pub const fn from_wall(unix_seconds: u64) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "serials wrap: the low 32 bits are meant"
        )]
        Self(unix_seconds as u32)
    }

    /// How far up the circle of all serials the other one is, 0 to 2^32 - 1.
    #[must_use]
    pub const fn up_to(self, other: Self) -> u32 {
        other.0.wrapping_sub(self.0)
    }

    /// How far a later serial is ahead of this one, 1 to [`Self::MAX_STEP`]; `None` when it is not after it.
    #[must_use]
    pub fn distance_to(self, later: Self) -> Option<u32> {
        later.is_after(self).then(|| self.up_to(later))
    }

    /// Whether this serial comes after the other in sequence space. At a distance of exactly 2^31 the order is
    /// undefined (RFC 1982 section 3.2), and the result is false.
    #[must_use]
    pub fn is_after(self, other: Self) -> bool {
        self.partial_cmp(&other) == Some(Ordering::Greater)
    }

    /// The later of two serials; the first if their order is undefined.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        if other.is_after(self) { other } else { self }
    }
}

impl PartialOrd for Serial {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match other.up_to(*self) {
            0 => Some(Ordering::Equal),
            0x8000_0000 => None,
            distance if distance < 0x8000_0000 => Some(Ordering::Greater),
            _ => Some(Ordering::Less),
        }
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1982 section 3.2: "s1 is said to be less than s2 if ... (i1 < i2 and i2 - i1 < 2^(SERIAL_BITS-1))
    /// or (i1 > i2 and i1 - i2 > 2^(SERIAL_BITS-1))".
    #[test]
    fn order_is_that_of_rfc_1982() {
        let table: &[(u32, u32, Option<Ordering>)] = &[
            (0, 0, Some(Ordering::Equal)),
            (1, 0, Some(Ordering::Greater)),
            (0, 1, Some(Ordering::Less)),
            (44, 0, Some(Ordering::Greater)),
            (100, 44, Some(Ordering::Greater)),
            (200, 100, Some(Ordering::Greater)),
            (0x7fff_ffff, 0, Some(Ordering::Greater)),
            (0x8000_0000, 0, None),
            (0, 0x8000_0000, None),
            (0x8000_0001, 0, Some(Ordering::Less)),
            (0xffff_ffff, 0, Some(Ordering::Less)),
            (0, 0xffff_ffff, Some(Ordering::Greater)),
            (1, 0xffff_ffff, Some(Ordering::Greater)),
            (0x7fff_fffe, 0xffff_ffff, Some(Ordering::Greater)),
            (0x7fff_ffff, 0xffff_ffff, None),
            (0xffff_fffe, 0xffff_ffff, Some(Ordering::Less)),
            (u32::MAX, u32::MAX, Some(Ordering::Equal)),
        ];
        for (left, right, expected) in table {
            let got = Serial::decode(*left).partial_cmp(&Serial::decode(*right));
            assert_eq!(got, *expected, "{left} against {right}");
        }
    }

    proptest! {
        #[test]
        fn a_step_never_leaves_the_defined_range(serial: u32, step in 1u32..) {
            let serial = Serial::decode(serial);
            prop_assert!(serial.next(step).is_after(serial));
        }
    }
}

//! Serials of zones in the arithmetic of RFC 1982, and no more of DNS than that.
//!
//! The crate `dns` has the serial of the rest of the program. It brings a DNS library and its cryptography, and this crate has no
//! dependencies.

use std::fmt;

/// The serial of a version. It has no order, because RFC 1982 section 3.2 leaves pairs undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Serial(u32);

impl Serial {
    /// The serial with this value on the wire.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// Its value on the wire.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether it is greater in the sense of RFC 1982 section 3.2; false for the pairs that are undefined there.
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        let distance = self.0.wrapping_sub(other.0);
        distance != 0 && distance < 1 << 31
    }

    /// The serial that is greater by `step`, which is at most 2^31 - 1 (RFC 1982 section 3.1).
    #[must_use]
    pub const fn plus(self, step: u32) -> Self {
        debug_assert!(step < 1 << 31);
        Self(self.0.wrapping_add(step))
    }

    /// The greater one of two.
    #[must_use]
    pub const fn later(self, other: Self) -> Self {
        if other.is_after(self) { other } else { self }
    }

    /// How far it is after another one; 0 when it is not after it.
    #[must_use]
    pub const fn distance_after(self, other: Self) -> u32 {
        if self.is_after(other) {
            self.0.wrapping_sub(other.0)
        } else {
            0
        }
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The greater one of two serials where either may be unknown.
#[must_use]
pub fn later(one: Option<Serial>, other: Option<Serial>) -> Option<Serial> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.later(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_is_greater_as_the_standard_says() {
        // "The sum s' = (s + n) modulo (2 ^ SERIAL_BITS)" (RFC 1982 section 3.1).
        let last = Serial::new(u32::MAX);
        assert_eq!(last.plus(1), Serial::new(0));
        assert!(last.plus(1).is_after(last));
        // "there are some pairs of values s1 and s2 for which s1 is not equal to s2, but for which s1 is neither
        // greater than, nor less than, s2" (section 3.2).
        let (one, other) = (Serial::new(0), Serial::new(1 << 31));
        assert!(!one.is_after(other) && !other.is_after(one));
        assert_eq!(last.later(Serial::new(5)), Serial::new(5));
        assert_eq!(Serial::new(5).distance_after(last), 6);
        assert_eq!(last.distance_after(Serial::new(5)), 0);
    }
}

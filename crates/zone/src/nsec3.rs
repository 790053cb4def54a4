//! Hashed owners (RFC 5155): what NSEC3 shows instead of names.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

/// The only hash there is: SHA-1 (RFC 5155 section 11).
pub const SHA1: u8 = 1;
/// The octets of a hash.
pub const OCTETS: usize = 20;
/// The digits of base32hex (RFC 4648 section 7), which keep the order of what they write.
const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// How the owners of a zone are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hashing<'a> {
    /// The number of the hash.
    pub algorithm: u8,
    /// How often a hash is hashed again.
    pub iterations: u16,
    /// What is hashed with the name.
    pub salt: &'a [u8],
}

impl<'a> Hashing<'a> {
    /// What the data of NSEC3 or NSEC3PARAM begins with, its flags, and the data after it.
    #[must_use]
    pub fn read(data: &'a [u8]) -> Option<(Self, u8, &'a [u8])> {
        let ([algorithm, flags, high, low, octets], rest) = data.split_first_chunk()?;
        let (salt, rest) = rest.split_at_checked(usize::from(*octets))?;
        let hashing = Self {
            algorithm: *algorithm,
            iterations: u16::from_be_bytes([*high, *low]),
            salt,
        };
        Some((hashing, *flags, rest))
    }

    /// The hash of a name in wire form and lower case (RFC 5155 section 5).
    #[must_use]
    pub fn of(&self, lower_name: &[u8]) -> [u8; OCTETS] {
        let salted = |octets: &[u8]| {
            let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
            context.update(octets);
            context.update(self.salt);
            let mut hash = [0; OCTETS];
            hash.copy_from_slice(context.finish().as_ref());
            hash
        };
        (0..self.iterations).fold(salted(lower_name), |hash, _| salted(&hash))
    }

    /// The sort key of the owner that a name has as a hash.
    pub(crate) fn key_of(&self, lower_name: &[u8]) -> Vec<u8> {
        let mut key = label(&self.of(lower_name));
        key.push(0);
        key
    }
}

/// A hash as a label.
#[must_use]
pub fn label(hash: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(hash.len().div_ceil(5) * 8);
    for five in hash.chunks(5) {
        let bits = five
            .iter()
            .fold(0_u64, |bits, octet| bits << 8 | u64::from(*octet));
        let missing = 5 - five.len();
        let bits = bits << (8 * missing);
        let digits = (five.len() * 8).div_ceil(5);
        text.extend(
            (0..digits)
                .map(|at| DIGITS[usize::from((bits >> (35 - 5 * at)).to_le_bytes()[0] & 31)]),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 5155 appendix A.
    #[test]
    fn names_have_the_hashes_of_the_rfc() {
        let hashing = Hashing {
            algorithm: SHA1,
            iterations: 12,
            salt: &[0xaa, 0xbb, 0xcc, 0xdd],
        };
        for (name, hash) in [
            ("example.", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("a.example.", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            ("*.w.example.", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
            ("x.y.w.example.", "2vptu5timamqttgl4luu9kg21e0aor3s"),
        ] {
            let name = dns::testing::name(name);
            let found = label(&hashing.of(name.as_wire()));
            assert_eq!(String::from_utf8(found).unwrap(), hash);
        }
    }

    #[test]
    fn parameters_that_are_cut_are_none() {
        assert!(Hashing::read(&[1, 0, 0, 1, 2, 9]).is_none());
        assert!(Hashing::read(&[1, 0, 0]).is_none());
        let (hashing, flags, rest) = Hashing::read(&[1, 1, 0, 3, 1, 9, 7]).unwrap();
        assert_eq!((hashing.iterations, flags, rest), (3, 1, &[7][..]));
    }
}

//! Resource record types, by number.

use std::fmt;
use std::str::FromStr;

/// The type of a resource record (RFC 1035 section 3.2.2 and the IANA registry).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rtype(pub u16);

/// Mnemonics we read and print; every other type is `TYPEnnn` (RFC 3597 section 5).
const MNEMONICS: &[(Rtype, &str)] = &[
    (Rtype::A, "A"),
    (Rtype::NS, "NS"),
    (Rtype::CNAME, "CNAME"),
    (Rtype::SOA, "SOA"),
    (Rtype::PTR, "PTR"),
    (Rtype(13), "HINFO"),
    (Rtype::MX, "MX"),
    (Rtype::TXT, "TXT"),
    (Rtype(17), "RP"),
    (Rtype(18), "AFSDB"),
    (Rtype::AAAA, "AAAA"),
    (Rtype(29), "LOC"),
    (Rtype::SRV, "SRV"),
    (Rtype::NAPTR, "NAPTR"),
    (Rtype::DNAME, "DNAME"),
    (Rtype::OPT, "OPT"),
    (Rtype::DS, "DS"),
    (Rtype(44), "SSHFP"),
    (Rtype(46), "RRSIG"),
    (Rtype(47), "NSEC"),
    (Rtype(48), "DNSKEY"),
    (Rtype(50), "NSEC3"),
    (Rtype(51), "NSEC3PARAM"),
    (Rtype(52), "TLSA"),
    (Rtype(63), "ZONEMD"),
    (Rtype(64), "SVCB"),
    (Rtype(65), "HTTPS"),
    (Rtype::TSIG, "TSIG"),
    (Rtype::IXFR, "IXFR"),
    (Rtype::AXFR, "AXFR"),
    (Rtype::ANY, "ANY"),
    (Rtype(257), "CAA"),
];

impl Rtype {
    /// IPv4 address.
    pub const A: Self = Self(1);
    /// Authoritative name server.
    pub const NS: Self = Self(2);
    /// Alias.
    pub const CNAME: Self = Self(5);
    /// Start of a zone of authority.
    pub const SOA: Self = Self(6);
    /// Pointer.
    pub const PTR: Self = Self(12);
    /// Mail exchange.
    pub const MX: Self = Self(15);
    /// Text.
    pub const TXT: Self = Self(16);
    /// IPv6 address.
    pub const AAAA: Self = Self(28);
    /// Server selection (RFC 2782).
    pub const SRV: Self = Self(33);
    /// Naming authority pointer (RFC 3403).
    pub const NAPTR: Self = Self(35);
    /// Redirection of a subtree (RFC 6672).
    pub const DNAME: Self = Self(39);
    /// EDNS pseudo record (RFC 6891).
    pub const OPT: Self = Self(41);
    /// Delegation signer.
    pub const DS: Self = Self(43);
    /// Transaction signature (RFC 8945).
    pub const TSIG: Self = Self(250);
    /// Incremental transfer (RFC 1995).
    pub const IXFR: Self = Self(251);
    /// Whole transfer (RFC 5936).
    pub const AXFR: Self = Self(252);
    /// Any type (RFC 8482).
    pub const ANY: Self = Self(255);

    /// Whether names in this type's RDATA may be compressed on the wire: the types of RFC 1035 only
    /// (RFC 3597 section 4).
    #[must_use]
    pub fn compresses_rdata(self) -> bool {
        matches!(
            self,
            Self::NS | Self::CNAME | Self::SOA | Self::PTR | Self::MX
        )
    }

    /// Whether this number is a question or meta type that no zone may hold (RFC 6895 section 3.1).
    #[must_use]
    pub fn is_meta(self) -> bool {
        self == Self::OPT || (128..=255).contains(&self.0) || self.0 == 0
    }
}

impl fmt::Display for Rtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match MNEMONICS.iter().find(|(rtype, _)| rtype == self) {
            Some((_, mnemonic)) => f.write_str(mnemonic),
            None => write!(f, "TYPE{}", self.0),
        }
    }
}

impl fmt::Debug for Rtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text names no record type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown record type \"{0}\"")]
pub struct UnknownType(String);

impl FromStr for Rtype {
    type Err = UnknownType;

    fn from_str(text: &str) -> Result<Self, UnknownType> {
        if let Some((rtype, _)) = MNEMONICS.iter().find(|(_, m)| m.eq_ignore_ascii_case(text)) {
            return Ok(*rtype);
        }
        let digits = text
            .get(..4)
            .filter(|prefix| prefix.eq_ignore_ascii_case("TYPE"))
            .and_then(|_| text.get(4..));
        digits
            .and_then(|d| d.parse().ok())
            .map(Self)
            .ok_or_else(|| UnknownType(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnemonics_and_numbers_read_back() {
        for text in ["A", "AAAA", "SRV", "TYPE65280", "ZONEMD"] {
            assert_eq!(text.parse::<Rtype>().unwrap().to_string(), text);
        }
        assert_eq!("type1".parse::<Rtype>().unwrap(), Rtype::A);
        assert!("BOGUS".parse::<Rtype>().is_err());
    }
}

//! Resource record types and classes, by number. The names come from NLnet Labs' `domain`, which follows IANA's registry.
//! Every other type is `TYPEnnn`, every other class `CLASSnnn` (RFC 3597 section 5).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use domain::base::iana::{Class, Rtype as TheirRtype};

/// The type of a resource record (RFC 1035 section 3.2.2 and the IANA registry).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rtype(pub u16);

/// The type that `domain` spells without its hyphen (RFC 1706 section 6).
const NSAP_PTR: Rtype = Rtype(23);
const NSAP_PTR_NAME: &str = "NSAP-PTR";

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
    /// Of a host's machine (RFC 1035 section 3.3.2).
    pub const HINFO: Self = Self(13);
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
    /// Signature of an RRset (RFC 4034 section 3).
    pub const RRSIG: Self = Self(46);
    /// The next owner, and the types of this one (RFC 4034 section 4).
    pub const NSEC: Self = Self(47);
    /// Key of a zone (RFC 4034 section 2).
    pub const DNSKEY: Self = Self(48);
    /// The next hashed owner, and the types of this one (RFC 5155 section 3).
    pub const NSEC3: Self = Self(50);
    /// How owners are hashed (RFC 5155 section 4).
    pub const NSEC3PARAM: Self = Self(51);
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
        if *self == NSAP_PTR {
            return f.write_str(NSAP_PTR_NAME);
        }
        match TheirRtype::from_int(self.0).to_mnemonic_str() {
            Some(mnemonic) => f.write_str(mnemonic),
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
        if text.eq_ignore_ascii_case(NSAP_PTR_NAME) {
            return Ok(NSAP_PTR);
        }
        TheirRtype::from_bytes(text.as_bytes())
            .map(|rtype| Self(rtype.to_int()))
            .ok_or_else(|| UnknownType(text.to_owned()))
    }
}

/// Classes that `domain` does not name (CS, RFC 1035 section 3.2.4) or names `*` (ANY, section 3.2.5).
const OTHER_CLASSES: [(u16, &str); 2] = [(2, "CS"), (255, "ANY")];

/// The class of a name, whatever the case of its letters.
#[must_use]
pub fn class_of_name(text: &str) -> Option<u16> {
    let mut others = OTHER_CLASSES.into_iter();
    match others.find(|(_, name)| name.eq_ignore_ascii_case(text)) {
        Some((class, _)) => Some(class),
        None => Class::from_mnemonic(text.as_bytes()).map(Class::to_int),
    }
}

/// The name of a class.
#[must_use]
pub fn class_name(class: u16) -> Cow<'static, str> {
    let other = OTHER_CLASSES.into_iter().find(|(it, _)| *it == class);
    match other
        .map(|(_, name)| name)
        .or_else(|| Class::from_int(class).to_mnemonic_str())
    {
        Some(name) => name.into(),
        None => format!("CLASS{class}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnemonics_and_numbers_read_back() {
        for text in [
            "A",
            "AAAA",
            "SRV",
            "TYPE65280",
            "ZONEMD",
            "URI",
            "CDS",
            "CERT",
            "SPF",
            "DOA",
            "NSAP-PTR",
        ] {
            assert_eq!(text.parse::<Rtype>().unwrap().to_string(), text);
        }
        assert_eq!("type1".parse::<Rtype>().unwrap(), Rtype::A);
        assert_eq!("uri".parse::<Rtype>().unwrap(), Rtype(256));
        for text in ["BOGUS", "TYPE", "TYPE65536", "TYPEx", "", "256"] {
            assert!(text.parse::<Rtype>().is_err(), "{text}");
        }
    }

    #[test]
    fn classes_are_read_and_named() {
        for (class, name) in [
            (1, "IN"),
            (2, "CS"),
            (3, "CH"),
            (4, "HS"),
            (254, "NONE"),
            (255, "ANY"),
        ] {
            assert_eq!(
                (class_name(class).as_ref(), class_of_name(name)),
                (name, Some(class))
            );
        }
        assert_eq!(class_name(77), "CLASS77");
        assert_eq!(class_of_name("BOGUS"), None);
    }
}

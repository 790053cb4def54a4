//! Types, classes and response codes as directives name them.

use dns::{Rcode, Rtype};

/// Types that no zone of ours names, and directives may (IANA's registry of RR types).
const OTHERS: &[(&str, Rtype)] = &[
    ("NULL", Rtype(10)),
    ("MINFO", Rtype(14)),
    ("X25", Rtype(19)),
    ("ISDN", Rtype(20)),
    ("RT", Rtype(21)),
    ("SIG", Rtype(24)),
    ("KEY", Rtype(25)),
    ("PX", Rtype(26)),
    ("GPOS", Rtype(27)),
    ("EID", Rtype(31)),
    ("NIMLOC", Rtype(32)),
    ("KX", Rtype(36)),
    ("CERT", Rtype(37)),
    ("APL", Rtype(42)),
    ("IPSECKEY", Rtype(45)),
    ("DHCID", Rtype(49)),
    ("SMIMEA", Rtype(53)),
    ("HIP", Rtype(55)),
    ("CDS", Rtype(59)),
    ("CDNSKEY", Rtype(60)),
    ("OPENPGPKEY", Rtype(61)),
    ("CSYNC", Rtype(62)),
    ("SPF", Rtype(99)),
    ("NID", Rtype(104)),
    ("L32", Rtype(105)),
    ("L64", Rtype(106)),
    ("LP", Rtype(107)),
    ("EUI48", Rtype(108)),
    ("EUI64", Rtype(109)),
    ("TKEY", Rtype(249)),
    ("MAILB", Rtype(253)),
    ("MAILA", Rtype(254)),
    ("URI", Rtype(256)),
    ("AVC", Rtype(258)),
    ("TA", Rtype(32768)),
    ("DLV", Rtype(32769)),
];

/// Classes (RFC 6895 section 3.2).
const CLASSES: &[(&str, u16)] = &[
    ("IN", 1),
    ("CS", 2),
    ("CH", 3),
    ("HS", 4),
    ("NONE", 254),
    ("ANY", 255),
];

/// The class ANY.
pub const CLASS_ANY: u16 = 255;

/// The type of this name, in capitals; `TYPE12` is none, as in CoreDNS.
pub(super) fn rtype(text: &str) -> Option<Rtype> {
    let is_upper = !text.bytes().any(|octet| octet.is_ascii_lowercase());
    if !is_upper || text.starts_with("TYPE") {
        return None;
    }
    let other = OTHERS.iter().find(|(name, _)| *name == text);
    other.map(|(_, rtype)| *rtype).or_else(|| text.parse().ok())
}

/// The class of this name, in capitals.
pub(super) fn class(text: &str) -> Option<u16> {
    let found = CLASSES.iter().find(|(name, _)| *name == text);
    found.map(|(_, class)| *class)
}

/// The name of a class.
#[must_use]
pub fn class_name(class: u16) -> String {
    let found = CLASSES.iter().find(|(_, number)| *number == class);
    found.map_or_else(|| format!("CLASS{class}"), |(name, _)| (*name).to_owned())
}

/// The name of a type, of those too that no zone of ours names.
#[must_use]
pub fn type_name(rtype: Rtype) -> String {
    let found = OTHERS.iter().find(|(_, number)| *number == rtype);
    found.map_or_else(|| rtype.to_string(), |(name, _)| (*name).to_owned())
}

/// The response code of this name, in capitals.
pub(super) fn rcode(text: &str) -> Option<Rcode> {
    let is_upper = !text.bytes().any(|octet| octet.is_ascii_lowercase());
    Rcode::of_mnemonic(text).filter(|_| is_upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_capitals_and_known() {
        assert_eq!(rtype("AAAA"), Some(Rtype::AAAA));
        assert_eq!(rtype("ANY"), Some(Rtype::ANY));
        assert_eq!(
            (rtype("a"), rtype("TYPE1"), rtype("BOGUS")),
            (None, None, None)
        );
        assert_eq!((class("CH"), class("ch")), (Some(3), None));
        assert_eq!(rcode("YXDOMAIN"), Some(Rcode(6)));
        assert_eq!((rcode("nxdomain"), rcode("RCODE3")), (None, None));
        assert_eq!(
            (class_name(3), class_name(77)),
            ("CH".into(), "CLASS77".into())
        );
        assert_eq!(
            (type_name(Rtype::ANY), type_name(Rtype::A)),
            ("ANY".into(), "A".into())
        );
    }
}

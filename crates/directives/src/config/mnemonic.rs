//! The names that directives use for types, classes and response codes.

use dns::{Rcode, Rtype, class_of_name};

/// The class ANY.
pub const CLASS_ANY: u16 = 255;

/// The type with this name in capitals. `TYPE12` is not accepted, as in CoreDNS.
pub(crate) fn rtype(text: &str) -> Option<Rtype> {
    let is_upper = !text.bytes().any(|octet| octet.is_ascii_lowercase());
    if !is_upper || text.starts_with("TYPE") {
        return None;
    }
    text.parse().ok()
}

/// The class with this name in capitals.
pub(crate) fn class(text: &str) -> Option<u16> {
    let is_upper = !text.bytes().any(|octet| octet.is_ascii_lowercase());
    // CoreDNS does not accept `*`, the name of ANY in zone files.
    class_of_name(text).filter(|_| is_upper && text != "*")
}

/// The response code with this name in capitals.
pub(crate) fn rcode(text: &str) -> Option<Rcode> {
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
            (rtype("URI"), rtype("CERT")),
            (Some(Rtype(256)), Some(Rtype(37)))
        );
        assert_eq!((class("ANY"), class("*")), (Some(CLASS_ANY), None));
    }
}

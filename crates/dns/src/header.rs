//! Response codes and flags of the header.

use domain::base::iana::{OptRcode, TsigRcode};

/// A response code (RFC 1035 section 4.1.1, RFC 6895 section 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Rcode(pub u16);

impl Rcode {
    /// No error.
    pub const NOERROR: Self = Self(0);
    /// The request is malformed.
    pub const FORMERR: Self = Self(1);
    /// The server failed.
    pub const SERVFAIL: Self = Self(2);
    /// The name does not exist.
    pub const NXDOMAIN: Self = Self(3);
    /// The server does not know this kind of request.
    pub const NOTIMP: Self = Self(4);
    /// The server refuses to answer.
    pub const REFUSED: Self = Self(5);
    /// A DNAME makes a name that is too long (RFC 6672 section 2.2).
    pub const YXDOMAIN: Self = Self(6);
    /// The server has no authority for the zone, or the requester has no permission (RFC 2136, RFC 8945).
    pub const NOTAUTH: Self = Self(9);
    /// An EDNS version we do not speak (RFC 6891 section 9); needs OPT.
    pub const BADVERS: Self = Self(16);
    /// The client's cookie is not one of ours (RFC 7873 section 8).
    pub const BADCOOKIE: Self = Self(23);
}

/// A code that `domain` does not name (RFC 8490 section 10.3).
const DSOTYPENI: (Rcode, &str) = (Rcode(11), "DSOTYPENI");

impl Rcode {
    /// The code of a mnemonic, in any case of letters: a name of IANA's registry, or NOTIMPL, which CoreDNS accepts
    /// too.
    #[must_use]
    pub fn of_mnemonic(text: &str) -> Option<Self> {
        let upper = text.to_ascii_uppercase();
        if upper == DSOTYPENI.1 {
            return Some(DSOTYPENI.0);
        }
        // TSIG's table also has the names that are valid in TSIG alone.
        let code = match upper.parse::<OptRcode>() {
            Ok(code) => code.to_int(),
            Err(()) => TsigRcode::from_mnemonic(upper.as_bytes())?.to_int(),
        };
        Some(Self(code))
    }
}

impl std::fmt::Display for Rcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // 16 is BADVERS in a message and BADSIG in TSIG. `OptRcode::checked_from_int` of domain 0.12.3 accepts 0 only.
        let code = (self.0 < 1 << 12).then(|| OptRcode::masked_from_int(self.0));
        let of_messages = code.and_then(OptRcode::to_mnemonic_str);
        let of_tsig = || TsigRcode::from_int(self.0).to_mnemonic_str();
        match of_messages.or_else(of_tsig) {
            Some(mnemonic) => f.write_str(mnemonic),
            None if *self == DSOTYPENI.0 => f.write_str(DSOTYPENI.1),
            None => write!(f, "RCODE{}", self.0),
        }
    }
}

/// Header flags of the second 16 bits (RFC 1035 section 4.1.1).
pub mod flags {
    /// A response.
    pub const QR: u16 = 0x8000;
    /// The four bits of the operation.
    pub const OPCODE: u16 = 0x7800;
    /// Authoritative answer.
    pub const AA: u16 = 0x0400;
    /// Truncated.
    pub const TC: u16 = 0x0200;
    /// Recursion desired.
    pub const RD: u16 = 0x0100;
    /// Recursion available.
    pub const RA: u16 = 0x0080;
    /// Authentic data (RFC 4035 section 3.1.6).
    pub const AD: u16 = 0x0020;
    /// Checking disabled.
    pub const CD: u16 = 0x0010;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_and_named() {
        let names = [
            "NOERROR",
            "FORMERR",
            "SERVFAIL",
            "NXDOMAIN",
            "NOTIMP",
            "REFUSED",
            "YXDOMAIN",
            "YXRRSET",
            "NXRRSET",
            "NOTAUTH",
            "NOTZONE",
            "DSOTYPENI",
            "RCODE12",
            "RCODE13",
            "RCODE14",
            "RCODE15",
            "BADVERS",
            "BADKEY",
            "BADTIME",
            "BADMODE",
            "BADNAME",
            "BADALG",
            "BADTRUNC",
            "BADCOOKIE",
        ];
        for (code, name) in (0_u16..).zip(names) {
            let code = Rcode(code);
            assert_eq!(code.to_string(), name);
            let is_named = !name.starts_with("RCODE");
            assert_eq!(Rcode::of_mnemonic(name), is_named.then_some(code), "{name}");
        }
        assert_eq!(Rcode::of_mnemonic("NotImpl"), Some(Rcode::NOTIMP));
        assert_eq!(Rcode::of_mnemonic("BADSIG"), Some(Rcode::BADVERS));
        assert_eq!(Rcode(4097).to_string(), "RCODE4097");
    }
}

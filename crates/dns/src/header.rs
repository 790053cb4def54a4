//! What a message's header says besides counts: response codes and flags.

/// A response code (RFC 1035 section 4.1.1, RFC 6895 section 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Rcode(pub u16);

impl Rcode {
    /// All is well.
    pub const NOERROR: Self = Self(0);
    /// The request is malformed.
    pub const FORMERR: Self = Self(1);
    /// The server cannot.
    pub const SERVFAIL: Self = Self(2);
    /// No such name.
    pub const NXDOMAIN: Self = Self(3);
    /// The kind of request is not known.
    pub const NOTIMP: Self = Self(4);
    /// The server will not.
    pub const REFUSED: Self = Self(5);
    /// The server has no authority for the zone, or the requester none (RFC 2136, RFC 8945).
    pub const NOTAUTH: Self = Self(9);
    /// An EDNS version we do not speak (RFC 6891 section 9); needs OPT.
    pub const BADVERS: Self = Self(16);
}

/// The codes that have names (IANA's registry of DNS RCODEs).
const MNEMONICS: &[(Rcode, &str)] = &[
    (Rcode::NOERROR, "NOERROR"),
    (Rcode::FORMERR, "FORMERR"),
    (Rcode::SERVFAIL, "SERVFAIL"),
    (Rcode::NXDOMAIN, "NXDOMAIN"),
    (Rcode::NOTIMP, "NOTIMP"),
    (Rcode::REFUSED, "REFUSED"),
    (Rcode(6), "YXDOMAIN"),
    (Rcode(7), "YXRRSET"),
    (Rcode(8), "NXRRSET"),
    (Rcode::NOTAUTH, "NOTAUTH"),
    (Rcode(10), "NOTZONE"),
    (Rcode(11), "DSOTYPENI"),
    (Rcode::BADVERS, "BADVERS"),
    (Rcode(16), "BADSIG"),
    (Rcode(17), "BADKEY"),
    (Rcode(18), "BADTIME"),
    (Rcode(19), "BADMODE"),
    (Rcode(20), "BADNAME"),
    (Rcode(21), "BADALG"),
    (Rcode(22), "BADTRUNC"),
    (Rcode(23), "BADCOOKIE"),
];

impl Rcode {
    /// The code of this name, whatever its letters' case.
    #[must_use]
    pub fn of_mnemonic(text: &str) -> Option<Self> {
        let mut all = MNEMONICS.iter();
        all.find(|(_, name)| name.eq_ignore_ascii_case(text))
            .map(|(rcode, _)| *rcode)
    }
}

impl std::fmt::Display for Rcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match MNEMONICS.iter().find(|(rcode, _)| rcode == self) {
            Some((_, mnemonic)) => f.write_str(mnemonic),
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

//! Reads the error and the time of a reply's TSIG record, without a check of its MAC.

use super::Tsig;

/// Error and time of a reply's TSIG record, unverified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTsig {
    /// The error: 0, 16 BADSIG, 17 BADKEY, 18 BADTIME, 22 BADTRUNC (RFC 8945 section 3).
    pub error: u16,
    /// The server's time of day, in seconds since 1970: for BADTIME from the other data, else the time of signing. 0 if
    /// neither is there.
    pub server_time: u64,
}

/// Reads the TSIG record of a reply; `None` when it has none or a malformed one.
#[must_use]
pub fn reply_tsig(raw: &[u8]) -> Option<ReplyTsig> {
    let tsig = Tsig::parse(raw, crate::tsig_place(raw)?)?;
    let server_time = match (tsig.error, tsig.other) {
        (18, [a, b, c, d, e, f]) => u64::from_be_bytes([0, 0, *a, *b, *c, *d, *e, *f]),
        (18, _) => 0,
        (_, _) => tsig.time,
    };
    Some(ReplyTsig {
        error: tsig.error,
        server_time,
    })
}

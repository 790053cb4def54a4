//! The OPT record of requests, and the options of replies (RFC 6891).
//!
//! Unknown options are ignored (RFC 6891 section 6.1.2).

use crate::wire_record::RawRecord;

/// The identity of the server (RFC 5001).
pub const NSID: u16 = 3;
/// The subnet of a client (RFC 7871).
pub const CLIENT_SUBNET: u16 = 8;
/// The seconds until the zone expires (RFC 7314).
pub const EXPIRE: u16 = 9;
/// Cookies (RFC 7873).
pub const COOKIE: u16 = 10;
/// The time that a connection may stay open (RFC 7828).
pub const KEEPALIVE: u16 = 11;
/// Octets without meaning (RFC 7830).
pub const PADDING: u16 = 12;
/// An extended error (RFC 8914).
pub const EXTENDED_ERROR: u16 = 15;
/// The serial of the zone that the answer comes from (RFC 9660).
pub const ZONEVERSION: u16 = 19;

/// Replies are padded to multiples of this (RFC 8467 section 4.1).
pub const PADDING_BLOCK: usize = 468;
/// Octets of an option without its data: code and length.
pub const OPTION_HEAD_OCTETS: usize = 4;
/// The most extended errors of a message that count, and the most bytes of their texts together.
pub const MOST_EXTENDED_ERRORS: usize = 4;
/// See [`MOST_EXTENDED_ERRORS`].
pub const MOST_EXTENDED_OCTETS: usize = 256;

/// The OPT record of a request (RFC 6891 section 6.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opt<'a> {
    /// The largest datagram the client takes.
    pub size: u16,
    /// The EDNS version.
    pub version: u8,
    /// The DO bit.
    pub dnssec_ok: bool,
    /// The options, whose lengths add up to the record's data exactly.
    pub options: &'a [u8],
}

/// The requests in EDNS options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wishes<'a> {
    /// The identity of the server (RFC 5001).
    pub nsid: bool,
    /// The time until the zone expires.
    pub expire: bool,
    /// The client's cookie, and ours if it has one.
    pub cookie: Option<(&'a [u8; 8], &'a [u8])>,
    /// The time that the connection may stay open.
    pub keepalive: bool,
    /// A padded reply.
    pub padding: bool,
    /// The serial of the zone.
    pub zone_version: bool,
}

impl<'a> Opt<'a> {
    /// Reads an OPT record; `None` when its options do not fill its data exactly.
    pub(super) fn parse(rr: &RawRecord<'a>) -> Option<Self> {
        let mut rest = rr.data;
        while !rest.is_empty() {
            (_, rest) = split(rest)?;
        }
        let [_, version, flags, _] = rr.ttl;
        Some(Self {
            size: rr.class,
            version,
            dnssec_ok: flags & 0x80 != 0,
            options: rr.data,
        })
    }

    /// Reads the options; `None` when one is malformed: FORMERR.
    #[must_use]
    pub fn wishes(&self) -> Option<Wishes<'a>> {
        let mut wishes = Wishes::default();
        let mut rest = self.options;
        while let Some(((code, data), tail)) = split(rest) {
            rest = tail;
            match code {
                // RFC 5001 section 2.1: the data of the request's option is ignored.
                NSID => wishes.nsid = true,
                EXPIRE => wishes.expire = true,
                KEEPALIVE => wishes.keepalive = true,
                PADDING => wishes.padding = true,
                // RFC 9660 section 3.1: "a query with a nonempty option: FORMERR".
                ZONEVERSION if data.is_empty() => wishes.zone_version = true,
                ZONEVERSION => return None,
                // RFC 7873 section 5.2.2: a cookie of a wrong length is FORMERR. The first option counts.
                COOKIE if wishes.cookie.is_none() => wishes.cookie = Some(cookie(data)?),
                _ => {}
            }
        }
        Some(wishes)
    }
}

/// The code of an EDNS option, and its data.
pub type RawOption<'a> = (u16, &'a [u8]);

/// The first option, and the rest; `None` at the end, and where the rest is no option.
#[must_use]
pub fn split(options: &[u8]) -> Option<(RawOption<'_>, &[u8])> {
    let ([c0, c1, l0, l1], rest) = options.split_first_chunk()?;
    let length = usize::from(u16::from_be_bytes([*l0, *l1]));
    let (data, rest) = rest.split_at_checked(length)?;
    Some(((u16::from_be_bytes([*c0, *c1]), data), rest))
}

/// The client's cookie of 8 octets and the server's of 0 or of 8 to 32 (RFC 7873 section 4).
fn cookie(data: &[u8]) -> Option<(&[u8; 8], &[u8])> {
    let (client, server) = data.split_first_chunk()?;
    matches!(server.len(), 0 | 8..=32).then_some((client, server))
}

/// The longest start of a text that has at most this many bytes.
#[must_use]
pub fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Appends an option to the options of a reply.
///
/// # Panics
/// If the data is longer than an option can be. Our options are short.
pub fn push_option(options: &mut Vec<u8>, code: u16, data: &[u8]) {
    let length = u16::try_from(data.len()).expect("options of ours are short");
    options.extend_from_slice(&code.to_be_bytes());
    options.extend_from_slice(&length.to_be_bytes());
    options.extend_from_slice(data);
}

/// Appends the padding that fills a message to whole blocks. `octets` is the length of the message without this option,
/// `most` the limit of the message.
pub fn push_padding(options: &mut Vec<u8>, octets: usize, most: usize) {
    let least = octets + OPTION_HEAD_OCTETS;
    let Some(room) = most.checked_sub(least) else {
        return;
    };
    let missing = (least.next_multiple_of(PADDING_BLOCK) - least).min(room);
    let at = options.len() + OPTION_HEAD_OCTETS;
    push_option(options, PADDING, &[]);
    options.resize(at + missing, 0);
    let length = u16::try_from(missing).expect("a block is short");
    options[at - 2..at].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wishes of options, each as code and data.
    fn wishes<'a>(options: &[(u16, &[u8])], space: &'a mut Vec<u8>) -> Option<Wishes<'a>> {
        for (code, data) in options {
            push_option(space, *code, data);
        }
        let opt = Opt {
            size: 1232,
            version: 0,
            dnssec_ok: false,
            options: space,
        };
        opt.wishes()
    }

    #[test]
    fn i04_cookies_have_eight_octets_or_sixteen_to_forty() {
        for (length, good) in [
            (0, false),
            (7, false),
            (8, true),
            (9, false),
            (15, false),
            (16, true),
            (40, true),
            (41, false),
        ] {
            let mut space = Vec::new();
            let found = wishes(&[(COOKIE, &vec![7; length])], &mut space);
            assert_eq!(found.is_some(), good, "{length} octets");
            if let Some(Wishes { cookie, .. }) = found {
                let (client, server) = cookie.unwrap();
                assert_eq!((client, server.len()), (&[7; 8], length - 8));
            }
        }
    }

    #[test]
    fn a_zone_version_is_asked_for_without_data() {
        let mut space = Vec::new();
        let wanted = wishes(&[(ZONEVERSION, &[]), (65_001, &[1])], &mut space).unwrap();
        assert!(wanted.zone_version && !wanted.nsid && !wanted.padding);
        assert_eq!(wishes(&[(ZONEVERSION, &[0])], &mut Vec::new()), None);
    }

    #[test]
    fn padding_fills_blocks_and_stays_within_the_limit() {
        for (octets, most, want) in [
            (100, 65_535, 468),
            (463, 65_535, 468),
            (464, 65_535, 468),
            (465, 65_535, 936),
            (65_500, 65_535, 65_520),
            (65_530, 65_535, 65_535),
            (65_533, 65_535, 65_533),
        ] {
            let mut options = Vec::new();
            push_padding(&mut options, octets, most);
            assert_eq!(octets + options.len(), want, "{octets} of {most}");
            assert!(options.is_empty() || split(&options).unwrap().1.is_empty());
        }
    }
}

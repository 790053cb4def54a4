//! TSIG: keys, verifying requests, signing replies and streams of messages (RFC 8945).
//!
//! Works on octets as received and as sent. `ring` computes the MACs, and `hmac` with `sha2` those of SHA-224. Only
//! these libraries hold the secrets, so no Debug output shows one. MACs are compared in constant time.
//!
//! A key of a cut algorithm (hmac-sha256-128) takes requests by that name. It also takes requests by the name of the
//! whole algorithm with a cut MAC, as BIND writes them. The reply uses the request's name.
//!
//! # Not implemented
//! - hmac-md5 (section 6: "MUST NOT" be used). - Remembering the last time signed of each key (section 5.2.3, a
//!   "SHOULD"): parallel transfers from one secondary would fail on it.

mod key;
mod reply;

use std::fmt;
use std::sync::Arc;

use crate::wire_record::RawRecord;
use crate::{HEADER_OCTETS, Name, Rtype, set_length};

pub use key::{Algorithm, Key, KeyRing, Keys, UnknownAlgorithm};
pub use reply::{ReplyTsig, reply_tsig};

/// The seconds by which the clocks may differ (RFC 8945 section 10).
pub const FUDGE: u16 = 300;
const CLASS_ANY: u16 = 255;
/// Octets of a TSIG record around its names, MAC and other data: type 2, class 2, TTL 4, length 2; time 6,
/// fudge 2, MAC length 2, ID 2, error 2, other length 2.
const RECORD_OCTETS: usize = 26;

/// The result of verifying a request.
#[derive(Debug)]
pub enum Verdict {
    /// Signed by a known key, in time. The session signs the reply.
    Valid(Session),
    /// The record is malformed: FORMERR.
    Malformed,
    /// NOTAUTH, with a TSIG record that has the error.
    Refused(Refusal),
}

/// The reason why a TSIG was not accepted (RFC 8945 section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TsigError {
    /// The MAC is wrong.
    BadSig,
    /// The key is unknown, or has another algorithm.
    BadKey,
    /// The clocks differ too much.
    BadTime,
    /// The MAC is shorter than we accept.
    BadTrunc,
}

impl TsigError {
    const fn code(self) -> u16 {
        match self {
            Self::BadSig => 16,
            Self::BadKey => 17,
            Self::BadTime => 18,
            Self::BadTrunc => 22,
        }
    }
}

/// DNS's name of the error, and its meaning.
impl fmt::Display for TsigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadSig => "BADSIG (the secrets differ, or the message was changed)",
            Self::BadKey => "BADKEY (no such key here, or its algorithm is another)",
            Self::BadTime => "BADTIME (the clocks differ)",
            Self::BadTrunc => "BADTRUNC (the MAC is cut shorter than its algorithm allows)",
        })
    }
}

/// A refused request, with the parts that its reply needs.
#[derive(Debug)]
pub struct Refusal {
    /// The error.
    pub error: TsigError,
    /// The key's name in the request.
    pub key_name: Name,
    /// The algorithm in the request.
    algorithm: Name,
    /// The message ID that the signature covers.
    original_id: u16,
    /// The time of signing, in seconds since 1970.
    time: u64,
    /// The session that signs the reply; only errors of time and truncation are signed.
    session: Option<Session>,
}

/// A TSIG record as received.
#[derive(Debug)]
struct Tsig<'a> {
    key_name: Name,
    algorithm: Name,
    /// Seconds since 1970, 48 bits.
    time: u64,
    fudge: u16,
    mac: &'a [u8],
    /// The message ID that the signature covers.
    original_id: u16,
    error: u16,
    other: &'a [u8],
}

impl<'a> Tsig<'a> {
    fn parse(raw: &'a [u8], at: usize) -> Option<Self> {
        let (key_name, _) = Name::decode(raw, at).ok()?;
        let rr = RawRecord::parse(raw, at)?;
        if rr.rtype != Rtype::TSIG || rr.class != CLASS_ANY || rr.ttl != [0; 4] {
            return None;
        }
        let (algorithm, length) = Name::decode(rr.data, 0).ok()?;
        let (head, rest) = rr.data.get(length..)?.split_first_chunk::<10>()?;
        let [t0, t1, t2, t3, t4, t5, f0, f1, m0, m1] = *head;
        let (mac, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([m0, m1])))?;
        let (tail, other) = rest.split_first_chunk::<6>()?;
        let [i0, i1, e0, e1, o0, o1] = *tail;
        if other.len() != usize::from(u16::from_be_bytes([o0, o1])) {
            return None;
        }
        Some(Self {
            key_name,
            algorithm,
            time: u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5]),
            fudge: u16::from_be_bytes([f0, f1]),
            mac,
            original_id: u16::from_be_bytes([i0, i1]),
            error: u16::from_be_bytes([e0, e1]),
            other,
        })
    }

    /// The variables of RFC 8945 section 4.3.3. `named` is the algorithm in the record.
    fn variables(&self, key: &Key, named: Algorithm) -> Vec<u8> {
        variables(key, named, self.time, self.fudge, self.error, self.other)
    }

    /// The algorithm with the name in the record: the key's own, or the whole one if the key's is cut.
    fn algorithm_of(&self, key: &Key) -> Option<Algorithm> {
        let wire = self.algorithm.as_wire();
        [key.algorithm, key.algorithm.uncut()]
            .into_iter()
            .find(|algorithm| algorithm.is_named(wire))
    }

    /// The header as it was signed: with the original ID, and one additional record fewer.
    fn signed_header(&self, raw: &[u8]) -> [u8; HEADER_OCTETS] {
        let mut header = [0; HEADER_OCTETS];
        header.copy_from_slice(&raw[..HEADER_OCTETS]);
        header[..2].copy_from_slice(&self.original_id.to_be_bytes());
        let count = u16::from_be_bytes([header[10], header[11]]).saturating_sub(1);
        header[10..].copy_from_slice(&count.to_be_bytes());
        header
    }

    /// Whether the time is within the fudge (RFC 8945 section 5.2.3: equality is allowed).
    const fn is_in_time(&self, now: u64) -> bool {
        self.time.abs_diff(now) <= self.fudge as u64
    }
}

/// The variables that are digested after a message: all fields of RFC 8945 section 4.3.3.
fn variables(
    key: &Key,
    named: Algorithm,
    time: u64,
    fudge: u16,
    error: u16,
    other: &[u8],
) -> Vec<u8> {
    let mut octets = Vec::with_capacity(96);
    octets.extend_from_slice(key.name.as_wire());
    octets.extend_from_slice(&CLASS_ANY.to_be_bytes());
    octets.extend_from_slice(&[0; 4]);
    octets.extend_from_slice(named.wire());
    octets.extend_from_slice(&timers(time, fudge));
    octets.extend_from_slice(&error.to_be_bytes());
    push_sized(&mut octets, other);
    octets
}

/// The timers of RFC 8945 section 4.3.3.1.
fn timers(time: u64, fudge: u16) -> [u8; 8] {
    let [_, _, t0, t1, t2, t3, t4, t5] = time.to_be_bytes();
    let [f0, f1] = fudge.to_be_bytes();
    [t0, t1, t2, t3, t4, t5, f0, f1]
}

/// Appends a length and octets.
fn push_sized(octets: &mut Vec<u8>, data: &[u8]) {
    let length = u16::try_from(data.len()).expect("MACs and other data are short");
    octets.extend_from_slice(&length.to_be_bytes());
    octets.extend_from_slice(data);
}

/// Verifies a signed request. `tsig_at` is the place of its TSIG record, `now` is in seconds since 1970. The checks
/// come in the order of RFC 8945 section 5.2: key, MAC, time, truncation.
#[must_use]
pub fn verify(keys: &Keys, raw: &[u8], tsig_at: usize, now: u64) -> Verdict {
    let Some(tsig) = Tsig::parse(raw, tsig_at) else {
        return Verdict::Malformed;
    };
    let refuse = |tsig: Tsig<'_>, error, session| {
        Verdict::Refused(Refusal {
            error,
            key_name: tsig.key_name,
            algorithm: tsig.algorithm,
            original_id: tsig.original_id,
            time: tsig.time,
            session,
        })
    };
    let key = keys
        .get(&tsig.key_name)
        .and_then(|key| Some((key, tsig.algorithm_of(key)?)));
    let Some((key, named)) = key else {
        return refuse(tsig, TsigError::BadKey, None);
    };
    match check_mac((key, named), &tsig, &[], raw, tsig_at) {
        MacCheck::Illegal => return Verdict::Malformed,
        MacCheck::Wrong => return refuse(tsig, TsigError::BadSig, None),
        MacCheck::Right => {}
    }
    let session = Session {
        key: Arc::clone(key),
        named,
        previous: tsig.mac.to_vec(),
        first: true,
        original_id: tsig.original_id,
    };
    if !tsig.is_in_time(now) {
        return refuse(tsig, TsigError::BadTime, Some(session));
    }
    if tsig.mac.len() < key.algorithm.mac_octets() {
        return refuse(tsig, TsigError::BadTrunc, Some(session));
    }
    Verdict::Valid(session)
}

/// The result of checking a MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MacCheck {
    /// The MAC, whole or cut, is right.
    Right,
    Wrong,
    /// No MAC may have this length.
    Illegal,
}

/// Checks the MAC of a message. `before` is digested before the message.
fn check_mac(
    (key, named): (&Key, Algorithm),
    tsig: &Tsig<'_>,
    before: &[u8],
    raw: &[u8],
    tsig_at: usize,
) -> MacCheck {
    let hash = key.algorithm.hash_octets();
    match tsig.mac.len() {
        0 => return MacCheck::Wrong,
        length if length > hash || length < (hash / 2).max(10) => return MacCheck::Illegal,
        _ => {}
    }
    let header = tsig.signed_header(raw);
    let variables = tsig.variables(key, named);
    let body = &raw[HEADER_OCTETS..tsig_at];
    if key.is_mac(&[before, &header, body, &variables], tsig.mac) {
        MacCheck::Right
    } else {
        MacCheck::Wrong
    }
}

/// Signs the messages of a reply: the MAC of each covers that of the one before.
#[derive(Debug, Clone)]
pub struct Session {
    key: Arc<Key>,
    /// The algorithm in the request.
    named: Algorithm,
    /// The previous MAC: first the request's, then that of each message.
    previous: Vec<u8>,
    /// Whether the next message is the first of the reply.
    first: bool,
    /// The message ID that the request's signature covers.
    original_id: u16,
}

impl Session {
    /// The key that signs.
    #[must_use]
    pub const fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// Signs the next message of a reply (RFC 8945 section 5.3.1). The message is `octets` from `base` on; a `base` of
    /// 2 leaves room for its length. `now` is in seconds since 1970.
    pub fn sign(&mut self, octets: &mut Vec<u8>, base: usize, now: u64) {
        let mut before = Vec::with_capacity(2 + self.previous.len());
        push_sized(&mut before, &self.previous);
        let after = if self.first {
            variables(&self.key, self.named, now, FUDGE, 0, &[])
        } else {
            timers(now, FUDGE).to_vec()
        };
        let id = self.original_id.to_be_bytes();
        let mac = self.key.mac(&[&before, &id, &octets[base + 2..], &after]);
        append(
            octets,
            base,
            &Fields {
                key_name: self.key.name.as_wire(),
                algorithm: self.named.wire(),
                time: now,
                original_id: self.original_id,
                error: 0,
                mac: &mac,
                other: &[],
            },
        );
        self.previous = mac;
        self.first = false;
    }
}

/// Signs our own request, which has no length in front. Returns the MAC, which the reply's MAC covers. For a key of a
/// cut algorithm it writes the name of the whole one: peers that cut know no other.
pub fn sign_request(key: &Key, octets: &mut Vec<u8>, now: u64) -> Vec<u8> {
    let original_id = u16::from_be_bytes([octets[0], octets[1]]);
    let named = key.algorithm.uncut();
    let mac = key.mac(&[octets, &variables(key, named, now, FUDGE, 0, &[])]);
    append(
        octets,
        0,
        &Fields {
            key_name: key.name.as_wire(),
            algorithm: named.wire(),
            time: now,
            original_id,
            error: 0,
            mac: &mac,
            other: &[],
        },
    );
    mac
}

/// Whether the reply to our own request is signed rightly and in time.
#[must_use]
pub fn is_reply_valid(key: &Key, request_mac: &[u8], raw: &[u8], tsig_at: usize, now: u64) -> bool {
    let Some(tsig) = Tsig::parse(raw, tsig_at) else {
        return false;
    };
    let Some(named) = tsig.algorithm_of(key) else {
        return false;
    };
    let mut before = Vec::with_capacity(2 + request_mac.len());
    push_sized(&mut before, request_mac);
    tsig.key_name == key.name
        && tsig.mac.len() >= key.algorithm.mac_octets()
        && check_mac((key, named), &tsig, &before, raw, tsig_at) == MacCheck::Right
        && tsig.is_in_time(now)
}

impl Refusal {
    /// The seconds by which the signing clock is ahead of `now` (in seconds since 1970), if the error is BADTIME.
    #[must_use]
    pub fn seconds_ahead(&self, now: u64) -> Option<i64> {
        let ahead = self.time.cast_signed().saturating_sub(now.cast_signed());
        (self.error == TsigError::BadTime).then_some(ahead)
    }

    /// Appends the TSIG record with the error to the reply. It is signed for errors of time and truncation, and has no
    /// MAC otherwise (RFC 8945 section 5.3.2).
    pub fn sign(&self, octets: &mut Vec<u8>, base: usize, now: u64) {
        let clock = now.to_be_bytes();
        let code = self.error.code();
        let (time, other): (u64, &[u8]) = match self.error {
            // "the time signed is copied from the request, other data is the server's time" (5.2.3)
            TsigError::BadTime => (self.time, &clock[2..]),
            TsigError::BadSig | TsigError::BadKey | TsigError::BadTrunc => (now, &[]),
        };
        let mac = self.session.as_ref().map(|session| {
            let mut before = Vec::with_capacity(66);
            push_sized(&mut before, &session.previous);
            let variables = variables(&session.key, session.named, time, FUDGE, code, other);
            let id = self.original_id.to_be_bytes();
            session
                .key
                .mac(&[&before, &id, &octets[base + 2..], &variables])
        });
        append(
            octets,
            base,
            &Fields {
                key_name: self.key_name.as_wire(),
                algorithm: self.algorithm.as_wire(),
                time,
                original_id: self.original_id,
                error: code,
                mac: mac.as_deref().unwrap_or_default(),
                other,
            },
        );
    }

    /// The most octets that its record takes.
    #[must_use]
    pub fn tsig_octets(&self) -> usize {
        let mac = self
            .session
            .as_ref()
            .map_or(0, |session| session.key.algorithm.mac_octets());
        self.key_name.as_wire().len() + self.algorithm.as_wire().len() + RECORD_OCTETS + mac + 6
    }
}

/// The fields of a TSIG record to send.
struct Fields<'a> {
    key_name: &'a [u8],
    algorithm: &'a [u8],
    /// Seconds since 1970.
    time: u64,
    /// The message ID that the request's signature covers.
    original_id: u16,
    error: u16,
    mac: &'a [u8],
    other: &'a [u8],
}

/// Appends a TSIG record and counts it in the header.
fn append(octets: &mut Vec<u8>, base: usize, fields: &Fields<'_>) {
    let mut data = Vec::with_capacity(128);
    data.extend_from_slice(fields.algorithm);
    data.extend_from_slice(&timers(fields.time, FUDGE));
    push_sized(&mut data, fields.mac);
    data.extend_from_slice(&fields.original_id.to_be_bytes());
    data.extend_from_slice(&fields.error.to_be_bytes());
    push_sized(&mut data, fields.other);
    octets.extend_from_slice(fields.key_name);
    octets.extend_from_slice(&Rtype::TSIG.0.to_be_bytes());
    octets.extend_from_slice(&CLASS_ANY.to_be_bytes());
    octets.extend_from_slice(&[0; 4]);
    push_sized(octets, &data);
    let at = base + 10;
    let count = u16::from_be_bytes([octets[at], octets[at + 1]]) + 1;
    octets[at..at + 2].copy_from_slice(&count.to_be_bytes());
    set_length(octets, base);
}

#[cfg(test)]
mod tests;

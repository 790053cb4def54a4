//! A client that takes a zone as fast as it comes: it reads lengths and counts, not records.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use dns::tsig::{Algorithm, Key, sign_request};

use crate::support::wire::{AXFR, Query};

/// The octets at the end of a SOA: serial, refresh, retry, expire, minimum. Nothing else in a zone looks so.
const SOA_END: usize = 20;
/// Where the closing SOA ends, at most so far before the end of its message: OPT and TSIG follow it.
const TAIL: usize = 512;
/// The name and the secret of the key.
pub(crate) const KEY: (&str, &str) = ("bench.key", "c2l4dGVlbiBvY3RldHMgb2Yga2V5IGZvciB0ZXN0cyE=");

/// What came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Records, both SOAs counted, OPT and TSIG not.
    pub(crate) records: u64,
    /// Octets of all messages, their lengths not counted.
    pub(crate) octets: u64,
    pub(crate) messages: u64,
    /// From the request to the last octet.
    pub(crate) time: Duration,
    /// Whether every message carried additional records: the signature.
    pub(crate) signed: bool,
}

impl Taken {
    pub(crate) fn records_per_second(&self) -> f64 {
        self.records as f64 / self.time.as_secs_f64()
    }

    pub(crate) fn octets_per_record(&self) -> f64 {
        self.octets as f64 / self.records as f64
    }
}

/// Takes a zone by AXFR; with `signed`, the request has a TSIG.
pub(crate) fn take(server: SocketAddr, zone: &str, signed: bool) -> Taken {
    let mut request = Query::new(zone, AXFR).encode();
    if signed {
        let secret = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, KEY.1);
        let name = format!("{}.", KEY.0).parse().unwrap();
        let key = Key::new(&name, Algorithm::Sha256, &secret.unwrap());
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        sign_request(&key, &mut request, now.as_secs());
    }
    let mut stream = TcpStream::connect(server).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut framed = u16::try_from(request.len()).unwrap().to_be_bytes().to_vec();
    framed.append(&mut request);
    let start = Instant::now();
    stream.write_all(&framed).unwrap();
    let mut taken = Taken {
        records: 0,
        octets: 0,
        messages: 0,
        time: Duration::ZERO,
        signed: true,
    };
    let mut buffer = vec![0_u8; 1 << 18];
    let (mut from, mut to) = (0, 0);
    let mut soa_end = None;
    loop {
        while let Some((message, next)) = next_message(&buffer, from, to) {
            from = next;
            let is_last = count(&mut taken, message, &mut soa_end);
            if is_last {
                taken.time = start.elapsed();
                return taken;
            }
        }
        buffer.copy_within(from..to, 0);
        (from, to) = (0, to - from);
        let came = stream.read(&mut buffer[to..]).unwrap();
        assert!(came > 0, "the transfer broke off: {taken:?}");
        to += came;
    }
}

/// The message that begins at `from`, if all of it is there, and where the next begins.
fn next_message(buffer: &[u8], from: usize, to: usize) -> Option<(&[u8], usize)> {
    let length = buffer[from..to].first_chunk::<2>()?;
    let end = from + 2 + usize::from(u16::from_be_bytes(*length));
    (end <= to).then(|| (&buffer[from + 2..end], end))
}

/// Counts a message; whether it has the closing SOA.
fn count(taken: &mut Taken, message: &[u8], soa_end: &mut Option<[u8; SOA_END]>) -> bool {
    let number = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    assert_eq!(number(2) & 15, 0, "response code: {taken:?}");
    taken.messages += 1;
    taken.octets += message.len() as u64;
    taken.records += u64::from(number(6));
    taken.signed &= number(10) > 0;
    let Some(end) = soa_end else {
        let after = first_record_end(message);
        *soa_end = message[..after].last_chunk().copied();
        let rest = &message[after..];
        return soa_end.is_some_and(|end| rest.windows(SOA_END).any(|part| part == end));
    };
    let tail = &message[message.len().saturating_sub(TAIL)..];
    tail.windows(SOA_END).any(|part| part == end)
}

/// Where the first record of a message ends.
fn first_record_end(message: &[u8]) -> usize {
    let mut at = skip_name(message, 12) + 4;
    at = skip_name(message, at) + 8;
    at + 2 + usize::from(u16::from_be_bytes([message[at], message[at + 1]]))
}

/// Where a name that begins here ends.
fn skip_name(message: &[u8], mut at: usize) -> usize {
    loop {
        match message[at] {
            0 => return at + 1,
            pointer if pointer >= 0xc0 => return at + 2,
            length => at += usize::from(length) + 1,
        }
    }
}

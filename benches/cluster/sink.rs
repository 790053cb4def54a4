//! A client that takes a zone as fast as it comes: it reads lengths and counts, not records.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hickory_proto::op::{Header, Message};
use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
use hickory_proto::rr::{Name, RData, TSigner};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

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
    let mut request = Query::new(zone, AXFR).message();
    if signed {
        let secret = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, KEY.1);
        let name = Name::from_ascii(KEY.0).unwrap();
        let signer = TSigner::new(secret.unwrap(), TsigAlgorithm::HmacSha256, name, 300).unwrap();
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        request.finalize(&signer, now.as_secs()).unwrap();
    }
    let mut request = request.to_vec().unwrap();
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
    let header = Header::read(&mut BinDecoder::new(message)).unwrap();
    assert_eq!(header.response_code.low(), 0, "response code: {taken:?}");
    taken.messages += 1;
    taken.octets += message.len() as u64;
    taken.records += u64::from(header.counts.answers);
    taken.signed &= header.counts.additionals > 0;
    let Some(end) = soa_end else {
        let end = soa_end.insert(first_soa_end(message));
        // The whole zone may be in one message: then the SOA is there twice.
        let times = message.windows(SOA_END).filter(|part| part == end).count();
        return times > 1;
    };
    let tail = &message[message.len().saturating_sub(TAIL)..];
    tail.windows(SOA_END).any(|part| part == end)
}

/// The octets at the end of the SOA that the first message begins with.
fn first_soa_end(message: &[u8]) -> [u8; SOA_END] {
    let message = Message::from_vec(message).unwrap();
    let RData::SOA(soa) = &message.answers[0].data else {
        panic!("a transfer begins with an SOA: {}", message.answers[0]);
    };
    let [refresh, retry, expire] = [soa.refresh, soa.retry, soa.expire].map(i32::to_be_bytes);
    let numbers = [
        soa.serial.to_be_bytes(),
        refresh,
        retry,
        expire,
        soa.minimum.to_be_bytes(),
    ];
    numbers.concat().try_into().unwrap()
}

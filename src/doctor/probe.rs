//! Asks a secondary: SOA by UDP and TCP, then NOTIFY as we send it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};

use super::{Findings, NotifyAnswer, Reached, SoaAnswer};
use crate::dns::tsig::{self, Key, reply_tsig};
use crate::dns::{HEADER_OCTETS, Name, Rcode, Rtype, Serial, flags, tsig_place};
use crate::ops::Clock;
use crate::transfer::unix_seconds;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a datagram is sent.
const TRIES: usize = 2;
/// How often its serial is asked for after NOTIFY until it is ours.
const LOOKS: usize = 20;
/// The pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// The operation NOTIFY in header flags.
const NOTIFY: u16 = 4 << 11;

/// One zone at one secondary.
#[derive(Debug)]
pub struct Patient {
    /// The zone.
    pub zone: Name,
    /// The secondary.
    pub address: SocketAddr,
    /// What our messages to it are signed with.
    pub key: Option<Arc<Key>>,
    /// Where they leave from.
    pub source: Option<IpAddr>,
    /// Our serial, if it is known.
    pub ours: Option<Serial>,
}

/// Asks all there is to ask. Takes a few seconds where nobody answers.
pub fn probe(patient: &Patient, clock: &dyn Clock) -> Findings {
    let mut udp = soa_by(patient, datagram);
    let tcp = soa_by(patient, stream);
    let notify = notify(patient, clock);
    let is_ours = |reached: &Reached<SoaAnswer>| match reached {
        Reached::Answered(answer) => patient.ours.is_none() || answer.serial == patient.ours,
        Reached::Closed | Reached::Silent | Reached::Failed(_) => true,
    };
    let was_told = matches!(
        &notify,
        Reached::Answered(answer) if answer.rcode == Rcode::NOERROR && answer.is_signed
    );
    // What NOTIFY has set off takes a moment.
    for _ in 0..LOOKS {
        if !was_told || is_ours(&udp) {
            break;
        }
        std::thread::park_timeout(LOOK_PAUSE);
        udp = soa_by(patient, datagram);
    }
    Findings { udp, tcp, notify }
}

/// A way to ask.
type Way = fn(&Patient, &[u8]) -> io::Result<Vec<u8>>;

/// Asks for the SOA.
fn soa_by(patient: &Patient, way: Way) -> Reached<SoaAnswer> {
    let asked = message(0, &patient.zone).and_then(|(_, octets)| way(patient, &octets));
    reached(asked.map(|raw| SoaAnswer {
        rcode: rcode_of(&raw),
        serial: serial_of(&raw),
    }))
}

/// Sends a NOTIFY without a SOA: a secondary looks then, whatever it has.
fn notify(patient: &Patient, clock: &dyn Clock) -> Reached<NotifyAnswer> {
    let now = unix_seconds(clock);
    let asked = message(NOTIFY | flags::AA, &patient.zone).and_then(|(_, mut octets)| {
        let key = patient.key.as_ref();
        let mac = key.map(|key| tsig::sign_request(key, &mut octets, now));
        datagram(patient, &octets).map(|raw| (raw, mac))
    });
    reached(asked.map(|(raw, mac)| {
        let tsig = reply_tsig(&raw);
        let now = unix_seconds(clock);
        let is_signed = match (&patient.key, mac, tsig_place(&raw)) {
            (Some(key), Some(mac), Some(at)) => tsig::is_reply_valid(key, &mac, &raw, at, now),
            (Some(_), _, _) => false,
            (None, _, _) => true,
        };
        let time = tsig.map(|tsig| tsig.server_time).filter(|time| *time > 0);
        NotifyAnswer {
            rcode: rcode_of(&raw),
            tsig_error: tsig.map_or(0, |tsig| tsig.error),
            is_signed,
            clock_ahead: time.map(|time| time.cast_signed() - now.cast_signed()),
        }
    }))
}

/// What an exchange came to.
fn reached<T>(exchanged: io::Result<T>) -> Reached<T> {
    match exchanged {
        Ok(answer) => Reached::Answered(answer),
        Err(error) => {
            let is = |kinds: &[ErrorKind]| kinds.contains(&error.kind());
            if is(&[ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset]) {
                Reached::Closed
            } else if is(&[ErrorKind::WouldBlock, ErrorKind::TimedOut]) {
                Reached::Silent
            } else {
                Reached::Failed(error)
            }
        }
    }
}

/// A message with one question, for the SOA, and its ID.
fn message(flags: u16, zone: &Name) -> io::Result<(u16, Vec<u8>)> {
    let mut id = [0; 2];
    SystemRandom::new()
        .fill(&mut id)
        .map_err(|_| io::Error::other("the system gives no random numbers"))?;
    let mut octets = id.to_vec();
    octets.extend_from_slice(&flags.to_be_bytes());
    octets.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    octets.extend_from_slice(zone.as_wire());
    octets.extend_from_slice(&Rtype::SOA.0.to_be_bytes());
    octets.extend_from_slice(&[0, 1]);
    Ok((u16::from_be_bytes(id), octets))
}

/// Asks by UDP.
fn datagram(patient: &Patient, octets: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = match patient.address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((patient.source.unwrap_or(any), 0))?;
    socket.connect(patient.address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut raw = vec![0; 4096];
    let mut last = io::Error::from(ErrorKind::TimedOut);
    for _ in 0..TRIES {
        socket.send(octets)?;
        match socket.recv(&mut raw) {
            Ok(length) if is_answer(octets, &raw[..length]) => {
                raw.truncate(length);
                return Ok(raw);
            }
            Ok(_) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Asks by TCP, from whatever address the system chooses.
fn stream(patient: &Patient, octets: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&patient.address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let length = u16::try_from(octets.len()).map_err(io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(octets);
    stream.write_all(&framed)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut raw = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut raw)?;
    if is_answer(octets, &raw) {
        Ok(raw)
    } else {
        Err(io::Error::other("the answer is to another question"))
    }
}

/// Whether octets answer a question of ours.
fn is_answer(question: &[u8], raw: &[u8]) -> bool {
    raw.len() >= HEADER_OCTETS && raw[..2] == question[..2] && raw[2] & 0x80 != 0
}

/// The response code of an answer.
fn rcode_of(raw: &[u8]) -> Rcode {
    Rcode(u16::from(raw.get(3).copied().unwrap_or(0) & 15))
}

/// The serial of an authoritative answer with a SOA in its answer section.
fn serial_of(raw: &[u8]) -> Option<Serial> {
    let is_authority = u16::from_be_bytes([*raw.get(2)?, *raw.get(3)?]) & flags::AA != 0;
    if !is_authority || raw.get(6..8)? == [0; 2] {
        return None;
    }
    let (_, question_end) = Name::decode(raw, HEADER_OCTETS).ok()?;
    let (_, owner_end) = Name::decode(raw, question_end + 4).ok()?;
    if raw.get(owner_end..owner_end + 2)? != Rtype::SOA.0.to_be_bytes() {
        return None;
    }
    let (_, mname_end) = Name::decode(raw, owner_end + 10).ok()?;
    let (_, rname_end) = Name::decode(raw, mname_end).ok()?;
    let serial = raw.get(rname_end..rname_end + 4)?;
    Some(Serial::decode(u32::from_be_bytes(serial.try_into().ok()?)))
}

//! Asks a secondary: SOA by UDP and TCP, then NOTIFY as we send it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dns::tsig::{self, Key, reply_tsig};
use dns::{HEADER_OCTETS, Name, Rcode, Rtype, Serial, flags, tsig_place};
use ops::Clock;
use ring::rand::{SecureRandom, SystemRandom};
use transfer::unix_seconds;

use super::{Findings, NotifyAnswer, Ours, Reached, Requests, SoaAnswer};

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
    /// The key that signs our messages to it.
    pub key: Option<Arc<Key>>,
    /// Where they leave from.
    pub source: Option<IpAddr>,
    /// The zone is a catalog, which a secondary need not read, nor show.
    pub is_catalog: bool,
}

/// What our server says of a zone at a secondary.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Our current serial.
    pub serial: Serial,
    /// How long ago the secondary asked for anything.
    pub asked: Option<Duration>,
    /// The key that signed this request.
    pub key: Option<String>,
    /// Why its last request was refused, and how long ago.
    pub denied: Option<(String, Duration)>,
}

/// The answers of a secondary, without what our server saw of it.
#[derive(Debug)]
pub struct Probed {
    /// The findings, without our serial and without its requests.
    pub findings: Findings,
    /// Our serial before the probe.
    before: Option<Serial>,
    /// When the probe began.
    begin: Instant,
}

/// Asks all questions. `before` is our serial, if it is known. Takes a few seconds if there is no answer.
pub fn probe(patient: &Patient, before: Option<Serial>, clock: &dyn Clock) -> Probed {
    let begin = clock.now();
    let first_by_tcp = soa_by(patient, stream, clock);
    let notify = notify(patient, clock);
    let was_told = matches!(
        &notify,
        Reached::Answered(answer) if answer.rcode == Rcode::NOERROR && answer.is_signed
    );
    let (mut udp, mut catalog) = look(patient, clock);
    // The transfer that follows a NOTIFY takes a moment.
    for _ in 0..LOOKS {
        if !was_told || !is_behind(catalog.as_ref().unwrap_or(&udp), before) {
            break;
        }
        std::thread::park_timeout(LOOK_PAUSE);
        (udp, catalog) = look(patient, clock);
    }
    let tcp = match catalog {
        Some(Reached::Answered(answer)) => Reached::Answered(answer),
        Some(_) | None => first_by_tcp,
    };
    Probed {
        findings: Findings {
            udp,
            tcp,
            notify,
            ours: None,
            requests: None,
            is_catalog: patient.is_catalog,
        },
        before,
        begin,
    }
}

impl Probed {
    /// All findings. `after` is what our server says at `now`, after the probe.
    pub fn complete(self, after: Option<Standing>, now: Instant) -> Findings {
        let Self {
            findings,
            before,
            begin,
        } = self;
        let ours = before.zip(after.as_ref());
        let since = now.saturating_duration_since(begin);
        Findings {
            ours: ours.map(|(before, after)| Ours {
                before,
                after: after.serial,
            }),
            requests: after.map(|it| Requests {
                has_asked: it.asked.is_some_and(|ago| ago <= since),
                key: it.key,
                denied: it.denied.map(|(reason, ago)| (reason, ago.as_secs())),
            }),
            ..findings
        }
    }
}

/// The SOA by UDP; that of a catalog that is refused there by TCP, too.
fn look(patient: &Patient, clock: &dyn Clock) -> (Reached<SoaAnswer>, Option<Reached<SoaAnswer>>) {
    let udp = soa_by(patient, datagram, clock);
    let is_refused = matches!(
        &udp,
        Reached::Answered(answer) if [Rcode::REFUSED, Rcode::NOTAUTH].contains(&answer.rcode)
    );
    let is_hidden = patient.is_catalog && is_refused;
    let catalog = is_hidden.then(|| signed_soa(patient, clock));
    (udp, catalog)
}

/// Whether a secondary that answers lacks a serial of ours.
fn is_behind(reached: &Reached<SoaAnswer>, ours: Option<Serial>) -> bool {
    match (reached, ours) {
        (Reached::Answered(answer), Some(ours)) => {
            answer.serial.is_none_or(|theirs| ours.is_after(theirs))
        }
        (Reached::Answered(_), None) => false,
        (Reached::Closed | Reached::Silent | Reached::Broken(_) | Reached::Failed(_), _) => false,
    }
}

/// A way to ask.
type Way = fn(&Patient, &[u8], &dyn Clock) -> Reached<Vec<u8>>;

/// Asks for the SOA.
fn soa_by(patient: &Patient, way: Way, clock: &dyn Clock) -> Reached<SoaAnswer> {
    let asked = match message(0, &patient.zone) {
        Ok(octets) => way(patient, &octets, clock),
        Err(error) => Reached::Failed(error),
    };
    asked.map(|raw| SoaAnswer {
        rcode: rcode_of(&raw),
        serial: serial_of(&raw),
    })
}

/// Asks for the SOA by TCP with the key, which is what Knot shows a catalog to; an answer that is not signed by it has
/// no serial.
fn signed_soa(patient: &Patient, clock: &dyn Clock) -> Reached<SoaAnswer> {
    let mut octets = match message(0, &patient.zone) {
        Ok(octets) => octets,
        Err(error) => return Reached::Failed(error),
    };
    let mac = sign(patient, &mut octets, clock);
    stream(patient, &octets, clock).map(|raw| SoaAnswer {
        rcode: rcode_of(&raw),
        serial: serial_of(&raw).filter(|_| is_signed(patient, mac.as_deref(), &raw, clock)),
    })
}

/// Signs a message with the key, if there is one; its MAC.
fn sign(patient: &Patient, octets: &mut Vec<u8>, clock: &dyn Clock) -> Option<Vec<u8>> {
    let key = patient.key.as_ref()?;
    Some(tsig::sign_request(key, octets, unix_seconds(clock)))
}

/// Whether an answer is signed by the key as the message with this MAC was, or no key is used.
fn is_signed(patient: &Patient, mac: Option<&[u8]>, raw: &[u8], clock: &dyn Clock) -> bool {
    let now = unix_seconds(clock);
    match (&patient.key, mac, tsig_place(raw)) {
        (Some(key), Some(mac), Some(at)) => tsig::is_reply_valid(key, mac, raw, at, now),
        (Some(_), _, _) => false,
        (None, _, _) => true,
    }
}

/// Sends a NOTIFY without a SOA: a secondary looks then, whatever it has.
fn notify(patient: &Patient, clock: &dyn Clock) -> Reached<NotifyAnswer> {
    let mut octets = match message(NOTIFY | flags::AA, &patient.zone) {
        Ok(octets) => octets,
        Err(error) => return Reached::Failed(error),
    };
    let mac = sign(patient, &mut octets, clock);
    datagram(patient, &octets, clock).map(|raw| {
        let tsig = reply_tsig(&raw);
        let now = unix_seconds(clock);
        let time = tsig.map(|tsig| tsig.server_time).filter(|time| *time > 0);
        NotifyAnswer {
            rcode: rcode_of(&raw),
            tsig_error: tsig.map_or(0, |tsig| tsig.error),
            is_signed: is_signed(patient, mac.as_deref(), &raw, clock),
            clock_ahead: time.map(|time| time.cast_signed() - now.cast_signed()),
        }
    })
}

/// The meaning of a socket error before anything was received.
fn reached<T>(error: io::Error) -> Reached<T> {
    let is = |kinds: &[ErrorKind]| kinds.contains(&error.kind());
    if is(&[ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset]) {
        Reached::Closed
    } else if is_timeout(&error) {
        Reached::Silent
    } else {
        Reached::Failed(error)
    }
}

/// Whether an error says that nothing came in time.
fn is_timeout(error: &io::Error) -> bool {
    [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind())
}

/// A message with one question, for the SOA.
fn message(flags: u16, zone: &Name) -> io::Result<Vec<u8>> {
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
    Ok(octets)
}

/// Asks by UDP.
fn datagram(patient: &Patient, octets: &[u8], clock: &dyn Clock) -> Reached<Vec<u8>> {
    match try_datagrams(patient, octets, clock) {
        Ok(raw) => Reached::Answered(raw),
        Err(error) => reached(error),
    }
}

/// Sends a datagram a few times until it is answered.
fn try_datagrams(patient: &Patient, octets: &[u8], clock: &dyn Clock) -> io::Result<Vec<u8>> {
    let any: IpAddr = match patient.address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((patient.source.unwrap_or(any), 0))?;
    socket.connect(patient.address)?;
    let mut raw = vec![0; 4096];
    let mut last = io::Error::from(ErrorKind::TimedOut);
    for _ in 0..TRIES {
        socket.send(octets)?;
        let end = clock.now() + PATIENCE;
        // Other messages are ignored.
        while let Some(left) = left_until(end, clock) {
            socket.set_read_timeout(Some(left))?;
            match socket.recv(&mut raw) {
                Ok(length) if is_answer(octets, &raw[..length]) => {
                    raw.truncate(length);
                    return Ok(raw);
                }
                Ok(_) => {}
                Err(error) => {
                    last = error;
                    break;
                }
            }
        }
    }
    Err(last)
}

/// Asks by TCP, from whatever address the system chooses.
fn stream(patient: &Patient, octets: &[u8], clock: &dyn Clock) -> Reached<Vec<u8>> {
    let connected = TcpStream::connect_timeout(&patient.address, PATIENCE);
    let exchanged = match connected {
        Ok(stream) => exchange(stream, octets, clock.now() + PATIENCE, clock),
        Err(error) => return reached(error),
    };
    match exchanged {
        Ok(raw) if is_answer(octets, &raw) => Reached::Answered(raw),
        Ok(_) => Reached::Broken(io::Error::other("the reply is to another question")),
        Err(error) if is_timeout(&error) => Reached::Silent,
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            Reached::Broken(io::Error::other("it closes the connection"))
        }
        Err(error) => Reached::Broken(error),
    }
}

/// Asks over a connection; the whole answer has to be there by `end`.
fn exchange(
    mut stream: TcpStream,
    octets: &[u8],
    end: Instant,
    clock: &dyn Clock,
) -> io::Result<Vec<u8>> {
    let length = u16::try_from(octets.len()).map_err(io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(octets);
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&framed)?;
    let mut fill = |into: &mut [u8]| -> io::Result<()> {
        let mut filled = 0;
        while filled < into.len() {
            let left = left_until(end, clock).ok_or(ErrorKind::TimedOut)?;
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut into[filled..])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                more => filled += more,
            }
        }
        Ok(())
    };
    let mut length = [0; 2];
    fill(&mut length)?;
    let mut raw = vec![0; usize::from(u16::from_be_bytes(length))];
    fill(&mut raw)?;
    Ok(raw)
}

/// The time that is left, if any is.
fn left_until(end: Instant, clock: &dyn Clock) -> Option<Duration> {
    Some(end.saturating_duration_since(clock.now())).filter(|left| !left.is_zero())
}

/// Whether a message answers our question.
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

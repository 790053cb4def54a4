//! Tells secondaries of new versions (RFC 1996): one state for each zone and target.
//!
//! The first change is told at once; while changes go on, one telling every `interval`, and always a last
//! one with the final serial. A telling is a datagram with the current SOA as hint, repeated with
//! growing waits until it is answered or given up; a newer version takes its place. After a refusal, and after
//! giving up, one try every SOA retry until the target has shown by its own requests that it holds the version: one
//! that is just starting refuses what it would take a moment later, and would stay behind until its refresh. Each
//! target has its own task and socket: a dead one delays nobody. From the third try on it goes over TCP,
//! too (RFC 1996 section 3.5), for a way that lets no datagrams through.

mod telling;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use dns::tsig::{self, Key, KeyRing};
use dns::{
    HEADER_OCTETS, MAX_MESSAGE_OCTETS, MessageWriter, Name, Rcode, Rtype, Section, Serial, flags,
    tsig_place,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ops::Clock;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use zone::{Version, Zone};

use self::telling::{Action, Telling};
use crate::axfr::soa_record;
use crate::{NotifySettings, SecondaryTable, TransferEvents, unix_seconds};

/// The operation NOTIFY in header flags (RFC 1996 section 3.1).
const OPCODE_NOTIFY: u16 = 4 << 11;
/// The largest answer that is read.
const ANSWER_OCTETS: usize = 1500;

/// How many tries go over UDP alone.
pub const NOTIFY_UDP_TRIES: u32 = 2;

/// Who is told of a zone's new versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secondary {
    /// The zone.
    pub zone: Name,
    /// Where it listens.
    pub target: SocketAddr,
    /// The keys that its messages may be signed with; ours are by the first that it takes.
    pub keys: Vec<Name>,
    /// The address our datagrams leave from.
    pub source: Option<IpAddr>,
}

/// What a message from the target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    Nothing,
    Taken,
    Refused {
        /// The refusal is signed by our key, or no key is used.
        is_signed: bool,
    },
}

/// A message that waits for its answer.
#[derive(Debug)]
struct InFlight {
    octets: Vec<u8>,
    id: u16,
    /// The key that signed it, and its MAC, which the answer's covers.
    signed: Option<(Arc<Key>, Vec<u8>)>,
    serial: Serial,
}

/// Tells one target of one zone's versions.
pub struct Notifier {
    /// The zone.
    pub zone: Arc<Zone>,
    /// The target.
    pub secondary: Secondary,
    /// The keys, that of the target among them.
    pub keys: Arc<KeyRing>,
    /// Times and tries.
    pub settings: NotifySettings,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Counts.
    pub events: Arc<dyn TransferEvents>,
    /// Knows what the target has.
    pub table: Arc<SecondaryTable>,
}

impl Notifier {
    /// Tells the target of each version until told to stop.
    pub async fn run(self, cancel: CancellationToken) {
        let mut versions = self.zone.subscribe();
        // A version that is there already was maybe never told: a restart must not lose a NOTIFY.
        versions.mark_changed();
        let mut telling = Telling::new(self.settings);
        let mut socket: Option<UdpSocket> = None;
        let mut in_flight: Option<InFlight> = None;
        let mut by_tcp: Option<Exchange> = None;
        loop {
            let now = self.clock.now();
            let until = match telling.next(now) {
                Action::Send => {
                    in_flight = self.tell(&mut telling, &mut socket).await;
                    by_tcp = self.fall_back(&telling, in_flight.as_ref());
                    continue;
                }
                Action::GiveUp => {
                    self.give_up(&mut telling, in_flight.as_ref());
                    continue;
                }
                Action::Wait => None,
                Action::WaitUntil(at) => Some(at.saturating_duration_since(now)),
            };
            tokio::select! {
                () = cancel.cancelled() => return,
                changed = changed(&mut versions) => {
                    if !changed {
                        return cancel.cancelled().await;
                    }
                    telling.changed();
                }
                () = wait(until) => {}
                answer = answer(socket.as_ref(), in_flight.as_ref()) => match answer {
                    Ok(raw) => if self.hear(&mut telling, &mut in_flight, &raw) {
                        by_tcp = None;
                    },
                    Err(error) => {
                        // Nobody listens there (an ICMP error): the next try comes in its time.
                        debug!(target = %self.secondary.target, %error, "notify bounced");
                        in_flight = in_flight.filter(|_| by_tcp.is_some());
                    }
                },
                answer = answer_by_tcp(by_tcp.as_mut()) => {
                    by_tcp = None;
                    match answer {
                        Ok(raw) => {
                            self.hear(&mut telling, &mut in_flight, &raw);
                        }
                        Err(error) => {
                            debug!(target = %self.secondary.target, %error, "notify over TCP failed");
                        }
                    }
                }
            }
        }
    }

    /// Takes a message of the target's; whether it answers what is in flight, which then is no more.
    fn hear(&self, telling: &mut Telling, in_flight: &mut Option<InFlight>, raw: &[u8]) -> bool {
        let heard = match in_flight {
            Some(sent) => self.answer_to(sent, raw, telling),
            None => Heard::Nothing,
        };
        match heard {
            Heard::Nothing => return false,
            Heard::Taken => telling.settled(),
            Heard::Refused { is_signed } => {
                let keys = self.known_keys().len();
                telling.refused(self.clock.now(), self.retry(), keys, is_signed);
            }
        }
        *in_flight = None;
        true
    }

    /// Sends the current version's NOTIFY, unless a slow try finds that the target has it.
    async fn tell(
        &self,
        telling: &mut Telling,
        socket: &mut Option<UdpSocket>,
    ) -> Option<InFlight> {
        let now = self.clock.now();
        let Some(version) = self.zone.current() else {
            *telling = Telling::new(self.settings);
            return None;
        };
        let target = self.secondary.target;
        if telling.is_slow && self.table.has(self.zone.apex(), target, version.serial) {
            telling.settled();
            return None;
        }
        telling.sent(now, self.retry());
        match self.send(&version, telling.key(), socket).await {
            Ok(in_flight) => {
                telling.left(true);
                self.events.notify_sent();
                let wall = self.clock.wall();
                self.table
                    .notified(self.zone.apex(), target, version.serial, wall);
                debug!(zone = %self.zone.apex(), serial = %version.serial, %target, "notify sent");
                Some(in_flight)
            }
            Err(error) => {
                let zone = self.zone.apex();
                if telling.left(false) {
                    warn!(%zone, %target, %error, "notify could not be sent");
                } else {
                    debug!(%zone, %target, %error, "notify could not be sent, still");
                }
                *socket = None;
                None
            }
        }
    }

    /// The wait between slow tries: the SOA's retry.
    fn retry(&self) -> Duration {
        let version = self.zone.current();
        let retry = version.map_or(1, |version| version.contents.soa().retry.seconds().max(1));
        Duration::from_secs(u64::from(retry))
    }

    /// The same over TCP, once datagrams alone were not answered.
    fn fall_back(&self, telling: &Telling, sent: Option<&InFlight>) -> Option<Exchange> {
        let octets = sent
            .filter(|_| telling.tries > NOTIFY_UDP_TRIES)?
            .octets
            .clone();
        Some(exchange(self.secondary.clone(), octets).boxed())
    }

    async fn send(
        &self,
        version: &Version,
        place: usize,
        socket: &mut Option<UdpSocket>,
    ) -> io::Result<InFlight> {
        let socket = match socket {
            Some(socket) => socket,
            None => socket.insert(connect(&self.secondary).await?),
        };
        let id = random_id()?;
        let key = self.key(place)?;
        let (octets, mac) = notify_message(id, version, key.as_deref(), unix_seconds(&*self.clock));
        socket.send(&octets).await?;
        Ok(InFlight {
            octets,
            id,
            signed: key.map(|key| (key, mac)),
            serial: version.serial,
        })
    }

    /// The key that signs what we say to the target, by its place among those that are known. An unsigned NOTIFY in
    /// its place would be refused.
    fn key(&self, place: usize) -> io::Result<Option<Arc<Key>>> {
        let known = self.known_keys();
        match self.secondary.keys.first() {
            None => Ok(None),
            Some(name) if known.is_empty() => {
                Err(io::Error::other(format!("there is no key {name}")))
            }
            Some(_) => Ok(Some(Arc::clone(&known[place % known.len()]))),
        }
    }

    /// The target's keys that are in some file or line.
    fn known_keys(&self) -> Vec<Arc<Key>> {
        let known = self.keys.current();
        let keys = self.secondary.keys.iter();
        keys.filter_map(|name| known.get(name)).cloned().collect()
    }

    /// Notes that a telling was given up.
    fn give_up(&self, telling: &mut Telling, in_flight: Option<&InFlight>) {
        telling.given_up(self.clock.now(), self.retry());
        self.events.notify_given_up();
        self.table.given_up(self.zone.apex(), self.secondary.target);
        let serial = in_flight.map(|sent| sent.serial.encode());
        warn!(
            zone = %self.zone.apex(), secondary = %self.secondary.target, serial,
            "a secondary does not answer notify"
        );
    }

    /// What a datagram from the target says to ours, which is the last of this telling.
    fn answer_to(&self, sent: &InFlight, raw: &[u8], telling: &Telling) -> Heard {
        let Some(head) = raw.first_chunk::<HEADER_OCTETS>() else {
            return Heard::Nothing;
        };
        let id = u16::from_be_bytes([head[0], head[1]]);
        let answer_flags = u16::from_be_bytes([head[2], head[3]]);
        if id != sent.id || answer_flags & flags::QR == 0 {
            return Heard::Nothing;
        }
        let rcode = Rcode(answer_flags & 15);
        let (zone, secondary) = (self.zone.apex(), self.secondary.target);
        let is_signed = sent.signed.as_ref().is_none_or(|(key, mac)| {
            let now = unix_seconds(&*self.clock);
            tsig_place(raw).is_some_and(|at| tsig::is_reply_valid(key, mac, raw, at, now))
        });
        // A refusal of the key or the clock comes unsigned, or signed with an error.
        if !is_signed && rcode == Rcode::NOERROR {
            warn!(%zone, %secondary, "a secondary's answer to notify is not signed by its key");
            return Heard::Nothing;
        }
        if is_signed || !telling.has_signed_refusal() {
            let told = (sent.serial, rcode);
            self.table
                .acknowledged(zone, secondary, told, self.clock.wall());
        }
        if rcode == Rcode::NOERROR {
            self.events.notify_acknowledged();
            debug!(%zone, %secondary, serial = %sent.serial, "notify answered");
            return Heard::Taken;
        }
        self.events.notify_refused();
        if !telling.is_slow {
            info!(%zone, %secondary, serial = %sent.serial, rcode = rcode.0, "notify refused");
        }
        Heard::Refused { is_signed }
    }
}

/// Waits for a new version; false when there will be none.
async fn changed(versions: &mut watch::Receiver<u64>) -> bool {
    versions.changed().await.is_ok()
}

/// Waits so long, or for ever.
async fn wait(until: Option<Duration>) {
    match until {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Waits for a datagram from the target while an answer is awaited.
async fn answer(socket: Option<&UdpSocket>, sent: Option<&InFlight>) -> io::Result<Vec<u8>> {
    let (Some(socket), Some(_)) = (socket, sent) else {
        return std::future::pending().await;
    };
    let mut raw = vec![0; ANSWER_OCTETS];
    let octets = socket.recv(&mut raw).await?;
    raw.truncate(octets);
    Ok(raw)
}

/// A message on its way over TCP, and its answer.
type Exchange = BoxFuture<'static, io::Result<Vec<u8>>>;

/// Waits for the answer over TCP while one is awaited.
async fn answer_by_tcp(exchange: Option<&mut Exchange>) -> io::Result<Vec<u8>> {
    match exchange {
        Some(exchange) => exchange.await,
        None => std::future::pending().await,
    }
}

/// Sends a message over TCP and reads the answer. Whoever waits for it puts an end to it.
pub(super) async fn exchange(secondary: Secondary, octets: Vec<u8>) -> io::Result<Vec<u8>> {
    let socket = match secondary.target {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(source) = secondary.source {
        socket.bind((source, 0).into())?;
    }
    let mut stream = socket.connect(secondary.target).await?;
    let length = u16::try_from(octets.len()).map_err(io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(&octets);
    stream.write_all(&framed).await?;
    let length = stream.read_u16().await?;
    let mut raw = vec![0; usize::from(length)];
    stream.read_exact(&mut raw).await?;
    Ok(raw)
}

/// A socket that speaks with the target only.
async fn connect(secondary: &Secondary) -> io::Result<UdpSocket> {
    let any = match secondary.target {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((secondary.source.unwrap_or(any), 0)).await?;
    socket.connect(secondary.target).await?;
    Ok(socket)
}

/// An ID nobody can guess.
fn random_id() -> io::Result<u16> {
    let mut octets = [0; 2];
    SystemRandom::new()
        .fill(&mut octets)
        .map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(u16::from_be_bytes(octets))
}

/// A NOTIFY with the version's SOA (RFC 1996 section 3.7), and its MAC when it is signed.
fn notify_message(id: u16, version: &Version, key: Option<&Key>, now: u64) -> (Vec<u8>, Vec<u8>) {
    let mut writer = MessageWriter::new(5);
    writer.begin(false, MAX_MESSAGE_OCTETS, id, OPCODE_NOTIFY | flags::AA);
    let soa = soa_record(version);
    let mut question = soa.owner.to_vec();
    question.extend_from_slice(&Rtype::SOA.0.to_be_bytes());
    question.extend_from_slice(&[0, 1]);
    writer.question(&question);
    let fits = writer.record(Section::Answer, soa);
    debug_assert!(fits, "a SOA fits any message");
    let mut octets = writer.take();
    let mac = key.map_or_else(Vec::new, |key| tsig::sign_request(key, &mut octets, now));
    (octets, mac)
}

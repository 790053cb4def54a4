//! Tells secondaries of new versions (RFC 1996): one state for each zone and target.
//!
//! The first change is announced at once, further changes every `interval`, and the final serial always. A NOTIFY is a
//! datagram with the current SOA as a hint. It is repeated with growing waits until it is answered or given up, or
//! until a newer version replaces it. After a refusal, and after giving up, there is one try every SOA retry until the
//! target's requests show that it has the version. Without them, a target that refuses while it starts would be out of
//! date until its refresh. Each target has its own task and socket, so a dead target delays no other. From the third
//! try on the NOTIFY is sent over TCP too (RFC 1996 section 3.5), for networks that block datagrams.

mod state;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use dns::tsig::{self, Key, KeyRing};
use dns::{
    HEADER_OCTETS, MAX_MESSAGE_OCTETS, MessageWriter, Rcode, Section, Serial, flags, tsig_place,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ops::Clock;
use tokio::net::UdpSocket;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use zone::{Version, Zone};

use self::state::{Action, NotifyState};
use crate::exchange::{connect, exchange, random_id, soa_question};
use crate::{NotifySettings, Secondary, SecondaryTable, TransferEvents, unix_seconds};

/// The operation NOTIFY in header flags (RFC 1996 section 3.1).
const OPCODE_NOTIFY: u16 = 4 << 11;
/// The largest answer that is read.
const ANSWER_OCTETS: usize = 1500;

/// The number of tries over UDP alone.
pub const NOTIFY_UDP_TRIES: u32 = 2;

/// A message from the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Unrelated,
    Accepted,
    Refused {
        /// Whether the refusal is signed by our key, or no key is used.
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

/// Notifies one target of one zone's versions.
pub struct Notifier {
    /// The zone.
    pub zone: Arc<Zone>,
    /// The target.
    pub secondary: Secondary,
    /// All keys, the target's among them.
    pub keys: Arc<KeyRing>,
    /// Times and tries.
    pub settings: NotifySettings,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub events: Arc<dyn TransferEvents>,
    /// The state of all secondaries.
    pub table: Arc<SecondaryTable>,
}

impl Notifier {
    /// Notifies the target of each version until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let mut versions = self.table.notices.of(&self.zone);
        let mut state = NotifyState::new(self.settings);
        let mut socket: Option<UdpSocket> = None;
        let mut in_flight: Option<InFlight> = None;
        let mut by_tcp: Option<Exchange> = None;
        loop {
            let now = self.clock.now();
            let until = match state.next(now) {
                Action::Send => {
                    in_flight = self.notify(&mut state, &mut socket).await;
                    by_tcp = self.fall_back(&state, in_flight.as_ref());
                    continue;
                }
                Action::GiveUp => {
                    self.give_up(&mut state, in_flight.as_ref());
                    continue;
                }
                Action::Wait => None,
                Action::WaitUntil(at) => Some(at.saturating_duration_since(now)),
            };
            tokio::select! {
                () = cancel.cancelled() => return,
                changed = versions.changed() => match changed {
                    Ok(()) => state.changed(),
                    Err(_) => return cancel.cancelled().await,
                },
                () = wait(until) => {}
                answer = answer(socket.as_ref(), in_flight.as_ref()) => match answer {
                    Ok(raw) => if self.handle(&mut state, &mut in_flight, &raw) {
                        by_tcp = None;
                    },
                    Err(error) => {
                        // No server listens there (an ICMP error). The next try comes at its time.
                        debug!(target = %self.secondary.target, %error, "notify bounced");
                        in_flight = in_flight.filter(|_| by_tcp.is_some());
                    }
                },
                answer = answer_by_tcp(by_tcp.as_mut()) => {
                    by_tcp = None;
                    match answer {
                        Ok(raw) => {
                            self.handle(&mut state, &mut in_flight, &raw);
                        }
                        Err(error) => {
                            debug!(target = %self.secondary.target, %error, "notify over TCP failed");
                        }
                    }
                }
            }
        }
    }

    /// Handles a message from the target. Returns true if it ends the NOTIFY in flight.
    fn handle(
        &self,
        state: &mut NotifyState,
        in_flight: &mut Option<InFlight>,
        raw: &[u8],
    ) -> bool {
        let reply = match in_flight {
            Some(sent) => self.answer_to(sent, raw, state),
            None => Reply::Unrelated,
        };
        match reply {
            Reply::Unrelated => return false,
            Reply::Accepted => state.settled(),
            Reply::Refused { is_signed } => {
                let keys = self.known_keys().len();
                state.refused(self.clock.now(), self.retry(), keys, is_signed);
            }
        }
        *in_flight = None;
        true
    }

    /// Sends a NOTIFY of the current version, unless the target has it already by the time of a slow try.
    async fn notify(
        &self,
        state: &mut NotifyState,
        socket: &mut Option<UdpSocket>,
    ) -> Option<InFlight> {
        let now = self.clock.now();
        let Some(version) = self.zone.current() else {
            *state = NotifyState::new(self.settings);
            return None;
        };
        let target = self.secondary.target;
        if state.is_slow && self.table.has(target, &version) {
            state.settled();
            return None;
        }
        state.sent(now, self.retry());
        match self.send(&version, state.key(), socket).await {
            Ok(in_flight) => {
                state.left(true);
                self.events.notify_sent();
                let wall = self.clock.wall();
                self.table
                    .notified(self.zone.apex(), target, version.serial, wall);
                debug!(zone = %self.zone.apex(), serial = %version.serial, %target, "notify sent");
                Some(in_flight)
            }
            Err(error) => {
                let zone = self.zone.apex();
                if state.left(false) {
                    warn!(%zone, %target, %error, "notify cannot be sent");
                } else {
                    debug!(%zone, %target, %error, "notify still cannot be sent");
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

    /// Sends the NOTIFY over TCP too, when datagrams alone got no answer.
    fn fall_back(&self, state: &NotifyState, sent: Option<&InFlight>) -> Option<Exchange> {
        let octets = sent
            .filter(|_| state.tries > NOTIFY_UDP_TRIES)?
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

    /// The key that signs the next NOTIFY, by its index among the known ones. Without a key the target would refuse an
    /// unsigned NOTIFY.
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

    /// The target's keys that are defined.
    fn known_keys(&self) -> Vec<Arc<Key>> {
        let known = self.keys.current();
        let keys = self.secondary.keys.iter();
        keys.filter_map(|name| known.get(name)).cloned().collect()
    }

    /// Reports that the NOTIFY is given up.
    fn give_up(&self, state: &mut NotifyState, in_flight: Option<&InFlight>) {
        state.given_up(self.clock.now(), self.retry());
        self.events.notify_given_up();
        self.table.given_up(self.zone.apex(), self.secondary.target);
        let serial = in_flight.map(|sent| sent.serial.encode());
        warn!(
            zone = %self.zone.apex(), secondary = %self.secondary.target, serial,
            "a secondary does not answer notify"
        );
    }

    /// Reads the message that ends the NOTIFY.
    fn answer_to(&self, sent: &InFlight, raw: &[u8], state: &NotifyState) -> Reply {
        let Some(head) = raw.first_chunk::<HEADER_OCTETS>() else {
            return Reply::Unrelated;
        };
        let id = u16::from_be_bytes([head[0], head[1]]);
        let answer_flags = u16::from_be_bytes([head[2], head[3]]);
        if id != sent.id || answer_flags & flags::QR == 0 {
            return Reply::Unrelated;
        }
        let rcode = Rcode(answer_flags & 15);
        let (zone, secondary) = (self.zone.apex(), self.secondary.target);
        let is_signed = sent.signed.as_ref().is_none_or(|(key, mac)| {
            let now = unix_seconds(&*self.clock);
            tsig_place(raw).is_some_and(|at| tsig::is_reply_valid(key, mac, raw, at, now))
        });
        // A refusal because of the key or the clock is unsigned, or signed with an error.
        if !is_signed && rcode == Rcode::NOERROR {
            warn!(%zone, %secondary, "a secondary's answer to notify is not signed by its key");
            return Reply::Unrelated;
        }
        if is_signed || !state.has_signed_refusal() {
            let answer = (sent.serial, rcode);
            self.table
                .acknowledged(zone, secondary, answer, self.clock.wall());
        }
        if rcode == Rcode::NOERROR {
            self.events.notify_acknowledged();
            debug!(%zone, %secondary, serial = %sent.serial, "notify answered");
            return Reply::Accepted;
        }
        self.events.notify_refused();
        if !state.is_slow {
            info!(%zone, %secondary, serial = %sent.serial, %rcode, "notify refused");
        }
        Reply::Refused { is_signed }
    }
}

/// Waits for this time, or for ever.
async fn wait(until: Option<Duration>) {
    match until {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Waits for a datagram from the target, as long as a NOTIFY is in flight.
async fn answer(socket: Option<&UdpSocket>, sent: Option<&InFlight>) -> io::Result<Vec<u8>> {
    let (Some(socket), Some(_)) = (socket, sent) else {
        return std::future::pending().await;
    };
    let mut raw = vec![0; ANSWER_OCTETS];
    let octets = socket.recv(&mut raw).await?;
    raw.truncate(octets);
    Ok(raw)
}

/// A message and its answer over TCP.
type Exchange = BoxFuture<'static, io::Result<Vec<u8>>>;

/// Waits for the answer over TCP, if a message was sent.
async fn answer_by_tcp(exchange: Option<&mut Exchange>) -> io::Result<Vec<u8>> {
    match exchange {
        Some(exchange) => exchange.await,
        None => std::future::pending().await,
    }
}

/// A NOTIFY with the version's SOA (RFC 1996 section 3.7), and its MAC when it is signed.
fn notify_message(id: u16, version: &Version, key: Option<&Key>, now: u64) -> (Vec<u8>, Vec<u8>) {
    let mut writer = MessageWriter::new(5);
    writer.begin(false, MAX_MESSAGE_OCTETS, id, OPCODE_NOTIFY | flags::AA);
    writer.question(&soa_question(version.contents.apex()));
    let fits = writer.record(Section::Answer, version.soa_record());
    debug_assert!(fits, "a SOA fits any message");
    let mut octets = writer.take();
    let mac = key.map_or_else(Vec::new, |key| tsig::sign_request(key, &mut octets, now));
    (octets, mac)
}

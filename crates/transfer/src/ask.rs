//! Asks secondaries for their serials at the start: a secondary that is ahead of us would never take our versions.
//!
//! This happens when our disk was lost or an old copy of it came back. Each secondary that is notified is asked over
//! UDP, signed if it has a key, several times within a short while, all at the same time. One that refuses is asked
//! again over TCP within that time, because Knot reports the serial of a catalog in no other way. An answer without
//! the required signature is ignored: it would let anybody move our serial. Addresses that may only transfer are not
//! asked: they need not be servers. How far a serial that is not signed may move ours is decided elsewhere
//! ([`PeerSerial::counts`]).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use dns::tsig::{self, Key};
use dns::{
    MAX_MESSAGE_OCTETS, MessageWriter, Name, Rcode, Response, Rtype, Serial, Soa, flags, tsig_place,
};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use ops::Clock;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};
use zone::{PeerSerial, Proof};

use crate::exchange::{connect, exchange, random_id, soa_question};
use crate::{Secondary, unix_seconds};

/// The largest answer that is read.
const ANSWER_OCTETS: usize = 4096;

/// The number and the timeout of questions.
#[derive(Debug, Clone, Copy)]
pub struct AskSettings {
    /// The number of datagrams to each secondary.
    pub tries: u32,
    /// The time to wait for the answer to each.
    pub wait: Duration,
}

impl Default for AskSettings {
    fn default() -> Self {
        Self {
            tries: 3,
            wait: Duration::from_millis(600),
        }
    }
}

/// A secondary, with the ways to ask it: signed with one of its keys, or unsigned.
pub type AskedSecondary = (Secondary, Vec<Option<Arc<Key>>>);

/// Asks all secondaries at once, each in all its ways until one of them gives a serial. Returns the serials that were
/// given. Takes at most `tries` times `wait`.
pub async fn ask_serials(
    secondaries: Vec<AskedSecondary>,
    settings: AskSettings,
    clock: Arc<dyn Clock>,
) -> Vec<PeerSerial> {
    let clock = &*clock;
    let asked = secondaries
        .iter()
        .map(|(secondary, ways)| ask_in_all_ways(secondary, ways, settings, clock));
    join_all(asked).await.into_iter().flatten().collect()
}

/// Asks one secondary with all its keys at once. During an exchange of keys it may know only one of them. Its refusal
/// of the other is unsigned, and so ignored.
async fn ask_in_all_ways(
    secondary: &Secondary,
    ways: &[Option<Arc<Key>>],
    settings: AskSettings,
    clock: &dyn Clock,
) -> Option<PeerSerial> {
    let Secondary { zone, target, .. } = secondary;
    let ways = ways.iter();
    let mut asked: FuturesUnordered<_> = ways
        .map(|key| async move {
            let proof = match key {
                Some(_) => Proof::Signature,
                None => Proof::Exchange,
            };
            (proof, ask(secondary, key.as_deref(), settings, clock).await)
        })
        .collect();
    while let Some((proof, said)) = asked.next().await {
        match said {
            Ok(Some(serial)) => {
                info!(%zone, secondary = %target, %serial, "a secondary has a version");
                return Some(PeerSerial {
                    zone: zone.clone(),
                    peer: *target,
                    serial,
                    proof,
                });
            }
            Ok(None) => {
                debug!(%zone, secondary = %target, "a secondary does not report its serial");
            }
            Err(error) => {
                debug!(%zone, secondary = %target, %error, "a secondary cannot be asked");
            }
        }
    }
    None
}

/// Asks one secondary in one way: over UDP, and over TCP when it has refused.
async fn ask(
    secondary: &Secondary,
    key: Option<&Key>,
    settings: AskSettings,
    clock: &dyn Clock,
) -> io::Result<Option<Serial>> {
    // All tries send the same question, so an answer to an earlier one counts.
    let question = Question::new(&secondary.zone, key, unix_seconds(clock))?;
    let refused = CancellationToken::new();
    let by_udp = ask_by_udp(secondary, &question, key, settings, &refused, clock);
    let by_tcp = async {
        refused.cancelled().await;
        let raw = exchange(secondary.clone(), question.octets.clone()).await?;
        Ok(
            match question.read(&secondary.zone, &raw, key, unix_seconds(clock)) {
                Answer::Has(serial) => Some(serial),
                Answer::Other | Answer::None | Answer::Refused { .. } => None,
            },
        )
    };
    let asked = async {
        tokio::pin!(by_udp, by_tcp);
        tokio::select! {
            said = &mut by_udp => match said {
                Ok(None) if refused.is_cancelled() => by_tcp.await,
                said => said,
            },
            said = &mut by_tcp => match said {
                Ok(Some(serial)) => Ok(Some(serial)),
                Ok(None) | Err(_) => by_udp.await,
            },
        }
    };
    let time = settings.wait.saturating_mul(settings.tries);
    tokio::time::timeout(time, asked).await.unwrap_or(Ok(None))
}

/// Asks over UDP, a few times. Returns at once when the answer is a refusal.
async fn ask_by_udp(
    secondary: &Secondary,
    question: &Question,
    key: Option<&Key>,
    settings: AskSettings,
    refused: &CancellationToken,
    clock: &dyn Clock,
) -> io::Result<Option<Serial>> {
    let socket = connect(secondary).await?;
    for _ in 0..settings.tries {
        if let Err(error) = socket.send(&question.octets).await
            && !is_told_of_before(&error)
        {
            return Err(error);
        }
        let answered = async {
            let mut raw = vec![0; ANSWER_OCTETS];
            loop {
                let octets = match socket.recv(&mut raw).await {
                    Ok(octets) => octets,
                    Err(error) if is_told_of_before(&error) => continue,
                    Err(error) => return Err(error),
                };
                match question.read(&secondary.zone, &raw[..octets], key, unix_seconds(clock)) {
                    Answer::Other => {}
                    Answer::None => return Ok::<_, io::Error>(None),
                    Answer::Has(serial) => return Ok(Some(serial)),
                    Answer::Refused { is_certain } => {
                        refused.cancel();
                        if is_certain {
                            return Ok(None);
                        }
                    }
                }
            }
        };
        if let Ok(answer) = tokio::time::timeout(settings.wait, answered).await {
            return answer;
        }
    }
    Ok(None)
}

/// Whether an error is the result of an earlier datagram (ICMP): a secondary that is starting may receive the next.
fn is_told_of_before(error: &io::Error) -> bool {
    [
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::HostUnreachable,
        io::ErrorKind::NetworkUnreachable,
    ]
    .contains(&error.kind())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It is no answer to the question.
    Other,
    /// The secondary has no version.
    None,
    /// It refuses, maybe only over this transport.
    Refused {
        /// The refusal is genuine: it is signed, or no key is used.
        is_certain: bool,
    },
    Has(Serial),
}

/// A question for a SOA.
struct Question {
    id: u16,
    octets: Vec<u8>,
    /// Its MAC, which the answer's MAC covers. Empty if it is not signed.
    mac: Vec<u8>,
}

impl Question {
    fn new(zone: &Name, key: Option<&Key>, now: u64) -> io::Result<Self> {
        let id = random_id()?;
        let mut writer = MessageWriter::new(5);
        writer.begin(false, MAX_MESSAGE_OCTETS, id, 0);
        writer.question(&soa_question(zone));
        let mut octets = writer.take();
        let mac = key.map_or_else(Vec::new, |key| tsig::sign_request(key, &mut octets, now));
        Ok(Self { id, octets, mac })
    }

    /// Reads an answer.
    fn read(&self, zone: &Name, raw: &[u8], key: Option<&Key>, now: u64) -> Answer {
        let Ok(reply) = Response::decode(raw) else {
            return Answer::Other;
        };
        if reply.id != self.id || reply.flags & flags::QR == 0 {
            return Answer::Other;
        }
        let is_certain = key.is_none_or(|key| {
            tsig_place(raw).is_some_and(|at| tsig::is_reply_valid(key, &self.mac, raw, at, now))
        });
        if [Rcode::REFUSED, Rcode::NOTAUTH].contains(&reply.rcode) {
            return Answer::Refused { is_certain };
        }
        if !is_certain {
            // It may be forged, and the next answer may be genuine.
            return Answer::Other;
        }
        match (&reply.question, reply.sections[0].first()) {
            (Some((name, Rtype::SOA, 1)), _) if name != zone => Answer::Other,
            (Some((_, Rtype::SOA, 1)), Some(first))
                if reply.rcode == Rcode::NOERROR && first.owner == *zone =>
            {
                let soa = (first.rtype == Rtype::SOA)
                    .then(|| Soa::decode(first.rdata.as_octets(), first.ttl));
                soa.flatten()
                    .map_or(Answer::None, |(_, serial)| Answer::Has(serial))
            }
            _ => Answer::None,
        }
    }
}

#[cfg(test)]
mod tests;

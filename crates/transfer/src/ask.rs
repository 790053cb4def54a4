//! Asks secondaries at the start which serial they have: one that is ahead of us would never take ours.
//!
//! That is so when our disk was lost or an old copy of it came back. Each secondary that is notified is asked
//! by UDP, signed where it has a key, a few times within a short while, all at once. One that refuses is asked once
//! more over TCP within that time, for Knot tells the serial of a catalog no other way. Who is silent, or
//! does not have the zone, says nothing; an answer that should be signed and is not counts as none, for it
//! would let anybody move our serial. Addresses that may only transfer are not asked: they need not be
//! servers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use dns::tsig::{self, Key};
use dns::{
    HEADER_OCTETS, MAX_MESSAGE_OCTETS, MessageWriter, Name, Rcode, Rtype, Serial, flags, tsig_place,
};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use ops::Clock;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::UdpSocket;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::notify::exchange;
use crate::{Secondary, unix_seconds};

/// The largest answer that is read.
const ANSWER_OCTETS: usize = 4096;

/// How often and how long a secondary is asked.
#[derive(Debug, Clone, Copy)]
pub struct AskSettings {
    /// How many datagrams it gets.
    pub tries: u32,
    /// How long each is waited for.
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

/// A secondary, and each way to ask it: signed with a key of its, or not signed.
pub type AskedSecondary = (Secondary, Vec<Option<Arc<Key>>>);

/// Asks all secondaries at once, each in all its ways until it says a serial in one; gives the serials of those that
/// did. Takes `tries` times `wait` at most.
pub async fn ask_serials(
    secondaries: Vec<AskedSecondary>,
    settings: AskSettings,
    clock: Arc<dyn Clock>,
) -> Vec<(Secondary, Serial)> {
    let clock = &*clock;
    let asked = secondaries.iter().map(|(secondary, ways)| async move {
        let serial = ask_in_all_ways(secondary, ways, settings, clock).await?;
        Some((secondary.clone(), serial))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Asks one secondary with all its keys side by side: of two that are exchanged it may know one alone, and says so
/// unsigned, which counts as nothing.
async fn ask_in_all_ways(
    secondary: &Secondary,
    ways: &[Option<Arc<Key>>],
    settings: AskSettings,
    clock: &dyn Clock,
) -> Option<Serial> {
    let Secondary { zone, target, .. } = secondary;
    let ways = ways.iter();
    let mut asked: FuturesUnordered<_> = ways
        .map(|key| ask(secondary, key.as_deref(), settings, clock))
        .collect();
    while let Some(said) = asked.next().await {
        match said {
            Ok(Some(serial)) => {
                info!(%zone, secondary = %target, %serial, "a secondary has a version");
                return Some(serial);
            }
            Ok(None) => {
                debug!(%zone, secondary = %target, "a secondary does not say what it has");
            }
            Err(error) => {
                debug!(%zone, secondary = %target, %error, "a secondary cannot be asked");
            }
        }
    }
    None
}

/// Asks one secondary in one way: by UDP, and over TCP from the moment it refuses that.
async fn ask(
    secondary: &Secondary,
    key: Option<&Key>,
    settings: AskSettings,
    clock: &dyn Clock,
) -> io::Result<Option<Serial>> {
    // One question for all tries: an answer to an earlier one is as good.
    let question = Question::new(&secondary.zone, key, unix_seconds(clock))?;
    let refused = CancellationToken::new();
    let by_udp = ask_by_udp(secondary, &question, key, settings, &refused, clock);
    let by_tcp = async {
        refused.cancelled().await;
        let raw = exchange(secondary.clone(), question.octets.clone()).await?;
        Ok(match question.read(&raw, key, unix_seconds(clock)) {
            Answer::Has(serial) => Some(serial),
            Answer::Other | Answer::None | Answer::Refused { .. } => None,
        })
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

/// Asks by UDP, a few times; says at once when an answer refuses.
async fn ask_by_udp(
    secondary: &Secondary,
    question: &Question,
    key: Option<&Key>,
    settings: AskSettings,
    refused: &CancellationToken,
    clock: &dyn Clock,
) -> io::Result<Option<Serial>> {
    let any = match secondary.target {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((secondary.source.unwrap_or(any), 0)).await?;
    socket.connect(secondary.target).await?;
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
                match question.read(&raw[..octets], key, unix_seconds(clock)) {
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

/// Whether an error is the fate of a datagram that was sent before (ICMP): a secondary that starts is there
/// for the next.
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
    /// It refuses, maybe this way alone.
    Refused {
        /// It said so itself: the answer is signed, or no key is used.
        is_certain: bool,
    },
    Has(Serial),
}

/// A question for a SOA.
struct Question {
    id: u16,
    /// The question section: the name, type and class.
    question: Vec<u8>,
    octets: Vec<u8>,
    /// Its MAC, which the answer's covers; empty when it is not signed.
    mac: Vec<u8>,
}

impl Question {
    /// A question with an ID that nobody can guess.
    fn new(zone: &Name, key: Option<&Key>, now: u64) -> io::Result<Self> {
        let mut id = [0; 2];
        SystemRandom::new()
            .fill(&mut id)
            .map_err(|_| io::Error::other("the system gives no random numbers"))?;
        let id = u16::from_be_bytes(id);
        let mut question = zone.as_wire().to_vec();
        question.extend_from_slice(&Rtype::SOA.0.to_be_bytes());
        question.extend_from_slice(&[0, 1]);
        let mut writer = MessageWriter::new(5);
        writer.begin(false, MAX_MESSAGE_OCTETS, id, 0);
        writer.question(&question);
        let mut octets = writer.take();
        let mac = key.map_or_else(Vec::new, |key| tsig::sign_request(key, &mut octets, now));
        Ok(Self {
            id,
            question,
            octets,
            mac,
        })
    }

    fn read(&self, raw: &[u8], key: Option<&Key>, now: u64) -> Answer {
        let Some(head) = raw.first_chunk::<HEADER_OCTETS>() else {
            return Answer::Other;
        };
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let answers = word(6);
        if word(0) != self.id || word(2) & flags::QR == 0 {
            return Answer::Other;
        }
        let is_refused = [Rcode::REFUSED, Rcode::NOTAUTH].contains(&Rcode(word(2) & 15));
        let is_certain = key.is_none_or(|key| {
            tsig_place(raw).is_some_and(|at| tsig::is_reply_valid(key, &self.mac, raw, at, now))
        });
        if is_refused {
            return Answer::Refused { is_certain };
        }
        if !is_certain {
            // It might be a lie, and the next datagram be the truth.
            return Answer::Other;
        }
        if word(2) & 15 != 0 || word(4) != 1 || answers == 0 {
            return Answer::None;
        }
        let Some(body) = raw.get(HEADER_OCTETS..) else {
            return Answer::None;
        };
        let is_same = body
            .get(..self.question.len())
            .is_some_and(|own| own.eq_ignore_ascii_case(&self.question));
        if !is_same {
            return Answer::Other;
        }
        first_serial(raw, HEADER_OCTETS + self.question.len(), &self.question)
            .map_or(Answer::None, Answer::Has)
    }
}

/// The serial of the SOA that is the first record after the question, where its owner is the question's name.
fn first_serial(raw: &[u8], at: usize, question: &[u8]) -> Option<Serial> {
    let name = &question[..question.len() - 4];
    let rest = raw.get(at..)?;
    let owner = match *rest.first()? {
        // A pointer to the question's name is what servers write.
        head if head & 0xc0 == 0xc0 => {
            let to = usize::from(head & 0x3f) << 8 | usize::from(*rest.get(1)?);
            (to == HEADER_OCTETS).then_some(2)?
        }
        _ => {
            let own = rest.get(..name.len())?;
            own.eq_ignore_ascii_case(name).then_some(name.len())?
        }
    };
    let fixed = rest.get(owner..owner + 10)?;
    if fixed[..4] != [0, 6, 0, 1] {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
    let data = rest.get(owner + 10..owner + 10 + length)?;
    // The five numbers stand at the end: serial, refresh, retry, expire, minimum.
    let numbers = data.get(data.len().checked_sub(20)?..)?;
    let serial = numbers.first_chunk::<4>()?;
    Some(Serial::decode(u32::from_be_bytes(*serial)))
}

#[cfg(test)]
mod tests;

//! Asks secondaries at the start which serial they have: one that is ahead of us would never take ours.
//!
//! That is so when our disk was lost or an old copy of it came back. Each secondary that is notified is asked
//! by UDP, signed where it has a key, a few times within a short while, all at once. Who is silent, or
//! does not have the zone, says nothing; an answer that should be signed and is not counts as none, for it
//! would let anybody move our serial. Addresses that may only transfer are not asked: they need not be
//! servers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::UdpSocket;
use tracing::{debug, info};

use crate::dns::tsig::{self, Key};
use crate::dns::{
    HEADER_OCTETS, MAX_MESSAGE_OCTETS, MessageWriter, Name, Rtype, Serial, flags, tsig_place,
};
use crate::ops::Clock;
use crate::transfer::{Secondary, unix_seconds};

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

/// Asks all secondaries at once; gives the serials of those that said one. Takes `tries` times `wait` at
/// most.
pub async fn ask_serials(
    secondaries: Vec<(Secondary, Option<Arc<Key>>)>,
    settings: AskSettings,
    clock: Arc<dyn Clock>,
) -> Vec<(Secondary, Serial)> {
    let clock = &*clock;
    let asked = secondaries.iter().map(|(secondary, key)| async move {
        let Secondary { zone, target, .. } = secondary;
        match ask(secondary, key.as_deref(), settings, clock).await {
            Ok(Some(serial)) => {
                info!(%zone, secondary = %target, %serial, "a secondary has a version");
                Some((secondary.clone(), serial))
            }
            Ok(None) => {
                debug!(%zone, secondary = %target, "a secondary does not say what it has");
                None
            }
            Err(error) => {
                debug!(%zone, secondary = %target, %error, "a secondary cannot be asked");
                None
            }
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Asks one secondary.
async fn ask(
    secondary: &Secondary,
    key: Option<&Key>,
    settings: AskSettings,
    clock: &dyn Clock,
) -> io::Result<Option<Serial>> {
    let any = match secondary.target {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((secondary.source.unwrap_or(any), 0)).await?;
    socket.connect(secondary.target).await?;
    // One question for all tries: an answer to an earlier one is as good.
    let question = Question::new(&secondary.zone, key, unix_seconds(clock))?;
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

/// What a datagram says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It is no answer to the question.
    Other,
    /// The secondary has no version.
    None,
    /// It has this one.
    Has(Serial),
}

/// A question for a SOA.
struct Question {
    /// Its ID.
    id: u16,
    /// The question section: the name, type and class.
    question: Vec<u8>,
    /// The datagram.
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

    /// Reads a datagram.
    fn read(&self, raw: &[u8], key: Option<&Key>, now: u64) -> Answer {
        let Some(head) = raw.first_chunk::<HEADER_OCTETS>() else {
            return Answer::Other;
        };
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let answers = word(6);
        if word(0) != self.id || word(2) & flags::QR == 0 {
            return Answer::Other;
        }
        if let Some(key) = key {
            let is_signed = tsig_place(raw)
                .is_some_and(|at| tsig::is_reply_valid(key, &self.mac, raw, at, now));
            if !is_signed {
                // A refusal comes unsigned; so might a lie, and the next datagram be the truth.
                return Answer::Other;
            }
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
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::dns::tsig::Algorithm;
    use crate::ops::SystemClock;

    /// What a secondary answers to a question.
    type Script = fn(&[u8], &Key) -> Vec<Vec<u8>>;

    /// The zone.
    fn zone() -> Name {
        "z.example.".parse().unwrap()
    }

    /// A key.
    fn key() -> Arc<Key> {
        Arc::new(Key::new(
            &"k.".parse().unwrap(),
            Algorithm::Sha256,
            b"0123456789abcdef",
        ))
    }

    /// An answer with a SOA of this serial, not signed.
    fn answer(question: &[u8], serial: u32) -> Vec<u8> {
        let end = HEADER_OCTETS + zone().as_wire().len() + 4;
        let mut raw = question[..end].to_vec();
        raw[2] = 0x84;
        raw[6..12].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
        raw.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 5, 0, 22, 0, 0]);
        raw.extend_from_slice(&serial.to_be_bytes());
        raw.extend_from_slice(&[0; 16]);
        raw
    }

    /// Asks a secondary that answers so.
    async fn asked(script: Script, is_signed: bool) -> Vec<(Name, Serial)> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let target = socket.local_addr().unwrap();
        let answering = async {
            let mut raw = vec![0; 512];
            loop {
                let (octets, from) = socket.recv_from(&mut raw).await.unwrap();
                for answer in script(&raw[..octets], &key()) {
                    socket.send_to(&answer, from).await.unwrap();
                }
            }
        };
        let secondary = Secondary {
            zone: zone(),
            target,
            keys: is_signed
                .then(|| "k.".parse().unwrap())
                .into_iter()
                .collect(),
            source: None,
        };
        let settings = AskSettings {
            tries: 2,
            wait: Duration::from_millis(200),
        };
        let asking = ask_serials(
            vec![(secondary, is_signed.then(key))],
            settings,
            Arc::new(SystemClock),
        );
        tokio::select! {
            found = asking => serials(found),
            () = answering => unreachable!("it answers for ever"),
        }
    }

    #[tokio::test]
    async fn a_secondary_says_its_serial() {
        let found = asked(|raw, _| vec![answer(raw, 4_000_000_000)], false).await;
        assert_eq!(found, [(zone(), Serial::decode(4_000_000_000))]);
    }

    #[tokio::test]
    async fn what_is_no_answer_is_passed_over() {
        let script: Script = |raw, _| {
            let mut other_id = answer(raw, 1);
            other_id[0] ^= 1;
            let mut other_name = answer(raw, 2);
            other_name[HEADER_OCTETS + 1] = b'y';
            let mut query = answer(raw, 3);
            query[2] = 0;
            vec![other_id, other_name, query, vec![0; 5], answer(raw, 7)]
        };
        assert_eq!(asked(script, false).await, [(zone(), Serial::decode(7))]);
    }

    #[tokio::test]
    async fn a_secondary_without_the_zone_or_without_a_voice_says_nothing() {
        let refused: Script = |raw, _| {
            let mut refused = answer(raw, 1);
            refused[3] |= 5;
            vec![refused]
        };
        let silent: Script = |_, _| Vec::new();
        let cut: Script = |raw, _| {
            let mut cut = answer(raw, 1);
            cut.truncate(cut.len() - 1);
            vec![cut]
        };
        for script in [refused, silent, cut] {
            assert_eq!(asked(script, false).await, []);
        }
    }

    #[tokio::test]
    async fn with_a_key_only_what_it_signed_counts() {
        let lie: Script = |raw, _| vec![answer(raw, 9)];
        assert_eq!(asked(lie, true).await, []);
        let signed: Script = |raw, key| {
            let keys = tsig::Keys::new(vec![Key::new(
                &"k.".parse().unwrap(),
                Algorithm::Sha256,
                b"0123456789abcdef",
            )]);
            let _same = key;
            let now = unix_seconds(&SystemClock);
            let tsig::Verdict::Valid(mut session) =
                tsig::verify(&keys, raw, tsig_place(raw).unwrap(), now)
            else {
                panic!("the question is not signed");
            };
            let mut octets = answer(raw, 11);
            session.sign(&mut octets, 0, now);
            vec![answer(raw, 10), octets]
        };
        assert_eq!(asked(signed, true).await, [(zone(), Serial::decode(11))]);
    }

    /// Asks a target with some patience.
    async fn ask_at(target: SocketAddr) -> Vec<(Name, Serial)> {
        let secondary = Secondary {
            zone: zone(),
            target,
            keys: vec![],
            source: None,
        };
        let settings = AskSettings {
            tries: 5,
            wait: Duration::from_millis(200),
        };
        serials(ask_serials(vec![(secondary, None)], settings, Arc::new(SystemClock)).await)
    }

    /// The zone and serial of each that said one.
    fn serials(found: Vec<(Secondary, Serial)>) -> Vec<(Name, Serial)> {
        let pairs = found.into_iter();
        pairs
            .map(|(secondary, serial)| (secondary.zone, serial))
            .collect()
    }

    #[tokio::test]
    async fn a_secondary_that_starts_while_it_is_asked_says_its_serial() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let target = socket.local_addr().unwrap();
        drop(socket);
        let mut asking = Box::pin(ask_at(target));
        // The first datagram has found nobody.
        assert!((&mut asking).now_or_never().is_none());
        let socket = UdpSocket::bind(target).await.unwrap();
        let starting = async {
            let mut raw = vec![0; 512];
            let (octets, from) = socket.recv_from(&mut raw).await.unwrap();
            let answer = answer(&raw[..octets], 8);
            socket.send_to(&answer, from).await.unwrap();
            std::future::pending::<()>().await;
        };
        let found = tokio::select! {
            found = asking => found,
            () = starting => unreachable!("it never ends"),
        };
        assert_eq!(found, [(zone(), Serial::decode(8))]);
    }

    #[tokio::test]
    async fn an_answer_to_an_earlier_try_counts() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let target = socket.local_addr().unwrap();
        let slow = async {
            let mut first = vec![0; 512];
            let (octets, from) = socket.recv_from(&mut first).await.unwrap();
            first.truncate(octets);
            let mut second = vec![0; 512];
            socket.recv_from(&mut second).await.unwrap();
            socket.send_to(&answer(&first, 9), from).await.unwrap();
            std::future::pending::<()>().await;
        };
        let found = tokio::select! {
            found = ask_at(target) => found,
            () = slow => unreachable!("it never ends"),
        };
        assert_eq!(found, [(zone(), Serial::decode(9))]);
    }
}

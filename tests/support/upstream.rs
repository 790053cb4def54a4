//! A small DNS server whose answers stand in the question's first label: what a forwarder has behind it.
//!
//! `a.`: an address. `who.`: an address with the server's number. `n.`: one with the count of such questions so far.
//! `here.`: 127.0.0.1.
//! `ttlN.`, `cname.`, `nx.`, `nxN.` (an SOA whose minimum is N), `nodata.`, `nodataN.`, `nxbare.`, `nodatabare.`, `servfail.`,
//! `refused.`, `notimp.`, `formerr.`, `yxdomain.`, `big.` (40 strings), `fat.` (as big, but also in a small datagram),
//! `tcset.`, `wrongq.`, `wrongid.`, `garbage.`, `short.`, `slowN.` (N milliseconds), `drop.`, `aa.`, `ad.`,
//! `rich.` (records with names in their data), `echo.` (says what it was asked). Classes other than IN are refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::ports;

/// What it does with all questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answers by the name.
    Normal,
    /// Hears and says nothing.
    Silent,
    /// One response code for all.
    Code(u16),
    /// No records for all.
    Nodata,
    /// Answers by the name after this many milliseconds.
    Slow(u64),
}

impl Mode {
    /// `ok`, `silent`, `servfail`, `refused`, `nx`, `nodata` or `slowN`.
    pub fn parse(text: &str) -> Self {
        match text {
            "ok" => Self::Normal,
            "silent" => Self::Silent,
            "servfail" => Self::Code(2),
            "refused" => Self::Code(5),
            "nx" => Self::Code(3),
            "nodata" => Self::Nodata,
            slow => Self::Slow(number(slow, "slow").expect("a mode").into()),
        }
    }
}

/// What its threads share.
#[derive(Debug)]
struct State {
    number: u8,
    mode: Mutex<Mode>,
    stop: AtomicBool,
    asked: AtomicU16,
    /// Questions by UDP and TCP without `. NS`, and those for `. NS`.
    seen: [AtomicU32; 3],
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Upstream {
    pub address: SocketAddr,
    state: Arc<State>,
}

impl Upstream {
    /// Starts one in a mode; `dead` has an address and nothing behind it.
    pub fn start(number: u8, mode: &str) -> Self {
        let address = ports::free_address();
        let dead = mode == "dead";
        let state = Arc::new(State {
            number,
            mode: Mutex::new(if dead {
                Mode::Normal
            } else {
                Mode::parse(mode)
            }),
            stop: AtomicBool::new(false),
            asked: AtomicU16::new(0),
            seen: Default::default(),
        });
        let upstream = Self { address, state };
        if !dead {
            upstream.open();
        }
        upstream
    }

    /// Begins to answer, if it was dead.
    pub fn open(&self) {
        let socket = UdpSocket::bind(self.address).unwrap();
        let listener = TcpListener::bind(self.address).unwrap();
        let tick = Some(Duration::from_millis(100));
        socket.set_read_timeout(tick).unwrap();
        listener.set_nonblocking(true).unwrap();
        let state = Arc::clone(&self.state);
        std::thread::spawn(move || serve_udp(&socket, &state));
        let state = Arc::clone(&self.state);
        std::thread::spawn(move || serve_tcp(&listener, &state));
    }

    /// Another mode from now on.
    pub fn set(&self, mode: &str) {
        *self.state.mode.lock().unwrap() = Mode::parse(mode);
    }

    /// What it says to a question on a connection, if anything.
    pub fn stream_reply(&self, query: &[u8]) -> Option<Vec<u8>> {
        let replies = self.state.replies(query, true);
        pause(replies.delay);
        replies.octets.into_iter().next()
    }

    /// Questions by UDP and by TCP, and those for `. NS`.
    pub fn seen(&self) -> [u32; 3] {
        [0, 1, 2].map(|place: usize| self.state.seen[place].load(Ordering::SeqCst))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
    }
}

/// Answers datagrams until told to stop.
fn serve_udp(socket: &UdpSocket, state: &Arc<State>) {
    let mut buffer = [0; 4096];
    while !state.stop.load(Ordering::SeqCst) {
        let Ok((length, peer)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let replies = state.replies(&buffer[..length], false);
        let socket = socket.try_clone().unwrap();
        let send = move || {
            for reply in replies.octets {
                // A client that has gone wants nothing.
                let _sent = socket.send_to(&reply, peer).is_ok();
            }
        };
        after(replies.delay, send);
    }
}

/// Does something after some milliseconds, in a thread of its own if there are any.
fn after(delay: u64, act: impl FnOnce() + Send + 'static) {
    if delay == 0 {
        act();
        return;
    }
    std::thread::spawn(move || {
        pause(delay);
        act();
    });
}

/// Rests: the servers of these tests are slow because they are told to.
#[allow(clippy::disallowed_methods, reason = "a slow server is what is tested")]
pub fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Accepts connections until told to stop.
fn serve_tcp(listener: &TcpListener, state: &Arc<State>) {
    while !state.stop.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                let state = Arc::clone(state);
                std::thread::spawn(move || {
                    // The end of a connection is no failure.
                    let _ended = serve_stream(stream, &state).is_err();
                });
            }
            Err(_) => pause(5),
        }
    }
}

/// Answers on one connection.
fn serve_stream(mut stream: TcpStream, state: &Arc<State>) -> std::io::Result<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut query)?;
        let replies = state.replies(&query, true);
        if replies.closes {
            return Ok(());
        }
        pause(replies.delay);
        for reply in replies.octets {
            let length = u16::try_from(reply.len()).unwrap().to_be_bytes();
            stream.write_all(&[&length[..], &reply].concat())?;
        }
    }
}

/// What is sent for one question.
#[derive(Default)]
struct Replies {
    delay: u64,
    closes: bool,
    octets: Vec<Vec<u8>>,
}

/// A question as read.
struct Asked<'a> {
    flags: u16,
    name: String,
    /// Name, type and class as they came.
    question: &'a [u8],
    qtype: u16,
    /// Size, and whether signatures are wanted.
    opt: Option<(u16, bool)>,
    opt_octets: usize,
}

impl<'a> Asked<'a> {
    fn read(query: &'a [u8]) -> Option<Self> {
        let word = |at: usize| Some(u16::from_be_bytes([*query.get(at)?, *query.get(at + 1)?]));
        let (mut at, mut name) = (12, String::new());
        loop {
            let length = usize::from(*query.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            name += &String::from_utf8_lossy(query.get(at..at + length)?);
            name.push('.');
            at += length;
        }
        let qtype = word(at)?;
        let question = query.get(12..at + 4)?;
        at += 4;
        let opt = (word(10)? > 0 && query.get(at) == Some(&0)).then(|| {
            let size = word(at + 3).unwrap_or_default();
            (size, word(at + 7).unwrap_or_default() & 0x8000 != 0)
        });
        Some(Self {
            flags: word(2)?,
            name,
            question,
            qtype,
            opt,
            opt_octets: opt.and_then(|_| word(at + 9)).unwrap_or_default().into(),
        })
    }
}

/// A reply being written.
struct Draft {
    flags: u16,
    sections: [Vec<Vec<u8>>; 3],
}

/// One record: its owner is the question's name unless given.
fn record(owner: &[u8], rtype: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    let fixed = [rtype.to_be_bytes(), [0, 1]].concat();
    [
        owner,
        &fixed,
        &ttl.to_be_bytes(),
        &length.to_be_bytes(),
        data,
    ]
    .concat()
}

/// A pointer to the question's name.
const ASKED: &[u8] = &[0xc0, 12];

/// An SOA of `test.` with this minimum.
fn soa(minimum: u32) -> Vec<u8> {
    let mut data = b"\x02ns\x04test\x00\x04host\x04test\x00".to_vec();
    for number in [7, 3600, 600, 86400, minimum] {
        data.extend(u32::to_be_bytes(number));
    }
    record(b"\x04test\x00", 6, 100.max(minimum), &data)
}

/// The number behind a word.
fn number(text: &str, word: &str) -> Option<u32> {
    text.strip_prefix(word)?.parse().ok()
}

impl State {
    /// What is sent for a question.
    fn replies(&self, query: &[u8], is_tcp: bool) -> Replies {
        let Some(asked) = Asked::read(query) else {
            return Replies::default();
        };
        let is_check = asked.name.is_empty() && asked.qtype == 2;
        let place = if is_check { 2 } else { usize::from(is_tcp) };
        self.seen[place].fetch_add(1, Ordering::SeqCst);
        let label = asked.name.split('.').next().unwrap_or_default();
        let label = label.to_ascii_lowercase();
        let mut replies = Replies::default();
        let mut mode = self.mode.lock().unwrap().clone();
        if !asked.question.ends_with(&[0, 1]) {
            mode = Mode::Code(5);
        }
        let mut draft = Draft {
            flags: 0x8080 | asked.flags & 0x0110,
            sections: Default::default(),
        };
        match mode {
            Mode::Silent => return replies,
            Mode::Code(code) => draft.flags |= code,
            Mode::Nodata => draft.sections[1].push(soa(60)),
            Mode::Slow(_) | Mode::Normal => self.fill(&label, &asked, is_tcp, &mut draft),
        }
        if let Mode::Slow(delay) = mode {
            replies.delay = delay;
        }
        replies.delay += u64::from(number(&label, "slow").unwrap_or_default());
        let mut reply = draft.octets(query, &asked, is_tcp || label == "fat");
        match label.as_str() {
            "drop" => return replies,
            "close" => replies.closes = is_tcp,
            "garbage" => {
                reply = [&query[..2], &[0x81, 0x80, 0, 1, 0, 9, 0, 0, 0, 0, 63, 1]].concat()
            }
            "short" => reply = query[..5].to_vec(),
            "wrongq" => reply[13] ^= 1,
            "wrongid" => {
                let mut other = reply.clone();
                other[0] ^= 1;
                replies.octets.push(other);
            }
            _ => {}
        }
        replies.octets.push(reply);
        replies
    }

    /// The records and flags for a first label.
    fn fill(&self, label: &str, asked: &Asked<'_>, is_tcp: bool, draft: &mut Draft) {
        let [answers, authority, _] = &mut draft.sections;
        let address = |ttl, octets: [u8; 4]| match asked.qtype {
            28 => {
                let v6 = std::net::Ipv4Addr::from(octets).to_ipv6_mapped().octets();
                record(ASKED, 28, ttl, &v6)
            }
            _ => record(ASKED, 1, ttl, &octets),
        };
        let ttl = number(label, "ttl").unwrap_or(300);
        let negative = number(label, "nx").or_else(|| number(label, "nodata"));
        let code = code_of(label);
        draft.flags |= code.unwrap_or_default();
        match label {
            "nx" | "nodata" => authority.push(soa(60)),
            "nxbare" | "nodatabare" => {}
            _ if negative.is_some() => authority.push(soa(negative.unwrap())),
            _ if code.is_some() => {}
            "who" => answers.push(address(60, [10, 0, 0, self.number])),
            "here" if asked.qtype == 1 => answers.push(address(60, [127, 0, 0, 1])),
            "here" => {}
            "n" => {
                let count = self.asked.fetch_add(1, Ordering::SeqCst).to_be_bytes();
                answers.push(address(60, [10, 9, count[0], count[1]]));
            }
            "cname" => {
                let target = [b"\x06target".as_slice(), &[0xc0, 18]].concat();
                answers.push(record(ASKED, 5, 200, &target));
                let mut there = address(100, [10, 1, 2, 4]);
                there.splice(..2, target);
                answers.push(there);
            }
            "rich" => rich(draft),
            "big" | "fat" => answers.extend(strings()),
            "tcset" => {
                draft.flags |= if is_tcp { 0 } else { 0x200 };
                answers.push(address(300, [10, 1, 2, if is_tcp { 9 } else { 8 }]));
            }
            "echo" => answers.push(record(ASKED, 16, 0, &echo(asked, is_tcp))),
            _ => {
                draft.flags |= u16::from(label == "aa") << 10 | u16::from(label == "ad") << 5;
                match asked.qtype {
                    1 | 28 => answers.push(address(ttl, [10, 1, 2, 3])),
                    16 => answers.push(record(ASKED, 16, ttl, b"\x04text")),
                    _ => authority.push(soa(60)),
                }
            }
        }
    }
}

/// Forty strings of 30 octets.
fn strings() -> impl Iterator<Item = Vec<u8>> {
    (0..40_u8).map(|place| {
        let text = [&[30][..], &[b'a' + place % 26; 30]].concat();
        record(ASKED, 16, 300, &text)
    })
}

/// Records with names in their data, in all sections.
fn rich(draft: &mut Draft) {
    let [answers, authority, additional] = &mut draft.sections;
    let rest = [0xc0, 17];
    let exchanger = [&[0, 9, 2][..], b"mx", &rest].concat();
    let server = [&[0, 1, 0, 2, 0, 80, 2][..], b"sv", &rest].concat();
    let name = [b"\x02ns".as_slice(), &rest].concat();
    answers.push(record(ASKED, 15, 50, &exchanger));
    answers.push(record(ASKED, 33, 50, &server));
    authority.push(record(&rest, 2, 70, &name));
    additional.push(record(&name, 1, 80, &[10, 3, 3, 3]));
    additional.push(record(&name, 65, 90, b"\x00\x01\x00\x00\x01\x00\x03\x02h2"));
}

/// The response code for a first label.
fn code_of(label: &str) -> Option<u16> {
    let codes = [
        ("formerr", 1),
        ("servfail", 2),
        ("nx", 3),
        ("nxbare", 3),
        ("notimp", 4),
        ("refused", 5),
        ("yxdomain", 6),
    ];
    let code = codes.iter().find(|it| it.0 == label).map(|it| it.1);
    code.or_else(|| number(label, "nx").map(|_| 3))
}

/// What was asked, as a string with its length.
fn echo(asked: &Asked<'_>, is_tcp: bool) -> Vec<u8> {
    let Asked {
        flags,
        name,
        opt,
        opt_octets,
        ..
    } = asked;
    let text = format!("{name} flags={flags:04x} tcp={is_tcp} opt={opt:?}+{opt_octets}");
    let text = &text.as_bytes()[..text.len().min(255)];
    [&[u8::try_from(text.len()).unwrap()][..], text].concat()
}

impl Draft {
    /// The message; empty with TC when it is larger than the client takes.
    fn octets(self, query: &[u8], asked: &Asked<'_>, any_size: bool) -> Vec<u8> {
        let mut reply = Vec::new();
        let most = asked.opt.map_or(512, |opt| usize::from(opt.0).max(512));
        let body: Vec<u8> = self.sections.concat().concat();
        let is_over = !any_size && 12 + asked.question.len() + body.len() + 11 > most;
        let mut counts = self.sections.map(|it| u16::try_from(it.len()).unwrap());
        if is_over {
            counts = [0; 3];
        }
        counts[2] += u16::from(asked.opt.is_some());
        reply.extend(&query[..2]);
        reply.extend((self.flags | u16::from(is_over) << 9).to_be_bytes());
        reply.extend([0, 1]);
        counts.iter().for_each(|it| reply.extend(it.to_be_bytes()));
        reply.extend(asked.question);
        if !is_over {
            reply.extend(body);
        }
        if let Some((_, dnssec_ok)) = asked.opt {
            reply.extend([
                0,
                0,
                41,
                0x04,
                0xd0,
                0,
                0,
                u8::from(dnssec_ok) << 7,
                0,
                0,
                0,
            ]);
        }
        reply
    }
}

//! For tests: answers requests without sockets.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "for tests: what fails here fails the test"
)]

use std::cell::RefCell;
use std::sync::Arc;

use dns::edns::EXTENDED_ERROR;
use dns::testing::{chained_pointers, count_steps, ixfr, key, query, with_opt};
use dns::{Rtype, tsig};
use hickory_proto::op::Message;
use ops::testing::NOW;
use zone::testing::zone;

use crate::Proto;
use crate::exchange::{Asker, Outcome, Scratch};
use crate::shared::Shared;
use crate::testing::Setup;

/// A server without its sockets.
pub struct Desk {
    pub(crate) shared: Arc<Shared>,
    pub(crate) scratch: Scratch,
}

/// The peer of these tests.
pub const PEER: ([u8; 4], u16) = ([192, 0, 2, 7], 5353);

/// The peer of these tests, over a transport.
pub(crate) fn asker(proto: Proto) -> Asker<'static> {
    Asker {
        address: PEER.into(),
        local: ([192, 0, 2, 53], 53).into(),
        proto,
        tls: None,
    }
}

/// The result of a request.
#[derive(Debug)]
pub enum Got {
    /// No reply.
    Nothing,
    /// A transfer.
    Transfer,
    /// A reply of these octets.
    Octets(Vec<u8>),
}

impl Desk {
    /// A desk for a setup.
    pub fn new(setup: Setup) -> Self {
        Self {
            shared: setup.server().shared,
            scratch: Scratch::new(),
        }
    }

    /// A desk for one zone `z.` with these lines.
    pub fn with(lines: &[&str]) -> Self {
        Self::new(Setup::new(vec![zone("z.", 5, lines)]))
    }

    /// The result of a request.
    pub fn give(&mut self, raw: &[u8], proto: Proto) -> Got {
        match self.shared.respond(&mut self.scratch, raw, asker(proto)) {
            Outcome::Silent | Outcome::Dropped => Got::Nothing,
            Outcome::Transfer(_) => Got::Transfer,
            Outcome::Later(_) => panic!("nothing here has to be waited for"),
            Outcome::Reply if proto.is_stream() => {
                let octets = self.scratch.writer.octets();
                let length = usize::from(u16::from_be_bytes([octets[0], octets[1]]));
                assert_eq!(length, octets.len() - 2);
                Got::Octets(octets[2..].to_vec())
            }
            Outcome::Reply => Got::Octets(self.scratch.writer.octets().to_vec()),
        }
    }

    /// The octets of the reply to a datagram.
    pub fn octets(&mut self, raw: &[u8]) -> Vec<u8> {
        match self.give(raw, Proto::Udp) {
            Got::Octets(octets) => octets,
            got @ (Got::Nothing | Got::Transfer) => panic!("{got:?} for {raw:?}"),
        }
    }

    /// The decoded reply to a datagram.
    pub fn ask(&mut self, raw: &[u8]) -> Message {
        Message::from_vec(&self.octets(raw)).unwrap()
    }

    /// The response code of the reply to a datagram, and the extended error's number.
    pub fn code(&mut self, raw: &[u8]) -> (u16, Option<u16>) {
        code_of(&self.octets(raw))
    }

    /// The response code of the reply on a connection, and the extended error's number.
    pub fn tcp_code(&mut self, raw: &[u8]) -> (u16, Option<u16>) {
        match self.give(raw, Proto::Tcp) {
            Got::Octets(octets) => code_of(&octets),
            got @ (Got::Nothing | Got::Transfer) => panic!("{got:?} for {raw:?}"),
        }
    }
}

/// The response code of a message, and the number of its extended error.
pub fn code_of(octets: &[u8]) -> (u16, Option<u16>) {
    let message = Message::from_vec(octets).unwrap();
    let ede = message.edns.as_ref().and_then(|edns| {
        let option = edns.options().get(EXTENDED_ERROR.into())?;
        let data: Vec<u8> = option.try_into().ok()?;
        Some(u16::from_be_bytes([data[0], data[1]]))
    });
    (message.metadata.response_code.into(), ede)
}

/// Requests of all sorts.
pub fn requests() -> Vec<Vec<u8>> {
    let options: &[u8] = &[
        0, 3, 0, 0, 0, 9, 0, 0, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 19, 0, 0, 0, 11, 0, 0, 0,
        12, 0, 2, 0, 0,
    ];
    let mut all = Vec::new();
    for (name, rtype) in [
        ("z.", Rtype::SOA),
        ("www.z.", Rtype::A),
        ("many.z.", Rtype::A),
        ("x.wild.z.", Rtype::TXT),
        ("a.cut.z.", Rtype::A),
        ("alias.z.", Rtype::AAAA),
        ("z.", Rtype::AXFR),
        ("z.", Rtype(255)),
        ("b.y.z.", Rtype::AAAA),
    ] {
        let plain = query(7, name, rtype);
        all.push(with_opt(plain.clone(), 1232, 0, options));
        let mut signed = with_opt(plain.clone(), 4096, 0, &options[..4]);
        tsig::sign_request(&key("k."), &mut signed, NOW);
        all.push(signed);
        all.push(plain);
    }
    all.push(ixfr(8, "z.", 5));
    all.push(chained_pointers(ixfr(8, "z.", 4), 4096));
    let mut signed = with_opt(ixfr(8, "z.", 5), 1232, 0, options);
    tsig::sign_request(&key("k."), &mut signed, NOW);
    all.push(signed);
    all
}

/// Parts of messages.
pub const PARTS: &[&[u8]] = &[
    b"\xc0\x0c",
    b"\xc0\x00",
    b"\xff\xff",
    b"\x00\x00\x29",
    b"\x00\x00\xfa\x00\xff",
    b"\x3f",
    b"\x40",
    b"\x00\xfb\x00\x01",
    b"\x00\xfc\x00\x01",
    b"\x00\x0a\x00\x28",
    b"\x00\x0a\x00\x10",
    b"\x00\x03\x00\x01z",
    b"\x01k\x00",
    b"\x0bhmac-sha256\x00",
    b"\x00\x01\x00\x00\x00\x00\x00\x01",
];

/// Sends a request to the desk as a datagram and over a connection.
pub fn given(desk: &RefCell<Desk>, input: &[u8]) -> Result<String, String> {
    let mut words = String::new();
    for proto in [Proto::Udp, Proto::Tcp] {
        let (got, steps) = count_steps(|| desk.borrow_mut().give(input, proto));
        // Each octet of a name is read a few times, and a name has some 250 labels and pointers at most.
        if steps > 2 * input.len() as u64 + 1000 {
            return Err(format!("{steps} labels and pointers are read"));
        }
        let octets = match got {
            Got::Nothing => {
                words += " nothing";
                continue;
            }
            Got::Transfer if proto == Proto::Udp => return Err("a transfer over UDP".to_owned()),
            Got::Transfer => {
                words += " transfer";
                continue;
            }
            Got::Octets(octets) => octets,
        };
        if octets.len() < 12 || octets[..2] != input[..2] || octets[2] & 0x80 == 0 {
            return Err(format!("no answer to it: {octets:?}"));
        }
        if proto == Proto::Udp && octets.len() > 1232 {
            return Err(format!("a datagram of {} octets", octets.len()));
        }
        let read = Message::from_vec(&octets).map_err(|error| error.to_string())?;
        let code = u16::from(read.metadata.response_code);
        let (some, opt) = (read.answers.len().min(3), read.edns.is_some());
        words += &format!(" {code} {some} {opt} {}", read.signature.is_some());
    }
    // The next request is answered, whatever came before.
    let good = desk.borrow_mut().code(&query(1, "www.z.", Rtype::A));
    match good {
        (0, None) => Ok(words),
        other => Err(format!("after it a good request gets {other:?}")),
    }
}

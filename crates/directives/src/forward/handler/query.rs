//! A query for an upstream, as octets.

use dns::{HEADER_OCTETS, Name, Rtype, flags};
use ring::rand::{SecureRandom, SystemRandom};
use server::message::{CLASS_IN, Request};

/// EDNS options that are a matter of two neighbours alone: cookies (RFC 7873), keepalive (RFC 7828) and
/// padding (RFC 7830).
const OF_NEIGHBOURS: [u16; 3] = [10, 11, 12];

/// Octets of a query, and how large a datagram may answer it.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// The octets.
    pub(super) octets: Vec<u8>,
    /// Where the question ends.
    pub(super) question_end: usize,
    /// The largest datagram.
    pub(super) most_octets: u16,
}

impl Message {
    /// Gives it a new ID that nobody can guess (RFC 5452 section 9.2).
    pub(super) fn renew_id(&mut self) -> u16 {
        let id = random_id();
        self.octets[..2].copy_from_slice(&id.to_be_bytes());
        id
    }

    /// The octets with the ID 0, where a stream tells replies apart.
    pub(super) fn without_id(&self) -> Vec<u8> {
        let mut octets = self.octets.clone();
        octets[..2].fill(0);
        octets
    }

    /// The octets of its question.
    pub(super) fn question(&self) -> &[u8] {
        &self.octets[HEADER_OCTETS..self.question_end]
    }
}

/// A number that nobody can guess.
#[must_use]
pub fn random_id() -> u16 {
    let mut octets = [0; 2];
    match SystemRandom::new().fill(&mut octets) {
        Ok(()) => u16::from_be_bytes(octets),
        // The system's source fails at its first use or never; another that differs for each process and use.
        Err(ring::error::Unspecified) => {
            use std::hash::{BuildHasher, RandomState};
            let [low, high, ..] = RandomState::new().hash_one(0_u8).to_be_bytes();
            u16::from_be_bytes([low, high])
        }
    }
}

/// The client's question as a query for an upstream: its flags RD, AD and CD, and its OPT without the options
/// that are between it and us.
pub(super) fn message(request: &Request, most_octets: Option<u16>) -> Message {
    let flags = request.flags & (flags::RD | flags::AD | flags::CD);
    let mut query = plain(&request.name, request.qtype, request.qclass, flags);
    if let Some(edns) = &request.edns {
        let size = most_octets.map_or(edns.size, |most| most.min(edns.size));
        let options = passed_on(&edns.options);
        let octets = &mut query.octets;
        octets[11] = 1;
        octets.push(0);
        octets.extend_from_slice(&Rtype::OPT.0.to_be_bytes());
        octets.extend_from_slice(&size.to_be_bytes());
        octets.extend_from_slice(&[0, 0, u8::from(edns.dnssec_ok) << 7, 0]);
        let length = u16::try_from(options.len()).unwrap_or(0);
        octets.extend_from_slice(&length.to_be_bytes());
        octets.extend_from_slice(&options);
        query.most_octets = size.max(512);
    }
    query
}

/// A query without EDNS.
pub(super) fn plain(name: &Name, qtype: Rtype, class: u16, flags: u16) -> Message {
    let mut octets = vec![0; HEADER_OCTETS];
    octets[2..4].copy_from_slice(&flags.to_be_bytes());
    octets[5] = 1;
    octets.extend_from_slice(name.as_wire());
    octets.extend_from_slice(&qtype.0.to_be_bytes());
    octets.extend_from_slice(&class.to_be_bytes());
    Message {
        question_end: octets.len(),
        octets,
        most_octets: 512,
    }
}

/// A query for the name servers of a name: what health is checked with.
pub(super) fn check(domain: &Name, recursion_desired: bool) -> Message {
    let flags = if recursion_desired { flags::RD } else { 0 };
    plain(domain, Rtype::NS, CLASS_IN, flags)
}

/// The options that go on to the upstream.
fn passed_on(options: &[u8]) -> Vec<u8> {
    let (mut kept, mut rest) = (Vec::new(), options);
    while let [a, b, c, d, more @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*c, *d]));
        if length > more.len() {
            break;
        }
        if !OF_NEIGHBOURS.contains(&u16::from_be_bytes([*a, *b])) {
            kept.extend_from_slice(&rest[..4 + length]);
        }
        rest = &more[length..];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::message::Edns;
    use server::testing::request;

    #[test]
    fn the_client_s_flags_and_edns_go_on_without_what_is_between_neighbours() {
        let mut asked = request("Www.test. A");
        asked.flags = 0xfff0;
        assert_eq!(message(&asked, None).octets[2..4], [0x01, 0x30]);
        let cookie = [0, 10, 0, 2, 1, 1];
        let subnet = [0, 8, 0, 1, 7];
        asked.edns = Some(Edns {
            size: 4096,
            dnssec_ok: true,
            options: [&cookie[..], &subnet].concat(),
        });
        let query = message(&asked, Some(1232));
        assert_eq!(query.question(), b"\x03Www\x04test\x00\x00\x01\x00\x01");
        let opt = &query.octets[query.question_end..];
        assert_eq!(opt, [0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0, 0, 5, 0, 8, 0, 1, 7]);
        assert_eq!(query.most_octets, 1232);
    }
}

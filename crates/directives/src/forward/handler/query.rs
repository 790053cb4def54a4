//! A query for an upstream, in wire form.

use dns::edns::{self, CLIENT_SUBNET, COOKIE, KEEPALIVE, PADDING};
use dns::{HEADER_OCTETS, Name, Rtype, flags};
use ring::rand::{SecureRandom, SystemRandom};
use server::message::{CLASS_IN, Request};

use crate::forward::Forward;

/// EDNS options between two neighbours, which are not forwarded: cookies (RFC 7873), keepalive (RFC 7828) and padding
/// (RFC 7830).
const OF_NEIGHBOURS: [u16; 3] = [COOKIE, KEEPALIVE, PADDING];

/// A query in wire form, and the size of the datagram that may answer it.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// The octets.
    pub(super) octets: Vec<u8>,
    /// The place after the question.
    pub(super) question_end: usize,
    /// The largest datagram.
    pub(super) most_octets: u16,
    /// Which replies are believed.
    pub(super) trust: Trust,
}

/// Which datagrams with the right ID are replies to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// All: a check of health asks whether anybody is there.
    Any,
    /// Those with its question.
    Question,
    /// Those with its question, which has random letters, in the same letters.
    Letters,
}

impl Message {
    /// Replaces its ID by one that nobody can guess (RFC 5452 section 9.2), and its letters if they are random.
    pub(super) fn renew_id(&mut self) -> u16 {
        let id = random_id();
        self.octets[..2].copy_from_slice(&id.to_be_bytes());
        if self.trust == Trust::Letters {
            for octets in self.octets[HEADER_OCTETS..self.question_end - 4].chunks_mut(16) {
                let bits = random_id();
                // The length of a label is below the letters.
                for (place, octet) in octets.iter_mut().enumerate() {
                    if octet.is_ascii_alphabetic() && bits >> place & 1 == 1 {
                        *octet ^= 0x20;
                    }
                }
            }
        }
        id
    }

    /// Whether a datagram is a reply to it.
    pub(super) fn is_answered_by(&self, octets: &[u8]) -> bool {
        let Some((header, rest)) = octets.split_at_checked(HEADER_OCTETS) else {
            return false;
        };
        if header[..2] != self.octets[..2] {
            return false;
        }
        let (name, kind) = self.question().split_at(self.question().len() - 4);
        let has_name = |of: &[u8]| match self.trust {
            Trust::Letters => of == name,
            Trust::Any | Trust::Question => of.eq_ignore_ascii_case(name),
        };
        let is_reply = header[2] & 0x80 != 0 && header[4..6] == [0, 1];
        let has_question =
            rest.get(..name.len()).is_some_and(has_name) && rest[name.len()..].starts_with(kind);
        self.trust == Trust::Any || is_reply && has_question
    }

    /// The same octets for queries that differ only in their IDs and in upper and lower case.
    pub(super) fn key(&self) -> Vec<u8> {
        let mut octets = self.without_id();
        octets[HEADER_OCTETS..self.question_end - 4].make_ascii_lowercase();
        octets
    }

    /// Its header and question, which read as a reply give its ID and its question.
    pub(super) fn as_reply(&self) -> Vec<u8> {
        let mut octets = self.octets[..self.question_end].to_vec();
        octets[6..HEADER_OCTETS].fill(0);
        octets
    }

    /// The octets with the ID 0, for transports whose streams tell replies apart.
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
        // The system's source of randomness fails at its first use or never. The fallback differs for each process and
        // each use.
        Err(ring::error::Unspecified) => {
            use std::hash::{BuildHasher, RandomState};
            let [low, high, ..] = RandomState::new().hash_one(0_u8).to_be_bytes();
            u16::from_be_bytes([low, high])
        }
    }
}

/// The client's question as a query for an upstream: with its flags RD, AD and CD, and with its OPT, except for the
/// options that concern only the client and us.
pub(super) fn message(request: &Request, most_octets: Option<u16>, config: &Forward) -> Message {
    let flags = request.flags & (flags::RD | flags::AD | flags::CD);
    let mut query = plain(&request.name, request.qtype, request.qclass, flags);
    if config.random_case {
        query.trust = Trust::Letters;
    }
    if let Some(edns) = &request.edns {
        let size = most_octets.map_or(edns.size, |most| most.min(edns.size));
        let options = passed_on(&edns.options, config.client_subnet);
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
        trust: Trust::Question,
    }
}

/// A query for the NS records of a name, for health checks.
pub(super) fn check(domain: &Name, recursion_desired: bool) -> Message {
    let flags = if recursion_desired { flags::RD } else { 0 };
    Message {
        trust: Trust::Any,
        ..plain(domain, Rtype::NS, CLASS_IN, flags)
    }
}

/// The options that are forwarded to the upstream.
fn passed_on(options: &[u8], client_subnet: bool) -> Vec<u8> {
    let (mut kept, mut rest) = (Vec::new(), options);
    while let Some(((code, data), tail)) = edns::split(rest) {
        rest = tail;
        if !OF_NEIGHBOURS.contains(&code) && (client_subnet || code != CLIENT_SUBNET) {
            edns::push_option(&mut kept, code, data);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::message::Edns;
    use server::testing::request;

    use crate::forward::handler::tests::config;

    #[test]
    fn the_client_s_flags_and_edns_go_on_without_what_is_between_neighbours() {
        let mut asked = request("Www.test. A");
        asked.flags = 0xfff0;
        let config = config("forward . 192.0.2.1 {\n client_subnet\n}");
        let flags = message(&asked, None, &config).octets[2..4].to_vec();
        assert_eq!(flags, [0x01, 0x30]);
        let cookie = [0, 10, 0, 2, 1, 1];
        let subnet = [0, 8, 0, 1, 7];
        asked.edns = Some(Edns {
            size: 4096,
            dnssec_ok: true,
            options: [&cookie[..], &subnet].concat(),
        });
        let query = message(&asked, Some(1232), &config);
        assert_eq!(query.question(), b"\x03Www\x04test\x00\x00\x01\x00\x01");
        let opt = &query.octets[query.question_end..];
        assert_eq!(opt, [0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0, 0, 5, 0, 8, 0, 1, 7]);
        assert_eq!(query.most_octets, 1232);
    }
}

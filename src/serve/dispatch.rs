//! From the octets of a request to its reply, or to a transfer that may begin.
//!
//! The order of the checks: readable, TSIG, operation, EDNS version, class, type, zone. Only a transfer is
//! left to someone else; every other reply is in the writer when [`Shared::respond`] comes back.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use hickory_server::net::xfer::Protocol;
use hickory_server::proto::rr::{LowerName, RData};
use hickory_server::server::Request;
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use crate::dns::tsig::{self, KeyRing, Verdict};
use crate::dns::{
    MAX_MESSAGE_OCTETS, Mark, MessageWriter, Name, Query, Rcode, RrRef, Rtype, Section, Serial,
    Unreadable, flags,
};
use crate::live::{LiveAnswer, LiveNames, QueryLog};
use crate::ops::Clock;
use crate::serve::lookup::{Additionals, Link, LinkSet, each_additional, lookup, rrset_for};
use crate::serve::reply::{Extended, Signer, write_link, write_negative, write_soa};
use crate::serve::{Proto, Settings, Stats};
use crate::transfer::{
    Access, Asked, Head, Job, JobStart, Permit, SecondaryId, SecondaryTable, one_message,
    unix_seconds,
};
use crate::zone::{Version, Zone, ZoneSet};

/// The class IN.
const CLASS_IN: u16 = 1;
/// The class ANY.
const CLASS_ANY: u16 = 255;
/// Suffixes in the compression table of an answer, as a power of two.
const TABLE_BITS: u32 = 9;

/// What all listeners of a server share.
pub(crate) struct Shared {
    /// The zones.
    pub(crate) zones: Arc<ZoneSet>,
    /// Who may have which zone.
    pub(crate) access: HashMap<Name, Access>,
    /// What answers for names that no version holds; most zones have none.
    pub(crate) live: HashMap<Name, LiveNames>,
    /// TSIG keys.
    pub(crate) keys: Arc<KeyRing>,
    /// Limits and times.
    pub(crate) settings: Settings,
    /// Tells the time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Logs queries, where a block says so.
    pub(crate) query_log: Option<QueryLog>,
    /// Counts.
    pub(crate) stats: Arc<Stats>,
    /// Knows what each secondary has.
    pub(crate) secondaries: Arc<SecondaryTable>,
    /// Capacity for transfers.
    pub(crate) slots: Arc<Semaphore>,
}

/// Space to answer in; one for each socket and each connection.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// The reply.
    pub(crate) writer: MessageWriter,
    /// The question's name in lower case.
    lower: Vec<u8>,
    /// A sort key.
    key: Vec<u8>,
    /// For additional records.
    additionals: Additionals,
}

impl Scratch {
    /// New space.
    pub(crate) fn new() -> Self {
        Self {
            writer: MessageWriter::new(TABLE_BITS),
            lower: Vec::with_capacity(255),
            key: Vec::with_capacity(255),
            additionals: Additionals::default(),
        }
    }
}

/// What becomes of a request.
pub(crate) enum Outcome {
    /// No reply is due.
    Silent,
    /// The reply is in the writer, signed if it must be.
    Reply,
    /// A transfer is to be run.
    Transfer(Box<Job>),
}

/// A request on its way to its reply.
pub(super) struct Exchange<'a> {
    /// What all listeners share.
    pub(super) shared: &'a Shared,
    /// The request.
    pub(super) query: Query<'a>,
    /// Who asks.
    pub(super) peer: SocketAddr,
    /// How.
    pub(super) proto: Proto,
    /// What signs the reply.
    pub(super) signer: Signer,
}

impl Shared {
    /// When an answer begins, where queries are logged.
    pub(crate) fn log_start(&self) -> Option<Instant> {
        self.query_log.as_ref().map(|_| self.clock.now())
    }

    /// Logs a query that began to be answered at `start`, with its reply.
    pub(crate) fn log_reply(
        &self,
        start: Option<Instant>,
        (query, reply): (&[u8], &[u8]),
        (peer, local): (SocketAddr, SocketAddr),
        proto: &'static str,
    ) {
        if let (Some(log), Some(start)) = (&self.query_log, start) {
            let took = self.clock.now().saturating_duration_since(start);
            log.log(&crate::live::Exchange {
                query,
                reply,
                peer,
                local,
                proto,
                took,
            });
        }
    }

    /// Answers a request, or says that a transfer is due.
    pub(crate) fn respond(
        &self,
        scratch: &mut Scratch,
        raw: &[u8],
        peer: SocketAddr,
        proto: Proto,
    ) -> Outcome {
        let query = match Query::parse(raw) {
            Ok(query) => query,
            Err(Unreadable::Silent) => {
                self.stats.ignored.increase();
                return Outcome::Silent;
            }
            Err(Unreadable::Malformed {
                id,
                flags,
                question,
            }) => {
                return self.malformed(scratch, id, flags, question, proto);
            }
        };
        let mut exchange = Exchange {
            shared: self,
            query,
            peer,
            proto,
            signer: Signer::None,
        };
        if let Some(at) = query.tsig_at {
            let now = unix_seconds(&*self.clock);
            match tsig::verify(&self.keys.current(), raw, at, now) {
                Verdict::Valid(session) => exchange.signer = Signer::Session(session),
                Verdict::Malformed => return exchange.fail(scratch, Rcode::FORMERR),
                Verdict::Refused(refusal) => {
                    self.stats.tsig_refused.increase();
                    warn!(%peer, key = %refusal.key_name, error = ?refusal.error, "tsig refused");
                    exchange.signer = Signer::Refusal(Box::new(refusal));
                    return exchange.fail(scratch, Rcode::NOTAUTH);
                }
            }
        }
        exchange.run(scratch)
    }

    /// Writes FORMERR for what could not be read.
    fn malformed(
        &self,
        scratch: &mut Scratch,
        id: u16,
        came: u16,
        question: &[u8],
        proto: Proto,
    ) -> Outcome {
        let flags = flags::QR | came & (flags::OPCODE | flags::RD) | Rcode::FORMERR.0;
        let writer = &mut scratch.writer;
        writer.begin(proto == Proto::Tcp, MAX_MESSAGE_OCTETS, id, flags);
        if !question.is_empty() {
            writer.question(question);
        }
        writer.finish();
        self.stats.replies(proto, Rcode::FORMERR).increase();
        Outcome::Reply
    }
}

impl Exchange<'_> {
    /// Everything after the signature.
    fn run(self, scratch: &mut Scratch) -> Outcome {
        let query = &self.query;
        if query.opcode() != 0 {
            return self.fail(scratch, Rcode::NOTIMP);
        }
        // RFC 5936 section 2.1 for AXFR; no query has an answer.
        if query.counts[0] > 0 {
            return self.fail(scratch, Rcode::FORMERR);
        }
        if query.opt.is_some_and(|opt| opt.version > 0) {
            return self.fail(scratch, Rcode::BADVERS);
        }
        match query.qclass() {
            CLASS_IN => {}
            CLASS_ANY => return self.fail(scratch, Rcode::FORMERR),
            _ => return self.fail(scratch, Rcode::REFUSED),
        }
        scratch.lower.clear();
        scratch.lower.extend_from_slice(query.name());
        scratch.lower.make_ascii_lowercase();
        match (query.qtype(), self.proto) {
            (Rtype::AXFR, Proto::Udp) => self.fail(scratch, Rcode::NOTIMP),
            (Rtype::AXFR, Proto::Tcp) => self.transfer(scratch, None),
            (Rtype::IXFR, _) => match ixfr_serial(query, self.peer, self.proto) {
                Some(serial) => self.transfer(scratch, Some(serial)),
                None => self.fail(scratch, Rcode::FORMERR),
            },
            (Rtype::ANY, _) => self.answer(scratch),
            (qtype, _) if qtype.is_meta() => self.fail(scratch, Rcode::NOTIMP),
            _ => self.answer(scratch),
        }
    }

    /// The zone a question belongs to: the longest, but a DS question for an apex goes to the zone above
    /// (RFC 4035 section 3.1.4.1).
    fn zone(&self, lower: &[u8]) -> Option<&Arc<Zone>> {
        let zones = &self.shared.zones;
        let zone = zones.find(lower)?;
        if self.query.qtype() == Rtype::DS && zone.apex().as_wire() == lower {
            let parent = lower.get(usize::from(lower[0]) + 1..);
            return Some(parent.and_then(|parent| zones.find(parent)).unwrap_or(zone));
        }
        Some(zone)
    }

    /// Answers from a zone.
    fn answer(self, scratch: &mut Scratch) -> Outcome {
        let Some(zone) = self.zone(&scratch.lower) else {
            return self.fail(scratch, Rcode::REFUSED);
        };
        let guard = zone.peek();
        let Some(version) = guard.as_ref() else {
            return self.fail_with(scratch, Rcode::SERVFAIL, Some(Extended::NotReady));
        };
        let qtype = self.query.qtype();
        if qtype == Rtype::SOA && zone.apex().as_wire() == scratch.lower {
            self.note_asked(zone, Asked::Soa);
        }
        let extended = zone.stale_since_ms().map(|_| Extended::Stale);
        let made;
        let mut answer = lookup(version, &scratch.lower, qtype, &mut scratch.key);
        if !answer.exists
            && let Some(live) = self.shared.live.get(zone.apex())
        {
            let name = answer.end().unwrap_or(&scratch.lower);
            match live.answer(&version.contents, name) {
                LiveAnswer::Exists(node) => {
                    made = node;
                    let rrset = made.as_ref().and_then(|node| rrset_for(node, qtype));
                    answer.complete(rrset.map(LinkSet::Rrset));
                }
                LiveAnswer::Missing => {}
                LiveAnswer::Unknown => {
                    return self.fail_with(scratch, Rcode::SERVFAIL, Some(Extended::NotReady));
                }
            }
        }
        let rcode = if answer.exists {
            Rcode::NOERROR
        } else {
            Rcode::NXDOMAIN
        };
        let base_flags = self.begin(&mut scratch.writer, extended) | flags::AA;
        let writer = &mut scratch.writer;
        let after_question = writer.mark();
        let fits = answer.links().all(|link| write_link(writer, version, link))
            && (!answer.negative || write_negative(writer, version));
        if !fits {
            return self.truncated(scratch, after_question, base_flags, extended);
        }
        let last = answer.links().last();
        if let Some(Link {
            set: LinkSet::Rrset(rrset),
            ..
        }) = last
        {
            let put = |rr: RrRef<'_>| writer.record(Section::Additional, rr);
            each_additional(version, rrset, &mut scratch.additionals, put);
        }
        self.finish(scratch, base_flags, rcode, extended)
    }

    /// An answer that did not fit, with TC: empty in a datagram, the client asks again over TCP. A connection
    /// has nothing larger to offer, so it gets the records that fit the largest message.
    fn truncated(
        self,
        scratch: &mut Scratch,
        mark: Mark,
        flags: u16,
        ede: Option<Extended>,
    ) -> Outcome {
        if self.proto == Proto::Udp {
            scratch.writer.rollback(mark);
            self.shared.stats.truncated.increase();
        }
        self.finish(scratch, flags | flags::TC, Rcode::NOERROR, ede)
    }

    /// AXFR, or IXFR from a serial: access first, then capacity (a stranger must not take a friend's).
    fn transfer(self, scratch: &mut Scratch, client: Option<Serial>) -> Outcome {
        let shared = self.shared;
        let name = Name::from_wire(&scratch.lower).ok();
        // RFC 5936 section 2.2.1: not authoritative for exactly this name.
        let Some(zone) = name.and_then(|name| shared.zones.get(&name)) else {
            return self.fail(scratch, Rcode::NOTAUTH);
        };
        let peer = self.peer_id();
        let rules = shared.access.get(zone.apex());
        let permit =
            match rules.map(|rules| rules.permit(zone, peer.address.ip(), peer.key.as_ref())) {
                Some(Ok(permit)) => permit,
                denied => {
                    shared.stats.transfers_denied.increase();
                    let reason = match denied {
                        Some(Err(denial)) => denial.to_string(),
                        _ => "the zone is not to be transferred".to_owned(),
                    };
                    let (zone, key, peer) = (
                        zone.apex(),
                        peer.key.as_ref().map(tracing::field::debug),
                        peer.address,
                    );
                    warn!(%zone, %peer, key, reason, "transfer denied");
                    return self.fail_with(scratch, Rcode::REFUSED, Some(Extended::Prohibited));
                }
            };
        shared.secondaries.asked(
            zone.apex(),
            &peer,
            client.map_or(Asked::Axfr, Asked::Ixfr),
            shared.clock.wall(),
        );
        let Some(version) = zone.current() else {
            return self.fail_with(scratch, Rcode::SERVFAIL, Some(Extended::NotReady));
        };
        match client {
            Some(serial) if serial == version.serial || serial.is_after(version.serial) => {
                shared.stats.transfers_up_to_date.increase();
                debug!(zone = %zone.apex(), peer = %peer.address, "secondary is up to date");
                self.single_soa(scratch, &version)
            }
            Some(serial) if self.proto == Proto::Udp => self.datagram(scratch, &version, serial),
            _ => self.stream(scratch, permit, version, client),
        }
    }

    /// The current SOA alone (RFC 1995 section 2).
    fn single_soa(self, scratch: &mut Scratch, version: &Version) -> Outcome {
        let flags = self.begin(&mut scratch.writer, None) | flags::AA;
        let fits = write_soa(
            &mut scratch.writer,
            Section::Answer,
            version,
            version.contents.soa().ttl,
        );
        debug_assert!(fits, "a SOA fits any message");
        self.finish(scratch, flags, Rcode::NOERROR, None)
    }

    /// The differences in one datagram if they fit, else the current SOA alone.
    fn datagram(self, scratch: &mut Scratch, version: &Version, client: Serial) -> Outcome {
        let flags = self.begin(&mut scratch.writer, None) | flags::AA;
        one_message(&mut scratch.writer, version, client);
        self.finish(scratch, flags, Rcode::NOERROR, None)
    }

    /// A transfer over a connection, if there is capacity.
    fn stream(
        self,
        scratch: &mut Scratch,
        permit: Permit,
        version: Arc<Version>,
        client: Option<Serial>,
    ) -> Outcome {
        let shared = self.shared;
        let Ok(slot) = Arc::clone(&shared.slots).try_acquire_owned() else {
            shared.stats.transfers_over_limit.increase();
            warn!(zone = %permit.zone().apex(), peer = %self.peer, "too many transfers at once");
            return self.fail(scratch, Rcode::SERVFAIL);
        };
        let peer = self.peer_id();
        let tsig = match self.signer {
            Signer::Session(session) => Some(session),
            Signer::None | Signer::Refusal(_) => None,
        };
        shared.stats.replies(Proto::Tcp, Rcode::NOERROR).increase();
        Outcome::Transfer(Box::new(Job::new(
            permit,
            slot,
            JobStart {
                version,
                client,
                head: Head::new(&self.query, shared.settings.udp_octets, tsig),
                message_octets: shared.settings.transfer.message_octets,
                peer,
                clock: Arc::clone(&shared.clock),
                stats: Arc::clone(&shared.stats),
                secondaries: Arc::clone(&shared.secondaries),
            },
        )))
    }

    /// Who asks, and with which key.
    fn peer_id(&self) -> SecondaryId {
        SecondaryId {
            address: self.peer,
            key: match &self.signer {
                Signer::Session(session) => Some(session.key().name().clone()),
                Signer::None | Signer::Refusal(_) => None,
            },
        }
    }

    /// Notes what a secondary asked for.
    fn note_asked(&self, zone: &Zone, asked: Asked) {
        let shared = self.shared;
        if shared.secondaries.knows(self.peer.ip()) {
            let id = self.peer_id();
            shared
                .secondaries
                .asked(zone.apex(), &id, asked, shared.clock.wall());
        }
    }
}

/// The serial of an IXFR: the authority section holds the secondary's SOA of the zone and nothing else
/// (RFC 1995 section 3). Of its data only the serial counts; some secondaries leave the names out.
fn ixfr_serial(query: &Query<'_>, peer: SocketAddr, proto: Proto) -> Option<Serial> {
    let protocol = match proto {
        Proto::Udp => Protocol::Udp,
        Proto::Tcp => Protocol::Tcp,
    };
    let request = Request::from_bytes(query.raw.to_vec(), peer, protocol).ok()?;
    let [record] = request.authorities.as_slice() else {
        return None;
    };
    let [question] = request.queries.queries() else {
        return None;
    };
    let RData::SOA(soa) = &record.data else {
        return None;
    };
    (LowerName::from(&record.name) == *question.name()).then(|| Serial::decode(soa.serial))
}

#[cfg(test)]
mod tests;

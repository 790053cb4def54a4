//! Requests for transfers: checks the peer's access, the capacity, and whether one message is enough.

use std::sync::Arc;

use dns::{Name, Rcode, Rtype, Section, Serial, flags};
use tracing::{debug, info, warn};
use transfer::{
    Denial, Head, Job, Permit, Requester, SecondaryId, SecondaryRequest, TransferKind, one_message,
};
use transfer::{TransferEvents, TransferOutcome};
use zone::{PeerSerial, Proof, Version, Zone};

use crate::Proto;
use crate::chain::Block;
use crate::exchange::{Exchange, Outcome, Scratch, Signer};
use crate::options::{Extended, Said};
use crate::reply::write_soa;
use crate::shared::Shared;

impl Shared {
    /// The zone of exactly this name that is transferred here, in its block. The block that has the questions has the transfers: by its
    /// rules, and of its zones alone. A catalog may be below no key.
    pub(crate) fn zone_to_transfer<'a>(
        &'a self,
        block: Option<&'a Block>,
        lower: &[u8],
    ) -> Option<&'a Arc<Zone>> {
        let zones = block.map_or(&*self.zones, |block| block.zones().set());
        zones.get(&Name::from_wire(lower).ok()?)
    }
}

impl Exchange<'_> {
    /// AXFR or IXFR: access first, then the rest of the request, then capacity. A stranger must not take a friend's, and
    /// nothing of it is read but header, question, OPT and signature.
    pub(crate) fn transfer(self, scratch: &mut Scratch) -> Outcome {
        let shared = self.shared;
        let found = shared.router.find_key(&scratch.lower, Rtype::SOA);
        let block = found.map(|found| &shared.router.blocks()[found.block]);
        // RFC 5936 section 2.2.1: not authoritative for exactly this name.
        let Some(zone) = shared.zone_to_transfer(block, &scratch.lower) else {
            return self.fail_with(scratch, Rcode::NOTAUTH, Some(Extended::NOT_AUTHORITATIVE));
        };
        scratch.noted.found = found;
        scratch.noted.by = "transfer";
        let question = self.question(&scratch.lower);
        if let Some(block) = block.filter(|block| block.forbids(&question)) {
            return match block.refusal(&question) {
                None => self.fail_with(scratch, Rcode::REFUSED, Some(Extended::PROHIBITED)),
                Some(crate::Outcome::Dropped) => {
                    scratch.noted.by = "";
                    Outcome::Dropped
                }
                Some(crate::Outcome::Failed(failure)) => {
                    self.fail_with(scratch, failure.rcode, failure.extended.map(Extended))
                }
                Some(crate::Outcome::Reply(reply)) => self.write(scratch, reply, block.shape),
            };
        }
        let peer = self.peer_id();
        let Ok(permit) = self.permit(zone, &peer) else {
            return self.fail_with(scratch, Rcode::REFUSED, Some(Extended::PROHIBITED));
        };
        let client = if self.query.qtype() == Rtype::IXFR {
            let serial = self.query.ixfr_serial();
            if serial.is_none() {
                return self.fail(scratch, Rcode::FORMERR);
            }
            serial
        } else {
            None
        };
        shared.secondaries.requested(
            zone.apex(),
            &peer,
            client.map_or(SecondaryRequest::Axfr, SecondaryRequest::Ixfr),
            shared.clock.wall(),
        );
        let Some(version) = zone.current() else {
            return self.fail_with(scratch, Rcode::SERVFAIL, Some(Extended::NOT_READY));
        };
        match client {
            Some(serial) if serial.is_after(version.serial) => {
                shared.stats.transfers_ahead.increase();
                shared.secondaries.ahead.report(PeerSerial {
                    zone: zone.apex().clone(),
                    peer: peer.address,
                    serial,
                    proof: match (&peer.key, self.asker.proto) {
                        (Some(_), _) => Proof::Signature,
                        // Anybody can write the address of a datagram.
                        (None, Proto::Udp) => Proof::Nothing,
                        (None, _) => Proof::Exchange,
                    },
                });
                self.single_soa(scratch, &version)
            }
            Some(serial) if serial == version.serial => {
                shared.stats.transfers_up_to_date.increase();
                debug!(zone = %zone.apex(), peer = %peer.address, "secondary is up to date");
                self.single_soa(scratch, &version)
            }
            Some(serial) if self.asker.proto == Proto::Udp => {
                self.datagram(scratch, &version, serial)
            }
            _ => self.stream(scratch, permit, version, client),
        }
    }

    /// Whether the peer may have a zone.
    pub(crate) fn may_have(&self, zone: &Arc<Zone>) -> bool {
        let peer = self.peer_id();
        let rules = self.shared.access.get(zone.apex());
        rules.is_some_and(|rules| rules.permit(zone, self.requester(&peer)).is_ok())
    }

    /// Who asks, as rules see it.
    fn requester<'p>(&'p self, peer: &'p SecondaryId) -> Requester<'p> {
        Requester {
            address: peer.address,
            key: peer.key.as_ref(),
            tls: self.asker.tls,
        }
    }

    /// Whether the peer may have a zone; why not is counted and logged.
    fn permit(&self, zone: &Arc<Zone>, peer: &SecondaryId) -> Result<Permit, Option<Denial>> {
        let shared = self.shared;
        let who = self.requester(peer);
        let rules = shared.access.get(zone.apex()).ok_or(None);
        rules
            .and_then(|rules| rules.permit(zone, who).map_err(Some))
            .inspect_err(|denial| {
                shared.stats.transfers_denied.increase();
                let reason = match denial {
                    Some(denial) => denial.to_string(),
                    None => "the zone is not to be transferred".to_owned(),
                };
                let wall = shared.clock.wall();
                let told = match &peer.key {
                    Some(key) => format!("{reason} (from {}, signed by {key})", peer.address.ip()),
                    None => reason.clone(),
                };
                let secondaries = &shared.secondaries;
                secondaries.denied(zone.apex(), peer, &told, wall);
                // A refused secondary deserves a warning, and so does who has a key. There may be many strangers.
                let is_known = secondaries.knows(peer.address) || peer.key.is_some();
                let key = peer.key.as_ref().map(tracing::field::debug);
                let (zone, peer) = (zone.apex(), peer.address);
                let tls = self.asker.tls.is_some();
                if is_known {
                    warn!(%zone, %peer, key, tls, reason, "transfer denied");
                } else {
                    debug!(%zone, %peer, key, tls, reason, "transfer denied");
                }
            })
    }

    /// The current SOA alone (RFC 1995 section 2).
    fn single_soa(self, scratch: &mut Scratch, version: &Version) -> Outcome {
        let flags = self.begin(scratch, Said::of(version)) | flags::AA;
        let fits = write_soa(
            &mut scratch.writer,
            Section::Answer,
            version,
            version.contents.soa().ttl,
        );
        debug_assert!(fits, "a SOA fits any message");
        self.finish(scratch, flags, Rcode::NOERROR)
    }

    /// The differences in one datagram if they fit, else the current SOA alone.
    fn datagram(self, scratch: &mut Scratch, version: &Version, client: Serial) -> Outcome {
        let flags = self.begin(scratch, Said::of(version)) | flags::AA;
        if let Some(records) = one_message(&mut scratch.writer, version, client) {
            let octets = scratch.writer.octets().len() as u64;
            let (kind, outcome) = (TransferKind::Ixfr, TransferOutcome::Done);
            self.shared
                .stats
                .transfer_ended(kind, outcome, records, octets);
            let (zone, peer) = (version.contents.apex(), self.asker.address);
            let (serial, from_serial) = (version.serial.encode(), client.encode());
            info!(%zone, serial, from_serial, %peer, records, "differences sent in one datagram");
        }
        self.finish(scratch, flags, Rcode::NOERROR)
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
        let peer = self.peer_id();
        let slot = match shared.slots.take(&peer) {
            Ok(slot) => slot,
            Err(full) => {
                shared.stats.transfers_over_limit.increase();
                let key = peer.key.as_ref().map(tracing::field::display);
                warn!(zone = %permit.zone().apex(), peer = %peer.address, key, "{full}");
                let said = Said {
                    more: &[(Extended::OTHER.0, full.to_string())],
                    ..Said::default()
                };
                let flags = self.begin(scratch, said);
                return self.finish(scratch, flags, Rcode::SERVFAIL);
            }
        };
        self.collect_options(&mut scratch.options, Said::of(&version));
        let is_padded = self.pads();
        let tsig = match self.signer {
            Signer::Session(session) => Some(session),
            Signer::None | Signer::Refusal(_) => None,
        };
        let replies = shared.stats.replies(self.asker.proto, Rcode::NOERROR);
        replies.increase();
        let head = Head::new(&self.query, shared.settings.udp_octets, tsig);
        Outcome::Transfer(Box::new(Job {
            permit,
            slot,
            version,
            client,
            head: Head {
                options: scratch.options.as_slice().into(),
                is_padded,
                ..head
            },
            settings: shared.settings.transfer,
            peer,
            clock: Arc::clone(&shared.clock),
            events: Arc::clone(&shared.stats) as Arc<dyn TransferEvents>,
            secondaries: Arc::clone(&shared.secondaries),
        }))
    }

    /// The client's identity, with its key.
    fn peer_id(&self) -> SecondaryId {
        SecondaryId {
            address: self.asker.address,
            key: match &self.signer {
                Signer::Session(session) => Some(session.key().name().clone()),
                Signer::None | Signer::Refusal(_) => None,
            },
        }
    }

    /// Notes a secondary's request.
    pub(crate) fn note_asked(&self, zone: &Zone, request: SecondaryRequest) {
        let shared = self.shared;
        if shared.secondaries.knows(self.asker.address) {
            let id = self.peer_id();
            shared
                .secondaries
                .requested(zone.apex(), &id, request, shared.clock.wall());
        }
    }
}

//! A transfer, from the decision to the last message.

use std::sync::Arc;

use dns::{MessageWriter, Rcode, Section, Serial};
use ops::Clock;
use tokio::time::timeout;
use tracing::{info, warn};
use zone::Version;

use crate::sink::{Sink, StreamError, put};
use crate::{
    Decision, Delta, Head, Packer, Permit, Reason, SecondaryId, SecondaryTable, Slot,
    TransferEvents, TransferKind, TransferOutcome, TransferSettings, axfr, decide, ixfr,
};

/// A transfer that may begin.
pub struct Job {
    /// The proof that the peer may have the zone.
    pub permit: Permit,
    /// The slot that the transfer takes.
    pub slot: Slot,
    /// The version to send.
    pub version: Arc<Version>,
    /// The secondary's serial; `None` for AXFR.
    pub client: Option<Serial>,
    /// The common part of all messages.
    pub head: Head,
    /// Limits.
    pub settings: TransferSettings,
    /// The peer.
    pub peer: SecondaryId,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Counts the transfer.
    pub events: Arc<dyn TransferEvents>,
    /// The table that notes the secondary's new serial.
    pub secondaries: Arc<SecondaryTable>,
}

impl Job {
    /// Decides, sends everything, logs and counts the result. False if the reply broke off.
    pub async fn run<S: Sink>(self, mut sink: S) -> bool {
        let Self {
            permit,
            slot,
            version,
            client,
            head,
            settings,
            peer,
            clock,
            events,
            secondaries,
        } = self;
        let began = clock.now();
        let decision = match client {
            None => Decision::FullZone(Reason::Asked),
            Some(serial) => decide(&version, serial),
        };
        let mut packer = Packer::new(head, settings.message_octets, Arc::clone(&clock));
        let sending = send(&mut packer, &version, &decision, &mut sink);
        let in_time = timeout(settings.max_time, sending).await;
        let result = in_time.unwrap_or(Err(StreamError::TooLong));
        drop(slot);
        let (kind, reason) = kind_of(&decision);
        let outcome = match result {
            Ok(()) => TransferOutcome::Done,
            Err(StreamError::Closed | StreamError::TooLong) => TransferOutcome::Broken,
            Err(StreamError::TooLarge) => TransferOutcome::Failed,
        };
        events.transfer_ended(kind, outcome, packer.records, packer.octets);
        let elapsed = clock.now().saturating_duration_since(began);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let (zone, tls) = (permit.zone().apex(), permit.tls());
        let (serial, from_serial) = (version.serial.encode(), client.map(Serial::encode));
        let (records, bytes, messages) = (packer.records, packer.octets, packer.messages);
        // Several secondaries may have one address. Their keys differ.
        let (address, key) = (peer.address, peer.key.as_ref().map(tracing::field::display));
        match result {
            Ok(()) => info!(
                %zone, serial, from_serial, peer = %address, key, tls, kind = kind.as_str(), reason, records, bytes,
                messages, elapsed_ms, "transfer finished"
            ),
            Err(error) => warn!(
                %zone, serial, from_serial, peer = %address, key, tls, kind = kind.as_str(), reason, records, bytes,
                elapsed_ms, %error, "a transfer broke"
            ),
        }
        if result.is_ok() {
            let sent = (version.serial, version.seq);
            secondaries.took(zone, &peer, kind, sent, clock.wall());
        }
        // A peer whose transfer failed got a reply that says so.
        outcome != TransferOutcome::Broken
    }
}

/// The kind of a transfer, and the reason if it is not the requested one.
fn kind_of(decision: &Decision) -> (TransferKind, Option<&'static str>) {
    match decision {
        Decision::UpToDate | Decision::Chain(_) => (TransferKind::Ixfr, None),
        Decision::FullZone(Reason::Asked) => (TransferKind::Axfr, None),
        Decision::FullZone(reason) => (TransferKind::IxfrAsAxfr, Some(reason.as_str())),
    }
}

async fn send<S: Sink>(
    packer: &mut Packer,
    version: &Version,
    decision: &Decision,
    sink: &mut S,
) -> Result<(), StreamError> {
    let packed = match decision {
        Decision::UpToDate => put(packer, sink, [version.soa_record()]).await,
        Decision::Chain(delta) => send_delta(packer, version, delta, sink).await,
        Decision::FullZone(_) => axfr::send_zone(packer, version, sink).await,
    };
    match packed {
        Ok(()) => Ok(sink.finish(packer.message()).await?),
        Err(StreamError::TooLarge) => {
            sink.finish(packer.error(Rcode::SERVFAIL)).await?;
            Err(StreamError::TooLarge)
        }
        Err(broken @ (StreamError::Closed | StreamError::TooLong)) => Err(broken),
    }
}

/// Packs a delta and sends every message but the last.
async fn send_delta<S: Sink>(
    packer: &mut Packer,
    version: &Version,
    delta: &Delta,
    sink: &mut S,
) -> Result<(), StreamError> {
    let Some(old) = ixfr::old_soa(delta) else {
        return axfr::send_zone(packer, version, sink).await;
    };
    put(packer, sink, ixfr::sequence(version, delta, &old)).await
}

/// The most octets of steps that are condensed for one datagram: a few times the largest. More rarely fit, and anybody
/// can ask in the name of a secondary.
const MAX_DATAGRAM_STEPS_OCTETS: usize = 16 << 10;

/// Writes the answer to an IXFR into one message that already has its question: the differences if they fit and are made
/// of few steps, else the current SOA (RFC 1995 section 2). Returns the number of records if these are differences.
pub fn one_message(writer: &mut MessageWriter, version: &Version, client: Serial) -> Option<u64> {
    let mark = writer.mark();
    let steps = version.steps_from(client).unwrap_or_default();
    let octets: usize = steps.iter().map(|step| step.octets()).sum();
    if octets <= MAX_DATAGRAM_STEPS_OCTETS
        && let Decision::Chain(delta) = decide(version, client)
        && let Some(old) = ixfr::old_soa(&delta)
    {
        let mut records = 0;
        let mut put = |rr| {
            records += 1;
            writer.record(Section::Answer, rr)
        };
        if ixfr::sequence(version, &delta, &old).all(&mut put) {
            return Some(records);
        }
        writer.rollback(mark);
    }
    let fits = writer.record(Section::Answer, version.soa_record());
    debug_assert!(fits, "a SOA fits any message");
    None
}

#[cfg(test)]
mod tests;

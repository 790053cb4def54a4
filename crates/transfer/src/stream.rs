//! One transfer from its decision to its last octet.

use std::sync::Arc;
use std::time::Instant;

use dns::{MessageWriter, Name, Rcode, RrRef, Section, Serial};
use ops::Clock;
use tokio::time::timeout;
use tracing::{info, warn};
use zone::Version;

use crate::packer::Push;
use crate::{
    Decision, Delta, Head, Packer, Permit, Reason, SecondaryId, SecondaryTable, Slot,
    TransferEvents, TransferKind, TransferOutcome, TransferSettings, axfr, decide, ixfr,
};

/// The other side is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

/// Takes the messages of a reply, and waits while there is no room for more.
pub trait Sink: Send {
    /// Hands one message over.
    fn send(&mut self, message: Vec<u8>) -> impl Future<Output = Result<(), Closed>> + Send;

    /// Hands the last message over; comes back when its last octet is with the network.
    fn finish(&mut self, message: Vec<u8>) -> impl Future<Output = Result<(), Closed>> + Send;
}

/// Why a transfer ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StreamError {
    /// The other side is gone.
    #[error("the connection is closed")]
    Closed,
    /// A record fits no message.
    #[error("a record is too large for any message")]
    TooLarge,
    /// It took too long, though something was taken all the time.
    #[error("it took longer than a transfer may")]
    TooLong,
}

impl From<Closed> for StreamError {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

/// Puts records into messages, sending what is full.
pub(crate) async fn put<'a, S: Sink>(
    packer: &mut Packer,
    sink: &mut S,
    records: impl IntoIterator<Item = RrRef<'a>>,
) -> Result<(), StreamError> {
    let mut records = records.into_iter();
    let mut next = records.next();
    while let Some(rr) = next {
        match packer.push(rr) {
            Push::Taken => next = records.next(),
            Push::Full => sink.send(packer.message()).await?,
            Push::TooLarge => return Err(StreamError::TooLarge),
        }
    }
    Ok(())
}

/// A transfer that may begin.
pub struct Job {
    /// The peer may have the zone.
    permit: Permit,
    slot: Slot,
    start: JobStart,
}

/// What a transfer needs besides its permit and its slot.
pub struct JobStart {
    /// The version that is sent.
    pub version: Arc<Version>,
    /// The secondary's serial; `None` for AXFR.
    pub client: Option<Serial>,
    /// What all messages have in common.
    pub head: Head,
    /// Limits.
    pub settings: TransferSettings,
    /// Who asked.
    pub peer: SecondaryId,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Counts.
    pub events: Arc<dyn TransferEvents>,
    /// Knows what each secondary has.
    pub secondaries: Arc<SecondaryTable>,
}

impl Job {
    /// A transfer.
    pub fn new(permit: Permit, slot: Slot, start: JobStart) -> Self {
        Self {
            permit,
            slot,
            start,
        }
    }

    /// Decides, sends everything and notes what became of it; whether it was answered to its end.
    pub async fn run<S: Sink>(self, mut sink: S) -> bool {
        let Self {
            permit,
            slot,
            start,
        } = self;
        let began = start.clock.now();
        let decision = match start.client {
            None => Decision::FullZone(Reason::Asked),
            Some(serial) => decide(&start.version, serial),
        };
        let kind = match &decision {
            Decision::UpToDate | Decision::Chain(_) => TransferKind::Ixfr,
            Decision::FullZone(Reason::Asked) => TransferKind::Axfr,
            Decision::FullZone(Reason::UnknownSerial | Reason::UndefinedOrder | Reason::Larger) => {
                TransferKind::IxfrAsAxfr
            }
        };
        let head = start.head;
        let mut packer = Packer::new(
            head,
            start.settings.message_octets,
            Arc::clone(&start.clock),
        );
        let sending = send(&mut packer, &start.version, &decision, &mut sink);
        let in_time = timeout(start.settings.max_time, sending).await;
        let result = in_time.unwrap_or(Err(StreamError::TooLong));
        drop(slot);
        let report = Report {
            zone: permit.zone().apex(),
            version: &start.version,
            client: start.client,
            peer: &start.peer,
            tls: permit.tls(),
            began,
        };
        report.note(
            kind,
            &decision,
            &packer,
            result,
            &*start.clock,
            &*start.events,
        );
        if result.is_ok() {
            start.secondaries.took(
                report.zone,
                &start.peer,
                kind,
                (start.version.serial, start.version.seq),
                start.clock.wall(),
            );
        }
        match result {
            // The peer was told that it failed.
            Ok(()) | Err(StreamError::TooLarge) => true,
            Err(StreamError::Closed | StreamError::TooLong) => false,
        }
    }
}

/// What a finished transfer is logged with.
struct Report<'a> {
    zone: &'a Name,
    /// The version that was sent.
    version: &'a Version,
    /// The serial the secondary had.
    client: Option<Serial>,
    peer: &'a SecondaryId,
    tls: Option<&'a str>,
    began: Instant,
}

impl Report<'_> {
    fn note(
        &self,
        kind: TransferKind,
        decision: &Decision,
        packer: &Packer,
        result: Result<(), StreamError>,
        clock: &dyn Clock,
        events: &dyn TransferEvents,
    ) {
        let outcome = match result {
            Ok(()) => TransferOutcome::Done,
            Err(StreamError::Closed | StreamError::TooLong) => TransferOutcome::Broken,
            Err(StreamError::TooLarge) => TransferOutcome::Failed,
        };
        events.transfer_ended(kind, outcome, packer.records, packer.octets);
        let elapsed = clock.now().saturating_duration_since(self.began);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let from_serial = self.client.map(|serial| serial.encode());
        let reason = match decision {
            Decision::UpToDate | Decision::Chain(_) | Decision::FullZone(Reason::Asked) => None,
            Decision::FullZone(reason) => Some(reason.as_str()),
        };
        let (zone, serial, peer) = (self.zone, self.version.serial.encode(), self.peer.address);
        let (records, bytes, messages) = (packer.records, packer.octets, packer.messages);
        let (kind, tls) = (kind.as_str(), self.tls);
        // Several secondaries may have one address: the key tells them apart.
        let key = self.peer.key.as_ref().map(tracing::field::display);
        match result {
            Ok(()) => info!(
                %zone, serial, from_serial, %peer, key, tls, kind, reason, records, bytes, messages,
                elapsed_ms, "transfer finished"
            ),
            Err(error) => warn!(
                %zone, serial, from_serial, %peer, key, tls, kind, reason, records, bytes, elapsed_ms,
                %error, "transfer broke off"
            ),
        }
    }
}

async fn send<S: Sink>(
    packer: &mut Packer,
    version: &Version,
    decision: &Decision,
    sink: &mut S,
) -> Result<(), StreamError> {
    let packed = match decision {
        Decision::UpToDate => put(packer, sink, [axfr::soa_record(version)]).await,
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

/// Writes the answer to an IXFR into one message that has its question already: the differences if they
/// fit, else the single SOA (RFC 1995 section 2). Gives how many records the differences have, where these
/// were written.
pub fn one_message(writer: &mut MessageWriter, version: &Version, client: Serial) -> Option<u64> {
    let mark = writer.mark();
    if let Decision::Chain(delta) = decide(version, client)
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
    let fits = writer.record(Section::Answer, axfr::soa_record(version));
    debug_assert!(fits, "a SOA fits any message");
    None
}

#[cfg(test)]
mod tests;

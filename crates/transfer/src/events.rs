//! The events that transfers and NOTIFY report to the program's counters.

use crate::TransferKind;

/// The end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferOutcome {
    /// Sent to its last octet.
    Done,
    /// The secondary closed the connection, or received nothing for too long.
    Broken,
    /// It could not be sent.
    Failed,
}

/// Counts transfers and NOTIFYs.
pub trait TransferEvents: Send + Sync {
    /// A transfer ended after it sent this number of records and bytes.
    fn transfer_ended(
        &self,
        kind: TransferKind,
        outcome: TransferOutcome,
        records: u64,
        octets: u64,
    );

    /// A NOTIFY was sent.
    fn notify_sent(&self);

    /// A NOTIFY was acknowledged.
    fn notify_acknowledged(&self);

    /// A NOTIFY was answered with an error.
    fn notify_refused(&self);

    /// A NOTIFY got no answer to its last try.
    fn notify_given_up(&self);
}

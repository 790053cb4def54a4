//! Giving versions away: who may have them, whole or as differences, and telling who holds them.

mod acl;
mod ask;
mod axfr;
mod ixfr;
mod notify;
mod packer;
mod secondaries;
mod slots;
mod stream;
mod tls_peer;

pub use acl::{Access, Applicant, Denial, Peers, PeersError, Permit, Rule, TlsDemand};
pub use ask::{AskSettings, ask_serials};
pub use ixfr::{Decision, Delta, Reason, decide};
pub(crate) use notify::Notifier;
pub use notify::Secondary;
pub(crate) use packer::{Head, Packer, unix_seconds};
pub use secondaries::{Asked, SecondaryId, SecondaryStatus, SecondaryTable, TransferKind};
pub(crate) use slots::Slot;
pub use slots::Slots;
pub(crate) use stream::{Closed, Job, JobStart, Sink, one_message};
pub use tls_peer::TlsPeer;

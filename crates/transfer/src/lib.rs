//! Giving versions away: who may have them, whole or as differences, and telling who holds them.

mod acl;
mod ask;
mod axfr;
mod events;
mod ixfr;
mod notify;
mod packer;
mod peer;
mod secondaries;
mod settings;
mod slots;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls_peer;

pub use acl::{Access, Applicant, Denial, Peers, Permit, Rule, TlsDemand};
pub use ask::{AskSettings, AskedSecondary, ask_serials};
pub use events::{TransferEvents, TransferOutcome};
pub use ixfr::{Decision, Delta, Reason, decide};
pub use notify::Notifier;
pub use notify::{NOTIFY_UDP_TRIES, Secondary};
pub(crate) use packer::Packer;
pub use packer::{Head, unix_seconds};
pub use peer::PeerAddress;
pub use secondaries::{Asked, SecondaryId, SecondaryStatus, SecondaryTable, TransferKind};
pub use settings::{NotifySettings, TransferSettings};
pub use slots::Slots;
pub use slots::{Full, Slot};
pub use stream::{Closed, Job, JobStart, Sink, one_message};
pub use tls_peer::TlsPeer;

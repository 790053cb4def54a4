//! Zone transfer: access, AXFR, IXFR, NOTIFY, and the state of each secondary.

mod acl;
mod ask;
mod axfr;
mod events;
mod exchange;
mod ixfr;
mod notices;
mod notify;
mod packer;
mod peer;
mod peers_ahead;
mod secondaries;
mod settings;
mod sink;
mod slots;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use acl::{Access, Denial, Peers, Permit, Requester, Rule, TlsDemand};
pub use ask::{AskSettings, AskedSecondary, ask_serials};
pub use events::{TransferEvents, TransferOutcome};
pub use exchange::Secondary;
pub use ixfr::{Decision, Delta, Reason, decide};
pub use notices::Notices;
pub use notify::{NOTIFY_UDP_TRIES, Notifier};
pub(crate) use packer::Packer;
pub use packer::{Head, unix_seconds};
pub use peer::{PeerAddress, TlsPeer};
pub use peers_ahead::PeersAhead;
pub use secondaries::{
    Lag, SecondaryId, SecondaryRequest, SecondaryStatus, SecondaryTable, TransferKind,
};
pub use settings::{NotifySettings, TransferSettings};
pub use sink::{Closed, Sink};
pub use slots::{Full, Slot, Slots};
pub use stream::{Job, one_message};

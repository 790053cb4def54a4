//! The numbers of sources, and how their events reach the writer.

use etcd::source::EtcdEvent;
use kubernetes::source::{EventSink, SourceEvent, Unheard};
use tokio::sync::mpsc;
use zonefile::follow::FileEvent;

use crate::Input;

/// The number of a cluster's source or of a file's follower. A replacement has another number, so late events of the old one
/// are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId(pub u64);

/// The number of one asking of all secondaries for their serials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskId(pub u64);

/// The inputs of the writer for one source: its events carry its number.
#[derive(Debug, Clone)]
pub struct SourceSender {
    source: SourceId,
    inputs: mpsc::Sender<Input>,
}

impl SourceSender {
    /// A sender for the source with this number.
    #[must_use]
    pub const fn new(source: SourceId, inputs: mpsc::Sender<Input>) -> Self {
        Self { source, inputs }
    }

    /// Sends an event of a file. False when the writer has ended.
    pub async fn send_file(&self, event: FileEvent) -> bool {
        let source = self.source;
        self.inputs
            .send(Input::File { source, event })
            .await
            .is_ok()
    }

    /// Sends an event of etcd. False when the writer has ended.
    pub async fn send_etcd(&self, event: EtcdEvent) -> bool {
        let source = self.source;
        let sent = self.inputs.send(Input::Etcd { source, event });
        sent.await.is_ok()
    }
}

impl EventSink for SourceSender {
    async fn send(&self, event: SourceEvent) -> Result<(), Unheard> {
        let source = self.source;
        let sent = self.inputs.send(Input::Source { source, event }).await;
        sent.map_err(|_| Unheard)
    }

    async fn send_all(&self, events: Vec<SourceEvent>) -> Result<(), Unheard> {
        let source = self.source;
        let sent = self.inputs.send(Input::Reading { source, events }).await;
        sent.map_err(|_| Unheard)
    }
}

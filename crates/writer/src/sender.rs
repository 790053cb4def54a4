//! The numbers of sources, and how their events reach the writer.

use kubernetes::source::{EventSink, SourceEvent, Unheard};
use tokio::sync::mpsc;
use zonefile::follow::FileEvent;

use crate::Input;

/// The number of a source of a cluster, or of a follower of a file. One that takes the place of another has another number, so
/// that late events of the old one count for nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId(pub u64);

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
}

impl EventSink for SourceSender {
    async fn send(&self, event: SourceEvent) -> Result<(), Unheard> {
        let source = self.source;
        let sent = self.inputs.send(Input::Source { source, event }).await;
        sent.map_err(|_| Unheard)
    }
}

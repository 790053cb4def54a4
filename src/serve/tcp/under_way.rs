//! What the requests of a connection have begun: transfers, and answers that come from elsewhere. Each has its
//! own limit and takes no place of the other; while either is at its limit nothing more is read, for what the
//! next request will begin is not known before it is read.

use tokio::task::JoinSet;

use super::log_end;
use crate::serve::TcpSettings;

/// What a connection's requests have begun.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Transfers.
    pub(super) transfers: JoinSet<()>,
    /// Answers that come from elsewhere.
    pub(super) answers: JoinSet<()>,
}

impl UnderWay {
    /// Waits until there is room for one more of each.
    pub(super) async fn has_room(&mut self, settings: &TcpSettings) {
        while self.transfers.len() >= settings.max_transfers {
            self.transfers
                .join_next()
                .await
                .into_iter()
                .for_each(log_end);
        }
        while self.answers.len() >= settings.max_waiting {
            self.answers.join_next().await.into_iter().for_each(log_end);
        }
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.answers.is_empty()
    }

    /// Waits for the end of all.
    pub(super) async fn finish(&mut self) {
        for of in [&mut self.transfers, &mut self.answers] {
            while let Some(ended) = of.join_next().await {
                log_end(ended);
            }
        }
    }

    /// Ends all.
    pub(super) async fn shutdown(&mut self) {
        self.transfers.shutdown().await;
        self.answers.shutdown().await;
    }
}

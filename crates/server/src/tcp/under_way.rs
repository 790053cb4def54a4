//! What the requests of a connection have begun: transfers, and answers that come from elsewhere. Each has its
//! own limit and takes no place of the other; while either is at its limit nothing more is read, for what the
//! next request will begin is not known before it is read.

use tokio::task::{JoinError, JoinSet};

use crate::TcpSettings;
use crate::own_tasks::log_end;

/// What a connection's requests have begun.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Transfers, each with whether it was answered to its end.
    pub transfers: JoinSet<bool>,
    /// Answers that come from elsewhere.
    pub answers: JoinSet<()>,
}

impl UnderWay {
    /// Waits until there is room for one more of each; false when a transfer broke off.
    pub(super) async fn has_room(&mut self, settings: &TcpSettings) -> bool {
        let mut is_whole = true;
        while is_whole && self.transfers.len() >= settings.max_transfers {
            is_whole = self.transfers.join_next().await.is_none_or(is_sent);
        }
        while is_whole && self.answers.len() >= settings.max_waiting {
            self.answers.join_next().await.into_iter().for_each(log_end);
        }
        is_whole
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.answers.is_empty()
    }

    /// Waits for the end of all.
    pub(super) async fn finish(&mut self) {
        while let Some(ended) = self.transfers.join_next().await {
            is_sent(ended);
        }
        while let Some(ended) = self.answers.join_next().await {
            log_end(ended);
        }
    }

    /// Ends all.
    pub(super) async fn shutdown(&mut self) {
        self.transfers.shutdown().await;
        self.answers.shutdown().await;
    }
}

/// Whether a transfer that has ended was answered to its end: after one that was not the connection makes no sense.
pub(super) fn is_sent(ended: Result<bool, JoinError>) -> bool {
    let is_sent = *ended.as_ref().unwrap_or(&false);
    log_end(ended.map(drop));
    is_sent
}

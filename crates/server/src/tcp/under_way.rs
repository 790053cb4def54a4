//! The work in progress for a connection's requests: transfers, and answers from handlers. Each has a limit of its own.
//! While either is at its limit nothing more is read, as a request shows only when it is read what it will begin.

use tokio::task::{JoinError, JoinSet};

use crate::TcpSettings;
use crate::own_tasks::log_end;

/// The work in progress for a connection's requests.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Transfers, each with whether it ran to its end.
    pub transfers: JoinSet<bool>,
    /// Answers from handlers.
    pub answers: JoinSet<()>,
}

impl UnderWay {
    /// Waits until there is room for one more of each. False when a transfer broke off.
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

    /// Whether no work is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.answers.is_empty()
    }

    /// Waits for the end of all work.
    pub(super) async fn finish(&mut self) {
        while let Some(ended) = self.transfers.join_next().await {
            is_sent(ended);
        }
        while let Some(ended) = self.answers.join_next().await {
            log_end(ended);
        }
    }

    /// Aborts all work.
    pub(super) async fn shutdown(&mut self) {
        self.transfers.shutdown().await;
        self.answers.shutdown().await;
    }
}

/// Whether a transfer ran to its end. After one that did not, the connection cannot be used.
pub(super) fn is_sent(ended: Result<bool, JoinError>) -> bool {
    let is_sent = *ended.as_ref().unwrap_or(&false);
    log_end(ended.map(drop));
    is_sent
}

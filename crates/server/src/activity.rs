//! Whether a connection with many requests at once is in use: when none is in progress for too long, it has to go.

use tokio::sync::watch;

use crate::TcpSettings;

/// The requests of a connection.
#[derive(Debug)]
pub(crate) struct Activity(watch::Sender<Load>);

/// How many requests a connection has.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    /// In progress.
    running: usize,
    /// Since it began.
    begun: u64,
    /// Whether the server asks its clients to go.
    is_over: bool,
}

/// A request in progress, until it is dropped.
#[derive(Debug)]
pub(crate) struct InProgress(watch::Sender<Load>);

/// Why a connection has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Its client has asked nothing for too long.
    Idle,
    /// It has had as many requests as it may have, or the server ends.
    Enough,
}

impl Activity {
    /// No request yet.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::default())
    }

    /// Notes a request that begins.
    pub(crate) fn begin(&self) -> InProgress {
        self.0.send_modify(|load| {
            load.running += 1;
            load.begun += 1;
        });
        InProgress(self.0.clone())
    }

    /// Lets the connection go with the requests that it has.
    pub(crate) fn end(&self) {
        self.0.send_modify(|load| load.is_over = true);
    }

    /// Waits until the connection has to go.
    pub(crate) async fn over(&self, settings: &TcpSettings) -> Leave {
        let mut loads = self.0.subscribe();
        loop {
            let load = *loads.borrow_and_update();
            if load.is_over || settings.max_queries.is_some_and(|most| load.begun >= most) {
                return Leave::Enough;
            }
            let patience = match load.begun {
                0 => settings.first_request_timeout,
                _ => settings.idle_timeout,
            };
            let asleep = tokio::time::sleep(patience);
            tokio::select! {
                () = asleep, if load.running == 0 => return Leave::Idle,
                // The sender lives as long as this does.
                changed = loads.changed() => if changed.is_err() {
                    return Leave::Idle;
                },
            }
        }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.send_modify(|load| load.running -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::time::{Instant, advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_goes_when_no_request_is_in_progress_for_too_long() {
        let settings = TcpSettings {
            first_request_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(3),
            ..TcpSettings::default()
        };
        let activity = Activity::new();
        let began = Instant::now();
        assert_eq!(activity.over(&settings).await, Leave::Idle);
        assert_eq!(began.elapsed().as_secs(), 1);
        let [one, other] = [activity.begin(), activity.begin()];
        let mut over = Box::pin(activity.over(&settings));
        advance(Duration::from_secs(60)).await;
        assert!((&mut over).now_or_never().is_none());
        drop(one);
        advance(Duration::from_secs(60)).await;
        assert!((&mut over).now_or_never().is_none());
        drop(other);
        let began = Instant::now();
        assert_eq!(over.await, Leave::Idle);
        assert_eq!(began.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_goes_with_the_last_request_it_may_have() {
        let settings = TcpSettings {
            max_queries: Some(2),
            ..TcpSettings::default()
        };
        let activity = Activity::new();
        drop(activity.begin());
        let mut over = Box::pin(activity.over(&settings));
        assert!((&mut over).now_or_never().is_none());
        drop(activity.begin());
        assert_eq!(over.await, Leave::Enough);
    }
}

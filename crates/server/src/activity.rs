//! Whether a connection with many requests at once is in use. If none is in progress for too long, the connection is
//! closed.

use ops::Usage;
use tokio::sync::watch;

use crate::TcpSettings;

/// The number of requests of a connection.
#[derive(Debug)]
pub(crate) struct Activity(watch::Sender<Load>, Usage);

/// The number of requests of a connection.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    /// The requests in progress.
    running: usize,
    /// The requests since the connection began.
    begun: u64,
    /// Whether the server wants to close the connection.
    is_over: bool,
}

/// A request in progress. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct InProgress(watch::Sender<Load>, Usage);

/// The reason for closing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Its client has sent no request for too long.
    Idle,
    /// It has had as many requests as it may have, or is old, or the server ends.
    Enough,
}

impl Activity {
    /// No request yet. The connection's place is told when it is in use.
    pub(crate) fn new(usage: Usage) -> Self {
        Self(watch::Sender::default(), usage)
    }

    /// Counts a request that begins.
    pub(crate) fn begin(&self) -> InProgress {
        self.0.send_modify(|load| {
            load.running += 1;
            load.begun += 1;
        });
        self.1.work();
        InProgress(self.0.clone(), self.1.clone())
    }

    /// Closes the connection after the requests that it has.
    pub(crate) fn end(&self) {
        self.0.send_modify(|load| load.is_over = true);
    }

    /// Waits until the connection has to be closed.
    pub(crate) async fn over(&self, settings: &TcpSettings) -> Leave {
        let mut loads = self.0.subscribe();
        let mut old = std::pin::pin!(tokio::time::sleep(settings.max_age));
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
                () = &mut old => return Leave::Enough,
                () = asleep, if load.running == 0 => return Leave::Idle,
                // The sender lives as long as `self`.
                changed = loads.changed() => if changed.is_err() {
                    return Leave::Idle;
                },
            }
        }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.send_modify(|load| {
            load.running -= 1;
            if load.running == 0 {
                self.1.rest();
            }
        });
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
        let activity = Activity::new(Usage::default());
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

    /// security 9: "no age limit".
    #[tokio::test(start_paused = true)]
    async fn an_old_connection_goes_however_busy_it_is() {
        let settings = TcpSettings {
            max_age: Duration::from_secs(3600),
            ..TcpSettings::default()
        };
        let activity = Activity::new(Usage::default());
        let _running = activity.begin();
        let began = Instant::now();
        assert_eq!(activity.over(&settings).await, Leave::Enough);
        assert_eq!(began.elapsed().as_secs(), 3600);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_goes_with_the_last_request_it_may_have() {
        let settings = TcpSettings {
            max_queries: Some(2),
            ..TcpSettings::default()
        };
        let activity = Activity::new(Usage::default());
        drop(activity.begin());
        let mut over = Box::pin(activity.over(&settings));
        assert!((&mut over).now_or_never().is_none());
        drop(activity.begin());
        assert_eq!(over.await, Leave::Enough);
    }
}

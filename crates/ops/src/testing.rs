//! For tests: a clock, waiting with a deadline, and sockets.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "for tests: what fails here fails the test"
)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::net::{TcpListener, UdpSocket};

use crate::Clock;

/// The wall clock of tests.
pub const NOW: u64 = 1_700_000_000;

/// A clock with a fixed time of day and tokio's instants.
#[derive(Debug)]
pub struct TestClock;

impl Clock for TestClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(NOW)
    }
}

/// Waits for at most 20 seconds.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("the awaited event did not come in time")
}

/// A UDP and a TCP socket of one local port.
pub async fn both_ways() -> (UdpSocket, TcpListener) {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        if let Ok(listener) = TcpListener::bind(address).await {
            return (socket, listener);
        }
    }
}

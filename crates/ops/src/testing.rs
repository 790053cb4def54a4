//! For tests: a clock that stands still, and waiting with an end.

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

/// A clock whose wall stands still and whose moments are tokio's.
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

/// Waits no longer than a test may take.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("what the test waits for does not come")
}

/// A socket of this machine for datagrams, and one for connections at the same port.
pub async fn both_ways() -> (UdpSocket, TcpListener) {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        if let Ok(listener) = TcpListener::bind(address).await {
            return (socket, listener);
        }
    }
}

//! Hands out loopback ports that nobody else uses.
//!
//! The numbers lie below the range from which the kernel takes the ports of outgoing connections,
//! and each is held by a locked file for the life of the process: two test processes never get the
//! same one, also after the server that had it was stopped for a while.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Mutex;

/// Ports we choose from.
const RANGE: std::ops::Range<u16> = 20_000..30_000;

/// The next port to try and the locks of those handed out.
static TAKEN: Mutex<(Option<u16>, Vec<File>)> = Mutex::new((None, Vec::new()));

/// A port free for UDP and TCP on 127.0.0.1, ours until the process ends.
pub fn free() -> u16 {
    let folder = std::env::temp_dir().join("zonewright-test-ports");
    fs::create_dir_all(&folder).expect("a folder for port locks can be made");
    let mut taken = TAKEN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let span = RANGE.end - RANGE.start;
    for _ in 0..span {
        // Processes start at different places, so that they rarely try the same port.
        let start = u16::try_from(std::process::id() % 100).expect("below 100") * 100;
        let offset = taken.0.unwrap_or(start);
        taken.0 = Some((offset + 1) % span);
        let port = RANGE.start + offset;
        let lock = File::create(folder.join(port.to_string())).expect("a lock file can be made");
        let address = (Ipv4Addr::LOCALHOST, port);
        let is_free = lock.try_lock().is_ok()
            && UdpSocket::bind(address).is_ok()
            && TcpListener::bind(address).is_ok();
        if is_free {
            taken.1.push(lock);
            return port;
        }
    }
    panic!("no free port in {RANGE:?}");
}

/// [`free`] as an address on 127.0.0.1.
pub fn free_address() -> SocketAddr {
    loopback(free())
}

/// 127.0.0.1 with this port.
pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

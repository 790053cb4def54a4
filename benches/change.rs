//! One Service's change, from the event to the durable, published and announced version, in a zone of
//! 1 000 and in one of 1 000 000 records, against this disk's own append and fdatasync in the same run.
//!
//! `cargo bench --bench change` prints a table. Absolute times mean little on a shared machine; the
//! ratios are what counts.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement: it prints, reads the clock, and fails loudly"
)]

mod writer;

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use dns::CookieSecrets;
use kubernetes::facts::Change;
use ops::SystemClock;
use server::{Common, Identity, Parts, Server, Settings};
use tokio_util::sync::CancellationToken;
use transfer::Secondary;
use zone::ZoneSet;

use writer::{Subject, quantiles, slice};

/// Changes that are measured one after the other.
const CHANGES: usize = 2_000;
/// Changes whose NOTIFY is measured; they are apart from each other.
const NOTIFIED: usize = 150;

/// Notify times of single changes: from the event to the datagram at a secondary that answers.
fn notify_times(subject: &Subject, runtime: &tokio::runtime::Runtime) -> Vec<Duration> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap();
    let (told, hears) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut octets = [0_u8; 1500];
        while let Ok((length, peer)) = socket.recv_from(&mut octets) {
            if told.send(Instant::now()).is_err() {
                return;
            }
            octets[2] |= 0x80;
            socket.send_to(&octets[..length], peer).unwrap();
        }
    });
    let zone = Arc::clone(&subject.zone);
    let _guard = runtime.enter();
    let secondaries = vec![Secondary {
        zone: zone.apex().clone(),
        target: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), target.port()),
        keys: vec![],
        source: None,
    }];
    let settings = Settings::default();
    let common = Common::new(&settings, std::iter::empty());
    common
        .secondaries
        .configure([(zone.apex().clone(), target, vec![])], SystemTime::now());
    let server = Server::new(Parts {
        router: Arc::default(),
        zones: Arc::new(ZoneSet::new(vec![Arc::clone(&zone)])),
        access: std::collections::HashMap::new(),
        secondaries,
        keys: Arc::default(),
        identity: Identity {
            nsid: None,
            cookies: CookieSecrets::new([0; 16], &[]),
        },
        tls: None,
        settings,
        clock: Arc::new(SystemClock),
        query_log: None,
        common,
    });
    let cancel = CancellationToken::new();
    for told in server.told() {
        let (_, task) = told.run(cancel.clone());
        runtime.spawn(task);
    }
    hears.recv().unwrap();
    // What was measured before may have left the slice as the first change below makes it.
    subject.send(Change::Applied(slice(7, 0)));
    let mut times = Vec::new();
    for round in 0..NOTIFIED {
        // Apart from each other, so that each change is told at once.
        std::thread::sleep(Duration::from_millis(120));
        while hears.try_recv().is_ok() {}
        let start = Instant::now();
        subject.send(Change::Applied(slice(7, u32::try_from(round).unwrap() + 1)));
        let heard = hears.recv_timeout(Duration::from_secs(5)).unwrap();
        times.push(heard.saturating_duration_since(start));
    }
    cancel.cancel();
    times
}

/// Appends 230 octets and waits for the disk.
fn append(file: &mut File) -> Duration {
    let start = Instant::now();
    file.write_all(&[7; 230]).unwrap();
    file.sync_data().unwrap();
    start.elapsed()
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let small = Subject::new(17, &runtime);
    let large = Subject::new(16_650, &runtime);
    let folder = tempfile::tempdir_in("target").unwrap();
    let mut file = File::create(folder.path().join("append")).unwrap();
    let (mut of_small, mut of_large, mut of_disk) = (Vec::new(), Vec::new(), Vec::new());
    let changes = u32::try_from(CHANGES).unwrap();
    for number in 0..changes {
        // In turn, so that what else the machine does meets all alike.
        of_small.push(small.change(number % 17, number / 17 + 1, &runtime));
        of_large.push(large.change(number % 16_650, number / 16_650 + 1, &runtime));
        of_disk.push(append(&mut file));
    }
    let (small_50, small_99) = quantiles(of_small);
    let (large_50, large_99) = quantiles(of_large);
    let (disk_50, disk_99) = quantiles(of_disk);
    println!("event to durable, published version; {CHANGES} changes each, µs");
    println!("| zone | p50 | p99 |\n|---|---|---|");
    println!(
        "| {} records | {small_50:.0} | {small_99:.0} |",
        small.records
    );
    println!(
        "| {} records | {large_50:.0} | {large_99:.0} |",
        large.records
    );
    println!("| this disk: append 230 octets, fdatasync | {disk_50:.0} | {disk_99:.0} |");
    println!(
        "ratio large/small: p50 {:.2}, p99 {:.2}",
        large_50 / small_50,
        large_99 / small_99
    );
    println!(
        "p99 of the large zone over p99 of the disk: {:.1}",
        large_99 / disk_99
    );
    let (small_50, small_99) = quantiles(notify_times(&small, &runtime));
    let (large_50, large_99) = quantiles(notify_times(&large, &runtime));
    println!("event to NOTIFY at the secondary; {NOTIFIED} changes each, µs");
    println!("| zone | p50 | p99 |\n|---|---|---|");
    println!(
        "| {} records | {small_50:.0} | {small_99:.0} |",
        small.records
    );
    println!(
        "| {} records | {large_50:.0} | {large_99:.0} |",
        large.records
    );
    println!("ratio large/small: p50 {:.2}", large_50 / small_50);
}

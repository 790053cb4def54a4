//! What strangers send to a server, from which addresses, and what that costs others: time, memory and descriptors.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use super::process::{let_pass, now};
use super::wire::{self, Query};

/// The zone that they ask about.
pub const ZONE: &str = "cluster.local";
/// A name that is there.
pub const NAME: &str = "s1.shop.svc.cluster.local";

/// So many Services, as a manifest.
pub fn list_of(services: usize) -> Value {
    let items: Vec<_> = (1..=services)
        .map(|number| {
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": { "name": format!("s{number}"), "namespace": "shop" },
                "spec": {
                    "clusterIPs": [format!("10.96.{}.{}", number / 256, number % 256)],
                    "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
                },
            })
        })
        .collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// Stops threads when it is dropped, which happens even when a test fails.
#[derive(Debug)]
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks again and again. Returns the times of the answers.
pub fn ask_until(server: SocketAddr, done: &AtomicBool) -> Vec<Duration> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(server).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let query = Query::new(NAME, wire::A).encode();
    let mut took = Vec::new();
    let mut buffer = [0; 512];
    while !done.load(Ordering::Relaxed) || took.len() < 300 {
        let start = now();
        socket.send(&query).unwrap();
        let length = socket
            .recv(&mut buffer)
            .expect("an ordinary query is answered");
        took.push(now() - start);
        assert!(length > query.len());
        let_pass(Duration::from_millis(1));
    }
    took
}

/// A connection from one of many addresses, so that no limit of one client is met.
pub fn from_address(number: usize, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let host = u8::try_from(number % 200).unwrap() + 1;
    socket.bind(&SocketAddr::from(([127, 0, 1, host], 0)).into())?;
    socket.connect_timeout(&to.into(), Duration::from_secs(10))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Requests to begin with.
pub fn requests() -> Vec<Vec<u8>> {
    let names = [
        (ZONE, wire::SOA),
        (NAME, wire::A),
        (ZONE, 252),
        (NAME, 255),
        ("x.y", wire::A),
    ];
    let mut all: Vec<Vec<u8>> = names
        .iter()
        .flat_map(|(name, rtype)| {
            let query = Query::new(name, *rtype);
            [query.encode(), query.edns(1232).encode()]
        })
        .collect();
    // IXFR, with an SOA in its authority section, and a TSIG of a key nobody has.
    let ixfr = Query {
        serial: Some(0),
        ..Query::new(ZONE, wire::IXFR)
    };
    let mut signed = all[0].clone();
    signed[11] = 1;
    signed.extend(b"\x01k\x00\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x3d\x0bhmac-sha256\x00");
    signed.extend(b"\x00\x00\x66\x00\x00\x00\x01\x2c\x00\x20");
    signed.extend([7; 32]);
    signed.extend(b"\x00\x01\x00\x00\x00\x00");
    all.extend([ixfr.encode(), signed]);
    all
}

/// Parts of messages.
pub const PARTS: &[&[u8]] = &[
    b"\xc0\x0c",
    b"\xff\xff",
    b"\x00\x00\x29",
    b"\x00\x00\xfa\x00\xff",
    b"\x00\xfc\x00\x01",
    b"\x00\x0a\x00\x28",
];

/// A good query with this ID.
pub fn good(id: u16) -> Vec<u8> {
    let mut query = Query::new(NAME, wire::A).encode();
    query[..2].copy_from_slice(&id.to_be_bytes());
    query
}

/// Open descriptors of a process, and its resident memory in KiB.
pub fn footprint(id: u32) -> (usize, usize) {
    let open = fs::read_dir(format!("/proc/{id}/fd")).unwrap().count();
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let resident = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (open, resident)
}

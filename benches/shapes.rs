//! Shapes of clusters that are feared: a headless Service of 5 000 endpoints, a namespace of 5 000 Services
//! that is hidden and shown again, 100 reverse zones. Each is timed itself, and then single changes
//! elsewhere beside those of a plain cluster: they must cost the same.
//!
//! `cargo bench --bench shapes` prints a table.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement: it prints, reads the clock, and fails loudly"
)]

mod writer;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use kubernetes::facts::{
    Change, Endpoint, EndpointSlice, Fact, Port, Protocol, Service, ServiceForm, SliceForm,
    SlicePort,
};
use provenance::{FactKey, Kind, ObjectKey, Origin};
use tokio::runtime::Runtime;

use writer::{Subject, namespace, quantiles};

/// Headless Services of the plain cluster, ten endpoints each.
const SERVICES: u32 = 1_000;
/// Single changes that are measured.
const CHANGES: u32 = 500;
/// Services of the large namespace.
const LARGE_NAMESPACE: u32 = 5_000;
/// Slices of the large Service, and endpoints of each.
const SLICES: (u32, u32) = (50, 100);

/// The large headless Service.
fn large_service() -> Fact {
    Fact::Service(Service {
        key: ObjectKey::new("ns-0", "large"),
        form: ServiceForm::Headless,
        ports: [].into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    })
}

/// One of its slices; `round` moves the first endpoint.
fn large_slice(number: u32, round: u32) -> Fact {
    let endpoint = |place: u32| {
        let moved = if place == 0 { (round % 2) << 14 } else { 0 };
        let address = Ipv4Addr::from(0x0a40_0000 + moved + number * SLICES.1 + place);
        Endpoint::at([IpAddr::from(address)])
    };
    Fact::EndpointSlice(EndpointSlice {
        key: ObjectKey::new("ns-0", &format!("large-{number}")),
        service: Some("large".into()),
        import: None,
        form: SliceForm::Ipv4,
        ports: [SlicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            number: Some(80),
        }]
        .into(),
        endpoints: (0..SLICES.1).map(endpoint).collect(),
        created_s: 0,
        origin: Origin::default(),
    })
}

/// A Service of the large namespace.
fn inside(index: u32) -> Fact {
    Fact::Service(Service {
        key: ObjectKey::new("large", &format!("service-{index}")),
        form: ServiceForm::ClusterIp([Ipv4Addr::from(0x0a60_0000 + index).into()].into()),
        ports: [Port {
            name: "http".into(),
            protocol: Protocol::Tcp,
            number: 80,
        }]
        .into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    })
}

/// Waits until the zone has so many records.
fn settle(subject: &Subject, records: usize) {
    let count = || {
        subject
            .zone
            .current()
            .map_or(0, |it| it.contents.record_count())
    };
    while count() != records {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many records the forward zone has.
fn records(subject: &Subject) -> usize {
    subject.zone.current().unwrap().contents.record_count()
}

/// Prints what an act cost.
fn told(what: &str, took: Duration) {
    println!("| {what} | {:.1} ms |", took.as_secs_f64() * 1e3);
}

/// A cluster with the large headless Service.
fn with_large_service(runtime: &Runtime) -> Subject {
    let subject = Subject::new(SERVICES, runtime);
    let before = records(&subject);
    subject.send(Change::Applied(large_service()));
    (0..SLICES.0).for_each(|number| subject.send(Change::Applied(large_slice(number, 0))));
    // At its name, at the port's and at each endpoint's: an address and SRV.
    let endpoints = usize::try_from(SLICES.0 * SLICES.1).unwrap();
    settle(&subject, before + endpoints * 5);
    told(
        "one endpoint of 5 000 in a headless Service moves",
        subject.changes([Change::Applied(large_slice(7, 1))], runtime),
    );
    subject
}

/// A cluster with the large namespace, which was hidden and shown.
fn with_large_namespace(runtime: &Runtime) -> Subject {
    let subject = Subject::new(SERVICES, runtime);
    let before = records(&subject);
    subject.send(Change::Applied(namespace("large")));
    (0..LARGE_NAMESPACE).for_each(|index| subject.send(Change::Applied(inside(index))));
    // An address, SRV at the name and at the port's.
    let all = before + usize::try_from(LARGE_NAMESPACE).unwrap() * 3;
    settle(&subject, all);
    let key = FactKey {
        kind: Kind::Namespace,
        key: ObjectKey::new("", "large"),
    };
    told(
        "a namespace of 5 000 Services is hidden",
        subject.changes([Change::Deleted(key, Origin::default())], runtime),
    );
    settle(&subject, before);
    told(
        "and shown again",
        subject.changes([Change::Applied(namespace("large"))], runtime),
    );
    settle(&subject, all);
    subject
}

fn main() {
    let runtime = Runtime::new().unwrap();
    println!("| what | event to published |\n|---|---|");
    let large_service = with_large_service(&runtime);
    let large_namespace = with_large_namespace(&runtime);
    let zones = (0..100).map(|number| format!("{number}.0.10.in-addr.arpa."));
    let subjects = [
        ("plain", Subject::new(SERVICES, &runtime)),
        ("with a headless Service of 5 000 endpoints", large_service),
        ("with a namespace of 5 000 Services", large_namespace),
        (
            "with 100 reverse zones",
            Subject::with(SERVICES, zones.collect(), &runtime),
        ),
    ];
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); subjects.len()];
    for number in 0..CHANGES {
        // In turn, so that what else the machine does meets all alike.
        for ((_, subject), times) in subjects.iter().zip(&mut times) {
            times.push(subject.change(number % SERVICES, number / SERVICES + 1, &runtime));
        }
    }
    println!("\nsingle changes elsewhere, {CHANGES} each, µs");
    println!("| cluster | p50 | p99 | p50 over plain |\n|---|---|---|---|");
    let mut plain = None;
    for ((what, _), times) in subjects.iter().zip(times) {
        let (median, high) = quantiles(times);
        let plain = *plain.get_or_insert(median);
        println!(
            "| {what} | {median:.0} | {high:.0} | {:.2} |",
            median / plain
        );
    }
}

//! Tests of the loop's links: which events are taken, and what a full queue does.

use dns::Name;
use dns::Serial;
use replicas::chain::Tip;
use replicas::frame::Body;
use replicas::lease::Loss;
use tokio::sync::mpsc::error::TryRecvError;

use super::*;
use crate::clock::SystemClocks;
use crate::roster::FixedRoster;
use crate::testing::{Authority, MemoryJournal};

/// A host that does nothing.
struct Quiet;

impl Host for Quiet {
    fn show(&mut self, _: &Name, _: &Tip) {}
    fn notify(&mut self, _: &Name, _: Serial) {}
    fn prove(&mut self, _: Epoch) {}
    fn lead(&mut self, _: Epoch, _: bool) {}
    fn stop(&mut self, _: Loss) {}
    fn declined(&mut self, _: &Name) {}
}

/// A replica that follows a leader which is not there.
async fn driver() -> Driver<Quiet> {
    let name = "replicas.example";
    let identity = Identity::new(&Authority::new().material(name), name);
    let journal = MemoryJournal::default();
    let (chains, vow) = journal.open(&[]);
    let listener = Listener::bind("127.0.0.1:0".parse().expect("an address")).await;
    let parts = Parts {
        me: ReplicaId::from("a"),
        address: "127.0.0.1:1".to_owned(),
        chains,
        vow,
        settings: Settings::default(),
        role: Role::Fixed(FixedRole::Follow("127.0.0.1:1".to_owned())),
        clocks: Arc::new(SystemClocks::new()),
        host: Quiet,
        disk: Box::new(journal.clone()),
        reader: Box::new(journal),
        listener: listener.expect("a port is free"),
        identity: Arc::new(identity.expect("it is usable")),
        limits: LinkLimits::default(),
        roster: Arc::new(FixedRoster::default()),
    };
    Driver::new(parts).expect("threads can be started").0
}

fn ping() -> Frame {
    Frame {
        epoch: Epoch(1),
        body: Body::Ping,
    }
}

#[tokio::test]
async fn the_link_of_an_attempt_that_was_given_up_is_closed() {
    let mut driver = driver().await;
    for _ in 0..2 {
        driver.act(Action::Connect("127.0.0.1:1".to_owned()));
    }
    let (handle, mut sent) = LinkHandle::with_room(1);
    driver.take_link_event(LinkEvent::Connected(1, 5, handle));
    assert!(driver.links.is_empty());
    assert_eq!(sent.try_recv(), Err(TryRecvError::Disconnected));
    // Nor does its failure count as that of the later one.
    driver.take_link_event(LinkEvent::Failed(1));
    assert!(driver.attempt.as_ref().is_some_and(|it| it.0 == 2));
    driver.take_link_event(LinkEvent::Failed(2));
    assert!(driver.attempt.as_ref().is_none_or(|it| it.0 > 2));
}

#[tokio::test]
async fn a_link_whose_queue_is_full_is_closed_and_counted() {
    let mut driver = driver().await;
    let (handle, _sent) = LinkHandle::with_room(1);
    let stop = handle.stop_token();
    driver.take_link_event(LinkEvent::Accepted(5, handle));
    driver.act(Action::Send(5, ping()));
    assert!(driver.follow_ups.is_empty() && !stop.is_cancelled());
    driver.act(Action::Send(5, ping()));
    assert_eq!(driver.follow_ups, [Event::Closed(Some(5))]);
    assert!(driver.links.is_empty() && stop.is_cancelled());
    assert_eq!(driver.link_stats().overflown.load(Ordering::Relaxed), 1);
    // What is sent to a link that is closed is left out.
    driver.act(Action::Send(5, ping()));
    assert_eq!(driver.follow_ups.len(), 1);
}

#[tokio::test]
async fn what_is_queued_when_a_link_is_closed_is_still_sent() {
    let mut driver = driver().await;
    let (handle, mut sent) = LinkHandle::with_room(2);
    let stop = handle.stop_token();
    driver.take_link_event(LinkEvent::Accepted(5, handle));
    driver.act(Action::Send(5, ping()));
    driver.act(Action::Close(5));
    assert_eq!(sent.recv().await, Some(ping()));
    assert_eq!(sent.recv().await, None);
    assert!(!stop.is_cancelled());
}

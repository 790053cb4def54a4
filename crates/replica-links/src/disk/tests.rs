//! Tests of the threads of a disk.

use dns::testing::name;
use replicas::chain::Epoch;
use replicas::knowledge::Vow;
use replicas::leader::Fetch;

use super::*;
use crate::testing::{MemoryJournal, soon};

fn keep(epoch: u64) -> Order {
    Order::Keep(Vow {
        epoch: Epoch(epoch),
        ..Vow::default()
    })
}

/// The next answer, as text.
async fn answer(answers: &mut DiskAnswers) -> String {
    match soon("the disk answers", answers.next()).await {
        Some(DiskAnswer::Event(event)) => format!("{event:?}"),
        Some(DiskAnswer::Unread(link)) => format!("link {link}"),
        Some(DiskAnswer::Lost(error)) => error.to_string(),
        None => "the end".to_owned(),
    }
}

fn start(journal: &MemoryJournal) -> (DiskThreads, DiskAnswers) {
    let (disk, reader) = (Box::new(journal.clone()), Box::new(journal.clone()));
    DiskThreads::start(disk, reader).expect("threads can be started")
}

#[tokio::test]
async fn orders_are_answered_in_order_and_a_full_disk_is_tried_again() {
    let journal = MemoryJournal::default();
    let (disk, mut answers) = start(&journal);
    for epoch in 1..=3 {
        disk.order(keep(epoch));
        assert_eq!(answer(&mut answers).await, "Ordered(Ok(()))");
        assert_eq!(journal.open(&[]).1.epoch, Epoch(epoch));
    }
    journal.set_full(true);
    disk.order(keep(4));
    disk.order(keep(5));
    for _ in 0..2 {
        assert_eq!(answer(&mut answers).await, "Ordered(Err(Store))");
    }
    assert_eq!(journal.open(&[]).1.epoch, Epoch(3));
    journal.set_full(false);
    assert_eq!(answer(&mut answers).await, "StoreOk");
    let fetch = Fetch {
        link: 9,
        zone: name("missing."),
        known: Vec::new(),
        parts: 0,
        max_bytes: 1,
    };
    disk.fetch(fetch);
    assert_eq!(answer(&mut answers).await, "link 9");
    drop(answers);
    disk.finish();
}

#[tokio::test]
async fn a_sync_that_failed_is_the_last_answer() {
    let journal = MemoryJournal::default();
    let (disk, mut answers) = start(&journal);
    journal.break_sync();
    disk.order(keep(1));
    assert_eq!(answer(&mut answers).await, "the sync failed");
    assert_eq!(answer(&mut answers).await, "the end");
    drop(answers);
    disk.finish();
    assert_eq!(journal.open(&[]).1.epoch, Epoch(0));
}

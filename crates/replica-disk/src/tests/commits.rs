//! The writer's store, with the journal's thread and a replica that leads alone.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use dns::{Name, Serial};
use ops::SystemClock;
use replicas::chain::Step;
use replicas::fixed::FixedRole;
use replicas::replica::{Action, Event, Replica};
use replicas::settings::Now;
use replicas::term::{Permit, Wait};
use tempfile::TempDir;
use zone::Version;

use super::{apex, candidate, open, replica};
use crate::commits::{Commits, CommitsError, Outcome};
use crate::thread::{Answer, DiskThread, Request};

/// The replica, and what drives it: a loop on the caller's thread.
struct Driver {
    replica: Replica,
    requests: SyncSender<Request>,
    answers: Receiver<Answer>,
    outcomes: Sender<Outcome>,
    boot: u64,
}

impl Driver {
    fn now(&mut self) -> Now {
        self.boot += 10;
        Now {
            boot: std::time::Duration::from_millis(self.boot),
            wall: 5000,
            random: 0,
        }
    }

    /// Gives an event, and waits for the answers to all orders that follow.
    fn give(&mut self, event: Event) {
        let mut events = vec![event];
        let mut orders = 0;
        loop {
            while let Some(event) = events.pop() {
                let now = self.now();
                for action in self.replica.step(event, now) {
                    match action {
                        Action::Order(order) => {
                            orders += 1;
                            self.requests.send(Request::Orders(vec![order])).unwrap();
                        }
                        Action::Show(zone, tip) => {
                            orders += 1;
                            self.requests.send(Request::Show(zone, tip)).unwrap();
                        }
                        Action::Greet(token, ..) => events.push(Event::Greeted {
                            token,
                            answers: Vec::new(),
                            is_complete: true,
                        }),
                        Action::Prove(epoch) => {
                            events.push(Event::Proven(epoch, BTreeMap::new()));
                        }
                        Action::Declined(zone) => {
                            self.outcomes.send(Outcome::Declined(zone)).unwrap();
                        }
                        Action::Lease(..)
                        | Action::Connect(_)
                        | Action::Close(_)
                        | Action::Send(..)
                        | Action::Fetch(_)
                        | Action::Notify(..)
                        | Action::Answer(..)
                        | Action::Lead { .. }
                        | Action::Stop(_) => {}
                    }
                }
            }
            if orders == 0 {
                return;
            }
            orders -= 1;
            match self.answers.recv().unwrap() {
                Answer::Ordered(result) => events.push(Event::Ordered(result)),
                Answer::Shown(version) => self.outcomes.send(Outcome::Shown(version)).unwrap(),
                answer @ (Answer::Fetched(..) | Answer::Unread(_) | Answer::StoreOk) => {
                    panic!("{answer:?}")
                }
            }
        }
    }
}

impl crate::commits::Replica for Arc<Mutex<Driver>> {
    fn permit(&mut self, zone: &Name, least: Serial) -> Result<Permit, Wait> {
        let mut driver = self.lock().unwrap();
        let now = driver.now();
        let permit = driver.replica.permit_from(zone, Some(least), now);
        if permit.is_ok() {
            return permit;
        }
        // The ceiling is raised.
        driver.give(Event::Tick);
        let now = driver.now();
        driver.replica.permit_from(zone, Some(least), now)
    }

    fn propose(&mut self, step: Step) {
        self.lock().unwrap().give(Event::Propose(step));
    }
}

#[test]
fn a_commit_returns_when_its_version_is_announced() {
    let dir = TempDir::new().unwrap();
    let (disk, found) = open(&dir);
    let (requests, taken) = sync_channel(64);
    let (tx, answers) = channel();
    let answer = Box::new(move |answer| drop(tx.send(answer)));
    let disk = DiskThread::new(disk, Arc::new(SystemClock), answer);
    let disk = thread::spawn(move || disk.run(&taken));
    let (outcomes, heard) = channel();
    let driver = Arc::new(Mutex::new(Driver {
        replica: replica(found, &FixedRole::Primary),
        requests: requests.clone(),
        answers,
        outcomes,
        boot: 10_000,
    }));
    for _ in 0..20 {
        driver.lock().unwrap().give(Event::Tick);
    }
    let publish = Box::new(|version| panic!("{version:?} has a commit"));
    let mut store = Commits::new(Arc::clone(&driver), requests, heard, publish);
    let mut newest: Option<Version> = None;
    for turn in 1..=5 {
        let serial = store.serial(&apex(), Serial::decode(1));
        // The third one is large.
        let texts = if turn == 3 { 6000 } else { turn };
        let made = candidate(newest.as_ref(), serial, turn, texts);
        let shown = store.commit(vec![made]).unwrap();
        assert_eq!(shown[0].version().serial, serial);
        newest = shown.into_iter().next().map(|it| it.version().clone());
    }
    // Nobody may choose a serial.
    let made = candidate(newest.as_ref(), Serial::decode(1), 6, 1);
    let refused = store.commit(vec![made]);
    assert!(
        matches!(refused, Err(CommitsError::Serial { .. })),
        "{refused:?}"
    );
    assert_eq!(store.floor(&apex()), None);
    drop((store, driver));
    let journal = disk.join().unwrap().unwrap();
    let reader = journal.reader();
    let zone = reader.zone(&apex()).unwrap();
    assert_eq!(
        (zone.newest, Some(zone.serial)),
        (5, newest.map(|it| it.serial))
    );
    assert_eq!(reader.verify(&apex(), &[]).unwrap().faults, []);
}

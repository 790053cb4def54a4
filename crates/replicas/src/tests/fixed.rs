//! Fixed roles: two replicas without an API server, over a network and disks that do at once what they are asked for.

use dns::Name;
use dns::testing::name;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::fixed::FixedRole;
use crate::replica::{Action, Event, Replica};
use crate::settings::{Now, Settings};
use crate::tests::content::Stored;
use crate::tests::disk::Disk;

/// Two replicas with their disks.
struct Pair {
    /// The zone.
    zone: Name,
    /// The replicas.
    replicas: [Replica; 2],
    /// Their disks.
    disks: [Disk; 2],
    /// Events that are due.
    due: VecDeque<(usize, Event)>,
    /// Milliseconds.
    time: u64,
    /// The number of the last link.
    link: u64,
    /// What each shows.
    shown: [Option<u64>; 2],
    /// Whether frames arrive.
    is_connected: bool,
}

impl Pair {
    /// A primary and a follower with these disks.
    fn new(mut disks: [Disk; 2]) -> Self {
        let zone = name("z.");
        let roles = [FixedRole::Primary, FixedRole::Follow("0".to_owned())];
        let mut index = 0;
        let replicas = roles.map(|role| {
            let (chains, vow) = disks[index].open(std::slice::from_ref(&zone));
            let (name, address) = (format!("r{index}"), index.to_string());
            index += 1;
            let settings = Settings::default();
            Replica::new(name.as_str().into(), address, chains, vow, settings).with_fixed_role(role)
        });
        Self {
            zone,
            replicas,
            disks,
            due: VecDeque::new(),
            time: 1_000_000,
            link: 0,
            shown: [None, None],
            is_connected: true,
        }
    }

    /// What the clocks say.
    const fn now(&self) -> Now {
        Now {
            boot: Duration::from_millis(self.time),
            wall: 5000,
            random: 0,
        }
    }

    /// Gives an event, and everything that follows from it.
    fn give(&mut self, to: usize, event: Event) {
        self.due.push_back((to, event));
        while let Some((to, event)) = self.due.pop_front() {
            let now = self.now();
            for action in self.replicas[to].step(event, now) {
                self.act(to, action);
            }
        }
    }

    /// Both ends learn that the link is gone.
    fn cut(&mut self) {
        for host in [0, 1] {
            self.give(host, Event::Closed(Some(self.link)));
        }
    }

    /// Lets time go by.
    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds / 100 {
            self.time += 100;
            self.give(0, Event::Tick);
            self.give(1, Event::Tick);
        }
    }

    /// Carries out an action.
    fn act(&mut self, host: usize, action: Action) {
        let mut due = |to, event| self.due.push_back((to, event));
        match action {
            Action::Connect(_) if self.is_connected => {
                self.link += 1;
                due(host, Event::Connected(self.link));
            }
            Action::Connect(_) => due(host, Event::Closed(None)),
            Action::Send(link, frame) if self.is_connected => {
                due(1 - host, Event::Frame(link, frame));
            }
            Action::Close(link) => due(1 - host, Event::Closed(Some(link))),
            Action::Order(order) => {
                self.disks[host].pending.push_back(order);
                let result = self.disks[host].carry_out().expect("the order is right");
                due(host, Event::Ordered(result));
            }
            Action::Fetch(fetch) => {
                if let Some(fetched) = self.disks[host].fetch(&fetch) {
                    due(host, Event::Fetched(fetch.link, fetch.zone, fetched));
                }
            }
            Action::Greet(token, ..) => {
                let answers = Vec::new();
                due(
                    host,
                    Event::Greeted {
                        token,
                        answers,
                        is_complete: true,
                    },
                );
            }
            Action::Prove(epoch) => due(host, Event::Proven(epoch, BTreeMap::new())),
            Action::Show(zone, tip) => {
                self.shown[host] = Some(tip.seq);
                self.disks[host].mark(&zone, &tip);
            }
            Action::Lease(..) => panic!("there is no API server"),
            Action::Send(..)
            | Action::Notify(..)
            | Action::Answer(..)
            | Action::Lead { .. }
            | Action::Declined(_)
            | Action::Stop(_) => {}
        }
    }

    /// The primary makes a version.
    fn make(&mut self, fact: u64) {
        let (zone, now) = (self.zone.clone(), self.now());
        let mut permit = self.replicas[0].permit(&zone, now);
        if permit.is_err() {
            // The ceiling is raised.
            self.give(0, Event::Tick);
            permit = self.replicas[0].permit(&zone, now);
        }
        let permit = permit.expect("the primary leads");
        let version = Stored::after(&permit.previous, permit.epoch, permit.serial, fact);
        self.give(0, Event::Propose(version.step(&zone)));
    }

    /// The facts on a disk.
    fn facts(&self, host: usize) -> Vec<u64> {
        let file = &self.disks[host].folder.zones[&self.zone];
        file.versions.iter().map(|it| it.fact).collect()
    }
}

#[test]
fn a_primary_without_an_api_server_is_followed() {
    let mut pair = Pair::new([Disk::default(), Disk::default()]);
    pair.pass(1000);
    assert_eq!(pair.replicas[0].status(pair.now().boot).in_sync.len(), 2);
    pair.make(1);
    pair.make(2);
    assert_eq!(pair.shown, [Some(2), Some(2)]);
    assert_eq!(pair.facts(1), [1, 2]);
    // A follower that is away is waited for, for a second.
    pair.is_connected = false;
    pair.make(3);
    assert_eq!(pair.shown, [Some(2), Some(2)]);
    pair.pass(1200);
    assert_eq!(pair.shown, [Some(3), Some(2)]);
    pair.cut();
    pair.is_connected = true;
    pair.pass(5000);
    assert_eq!(pair.shown, [Some(3), Some(3)]);
}

#[test]
fn an_operator_makes_the_follower_the_primary_by_its_configuration() {
    let mut pair = Pair::new([Disk::default(), Disk::default()]);
    pair.pass(1000);
    pair.make(1);
    let before = pair.disks[0].folder.clone();
    let [old, new] = pair.disks;
    let mut pair = Pair::new([new, old]);
    pair.pass(1000);
    pair.make(2);
    assert_eq!(pair.shown, [Some(2), Some(2)]);
    assert_eq!(pair.facts(1), [1, 2]);
    assert!(pair.disks[0].folder.vow.epoch > before.vow.epoch);
}

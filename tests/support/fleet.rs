//! All five secondaries behind one zonewright: BIND, Knot, NSD and PowerDNS each with a key of its own,
//! Unbound, which knows no keys, by its address.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::ports;
use super::process::{now, wait_for};
use super::secondary::{Key, Kind, Plan, Secondary, Transfers};
use super::wire::Record;
use super::zonewright::Zonewright;

/// Those who will follow, before they run.
#[derive(Debug)]
pub struct Places(Vec<(Kind, u16, Option<Key>)>);

impl Places {
    /// A port and a key for each.
    pub fn choose() -> Self {
        let place = |kind: Kind| {
            let key = kind.knows_tsig().then(|| Key {
                name: format!("{}.key", kind.name()),
                ..Key::example()
            });
            (kind, ports::free(), key)
        };
        Self(Kind::ALL.map(place).to_vec())
    }

    /// `tsig` and `transfer` for the Corefile.
    pub fn corefile(&self) -> String {
        let (mut keys, mut to) = (String::new(), String::new());
        for (_, port, key) in &self.0 {
            let mut signed = String::new();
            if let Some(Key {
                name,
                algorithm,
                secret,
            }) = key
            {
                writeln!(keys, "        secret {name} {secret} {algorithm}").unwrap();
                signed = format!(" key {name}");
            }
            writeln!(to, "        to 127.0.0.1:{port}{signed}").unwrap();
        }
        format!("    tsig {{\n{keys}    }}\n    transfer {{\n{to}    }}\n")
    }

    /// Starts them.
    pub fn start(self, zonewright: &Zonewright) -> Fleet {
        let zones = zonewright.zones();
        let members = self.0.into_iter().map(|(kind, port, key)| {
            let mut plan = Plan::new(zonewright.address(), &zones);
            plan.key = key;
            Secondary::start_on(kind, &plan, port)
        });
        Fleet {
            members: members.collect(),
            before: BTreeMap::new(),
        }
    }
}

/// The running secondaries.
#[derive(Debug)]
pub struct Fleet {
    pub members: Vec<Secondary>,
    /// The transfers of each when [`note_transfers`](Self::note_transfers) was called.
    before: BTreeMap<&'static str, Transfers>,
}

impl Fleet {
    /// The member of this kind.
    pub fn member(&mut self, kind: Kind) -> &mut Secondary {
        let place = self.members.iter().position(|member| member.kind == kind);
        &mut self.members[place.expect("all kinds are there")]
    }

    /// Waits until each has the serials that zonewright has, for all zones; how long each took.
    ///
    /// # Panics
    /// When one does not within `limit`: with what both have and the end of its log.
    pub fn wait_until_equal(
        &self,
        zonewright: &Zonewright,
        limit: Duration,
    ) -> Vec<(Kind, Duration)> {
        let start = now();
        let mut missing: Vec<&Secondary> = self.members.iter().collect();
        let mut took = Vec::new();
        let state = || {
            let lines = self.members.iter().map(|member| {
                let serials = zonewright.zones().into_iter().map(|zone| member.serial(zone));
                let log = member.log();
                let lines: Vec<&str> = log.lines().rev().take(15).collect();
                let lines: Vec<&str> = lines.into_iter().rev().collect();
                format!(
                    "{:?}: {:?}\n{}",
                    member.kind,
                    serials.collect::<Vec<_>>(),
                    lines.join("\n")
                )
            });
            let lines: Vec<String> = lines.collect();
            format!(
                "zonewright: {:?}\n{}",
                zonewright.serials(),
                lines.join("\n")
            )
        };
        wait_for("the secondaries equal zonewright", limit, state, || {
            missing.retain(|member| {
                let is_equal = zonewright.zones().iter().all(|zone| {
                    let ours = zonewright.serial(zone);
                    ours.is_some() && member.serial(zone) == ours
                });
                if is_equal {
                    took.push((member.kind, now() - start));
                }
                !is_equal
            });
            missing.is_empty().then_some(())
        });
        // What NSD's transfers were can only be seen while it remembers them.
        for member in &self.members {
            member.transfers();
        }
        took
    }

    /// Whether each holds exactly what zonewright gives away.
    ///
    /// # Panics
    /// When one does not.
    pub fn assert_equal(&self, zonewright: &Zonewright) {
        for zone in zonewright.zones() {
            let records: Vec<Record> = zonewright.zone(zone);
            for member in &self.members {
                member.assert_holds(zone, &records);
            }
        }
    }

    /// The transfers of each since its first start.
    pub fn transfers(&self) -> Vec<(Kind, Transfers)> {
        let count = |member: &Secondary| (member.kind, member.transfers());
        self.members.iter().map(count).collect()
    }

    /// Whether each took each zone whole once, and has since followed by differences alone.
    ///
    /// # Panics
    /// When one took a zone whole a second time.
    pub fn assert_no_second_axfr(&self, zonewright: &Zonewright) {
        let zones = zonewright.zones().len();
        std::fs::write("/tmp/zwlog.txt", zonewright.log()).unwrap(); // DEBUG
        for m in &self.members { std::fs::write(format!("/tmp/log-{:?}.txt", m.kind), m.log()).unwrap(); } // DEBUG
        for (kind, transfers) in self.transfers() {
            assert_eq!(transfers.axfr, zones, "{kind:?} {transfers:?}");
        }
    }

    /// Remembers how many transfers each has made.
    pub fn note_transfers(&mut self) {
        self.before = self
            .transfers()
            .into_iter()
            .map(|(kind, transfers)| (kind.name(), transfers))
            .collect();
    }

    /// Whether none has made a transfer since [`note_transfers`](Self::note_transfers).
    ///
    /// # Panics
    /// When one has.
    pub fn assert_no_transfer_since(&self) {
        for (kind, transfers) in self.transfers() {
            assert_eq!(Some(&transfers), self.before.get(kind.name()), "{kind:?}");
        }
    }
}

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
    /// A port and a key for each of all kinds.
    pub fn choose() -> Self {
        Self::of(&Kind::ALL)
    }

    /// A port and a key for each of these.
    pub fn of(kinds: &[Kind]) -> Self {
        let place = |kind: Kind| {
            let key = kind.knows_tsig().then(|| Key {
                name: format!("{}.key", kind.name()),
                ..Key::example()
            });
            (kind, ports::free(), key)
        };
        Self(kinds.iter().copied().map(place).collect())
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
            plan.nsd_keeps_ixfr = false;
            plan.emitted = Some(zonewright.emitted(kind, ports::loopback(port)));
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
    /// Of secondaries that run.
    pub fn new(members: Vec<Secondary>) -> Self {
        Self {
            members,
            before: BTreeMap::new(),
        }
    }

    /// How often this one took a zone whole for a reason of its own.
    pub fn own_restarts(&self, kind: Kind) -> usize {
        match kind {
            Kind::Nsd => self.nsd_restarts(),
            Kind::Bind | Kind::Knot | Kind::Pdns | Kind::Unbound => 0,
        }
    }

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
                let serials = zonewright
                    .zones()
                    .into_iter()
                    .map(|zone| member.serial(zone));
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

    /// The finished transfers of each since its first start, as its own log tells. NSD's does not tell
    /// of what sort they were: for it zonewright's log is asked.
    pub fn transfers(&self, zonewright: &Zonewright) -> Vec<(Kind, Transfers)> {
        let count = |member: &Secondary| {
            let transfers = match member.kind {
                Kind::Nsd => nsd_transfers(zonewright),
                Kind::Bind | Kind::Knot | Kind::Pdns | Kind::Unbound => member.transfers(),
            };
            (member.kind, transfers)
        };
        self.members.iter().map(count).collect()
    }

    /// Whether each took each zone whole once, and has since followed by differences alone.
    ///
    /// NSD 4.6 may take a finished reload for a failed one when the next transfer came meanwhile, says
    /// so, and fetches the zone again, whatever its primary does: each such line allows one.
    ///
    /// # Panics
    /// When one took a zone whole a second time.
    pub fn assert_no_second_axfr(&self, zonewright: &Zonewright) {
        let zones = zonewright.zones().len();
        let log = zonewright.log();
        assert!(!log.contains("kind=\"ixfr_as_axfr\""), "{log}");
        for (kind, transfers) in self.transfers(zonewright) {
            let own_restarts = self.own_restarts(kind);
            let most = zones + own_restarts;
            assert!(
                (zones..=most).contains(&transfers.axfr),
                "{kind:?} {transfers:?}, of {zones} zones, restarted {own_restarts} by itself"
            );
        }
    }

    /// How often NSD started a transfer anew for a reason of its own.
    fn nsd_restarts(&self) -> usize {
        let nsd = self
            .members
            .iter()
            .filter(|member| member.kind == Kind::Nsd);
        nsd.map(|member| {
            let log = member.log();
            log.matches("update failed, restarting transfer").count()
        })
        .sum()
    }

    /// Remembers how many transfers each has made.
    pub fn note_transfers(&mut self, zonewright: &Zonewright) {
        self.before = self
            .transfers(zonewright)
            .into_iter()
            .map(|(kind, transfers)| (kind.name(), transfers))
            .collect();
    }

    /// Whether none has made a transfer since [`note_transfers`](Self::note_transfers).
    ///
    /// # Panics
    /// When one has.
    pub fn assert_no_transfer_since(&self, zonewright: &Zonewright) {
        for (kind, transfers) in self.transfers(zonewright) {
            assert_eq!(Some(&transfers), self.before.get(kind.name()), "{kind:?}");
        }
    }
}

/// NSD's finished transfers as zonewright tells of them, where its key tells it apart.
fn nsd_transfers(zonewright: &Zonewright) -> Transfers {
    let all = zonewright.transfers();
    let count = |kind: &str| {
        let of_nsd = all
            .iter()
            .filter(|it| it.key.as_deref() == Some("nsd.key."));
        of_nsd.filter(|it| it.kind == kind).count()
    };
    Transfers {
        axfr: count("axfr"),
        ixfr: count("ixfr"),
    }
}

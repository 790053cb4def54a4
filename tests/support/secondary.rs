//! The secondaries that people run, as children of a test: BIND, Knot, NSD, PowerDNS, Unbound.
//!
//! Each is configured to react at once (refresh and retry bounds lowered, no rate limits), takes
//! NOTIFY from the primary's address, gives its zones to anyone on loopback and notifies nobody.
//! What a transfer was, full or incremental, is read from its log.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use self::setup::Setup;
use super::ports;
use super::process::{self, Process, wait_for};
use super::wire::{self, Increment, Query, Record};

mod emitted;
mod setup;

pub use emitted::FOLDER;

/// How long a server may take to start, to stop or to follow.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Which software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bind,
    Knot,
    Nsd,
    Pdns,
    Unbound,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Bind, Self::Knot, Self::Nsd, Self::Pdns, Self::Unbound];

    /// Its name in `ZW_MISSING`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Knot => "knot",
            Self::Nsd => "nsd",
            Self::Pdns => "pdns",
            Self::Unbound => "unbound",
        }
    }

    /// Whether it can sign: Unbound's auth-zones cannot.
    pub fn knows_tsig(self) -> bool {
        self != Self::Unbound
    }

    /// Whether it gives the zone away again: Unbound does not.
    pub fn serves_axfr(self) -> bool {
        self != Self::Unbound
    }
}

/// A TSIG key.
#[derive(Clone, Debug)]
pub struct Key {
    pub name: String,
    /// As in `hmac-sha256`.
    pub algorithm: String,
    /// In base64.
    pub secret: String,
}

impl Key {
    /// A key for tests, hmac-sha256.
    pub fn example() -> Self {
        Self {
            name: "transfer.key".to_owned(),
            algorithm: "hmac-sha256".to_owned(),
            secret: "c2l4dGVlbiBvY3RldHMgb2Yga2V5IGZvciB0ZXN0cyE=".to_owned(),
        }
    }
}

/// TLS towards the primary: BIND and NSD alone.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The primary's port for it.
    pub port: u16,
    /// The name in the primary's certificate.
    pub name: String,
    /// Who signed it.
    pub ca: PathBuf,
    /// The secondary's own certificate and its key.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What a secondary follows.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Without closing dots.
    pub zones: Vec<String>,
    pub primary: SocketAddr,
    pub key: Option<Key>,
    pub tls: Option<Tls>,
    /// Whether NSD keeps the differences it received, from which [`Secondary::transfers`] tells what
    /// its transfers were. It rewrites them all at every change: not for measurements.
    pub nsd_keeps_ixfr: bool,
    /// Whether PowerDNS holds signed zones. Without it PowerDNS shows what increments bring at once.
    pub pdns_holds_signatures: bool,
    /// The configuration as `zonewright emit` printed it, instead of one of our own.
    pub emitted: Option<String>,
}

impl Plan {
    /// Follows `zones` at `primary`, unsigned.
    pub fn new(primary: SocketAddr, zones: &[&str]) -> Self {
        let zones = zones
            .iter()
            .map(|zone| zone.trim_end_matches('.').to_owned())
            .collect();
        Self {
            zones,
            primary,
            key: None,
            tls: None,
            nsd_keeps_ixfr: true,
            pdns_holds_signatures: false,
            emitted: None,
        }
    }

    /// With transfers over TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// With requests signed and answers checked by `key`.
    pub fn key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }
}

/// Finished incoming transfers of all zones, counted since the first start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    pub axfr: usize,
    pub ixfr: usize,
}

/// A secondary; dropping it kills it.
#[derive(Debug)]
pub struct Secondary {
    pub kind: Kind,
    pub plan: Plan,
    /// None while it is stopped. Before `folder`, so that the server ends before its files go.
    process: Option<Process>,
    folder: TempDir,
    port: u16,
    /// What [`contents`](Self::contents) asked for before: owners and types by zone, for Unbound.
    asked: RefCell<BTreeMap<String, BTreeSet<(String, u16)>>>,
    /// Incremental transfers seen at NSD: zone, from, to.
    incremental: RefCell<BTreeSet<(String, u32, u32)>>,
}

impl Secondary {
    /// Starts one on a free port and waits until it answers (anything).
    ///
    /// # Panics
    /// When the plan has a key and the kind knows none, or it does not start.
    pub fn start(kind: Kind, plan: &Plan) -> Self {
        Self::start_on(kind, plan, ports::free())
    }

    /// The same on a given port: a primary that must know its secondaries before they run needs it.
    pub fn start_on(kind: Kind, plan: &Plan, port: u16) -> Self {
        assert!(
            plan.key.is_none() || kind.knows_tsig(),
            "{kind:?} cannot sign"
        );
        let folder = tempfile::Builder::new()
            .prefix("zw-secondary-")
            .tempdir()
            .unwrap();
        let mut secondary = Self {
            kind,
            plan: plan.clone(),
            process: None,
            folder,
            port,
            asked: RefCell::default(),
            incremental: RefCell::default(),
        };
        secondary.setup().write();
        secondary.resume();
        secondary
    }

    /// What its configuration is made of.
    fn setup(&self) -> Setup<'_> {
        Setup {
            kind: self.kind,
            plan: &self.plan,
            folder: self.folder.path(),
            port: self.port,
        }
    }

    /// Where it answers and takes NOTIFY.
    pub fn address(&self) -> SocketAddr {
        ports::loopback(self.port)
    }

    /// All it logged, over all starts.
    pub fn log(&self) -> String {
        let octets = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&octets).into_owned()
    }

    /// The serial it serves; none while it has no zone or does not answer.
    pub fn serial(&self, zone: &str) -> Option<u32> {
        wire::serial(self.address(), zone)
    }

    /// Waits until it serves this very serial.
    ///
    /// # Panics
    /// When it does not within `limit`; prints what it logged.
    pub fn wait_for_serial(&mut self, zone: &str, serial: u32, limit: Duration) {
        let address = self.address();
        let process = self.process.as_mut().expect("it runs");
        let what = format!("{:?} has {zone} at serial {serial}", self.kind);
        process.wait_for(&what, limit, || {
            (wire::serial(address, zone) == Some(serial)).then_some(())
        });
        self.transfers();
    }

    /// The zone by AXFR once it has this serial (or the one that queries show), or after some seconds
    /// whatever it is: NSD replaces the processes that answer at every change, and for a moment the old
    /// ones still answer from the old version, or break their connections.
    fn settled(&self, zone: &str, serial: Option<u32>) -> Vec<Record> {
        let patient_until = process::now() + Duration::from_secs(3);
        let last = RefCell::new(String::new());
        wait_for(
            &format!("{:?} gives {zone} away", self.kind),
            PATIENCE,
            || last.borrow().clone(),
            || match wire::axfr(self.address(), zone) {
                Ok(records) => {
                    let is_wanted = records[0].serial() == serial.or_else(|| self.serial(zone));
                    (is_wanted || process::now() > patient_until).then_some(records)
                }
                Err(error) => {
                    *last.borrow_mut() = error.to_string();
                    None
                }
            },
        )
    }

    /// The zone as sorted text, for comparing with `expected`: by AXFR, at Unbound by asking for each
    /// owner and type of `expected` and of every earlier call, so that what should be gone is seen.
    pub fn contents(&self, zone: &str, expected: &[Record]) -> Vec<String> {
        if self.kind.serves_axfr() {
            let serial = expected.iter().find_map(Record::serial);
            return wire::texts(&self.settled(zone, serial));
        }
        let mut all = self.asked.borrow_mut();
        let asked = all.entry(zone.to_owned()).or_default();
        asked.extend(
            expected
                .iter()
                .map(|record| (record.owner.clone(), record.rtype)),
        );
        let mut found = BTreeSet::new();
        for (owner, rtype) in asked.iter() {
            let query = Query::new(owner, *rtype).edns(1232);
            let reply = wire::ask(self.address(), &query)
                .unwrap_or_else(|error| panic!("{:?}, {owner} {rtype}: {error}", self.kind));
            // The apex's NS and SOA come along in other sections: only what was asked counts.
            found.extend(reply.matching(owner, *rtype).cloned());
        }
        wire::texts(&found)
    }

    /// Whether it holds exactly these records.
    ///
    /// # Panics
    /// When not: with the lines that differ.
    pub fn assert_holds(&self, zone: &str, expected: &[Record]) {
        let found: BTreeSet<String> = self.contents(zone, expected).into_iter().collect();
        let wanted: BTreeSet<String> = wire::texts(expected).into_iter().collect();
        let lines: Vec<String> = wanted
            .difference(&found)
            .map(|line| format!("- {line}"))
            .chain(found.difference(&wanted).map(|line| format!("+ {line}")))
            .collect();
        assert!(
            lines.is_empty(),
            "{:?} differs in {zone}:\n{}",
            self.kind,
            lines.join("\n")
        );
    }

    /// The finished incoming transfers in its log.
    pub fn transfers(&self) -> Transfers {
        let log = self.log();
        let Some((axfr, ixfr)) = self.setup().log_lines() else {
            return self.nsd_transfers(&log);
        };
        let count = |sign: &[&str]| {
            log.lines()
                .filter(|line| sign.iter().all(|part| line.contains(part)))
                .count()
        };
        Transfers {
            axfr: count(axfr),
            ixfr: count(ixfr),
        }
    }

    /// NSD logs `zone Z. received update to serial N` for both kinds of transfer, but it keeps the
    /// differences it received and gives them to whoever asks for them: those steps were incremental.
    /// A full transfer makes it forget, so what was seen once is remembered here; every
    /// [`wait_for_serial`](Self::wait_for_serial) looks.
    fn nsd_transfers(&self, log: &str) -> Transfers {
        if !self.plan.nsd_keeps_ixfr {
            return Transfers::default();
        }
        let mut seen = self.incremental.borrow_mut();
        let mut transfers = Transfers::default();
        for zone in &self.plan.zones {
            let start = format!("zone {zone}. received update to serial ");
            let serials: Vec<u32> = log
                .lines()
                .filter_map(|line| line.split_once(&start)?.1.split(' ').next()?.parse().ok())
                .collect();
            // The first was a full one: there was nothing to start from.
            transfers.axfr += usize::from(!serials.is_empty());
            for pair in serials.windows(2) {
                let step = (zone.clone(), pair[0], pair[1]);
                if !seen.contains(&step) && self.nsd_keeps(zone, pair, &serials) {
                    seen.insert(step.clone());
                }
                match seen.contains(&step) {
                    true => transfers.ixfr += 1,
                    false => transfers.axfr += 1,
                }
            }
        }
        transfers
    }

    /// Whether NSD, once it has the newest of `serials`, still knows the difference between a pair.
    fn nsd_keeps(&self, zone: &str, pair: &[u32], serials: &[u32]) -> bool {
        let increment = wait_for(
            "NSD's newest version",
            PATIENCE,
            || self.log(),
            || {
                let increment = wire::ixfr(self.address(), zone, pair[0]).ok()?;
                (Some(&increment.serial()) == serials.last()).then_some(increment)
            },
        );
        match increment {
            Increment::Steps(steps) => steps.iter().any(|step| step.to == pair[1]),
            Increment::Current(_) | Increment::Full(_) => false,
        }
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(&mut self) {
        if self.kind == Kind::Nsd && self.process.is_some() {
            self.wait_for_files();
        }
        if let Some(mut process) = self.process.take() {
            process.terminate(PATIENCE);
        }
    }

    /// NSD writes its zones every second, and not at its end: without this a restarted one would know
    /// less than when it was stopped.
    fn wait_for_files(&self) {
        for (index, zone) in self.plan.zones.iter().enumerate() {
            let Some(serial) = self.serial(zone) else {
                continue;
            };
            let name = match self.plan.emitted {
                Some(_) => format!("{zone}.zone"),
                None => format!("zone{index}"),
            };
            let file = self.folder.path().join(name);
            let head = format!("; received update to serial {serial} at ");
            let text = || std::fs::read_to_string(&file).unwrap_or_default();
            wait_for("NSD's zone file", PATIENCE, text, || {
                text().contains(&head).then_some(())
            });
        }
    }

    /// SIGKILL, as a lost machine would look.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again with the files it left; waits until it answers.
    pub fn resume(&mut self) {
        let log = self.folder.path().join("log");
        let mut process = Process::spawn(self.kind.name(), &mut self.setup().command(), &log);
        let query = Query::new(&self.plan.zones[0], wire::SOA);
        let address = self.address();
        process.wait_for("an answer of any kind", PATIENCE, || {
            wire::udp(address, &query).ok()
        });
        self.process = Some(process);
    }

    /// [`stop`](Self::stop), then [`resume`](Self::resume).
    pub fn restart(&mut self) {
        self.stop();
        self.resume();
    }
}

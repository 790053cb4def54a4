//! Watches a server from outside, over its death and back, and finds broken promises: a serial with
//! two contents, a serial that goes back, an increment that leads elsewhere, a zone that is forgotten.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use super::wire::{self, Increment, Query, Record, SOA};

/// Zone contents kept in full to apply increments to, newest of each zone.
const CONTENTS_KEPT: usize = 200;
/// The newest versions that must still be reachable by steps.
pub const REACHABLE: usize = 20;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The serial had another content before.
    TwoContents { zone: String, serial: u32 },
    /// A serial before the highest seen.
    GoesBack {
        zone: String,
        highest: u32,
        seen: u32,
    },
    /// Steps that do not apply to what was recorded.
    DoesNotApply {
        zone: String,
        from: u32,
        why: String,
    },
    /// The whole zone instead of steps from a version seen lately.
    Forgotten { zone: String, from: u32 },
    /// An answer without data once there had been some.
    NoAnswer { zone: String, what: String },
}

/// What is known of a zone.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Hash of the content by serial, in the order seen.
    hashes: HashMap<u32, u64>,
    /// The newest contents, in the order of their serials.
    contents: BTreeMap<u32, Vec<Record>>,
    highest: Option<u32>,
}

/// The recorder.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    zones: BTreeMap<String, Seen>,
    /// What was found.
    pub violations: Vec<Violation>,
    /// Answers by kind, to see that it worked.
    pub counts: BTreeMap<&'static str, u64>,
}

/// The hash of a content, its order aside.
fn hash_of(records: &[Record]) -> u64 {
    let mut sorted: Vec<&Record> = records.iter().collect();
    sorted.sort();
    let mut hasher = DefaultHasher::new();
    sorted.hash(&mut hasher);
    hasher.finish()
}

impl Recorder {
    /// The highest serial seen of a zone.
    pub fn highest(&self, zone: &str) -> Option<u32> {
        self.zones.get(zone)?.highest
    }

    /// Serials whose content is known in full, oldest first.
    pub fn serials(&self, zone: &str) -> Vec<u32> {
        self.zones
            .get(zone)
            .map(|seen| seen.contents.keys().copied().collect())
            .unwrap_or_default()
    }

    /// How many versions were seen of a zone.
    pub fn versions(&self, zone: &str) -> usize {
        self.zones.get(zone).map_or(0, |seen| seen.hashes.len())
    }

    /// The content of a serial, if it is known in full.
    pub fn content(&self, zone: &str, serial: u32) -> Option<&[Record]> {
        Some(self.zones.get(zone)?.contents.get(&serial)?)
    }

    /// Notes an answer of this kind.
    fn count(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// Notes a serial that was answered.
    pub fn saw_serial(&mut self, zone: &str, serial: u32) {
        let seen = self.zones.entry(zone.to_owned()).or_default();
        match seen.highest {
            // RFC 1982: before is more than half the circle after.
            Some(highest) if serial.wrapping_sub(highest) >= 1 << 31 => {
                self.violations.push(Violation::GoesBack {
                    zone: zone.to_owned(),
                    highest,
                    seen: serial,
                });
            }
            _ => seen.highest = Some(serial),
        }
    }

    /// Notes a content; the SOA is part of it.
    pub fn saw_content(&mut self, zone: &str, records: &[Record]) {
        let Some(serial) = records.iter().find_map(Record::serial) else {
            self.violations.push(Violation::NoAnswer {
                zone: zone.to_owned(),
                what: "a zone without an SOA".into(),
            });
            return;
        };
        self.saw_serial(zone, serial);
        let seen = self.zones.entry(zone.to_owned()).or_default();
        let hash = hash_of(records);
        if *seen.hashes.entry(serial).or_insert(hash) != hash {
            let zone = zone.to_owned();
            self.violations
                .push(Violation::TwoContents { zone, serial });
            return;
        }
        seen.contents.insert(serial, records.to_vec());
        if seen.contents.len() > CONTENTS_KEPT {
            seen.contents.pop_first();
        }
    }

    /// Notes what IXFR gave to someone who has `from`.
    pub fn saw_increment(&mut self, zone: &str, from: u32, increment: &Increment) {
        match increment {
            Increment::Current(serial) => {
                self.count("current");
                self.saw_serial(zone, *serial);
            }
            Increment::Full(records) => {
                self.count("full");
                let newer = self
                    .serials(zone)
                    .iter()
                    .rev()
                    .position(|known| *known == from);
                if newer.is_some_and(|newer| newer < REACHABLE) {
                    let zone = zone.to_owned();
                    self.violations.push(Violation::Forgotten { zone, from });
                }
                self.saw_content(zone, records);
            }
            Increment::Steps(steps) => {
                self.count("steps");
                let Some(content) = self.content(zone, from) else {
                    self.saw_serial(zone, increment.serial());
                    return;
                };
                match wire::apply(content, steps) {
                    Ok(result) => self.saw_content(zone, &result),
                    Err(why) => self.violations.push(Violation::DoesNotApply {
                        zone: zone.to_owned(),
                        from,
                        why,
                    }),
                }
            }
        }
    }

    /// Asks for the SOA.
    pub fn ask_serial(&mut self, server: SocketAddr, zone: &str) -> bool {
        let answer = wire::udp(server, &Query::new(zone, SOA)).and_then(|reply| {
            let soa = reply.answers.first().and_then(Record::serial);
            soa.ok_or_else(|| {
                io::Error::new(
                    ErrorKind::PermissionDenied,
                    format!("rcode {} to an SOA query", reply.rcode()),
                )
            })
        });
        match answer {
            Ok(serial) => {
                self.count("soa");
                self.saw_serial(zone, serial);
                true
            }
            Err(error) => self.failed(zone, &error),
        }
    }

    /// Takes the whole zone.
    pub fn take_full(&mut self, server: SocketAddr, zone: &str) -> bool {
        match wire::axfr(server, zone) {
            Ok(records) => {
                self.count("axfr");
                self.saw_content(zone, &records);
                true
            }
            Err(error) => self.failed(zone, &error),
        }
    }

    /// Asks for what is newer than `from`.
    pub fn take_increment(&mut self, server: SocketAddr, zone: &str, from: u32) -> bool {
        match wire::ixfr(server, zone, from) {
            Ok(increment) => {
                self.saw_increment(zone, from, &increment);
                true
            }
            Err(error) => self.failed(zone, &error),
        }
    }

    /// Judges a failed exchange: a server that is away is none, an answer without data is, once there
    /// was data.
    fn failed(&mut self, zone: &str, error: &io::Error) -> bool {
        let is_answer = matches!(
            error.kind(),
            ErrorKind::PermissionDenied | ErrorKind::InvalidData
        );
        if is_answer && self.highest(zone).is_some() {
            self.violations.push(Violation::NoAnswer {
                zone: zone.to_owned(),
                what: error.to_string(),
            });
        }
        self.count("away");
        false
    }
}

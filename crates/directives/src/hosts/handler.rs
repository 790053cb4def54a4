//! `hosts`: names and addresses of a file, which is looked at now and then, and of lines in the Corefile.

use std::any::Any;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use dns::{Name, Rcode, Rdata, Record, Rtype, flags, wire_is_within};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ops::HandlerMetrics;
use ops::watch::FileWatch;
use server::chain::{Handler, Next};
use server::message::{CLASS_IN, Failure, Outcome, Question, Reply, Request};
use tokio_util::sync::CancellationToken;

use crate::hosts::metrics as m;
use crate::hosts::{HostLine, Hosts};

/// The handler's word.
const WORD: &str = "hosts";
/// The largest file that is read.
const MOST_OCTETS: u64 = 64 << 20;

/// Names and addresses, both ways.
#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    /// Addresses by name, lower-case wire form. A name that begins with `*` is for one more label in its place.
    addresses: HashMap<Box<[u8]>, Vec<IpAddr>>,
    /// Names by address.
    names: HashMap<IpAddr, Vec<Name>>,
}

impl Table {
    /// The table of lines, without names outside of the zones.
    fn new(lines: impl Iterator<Item = HostLine>, config: &Hosts) -> Self {
        let mut table = Self::default();
        for HostLine { address, names } in lines {
            for name in names {
                if !config.zones.iter().any(|zone| name.is_within(zone)) {
                    continue;
                }
                let is_pattern = name.labels().next() == Some(b"*");
                if config.reverse && !is_pattern {
                    table.names.entry(address).or_default().push(name.clone());
                }
                let key = name.to_lower().as_wire().into();
                table.addresses.entry(key).or_default().push(address);
            }
        }
        table
    }

    /// The addresses of a name, lower-case wire form; those of one family, the pattern's where the name has none.
    fn find(&self, lower: &[u8], pattern: Option<&[u8]>, is_v6: bool) -> Vec<IpAddr> {
        let of = |name: &[u8]| -> Vec<IpAddr> {
            let all = self.addresses.get(name).into_iter().flatten();
            all.filter(|address| address.is_ipv6() == is_v6)
                .copied()
                .collect()
        };
        let own = of(lower);
        match pattern {
            Some(pattern) if own.is_empty() => of(pattern),
            Some(_) | None => own,
        }
    }

    /// Whether it has addresses for a name, lower-case wire form, of its own or by a pattern. Allocates nothing.
    fn knows(&self, lower: &[u8], pattern: Option<&[u8]>) -> bool {
        let has = |name: &[u8]| self.addresses.contains_key(name);
        has(lower) || pattern.is_some_and(has)
    }

    /// How many addresses and names there are.
    fn len(&self) -> usize {
        let addresses = self.addresses.values().map(Vec::len).sum::<usize>();
        addresses + self.names.values().map(Vec::len).sum::<usize>()
    }
}

/// What tells one state of a file from another.
type Stamp = (Option<SystemTime>, u64);

/// The handler.
pub(crate) struct HostsHandler {
    /// What the Corefile says.
    config: Hosts,
    /// The lines of the Corefile.
    inline: Table,
    /// The file as it was read last.
    file: ArcSwap<Table>,
    /// The state of the file then.
    stamp: Mutex<Option<Stamp>>,
    /// What is counted.
    metrics: HandlerMetrics,
}

impl HostsHandler {
    /// The handler; the file is read.
    pub(crate) fn new(config: Hosts, metrics: &HandlerMetrics) -> Self {
        let hosts = Self {
            inline: Table::new(config.lines.iter().cloned(), &config),
            file: ArcSwap::default(),
            stamp: Mutex::new(None),
            metrics: metrics.clone(),
            config,
        };
        hosts.look();
        hosts
    }

    /// Reads the file if it is another than before. One that cannot be read leaves the old.
    fn look(&self) {
        let file = &self.config.file;
        let Ok(about) = std::fs::metadata(file) else {
            return;
        };
        let stamp = (about.modified().ok(), about.len());
        let mut last = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == Some(stamp) || !about.is_file() {
            return;
        }
        if about.len() > MOST_OCTETS {
            tracing::warn!(file = %file.display(), bytes = about.len(), "hosts file is too large and not read");
            *last = Some(stamp);
            return;
        }
        let Ok(octets) = std::fs::read(file) else {
            return;
        };
        let text = String::from_utf8_lossy(&octets);
        let table = Table::new(text.lines().filter_map(HostLine::parse), &self.config);
        let count = u32::try_from(table.len() + self.inline.len()).unwrap_or(u32::MAX);
        self.file.store(Arc::new(table));
        *last = Some(stamp);
        let labels = vec![("hostsfile", file.display().to_string())];
        let entries = self.metrics.gauge(m::ENTRIES);
        entries.get_or_create(&labels).set(count.into());
        let since = stamp
            .0
            .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let changed = self.metrics.gauge(m::RELOAD_TIMESTAMP);
        changed
            .get_or_create(&Vec::new())
            .set(since.unwrap_or(Duration::ZERO).as_secs_f64());
    }

    /// Whether a name, lower-case wire form, is in one of our zones.
    fn holds(&self, lower: &[u8]) -> bool {
        let mut zones = self.config.zones.iter();
        zones.any(|zone| wire_is_within(lower, zone.as_wire()))
    }

    /// Whether the next is asked for a name.
    fn falls_through(&self, name: &Name) -> bool {
        let mut zones = self.config.fallthrough.iter();
        zones.any(|zone| name.is_within(zone))
    }

    /// The addresses of a name, lower-case wire form, of one family: the file's, then the Corefile's.
    fn addresses(&self, lower: &[u8], is_v6: bool) -> Vec<IpAddr> {
        let mut room = [0; 2 + 255];
        let pattern = pattern_of(lower, &mut room);
        let file = self.file.load();
        let mut found = file.find(lower, pattern, is_v6);
        found.extend(self.inline.find(lower, pattern, is_v6));
        found
    }

    /// Whether a name, lower-case wire form, has addresses. Allocates nothing.
    fn knows(&self, lower: &[u8]) -> bool {
        let mut room = [0; 2 + 255];
        let pattern = pattern_of(lower, &mut room);
        let file = self.file.load();
        file.knows(lower, pattern) || self.inline.knows(lower, pattern)
    }

    /// The data of an answer; nothing when the question is the next's.
    fn data(&self, name: &Name, qtype: Rtype) -> Option<Vec<(Rtype, Rdata)>> {
        let of = |addresses: Vec<IpAddr>| addresses.into_iter().map(Rdata::address).collect();
        match qtype {
            Rtype::PTR => {
                // What is an IPv4 address in another form is that one.
                let address = name.reversed_address()?.to_canonical();
                let file = self.file.load();
                let tables = [&**file, &self.inline];
                let names = tables.iter().filter_map(|table| table.names.get(&address));
                let data = names.flatten().map(|it| (Rtype::PTR, Rdata::name(it)));
                Some(data.collect()).filter(|it: &Vec<_>| !it.is_empty())
            }
            Rtype::A => Some(of(self.addresses(name.as_wire(), false))),
            Rtype::AAAA => Some(of(self.addresses(name.as_wire(), true))),
            _ if self.config.fallthrough_unsupported && self.falls_through(name) => None,
            _ => Some(Vec::new()),
        }
    }

    /// What is said to a question; nothing when it is the next's.
    fn reply(&self, request: &Request) -> Option<Outcome> {
        let name = request.name.to_lower();
        let is_ours = request.qclass == CLASS_IN
            && (request.qtype == Rtype::PTR || self.holds(name.as_wire()));
        let data = Some(request.qtype)
            .filter(|_| is_ours)
            .and_then(|it| self.data(&name, it))?;
        if data.is_empty() && !self.knows(name.as_wire()) {
            if self.falls_through(&name) {
                return None;
            }
            // NXDOMAIN would need an SOA, and there is none.
            return Some(Outcome::Failed(Failure {
                rcode: Rcode::SERVFAIL,
                by: WORD,
                error: None,
                extended: None,
            }));
        }
        let mut reply = Reply::empty(WORD, Rcode::NOERROR, flags::AA);
        reply.answers = data
            .into_iter()
            .map(|(rtype, rdata)| Record {
                owner: request.name.clone(),
                rtype,
                ttl: self.config.ttl,
                rdata,
            })
            .collect();
        Some(Outcome::Reply(reply))
    }

    /// Reads the file again when it has changed.
    async fn follow(self: Arc<Self>, cancel: CancellationToken) {
        let mut watch = FileWatch::default();
        loop {
            self.look();
            tokio::select! {
                () = cancel.cancelled() => return,
                () = watch.next([&self.config.file], self.config.reload) => {}
            }
        }
    }
}

/// The pattern a name may fit, `*` in the place of its first label; none for a name of one label.
fn pattern_of<'r>(lower: &[u8], room: &'r mut [u8; 257]) -> Option<&'r [u8]> {
    let first = usize::from(*lower.first()?);
    let parent = lower.get(1 + first..).filter(|parent| parent.len() > 1)?;
    room[..2].copy_from_slice(b"\x01*");
    room.get_mut(2..2 + parent.len())?.copy_from_slice(parent);
    room.get(..2 + parent.len())
}

impl Handler for HostsHandler {
    fn name(&self) -> &'static str {
        WORD
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        if question.qclass != CLASS_IN {
            return true;
        }
        if question.qtype == Rtype::PTR {
            return false;
        }
        let mut through = self.config.fallthrough.iter();
        !self.holds(question.name)
            || through.any(|zone| wire_is_within(question.name, zone.as_wire()))
                && !self.knows(question.name)
    }

    fn same_as(&self, new: &dyn Handler) -> bool {
        let Some(new) = (new as &dyn Any).downcast_ref::<Self>() else {
            return false;
        };
        let config = Hosts {
            place: new.config.place.clone(),
            ..self.config.clone()
        };
        config == new.config
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        match self.reply(request) {
            Some(outcome) => std::future::ready(outcome).boxed(),
            None => next.run(request),
        }
    }

    fn background(self: Arc<Self>, cancel: CancellationToken) -> Option<BoxFuture<'static, ()>> {
        let is_followed = !self.config.reload.is_zero();
        is_followed.then(|| self.follow(cancel).boxed())
    }
}

#[cfg(test)]
mod tests;

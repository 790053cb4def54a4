//! `hosts`: names and addresses from lines in the Corefile and from a file, which is read again when it changes.

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

const WORD: &str = "hosts";
/// The largest file that is read, in bytes.
const MOST_OCTETS: u64 = 64 << 20;

/// Names and addresses, both ways.
#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    /// The addresses by name, in wire form and lower case. A first label `*` matches any one label.
    addresses: HashMap<Box<[u8]>, Vec<IpAddr>>,
    names: HashMap<IpAddr, Vec<Name>>,
}

impl Table {
    /// The table of these lines, without names outside of the zones.
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

    /// The addresses of a name in lower case, of one family. If the name has none, those of its pattern.
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

    /// Whether it has addresses for a name in lower case, of its own or by a pattern. Allocates nothing.
    fn knows(&self, lower: &[u8], pattern: Option<&[u8]>) -> bool {
        let has = |name: &[u8]| self.addresses.contains_key(name);
        has(lower) || pattern.is_some_and(has)
    }

    /// The number of its addresses and names.
    fn len(&self) -> usize {
        let addresses = self.addresses.values().map(Vec::len).sum::<usize>();
        addresses + self.names.values().map(Vec::len).sum::<usize>()
    }
}

/// Differs between two states of a file: its time of change and its length.
type Stamp = (Option<SystemTime>, u64);

pub(crate) struct HostsHandler {
    config: Hosts,
    inline: Table,
    /// The contents of the file.
    file: ArcSwap<Table>,
    /// The state of the file when it was last read.
    stamp: Mutex<Option<Stamp>>,
    metrics: HandlerMetrics,
}

impl HostsHandler {
    /// Reads the file.
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

    /// Reads the file if it has changed. If it cannot be read, the old contents stay.
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
            tracing::warn!(file = %file.display(), bytes = about.len(), "the hosts file is too large and is not read");
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

    /// Whether a name in lower case is in one of the directive's zones.
    fn holds(&self, lower: &[u8]) -> bool {
        let mut zones = self.config.zones.iter();
        zones.any(|zone| wire_is_within(lower, zone.as_wire()))
    }

    /// Whether the next handler is asked for a name.
    fn falls_through(&self, name: &Name) -> bool {
        let mut zones = self.config.fallthrough.iter();
        zones.any(|zone| name.is_within(zone))
    }

    /// The addresses of a name in lower case, of one family: the file's, then the Corefile's.
    fn addresses(&self, lower: &[u8], is_v6: bool) -> Vec<IpAddr> {
        let mut room = [0; 2 + 255];
        let pattern = pattern_of(lower, &mut room);
        let file = self.file.load();
        let mut found = file.find(lower, pattern, is_v6);
        found.extend(self.inline.find(lower, pattern, is_v6));
        found
    }

    /// Whether a name in lower case has addresses. Allocates nothing.
    fn knows(&self, lower: &[u8]) -> bool {
        let mut room = [0; 2 + 255];
        let pattern = pattern_of(lower, &mut room);
        let file = self.file.load();
        file.knows(lower, pattern) || self.inline.knows(lower, pattern)
    }

    /// The data of an answer. `None` when the next handler has to answer.
    fn data(&self, name: &Name, qtype: Rtype) -> Option<Vec<(Rtype, Rdata)>> {
        let of = |addresses: Vec<IpAddr>| addresses.into_iter().map(Rdata::address).collect();
        match qtype {
            Rtype::PTR => {
                // An IPv4 address that is mapped into IPv6 counts as the IPv4 address.
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

    /// The reply to a question. `None` when the next handler has to answer.
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
            // NXDOMAIN needs an SOA, and `hosts` has none.
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

    /// Reads the file again whenever it has changed.
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

/// The pattern that may match a name, with `*` as its first label. A name of one label has none.
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

//! The records of a name, from the keys at and below it: the specification, by CoreDNS's `plugin/backend_lookup.go`.
//!
//! A name has the records of all keys below it, or of its own key if there is none. A zone allows no record beside an
//! alias (RFC 1034 section 3.6.2). So a name is an alias if all that its keys have is one host name without a port. Else the
//! host names are in SRV and MX alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use dns::{Name, Rdata, Record, Rtype, Ttl};

use crate::service::{Host, Service, capped};
use crate::tree::{Entry, MOST_BELOW, Tree};

/// The TTL of a service without one, as in CoreDNS.
const DEFAULT_TTL: Ttl = Ttl::decode(300);
/// The most bytes of the data of one type at one name: a message has 65 535.
const MOST_RRSET_BYTES: usize = 60_000;

/// The settings of rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The least TTL of a key with a lease, seconds.
    pub min_lease_ttl: u32,
    /// The largest TTL of a key with a lease, seconds.
    pub max_lease_ttl: u32,
    /// Whether the zone itself has no addresses without keys below `dns/apex`.
    pub no_apex_fallback: bool,
}

/// The records of a name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The records, in no particular order.
    pub records: Vec<Record>,
    /// What was left out, and why.
    pub problems: Vec<String>,
}

/// A service with its key's name and its TTL.
#[derive(Clone, Copy)]
struct Found<'a> {
    key: &'a str,
    name: &'a Name,
    service: &'a Service,
    ttl: Ttl,
}

impl Found<'_> {
    /// The target of SRV, MX and NS: the host, or for an address the name of the key, without its first labels.
    fn target(&self) -> Option<Name> {
        let full = match &self.service.host {
            Host::None => return None,
            Host::Address(_) => self.name,
            Host::Name(host) => host,
        };
        let strip = self.service.target_strip;
        // One that is too large is ignored, as in CoreDNS.
        if strip >= full.label_count() {
            return Some(full.clone());
        }
        (0..strip).try_fold(full.clone(), |name, _| name.parent())
    }
}

impl Tree {
    /// The records of a name. At the zone itself they do not include SOA and NS.
    #[must_use]
    pub fn render(&self, owner: &Name, settings: &Settings) -> Rendered {
        let mut out = Rendered::default();
        let is_apex = owner == self.layout.zone();
        let Some(found) = self.found(owner) else {
            out.problems.push(format!(
                "{owner} has more than {MOST_BELOW} keys below it, and none of their records"
            ));
            if is_apex {
                self.addresses_of_apex(owner, settings, &mut out);
            }
            return out;
        };
        let found = services(found, settings);
        if self.is_reverse() {
            let exact = services(self.exact(owner).into_iter().collect(), settings);
            pointers(owner, &exact, &mut out);
            texts(owner, &found, &mut out);
            return out.bounded(owner);
        }
        let hosts = found.iter().filter(|it| it.service.host != Host::None);
        let hosts = grouped(hosts.copied().collect());
        if !is_apex && let Some((target, ttl)) = alias(owner, &hosts) {
            out.push(owner, Rtype::CNAME, ttl, Rdata::name(target));
            return out;
        }
        if is_apex {
            self.addresses_of_apex(owner, settings, &mut out);
        } else {
            addresses(owner, &hosts, &mut out);
        }
        for it in &hosts {
            if it.service.port.is_none() || !answers_hosts(it.service) {
                continue;
            }
            let Some(target) = it.target() else { continue };
            let (priority, port) = (it.service.priority, it.service.port.unwrap_or(0));
            let srv = Rdata::srv(priority, it.service.weight, port, &target);
            out.push(owner, Rtype::SRV, it.ttl, srv);
        }
        for it in hosts
            .iter()
            .filter(|it| it.service.is_mail && answers_hosts(it.service))
        {
            let Some(target) = it.target() else { continue };
            let mut data = it.service.priority.to_be_bytes().to_vec();
            data.extend_from_slice(target.as_wire());
            if let Ok(data) = Rdata::from_octets(&data) {
                out.push(owner, Rtype::MX, it.ttl, data);
            }
        }
        texts(owner, &found, &mut out);
        self.report_lost_alias(owner, &mut out);
        out.bounded(owner)
    }

    /// The name servers of the zone: the keys with addresses below `dns/ns`, with their addresses.
    #[must_use]
    pub fn name_servers(&self, settings: &Settings) -> BTreeMap<Name, (Ttl, BTreeSet<IpAddr>)> {
        let mut servers: BTreeMap<Name, (Ttl, BTreeSet<IpAddr>)> = BTreeMap::new();
        let top = self.layout.zone().child("dns");
        let found = top.and_then(|top| top.child("ns"));
        let found = found.ok().and_then(|top| self.found(&top));
        for it in grouped(services(found.unwrap_or_default(), settings)) {
            let (Some(address), Some(target)) = (it.service.address(), it.target()) else {
                continue;
            };
            let known = servers.entry(target).or_insert((it.ttl, BTreeSet::new()));
            known.0 = known.0.min(it.ttl);
            known.1.insert(address);
        }
        servers
    }

    /// Whether this is a zone of addresses.
    fn is_reverse(&self) -> bool {
        let zone = self.layout.zone();
        let mut tops = ["in-addr.arpa", "ip6.arpa"].iter();
        tops.any(|top| Name::parse(top).is_ok_and(|top| zone.is_within(&top)))
    }

    /// The addresses of the zone itself: those below `dns/apex`, else those of all keys.
    fn addresses_of_apex(&self, owner: &Name, settings: &Settings, out: &mut Rendered) {
        let top = owner.child("dns").and_then(|top| top.child("apex"));
        let own = top.ok().map(|top| self.found(&top).unwrap_or_default());
        let own = own.filter(|own| !own.is_empty() || settings.no_apex_fallback);
        let found = own.or_else(|| self.found(owner)).unwrap_or_default();
        let found = services(found, settings);
        let hosts = found.into_iter().filter(|it| it.service.host != Host::None);
        addresses(owner, &grouped(hosts.collect()), out);
    }

    /// Reports a host name at this very name that is not its alias, though clients may ask for addresses.
    fn report_lost_alias(&self, owner: &Name, out: &mut Rendered) {
        let Some((key, entry)) = self.exact(owner) else {
            return;
        };
        let Ok((_, service)) = &entry.service else {
            return;
        };
        let is_alias = service.alias().is_some_and(|host| host != owner);
        if is_alias && service.port == Some(0) && !service.is_mail {
            out.problems.push(format!(
                "{key}: its host is a name, and {owner} has other records: an alias allows none, so it has no address"
            ));
        }
    }
}

impl Rendered {
    fn push(&mut self, owner: &Name, rtype: Rtype, ttl: Ttl, rdata: Rdata) {
        let owner = owner.clone();
        self.records.push(Record {
            owner,
            rtype,
            ttl,
            rdata,
        });
    }

    /// Leaves out the records of a type that would fit into no message.
    fn bounded(mut self, owner: &Name) -> Self {
        let mut bytes: BTreeMap<Rtype, usize> = BTreeMap::new();
        for record in &self.records {
            // Owner as a pointer, type, class, TTL, length.
            *bytes.entry(record.rtype).or_default() += 12 + record.rdata.as_octets().len();
        }
        for (rtype, bytes) in bytes {
            if bytes > MOST_RRSET_BYTES {
                self.records.retain(|record| record.rtype != rtype);
                self.problems.push(format!(
                    "{owner} has no {rtype}: its {bytes} bytes fit into no message"
                ));
            }
        }
        self
    }
}

/// The services of entries. Those that are not usable are reported with their keys.
fn services<'a>(
    found: Vec<(&'a std::sync::Arc<str>, &'a Entry)>,
    settings: &Settings,
) -> Vec<Found<'a>> {
    let usable = found.into_iter().filter_map(|(key, entry)| {
        let (name, service) = entry.service.as_ref().ok()?;
        let lease = entry.lease_seconds.map(|seconds| {
            capped(
                seconds
                    .max(settings.min_lease_ttl)
                    .min(settings.max_lease_ttl),
            )
        });
        let ttl = service.ttl.into_iter().chain(lease).min();
        Some(Found {
            key,
            name,
            service,
            ttl: ttl.unwrap_or(DEFAULT_TTL),
        })
    });
    usable.collect()
}

/// Those that CoreDNS's groups leave: the shortest key with a group decides, unless another as short has another group.
fn grouped(all: Vec<Found<'_>>) -> Vec<Found<'_>> {
    let depth = |it: &Found<'_>| it.key.matches('/').count();
    let Some(first) = all.first() else {
        return all;
    };
    let (mut group, mut least) = (&first.service.group, depth(first));
    let mut looked_at = all.len();
    for (at, it) in all.iter().enumerate() {
        if depth(it) < least {
            if it.service.group.is_empty() {
                looked_at = at + 1;
                break;
            }
            (group, least) = (&it.service.group, depth(it));
        }
    }
    if group.is_empty() {
        return all;
    }
    let disagrees = |it: &Found<'_>| {
        depth(it) == least && !it.service.group.is_empty() && it.service.group != *group
    };
    // CoreDNS looks no further than at the first shorter key without a group.
    if all[..looked_at].iter().any(disagrees) {
        return all;
    }
    let group = group.clone();
    let stays = |it: &Found<'_>| it.service.group.is_empty() || it.service.group == group;
    all.into_iter().filter(stays).collect()
}

/// Whether the host is answered: a host name with a text is only a text.
fn answers_hosts(service: &Service) -> bool {
    service.address().is_some() || service.alias().is_some()
}

/// The target, if the name is an alias.
fn alias<'a>(owner: &Name, hosts: &[Found<'a>]) -> Option<(&'a Name, Ttl)> {
    let answering = hosts.iter().filter(|it| answers_hosts(it.service));
    let mut target: Option<(&Name, Ttl)> = None;
    for it in answering {
        let host = it.service.alias()?;
        if it.service.is_mail || it.service.port != Some(0) || owner.is_within(host) {
            return None;
        }
        target = match target {
            None => Some((host, it.ttl)),
            Some((known, ttl)) if known == host => Some((known, ttl.min(it.ttl))),
            Some(_) => return None,
        };
    }
    target
}

fn addresses(owner: &Name, hosts: &[Found<'_>], out: &mut Rendered) {
    for it in hosts {
        if let Some(address) = it.service.address() {
            let (rtype, data) = Rdata::address(address);
            out.push(owner, rtype, it.ttl, data);
        }
    }
}

/// TXT, of texts without an address.
fn texts(owner: &Name, found: &[Found<'_>], out: &mut Rendered) {
    let with = found
        .iter()
        .filter(|it| it.service.host != Host::None || !it.service.text.is_empty());
    for it in grouped(with.copied().collect()) {
        if !it.service.text.is_empty() && it.service.address().is_none() {
            out.push(owner, Rtype::TXT, it.ttl, Rdata::txt(&it.service.text));
        }
    }
}

/// PTR, of the host name of the name's own key.
fn pointers(owner: &Name, exact: &[Found<'_>], out: &mut Rendered) {
    for it in exact {
        if let Host::Name(host) = &it.service.host {
            out.push(owner, Rtype::PTR, it.ttl, Rdata::name(host));
        }
    }
}

#[cfg(test)]
mod tests;

//! `emit`: from a Corefile to the configuration of one of its secondaries.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corefile::{DNS_PORT, Place, dns_address};
use directives::config::{Allow, Apex, Catalog, Config, Scheme, Secondary, ServerBlock, Transfer};
use dns::Name;
use history::{Output, SCHEMA};
use serde_json::{Value, json};
use transfer::TlsDemand;

use crate::cli::args::{Configuration, Emission, Format};
use crate::cli::commands::{load, print};
use crate::emit::{Feed, FeedKey, FeedTls, PLACEHOLDER, Software};
use crate::failure::Failure;
use crate::plan::addresses::interface_addresses;
use crate::plan::hosts::hosts_of;

/// `emit`.
///
/// # Errors
/// When the configuration is not usable or names no such secondary.
pub fn emit(
    configuration: &Configuration,
    emission: &Emission,
    format: Format,
) -> Result<(), Failure> {
    let loaded = load(configuration)?;
    let feed = feed_of(&loaded.config, emission).map_err(Failure::unusable)?;
    match format.output {
        Output::Text => print(&feed.configuration(emission.software)),
        Output::Json => print(&format!("{}\n", as_json(&feed, emission.software))),
    }
}

/// For programs: the configuration, and what it is made of. Secrets are in it if the text has them.
fn as_json(feed: &Feed, software: Software) -> Value {
    let names = |zones: &[Name]| zones.iter().map(ToString::to_string).collect::<Vec<_>>();
    let primaries: Vec<String> = feed.primaries.iter().map(ToString::to_string).collect();
    json!({
        "schema": SCHEMA,
        "software": software.title(),
        "secondary": feed.listen.to_string(),
        "primaries": primaries,
        "key": feed.key.as_ref().map(|key| key.name.to_string()),
        "zones": names(&feed.zones),
        "catalogs": names(&feed.catalogs),
        "configuration": feed.configuration(software),
    })
}

/// A zone that a secondary may have: its block, its name, how the secondary is named there.
struct Given<'a> {
    /// The block.
    block: &'a ServerBlock,
    /// The zone.
    zone: &'a Name,
    /// The secondary.
    to: &'a Secondary,
}

/// All zones with a `to`, each block's in its order.
fn all_given(config: &Config) -> Vec<Given<'_>> {
    let mut given = Vec::new();
    for block in &config.servers {
        for zone in block.zones_written() {
            let transfer = block.for_zone::<Transfer>(zone);
            for to in transfer.iter().flat_map(|it| &it.secondaries) {
                given.push(Given { block, zone, to });
            }
        }
    }
    given
}

/// The addresses of all secondaries.
fn addresses_of(given: &[Given<'_>]) -> Vec<SocketAddr> {
    let mut known: Vec<SocketAddr> = given.iter().map(|it| it.to.address).collect();
    known.sort_unstable();
    known.dedup();
    known
}

/// The zones and primaries of the secondary.
fn feed_of(config: &Config, emission: &Emission) -> Result<Feed, String> {
    let mut given = all_given(config);
    let known = addresses_of(&given);
    if let Some(feed) = feed_by_allow(config, emission, &known)? {
        return Ok(feed);
    }
    if known.is_empty() {
        return Err(why_nobody(config, emission.software));
    }
    let listen = chosen(&known, emission.secondary.as_deref())?;
    given.retain(|it| it.to.address == listen);
    let first = given.first().ok_or("the Corefile has no `to`")?;
    let software = emission.software;
    let over = over_of(first)?;
    let mut feed = Feed {
        listen,
        tls: tls_of(first, over, emission)?,
        primaries: emission.primary.clone(),
        notifiers: Vec::new(),
        key: key_of(first, emission.with_secrets),
        zones: Vec::new(),
        catalogs: Vec::new(),
        folder: emission.dir.clone(),
        zones_only: emission.zones_only,
    };
    if let Some(why) = feed.why_not_alone(software) {
        return Err(why);
    }
    // BIND names its catalogs in `options`.
    let is_apart = emission.zones_only && software == Software::Bind;
    let follows = software.reads_catalogs(feed.key.is_some()) && !emission.no_catalog && !is_apart;
    let mut listed: Vec<Name> = Vec::new();
    for it in &given {
        let catalog = it.block.all::<Catalog>().find(|own| own.zone == *it.zone);
        if let Some(catalog) = catalog.filter(|_| follows) {
            let entries = it.block.catalog_members(catalog).into_iter();
            listed.extend(entries.map(|entry| entry.zone));
            push_new(&mut feed.catalogs, it.zone);
        }
    }
    for it in &given {
        if key_of(it, false) != key_of(first, false) {
            return Err(format!(
                "{listen} has different keys for its zones at {} and {}: emit writes one for both; give both the same",
                first.to.place, it.to.place
            ));
        }
        if it.to.tls != first.to.tls || over_of(it)? != over {
            return Err(format!(
                "{listen} transfers by different rules of TLS at {} and {}: emit writes one for both; give both the same",
                first.to.place, it.to.place
            ));
        }
        let is_catalog = it.block.all::<Catalog>().any(|own| own.zone == *it.zone);
        if !is_catalog && !listed.contains(&it.zone.to_lower()) {
            push_new(&mut feed.zones, it.zone);
        }
        let sources = it.block.for_zone::<Transfer>(it.zone).into_iter();
        for source in sources.filter_map(|transfer| transfer.source_for(listen.ip())) {
            push_new(&mut feed.notifiers, &source);
        }
        if emission.primary.is_empty() {
            for address in primaries_of(it.block, it.zone, listen.ip(), over) {
                push_new(&mut feed.primaries, &address);
            }
        }
    }
    if feed.primaries.is_empty() {
        return Err(NO_PRIMARY.to_owned());
    }
    Ok(feed)
}

/// No address of ours is known.
const NO_PRIMARY: &str =
    "the address of this server for the secondary is not known: name it with --primary";

/// Where a CoreDNS answers whose address is not given.
const ANYWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The feed of a CoreDNS that no `to` names: its pods have changing addresses, so they are permitted by `allow`, and are not
/// notified. Without a key, because CoreDNS signs nothing. `None` if no zone permits it.
fn feed_by_allow(
    config: &Config,
    emission: &Emission,
    known: &[SocketAddr],
) -> Result<Option<Feed>, String> {
    let listen = match emission.secondary.as_deref() {
        None => known
            .is_empty()
            .then_some(SocketAddr::new(ANYWHERE, DNS_PORT)),
        Some(text) => dns_address(text),
    };
    let is_named = |listen: &SocketAddr| known.iter().any(|it| it.ip() == listen.ip());
    let listen = listen.filter(|it| emission.software == Software::Coredns && !is_named(it));
    let Some(listen) = listen else {
        return Ok(None);
    };
    let is_for = |allow: &Allow| {
        let is_it = listen.ip() == ANYWHERE || allow.peer.contains(listen.ip());
        is_it && allow.keys.is_empty() && allow.tls == TlsDemand::Free
    };
    let mut feed = Feed {
        listen,
        tls: None,
        primaries: emission.primary.clone(),
        notifiers: Vec::new(),
        key: None,
        zones: Vec::new(),
        catalogs: Vec::new(),
        folder: emission.dir.clone(),
        zones_only: emission.zones_only,
    };
    for block in &config.servers {
        for zone in block.zones_written() {
            let transfer = block.for_zone::<Transfer>(zone);
            let is_catalog = block.all::<Catalog>().any(|own| own.zone == *zone);
            let is_permitted = transfer.is_some_and(|it| it.allow.iter().any(is_for));
            if is_catalog || !is_permitted || !block.hears(zone, Scheme::Dns) {
                continue;
            }
            push_new(&mut feed.zones, zone);
            if emission.primary.is_empty() {
                for address in primaries_of(block, zone, listen.ip(), Scheme::Dns) {
                    push_new(&mut feed.primaries, &address);
                }
            }
        }
    }
    match (feed.zones.is_empty(), feed.primaries.is_empty()) {
        (true, _) => Ok(None),
        (false, true) => Err(NO_PRIMARY.to_owned()),
        (false, false) => Ok(Some(feed)),
    }
}

/// Why there is no secondary, and what to write where.
fn why_nobody(config: &Config, software: Software) -> String {
    let with_zones = |block: &&ServerBlock| block.zones_written().next().is_some();
    let mut blocks = config.servers.iter().filter(with_zones);
    let transfers = config.servers.iter().flat_map(ServerBlock::all::<Transfer>);
    let place: Option<&Place> = transfers.map(|it| &it.place).next();
    let line = match software {
        Software::Coredns => "`to ADDRESS`, or `allow CIDR` for a CoreDNS with changing addresses",
        Software::Bind | Software::Knot | Software::Nsd | Software::Pdns => {
            "`to ADDRESS key NAME` (or without a key `to ADDRESS`)"
        }
        Software::Unbound => "`to ADDRESS`",
    };
    match (place, blocks.next()) {
        (Some(place), _) => {
            format!("the Corefile names no secondary: add {line} to transfer in {place}")
        }
        (None, Some(block)) => format!(
            "the Corefile names no secondary: add `transfer {{ }}` to the block in {}, with {line}",
            block.place
        ),
        (None, None) => "the Corefile has no zones, so it has nothing for a secondary: add kubernetes, file or etcd".to_owned(),
    }
}

/// Adds an item once.
fn push_new<T: Clone + PartialEq>(list: &mut Vec<T>, item: &T) {
    if !list.contains(item) {
        list.push(item.clone());
    }
}

/// The secondary that is meant.
fn chosen(known: &[SocketAddr], wanted: Option<&str>) -> Result<SocketAddr, String> {
    let shown = || {
        let all: Vec<String> = known.iter().map(ToString::to_string).collect();
        all.join(", ")
    };
    let is_meant = |address: &SocketAddr| {
        wanted.is_none_or(|it| {
            let is_it = dns_address(it).is_some_and(|meant| meant == *address);
            is_it || it == address.ip().to_string()
        })
    };
    let meant: Vec<SocketAddr> = known.iter().copied().filter(is_meant).collect();
    match (meant.as_slice(), wanted) {
        ([one], _) => Ok(*one),
        ([], Some(wanted)) => Err(format!("no secondary {wanted}; there are {}", shown())),
        (_, _) => Err(format!("choose a secondary with --secondary: {}", shown())),
    }
}

/// The key that the secondary signs with: the first that it has.
fn key_of(given: &Given<'_>, with_secret: bool) -> Option<FeedKey> {
    let key = given.block.key(given.to.keys.first()?)?;
    Some(FeedKey {
        name: key.name.clone(),
        algorithm: key.algorithm.as_str(),
        secret: if with_secret {
            STANDARD.encode(key.secret.expose())
        } else {
            PLACEHOLDER.to_owned()
        },
    })
}

/// How the secondary transfers: over TLS where that is demanded, or where nothing else is listened for.
fn over_of(given: &Given<'_>) -> Result<Scheme, String> {
    let Given { block, zone, to } = given;
    let is_free = match to.tls {
        TlsDemand::Free => true,
        TlsDemand::Any | TlsDemand::Named(_) => false,
    };
    if is_free && block.hears(zone, Scheme::Dns) {
        return Ok(Scheme::Dns);
    }
    if block.hears(zone, Scheme::Tls) {
        return Ok(Scheme::Tls);
    }
    Err(format!(
        "{zone} goes to {} only over TLS, but no key with tls:// matches it: write tls://{zone} as a key",
        to.address
    ))
}

/// The settings of TLS, if the secondary transfers over it.
fn tls_of(given: &Given<'_>, over: Scheme, emission: &Emission) -> Result<Option<FeedTls>, String> {
    if over == Scheme::Dns {
        return Ok(None);
    }
    let (Given { zone, to, .. }, software) = (given, emission.software);
    if let Some(why) = software.why_not_over_tls() {
        return Err(format!(
            "{zone} goes to {} only over TLS, which emit cannot write for {}: {why}; it can for BIND and NSD",
            to.address,
            software.title()
        ));
    }
    let name = emission.tls_name.clone().ok_or_else(|| {
        format!(
            "{zone} goes to {} over TLS: give the name in this server's certificate with --tls-name",
            to.address
        )
    })?;
    let own = match &to.tls {
        TlsDemand::Free | TlsDemand::Any => None,
        TlsDemand::Named(own) => Some(own.to_str().into_owned()),
    };
    Ok(Some(FeedTls { name, own }))
}

/// Where a block's server is found by an address of this family: where it is bound, else its name
/// servers' addresses, else the machine's.
fn primaries_of(block: &ServerBlock, zone: &Name, from: IpAddr, over: Scheme) -> Vec<SocketAddr> {
    let listening = || block.zones.iter().filter(|key| key.scheme == over);
    let holding = listening().find(|key| zone.is_within(&key.apex));
    let Some(key) = holding.or_else(|| listening().next()) else {
        return Vec::new();
    };
    let mut hosts = hosts_of(block, &interface_addresses);
    if hosts.is_empty() {
        let servers = block.all::<Apex>().flat_map(|apex| &apex.name_servers);
        hosts.extend(servers.flat_map(|server| &server.addresses));
    }
    if hosts.is_empty() {
        hosts = interface_addresses(None);
    }
    let same_family = hosts.iter().filter(|host| host.is_ipv4() == from.is_ipv4());
    same_family
        .map(|host| SocketAddr::new(*host, key.port))
        .collect()
}

#[cfg(test)]
mod tests;

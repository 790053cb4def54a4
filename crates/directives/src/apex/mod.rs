//! `apex [ZONES...] { ns NAME [ADDRESS...]; service NAMESPACE/NAME; mbox NAME; refresh D; retry D; expire D; minimum D;
//! ttl D }`: the SOA and NS records of a zone. Ours; CoreDNS has no such directive.

use std::net::IpAddr;
use std::time::Duration;

use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use corefile::quantity::duration_or_seconds;
use dns::{Name, Ttl};
use provenance::ObjectKey;

use crate::catalog::Catalog;
use crate::config::block::{Directive, Repeat, ServerBlock};
use crate::config::form::Form;
use crate::config::zone;
use crate::config::zoned::{self, Zoned};

/// The settings of the apex of some zones. A setting that is not written is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apex {
    /// Its place in the Corefile.
    pub place: Place,
    /// The zones that it applies to, and all zones below them.
    pub zones: Vec<Name>,
    /// The name servers, in the order of the file, each once.
    pub name_servers: Vec<NameServer>,
    /// The Service in front of the servers, whose names the name servers have. Reverse zones follow the first zone of names.
    pub service: Option<ObjectKey>,
    /// The mailbox of the zone's administrator, as a name (RFC 1035 section 3.3.13).
    pub mbox: Option<Name>,
    /// The interval at which secondaries look for a new serial; at least a second.
    pub refresh: Option<Ttl>,
    /// The interval at which they look again after a failure; at least a second.
    pub retry: Option<Ttl>,
    /// The time that they answer without reaching us; at least a second.
    pub expire: Option<Ttl>,
    /// The TTL of negative answers (RFC 2308 section 4).
    pub minimum: Option<Ttl>,
    /// The TTL of the SOA and NS records and their addresses.
    pub ttl: Option<Ttl>,
}

/// A name server of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameServer {
    /// The place of its name.
    pub place: Place,
    /// Its name.
    pub name: Name,
    /// Its addresses, for zones that contain its name; each once.
    pub addresses: Vec<IpAddr>,
}

impl Directive for Apex {
    const WORD: &'static str = "apex";
    const USAGE: &'static str = "apex [ZONES…] { … }";
    const SUMMARY: &'static str = "sets the SOA and NS records of zones";
    const OPTIONS: &'static str = "ns, service, mbox, refresh, retry, expire, minimum and ttl";
    const REPEAT: Repeat = Repeat::Several;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let mut apex = Apex {
            place: directive.name.place.clone(),
            zones: zone::arguments(&directive.arguments, block_zones, report),
            name_servers: Vec::new(),
            service: None,
            mbox: None,
            refresh: None,
            retry: None,
            expire: None,
            minimum: None,
            ttl: None,
        };
        if directive.lines.is_empty() {
            let message = "apex has no options";
            report.error(
                &apex.place,
                message,
                format!("write a block: its options are {}", Self::OPTIONS),
            );
        }
        for line in &directive.lines {
            match line.name.text.as_str() {
                "ns" => name_server(line, &mut apex.name_servers, report),
                "service" => {
                    let value = service(line, report);
                    line.set(&mut apex.service, value, report);
                }
                "mbox" => {
                    let value = mailbox(line, report);
                    line.set(&mut apex.mbox, value, report);
                }
                "refresh" => timer(line, &mut apex.refresh, 1, report),
                "retry" => timer(line, &mut apex.retry, 1, report),
                "expire" => timer(line, &mut apex.expire, 1, report),
                "minimum" => timer(line, &mut apex.minimum, 0, report),
                "ttl" => timer(line, &mut apex.ttl, 0, report),
                _ => directive.unknown_option(line, Apex::OPTIONS, report),
            }
        }
        check_timers(&apex, report);
        if apex.service.is_some() && !apex.name_servers.is_empty() {
            let message = "ns and service exclude each other";
            report.error(&apex.place, message, "remove one");
        }
        Some(apex)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        zoned::check::<Self>(blocks, report);
        for block in blocks {
            for apex in block.all::<Self>().filter(|apex| apex.service.is_some()) {
                let has_names = |zone: &&Name| {
                    let form = block.form_of(zone);
                    matches!(form, Some(Form::Forward(_) | Form::External(_)))
                };
                let mut zones = Self::candidates(block).into_iter().filter(has_names);
                let is_its = |zone: &Name| block.for_zone::<Self>(zone) == Some(apex);
                if !zones.any(is_its) {
                    let message = "no zone of this apex has names of Services";
                    let fix = "write service in the apex of a zone of names of kubernetes or k8s_external; reverse zones follow";
                    report.error(&apex.place, message, fix);
                }
            }
            for name_server in block.all::<Self>().flat_map(|apex| &apex.name_servers) {
                let zones = block.cluster_zones();
                let zones = zones.filter(|zone| name_server.name.is_within(zone));
                if let Some(zone) = zones.max_by_key(|zone| zone.label_count()) {
                    check_name_server(block, name_server, zone, report);
                }
            }
        }
    }
}

impl Zoned for Apex {
    fn zones(&self) -> &[Name] {
        &self.zones
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn candidates(block: &ServerBlock) -> Vec<&Name> {
        let catalogs = block.all::<Catalog>().map(|catalog| &catalog.zone);
        let etcd = block.etcd_zones().map(|(zone, _)| zone);
        block.cluster_zones().chain(etcd).chain(catalogs).collect()
    }
}

/// Reads `ns NAME [ADDRESS...]`. The same name again adds addresses.
fn name_server(line: &Line, name_servers: &mut Vec<NameServer>, report: &mut Report) {
    let words = line
        .at_least_one("NAME [ADDRESS...]", report)
        .unwrap_or_default();
    let Some((first, rest)) = words.split_first() else {
        return;
    };
    let Some(name) = zone::domain_name(first, report) else {
        return;
    };
    if name.label_count() < 2 {
        let fix = "write the full name, such as ns1.dns.cluster.local";
        report.error(
            &first.place,
            format!("{} is not a fully qualified host name", first.shown()),
            fix,
        );
        return;
    }
    let mut addresses: Vec<IpAddr> = Vec::new();
    for token in rest {
        match token.text.parse() {
            Ok(address) => addresses.push(address),
            Err(_) => {
                let message = format!("{} is not an IP address", token.shown());
                report.error(&token.place, message, "write: ns NAME [ADDRESS...]");
            }
        }
    }
    let at = name_servers
        .iter()
        .position(|server| server.name == name)
        .unwrap_or_else(|| {
            let place = first.place.clone();
            name_servers.push(NameServer {
                place,
                name,
                addresses: Vec::new(),
            });
            name_servers.len() - 1
        });
    for address in addresses {
        if !name_servers[at].addresses.contains(&address) {
            name_servers[at].addresses.push(address);
        }
    }
}

/// Reads `service NAMESPACE/NAME`.
fn service(line: &Line, report: &mut Report) -> Option<ObjectKey> {
    let token = line.exactly_one("NAMESPACE/NAME", report)?;
    // Labels as the API server takes them.
    let is_label = |text: &str| {
        let plain =
            |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'-';
        (1..=63).contains(&text.len()) && text.bytes().all(plain)
    };
    let parts = token.text.split_once('/');
    let found = parts.filter(|(namespace, name)| is_label(namespace) && is_label(name));
    if found.is_none() {
        let message = format!("{} is not a Service", token.shown());
        let fix = "write its namespace and name, such as kube-system/kube-dns";
        report.error(&token.place, message, fix);
    }
    found.map(|(namespace, name)| ObjectKey::new(namespace, name))
}

/// Reads `mbox NAME`. NAME may have the form of a mail address.
fn mailbox(line: &Line, report: &mut Report) -> Option<Name> {
    let token = line.exactly_one("NAME", report)?;
    let Some((local, domain)) = token.text.split_once('@') else {
        return zone::domain_name(token, report);
    };
    // RFC 1035 section 8: the part before the '@' is one label, and its dots are escaped.
    let text = format!("{}.{domain}", local.replace('.', "\\."));
    zone::domain_name(&token.with_text(text), report)
}

/// Reads a timer of the SOA or a TTL: whole seconds, at least `least`.
fn timer(line: &Line, slot: &mut Option<Ttl>, least: u32, report: &mut Report) {
    let parse = |text: &str| {
        let duration = duration_or_seconds(text).map_err(|error| error.to_string())?;
        if duration.subsec_nanos() != 0 {
            return Err("not whole seconds".to_owned());
        }
        if duration < Duration::from_secs(least.into()) {
            return Err(format!("less than {least} s"));
        }
        Ttl::try_from(duration).map_err(|error| error.to_string())
    };
    let value = line.value("DURATION", parse, report);
    line.set(slot, value, report);
}

/// Warns about timers that make secondaries lose the zone.
fn check_timers(apex: &Apex, report: &mut Report) {
    if let (Some(refresh), Some(expire)) = (apex.refresh, apex.expire)
        && expire <= refresh
    {
        let message = format!("expire ({expire} s) is not more than refresh ({refresh} s)");
        let fix = "secondaries would drop the zone before they ask again: make expire larger";
        report.warn(&apex.place, message, fix);
    }
}

/// Reports a name server in `zone` that has no address there, and addresses that are not used because the name is a
/// Service's.
fn check_name_server(
    server: &ServerBlock,
    name_server: &NameServer,
    zone: &Name,
    report: &mut Report,
) {
    let NameServer {
        place,
        name,
        addresses,
    } = name_server;
    let form = server.form_of(zone);
    let services = form.and_then(|form| form.zone_form().services(zone));
    if services.is_some_and(|services| name.is_within(&services)) {
        if !addresses.is_empty() {
            let message = format!("{name} has the addresses of its Service, not those given here");
            let fix = format!("leave the addresses out, or choose a name outside svc.{zone}");
            report.error(place, message, fix);
        }
        return;
    }
    if server.overlay_of(zone).is_some() || may_be_service(form, zone, name) {
        return;
    }
    let own = server.for_zone::<Apex>(zone);
    let servers = own.map_or(&[][..], |apex| &apex.name_servers);
    let has_address = |it: &NameServer| it.name == *name && !it.addresses.is_empty();
    let is_default =
        servers.is_empty() && form.is_some_and(|form| form.default_name_server(zone) == *name);
    if !servers.iter().any(has_address) && !is_default {
        let message = format!("name server {name} has no address in the zone {zone}");
        report.error(
            place,
            message,
            format!("write it in the apex of {zone}: ns NAME ADDRESS..."),
        );
    }
}

/// Whether a name of an external zone may be a Service's external name.
fn may_be_service(form: Option<Form<'_>>, zone: &Name, name: &Name) -> bool {
    let external = match form {
        Some(Form::External(external)) => external,
        // A key may give it an address.
        Some(Form::Etcd(_)) => return name.is_within(zone),
        Some(
            Form::Forward(_) | Form::Clusterset(_) | Form::Reverse(_) | Form::ExternalReverse(_),
        )
        | None => return false,
    };
    // Names of a namespace with the apex label are not written.
    let own = zone.child(&external.apex_label);
    let is_own = own.is_ok_and(|own| name.is_within(&own));
    name.label_count() > zone.label_count() + 1 && !is_own
}

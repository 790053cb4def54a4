//! `replicas { listen ADDRESS; tls CERT KEY CA; lease NAME; … }`: this process is one of several that serve the same zones. Ours.
//!
//! One replica makes versions, and the others have copies of them. A Lease of the API server says which one, or the Corefile does.

pub mod metrics;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use corefile::address::parse_port;
use corefile::lexer::Token;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use dns::Name;
use ops::metrics::Metric;
use provenance::is_subdomain;
use rustls::pki_types::ServerName;

use crate::config::block::{Directive, ServerBlock};
use crate::history::History;
use crate::history::note::{interval, is_namespace};

/// The name in the certificates of all replicas, unless another one is written.
const CERTIFICATE_NAME: &str = "zonewright-replicas";

/// One of several replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicas {
    /// Its place in the Corefile.
    pub place: Place,
    /// The address on which the other replicas connect.
    pub listen: SocketAddr,
    /// The address at which they find this one: host and port. The one of `listen` if none is written.
    pub advertise: Option<String>,
    /// The files of the certificates, of the key, and of the authorities of the other replicas.
    pub tls: ReplicaTls,
    /// The name that the certificates of all replicas have.
    pub name: String,
    /// What says which replica leads.
    pub role: ReplicaRole,
    /// The name of this replica; that of the host if none is written.
    pub id: Option<String>,
    /// The other replicas.
    pub others: OtherReplicas,
    /// How many copies of a version there have to be, the leader's included.
    pub min_in_sync: usize,
    /// How long nobody leads before a replica that may lack versions leads.
    pub orphan_wait: Option<Duration>,
}

/// The files of a replica's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaTls {
    /// The certificates, the replica's own first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The authorities of the other replicas' certificates.
    pub authorities: PathBuf,
}

/// What says which replica leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaRole {
    /// A Lease of the API server, by namespace and name. Without a namespace it is that of the pod.
    Lease {
        /// The namespace.
        namespace: Option<String>,
        /// The name.
        name: String,
    },
    /// This one leads, always.
    Primary,
    /// The one at this address leads.
    Follow(String),
}

/// Where the addresses of the other replicas are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherReplicas {
    /// They are written in the Corefile.
    Listed(Vec<String>),
    /// They are the endpoints of a Service, ready or not.
    Service {
        /// The namespace; that of the pod if none is written.
        namespace: Option<String>,
        /// The name.
        name: String,
    },
}

/// The options, while they are read.
#[derive(Debug, Default)]
struct Written {
    listen: Option<SocketAddr>,
    advertise: Option<String>,
    tls: Option<ReplicaTls>,
    name: Option<String>,
    lease: Option<(Option<String>, String)>,
    primary: Option<()>,
    follow: Option<String>,
    id: Option<String>,
    others: Option<Vec<String>>,
    service: Option<(Option<String>, String)>,
    min_in_sync: Option<usize>,
    orphan_wait: Option<Duration>,
}

impl Directive for Replicas {
    const WORD: &'static str = "replicas";
    const USAGE: &'static str =
        "replicas { listen ADDRESS; tls CERT KEY CA; lease [NAMESPACE/]NAME; … }";
    const SUMMARY: &'static str = "makes this server one of two to five replicas with one line of serials: one of them makes versions, and the others have copies of all of them. Off unless it is written";
    const OPTIONS: &'static str = "listen, advertise, tls, name, lease, role, follow, id, others, service, min_in_sync and orphan_wait";

    const METRICS: &'static [Metric] = metrics::METRICS;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        if let Some(argument) = directive.arguments.first() {
            let message = format!(
                "replicas takes no arguments, and there is {}",
                argument.shown()
            );
            report.error(&argument.place, message, "write its options in a block");
        }
        let mut written = Written::default();
        for line in &directive.lines {
            written.read(directive, line, report);
        }
        let has = |word: &str| directive.lines.iter().any(|it| it.name.text == word);
        for (word, fix) in [
            ("listen", "write in its block: listen ADDRESS:PORT"),
            ("tls", "write in its block: tls CERT KEY CA"),
        ] {
            if !has(word) {
                report.error(&place, format!("replicas has no `{word}`"), fix);
            }
        }
        if !["lease", "role", "follow"].into_iter().any(has) {
            let message = "replicas does not say which one leads";
            let fix = "write in its block one of: lease NAME, role primary, follow ADDRESS:PORT";
            report.error(&place, message, fix);
        }
        let role = written.role(&place, report);
        let others = match (written.others, written.service) {
            (Some(_), Some(_)) => {
                let message = "the other replicas are named twice: by `others` and by `service`";
                report.error(&place, message, "remove one of them");
                None
            }
            (others, None) => Some(OtherReplicas::Listed(others.unwrap_or_default())),
            (None, Some((namespace, name))) => Some(OtherReplicas::Service { namespace, name }),
        };
        Some(Self {
            place,
            listen: written.listen?,
            advertise: written.advertise,
            tls: written.tls?,
            name: written.name.unwrap_or_else(|| CERTIFICATE_NAME.to_owned()),
            role: role?,
            id: written.id,
            others: others?,
            min_in_sync: written.min_in_sync.unwrap_or(1),
            orphan_wait: written.orphan_wait,
        })
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        let all = blocks
            .iter()
            .filter_map(|block| Some((block, block.get::<Self>()?)));
        let mut first: Option<&Place> = None;
        for (block, replicas) in all {
            if let Some(first) = first {
                let message = format!("replicas is already given in line {}", first.line);
                report.error(
                    &replicas.place,
                    message,
                    "a process is one replica: remove this one",
                );
            }
            first.get_or_insert(&replicas.place);
            let needs_api = matches!(replicas.role, ReplicaRole::Lease { .. })
                || matches!(replicas.others, OtherReplicas::Service { .. });
            if needs_api && block.api_server().is_none() {
                let message = "no API server has the Lease or the Service: this block has no `kubernetes` with one";
                let fix = "move replicas to the block with `kubernetes`, or write role primary and follow ADDRESS:PORT instead";
                report.error(&replicas.place, message, fix);
            }
            let archives = blocks.iter().flat_map(ServerBlock::all::<History>);
            for history in archives.filter(|it| it.archive.is_some()) {
                let message = "`archive` does not work together with `replicas` yet";
                let fix = "remove it: each replica has the whole history";
                report.error(&history.place, message, fix);
            }
        }
    }
}

impl Written {
    /// What says which replica leads. More than one is reported.
    fn role(&self, place: &Place, report: &mut Report) -> Option<ReplicaRole> {
        let lease = self.lease.clone();
        let lease = lease.map(|(namespace, name)| ReplicaRole::Lease { namespace, name });
        let primary = self.primary.map(|()| ReplicaRole::Primary);
        let follow = self.follow.clone().map(ReplicaRole::Follow);
        let mut all = [lease, primary, follow].into_iter().flatten();
        let role = all.next();
        if all.next().is_some() {
            let message = "replicas says more than once which one leads";
            let fix = "write only one of: lease, role, follow";
            report.error(place, message, fix);
        }
        role
    }

    /// Reads an option.
    fn read(&mut self, directive: &Statement, line: &Line, report: &mut Report) {
        match line.name.text.as_str() {
            "listen" => {
                let value = line.value("ADDRESS:PORT", read_socket, report);
                line.set(&mut self.listen, value, report);
            }
            "advertise" => {
                let value = line.value("HOST:PORT", read_address, report);
                line.set(&mut self.advertise, value, report);
            }
            "follow" => {
                let value = line.value("HOST:PORT", read_address, report);
                line.set(&mut self.follow, value, report);
            }
            "tls" => {
                let value = read_tls(directive, line, report);
                line.set(&mut self.tls, value, report);
            }
            "name" => {
                let value = line.value("NAME", read_name, report);
                line.set(&mut self.name, value, report);
            }
            "lease" => {
                let value = line.value("[NAMESPACE/]NAME", read_object, report);
                line.set(&mut self.lease, value, report);
            }
            "service" => {
                let value = line.value("[NAMESPACE/]NAME", read_object, report);
                line.set(&mut self.service, value, report);
            }
            "role" => {
                let value = line.value("primary", read_role, report);
                line.set(&mut self.primary, value, report);
            }
            "id" => {
                let value = line.value("NAME", read_id, report);
                line.set(&mut self.id, value, report);
            }
            "others" => {
                let value = read_others(line, report);
                line.set(&mut self.others, value, report);
            }
            "min_in_sync" => {
                let value = line.value("NUMBER", read_copies, report);
                line.set(&mut self.min_in_sync, value, report);
            }
            "orphan_wait" => {
                let value = line.value("TIME", interval, report);
                line.set(&mut self.orphan_wait, value, report);
            }
            _ => directive.unknown_option(line, Replicas::OPTIONS, report),
        }
    }
}

/// Reads `tls CERT KEY CA`.
fn read_tls(directive: &Statement, line: &Line, report: &mut Report) -> Option<ReplicaTls> {
    let [certificate, key, authorities] = line.arguments.as_slice() else {
        let message = format!(
            "tls takes three arguments, there are {}",
            line.arguments.len()
        );
        report.error(&line.name.place, message, "write: tls CERT KEY CA");
        return None;
    };
    Some(ReplicaTls {
        certificate: directive.path(&certificate.text),
        key: directive.path(&key.text),
        authorities: directive.path(&authorities.text),
    })
}

/// Reads the addresses of `others`.
fn read_others(line: &Line, report: &mut Report) -> Option<Vec<String>> {
    if line.arguments.is_empty() {
        report.error(
            &line.name.place,
            "others names nobody",
            "write: others HOST:PORT…",
        );
        return None;
    }
    let read = |token: &Token| match read_address(&token.text) {
        Ok(address) => Some(address),
        Err(why) => {
            let message = format!("{}: {why}", token.shown());
            report.error(&token.place, message, "write: others HOST:PORT…");
            None
        }
    };
    Some(line.arguments.iter().filter_map(read).collect())
}

fn read_socket(text: &str) -> Result<SocketAddr, String> {
    let parsed = text.parse();
    parsed.map_err(|_| "not an address with a port such as 0.0.0.0:5380 or [::]:5380".to_owned())
}

/// A host name or an address, with a port.
fn read_address(text: &str) -> Result<String, String> {
    let wrong = || "not a host with a port such as 192.0.2.1:5380".to_owned();
    if text.parse::<SocketAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let is_host = ServerName::try_from(host).is_ok() && !host.contains(':');
    match parse_port(port) {
        Some(1..) if is_host => Ok(text.to_owned()),
        Some(_) | None => Err(wrong()),
    }
}

fn read_name(text: &str) -> Result<String, String> {
    let parsed = ServerName::try_from(text);
    let wrong = |_| "no name that a certificate can have".to_owned();
    parsed.map(|_| text.to_owned()).map_err(wrong)
}

fn read_role(text: &str) -> Result<(), String> {
    match text {
        "primary" => Ok(()),
        _ => Err("the only role is primary; the others have `follow HOST:PORT`".to_owned()),
    }
}

/// The names of a replica end up in the Lease, with the number of the state folder after a slash.
fn read_id(text: &str) -> Result<String, String> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    if text.is_empty() || text.len() > 400 || !text.chars().all(is_plain) {
        return Err("not 1 to 400 letters, digits, `-`, `_` and `.`".to_owned());
    }
    Ok(text.to_owned())
}

fn read_copies(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(copies @ 1..=5) => Ok(copies),
        Ok(_) => Err("not from 1 to 5".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

/// The name of an object, with its namespace if it is written.
fn read_object(text: &str) -> Result<(Option<String>, String), String> {
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    if !is_subdomain(name) || !namespace.is_none_or(is_namespace) {
        return Err("not the name of an object".to_owned());
    }
    Ok((namespace.map(str::to_owned), name.to_owned()))
}

#[cfg(test)]
mod tests;

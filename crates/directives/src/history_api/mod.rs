//! `history_api ADDRESS { tls CERT KEY; tokens [AUDIENCES...]; client_ca FILE; … }`: the history over HTTPS. Ours.
//!
//! Nobody may read by default: a block that names no readers is an error.

use std::path::PathBuf;

use corefile::address::HttpAddress;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use dns::Name;
use rustls::pki_types::ServerName;

use crate::config::block::{Directive, ServerBlock};
use crate::config::zone;
use crate::kubernetes::Source;

/// The HTTPS server for readers of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryApi {
    /// Its place in the Corefile.
    pub place: Place,
    /// Its address.
    pub address: HttpAddress,
    /// The file of certificates, the server's own first.
    pub certificate: PathBuf,
    /// The file of the private key.
    pub key: PathBuf,
    /// The audiences of accepted tokens, those of the API server when it is empty; `None` when no token is accepted.
    pub tokens: Option<Vec<String>>,
    /// The file of the authorities for readers' certificates.
    pub client_ca: Option<PathBuf>,
    /// The file of the lists of readers' certificates that are revoked.
    pub crl: Option<PathBuf>,
    /// The names of certificates that may read; any name when it is empty.
    pub allowed: Vec<AllowedReader>,
    /// The most connections, if it is written.
    pub max_connections: Option<u32>,
    /// The requests of a reader in a second, if they are written.
    pub requests_per_second: Option<u32>,
}

/// The holder of a certificate that may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedReader {
    /// Its place in the Corefile.
    pub place: Place,
    /// The name among the certificate's alternative names.
    pub name: ServerName<'static>,
    /// The zones that it may read; all when it is empty.
    pub zones: Vec<Name>,
}

/// The options, while they are read.
#[derive(Debug, Default)]
struct Written {
    tls: Option<(PathBuf, PathBuf)>,
    tokens: Option<Vec<String>>,
    client_ca: Option<PathBuf>,
    crl: Option<(Place, PathBuf)>,
    allowed: Vec<AllowedReader>,
    max_connections: Option<u32>,
    requests_per_second: Option<u32>,
}

impl Directive for HistoryApi {
    const WORD: &'static str = "history_api";
    const USAGE: &'static str = "history_api ADDRESS { tls CERT KEY; … }";
    const SUMMARY: &'static str = "serves the history over HTTPS to readers with a token of the cluster or a client certificate; they can change nothing. Off unless it is written";
    const OPTIONS: &'static str =
        "tls, tokens, client_ca, crl, allow, max_connections and requests_per_second";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        if directive.arguments.is_empty() {
            let fix = "write: history_api HOST:PORT, such as :8443 for all addresses";
            report.error(&place, "history_api has no address", fix);
        }
        let address = directive.http_address(report);
        let mut written = Written::default();
        for line in &directive.lines {
            written.read(directive, line, report);
        }
        let Written {
            tls,
            tokens,
            client_ca,
            crl,
            allowed,
            max_connections,
            requests_per_second,
        } = written;
        if tls.is_none() && !directive.lines.iter().any(|it| it.name.text == "tls") {
            let message = "history_api is served over TLS only, and it has no certificate";
            report.error(&place, message, "write in its block: tls CERT KEY");
        }
        if tokens.is_none() && client_ca.is_none() {
            let message = "nobody may read: history_api names no readers";
            let fix = "write in its block: `tokens`, for accounts of the cluster, or `client_ca FILE`, for client certificates";
            report.error(&place, message, fix);
        }
        if client_ca.is_none() {
            let allowed = allowed.first().map(|it| &it.place);
            for place in allowed.into_iter().chain(crl.as_ref().map(|(it, _)| it)) {
                let message = "this is about client certificates, but none is accepted";
                report.error(place, message, "write: client_ca FILE");
            }
        }
        let (certificate, key) = tls?;
        Some(Self {
            place,
            address: address?,
            certificate,
            key,
            tokens,
            client_ca,
            crl: crl.map(|(_, file)| file),
            allowed,
            max_connections,
            requests_per_second,
        })
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        let all = blocks
            .iter()
            .filter_map(|block| Some((block, block.get::<Self>()?)));
        let mut first: Option<&Place> = None;
        for (block, api) in all {
            if let Some(first) = first {
                let message = format!("history_api is already given in line {}", first.line);
                report.error(&api.place, message, "one serves all zones: remove this one");
            }
            first.get_or_insert(&api.place);
            if api.tokens.is_some() && block.api_server().is_none() {
                let message =
                    "no API server can check tokens: this block has no `kubernetes` with one";
                let fix = "move history_api to the block with `kubernetes`, or write client_ca FILE instead of tokens";
                report.error(&api.place, message, fix);
            }
            let written: Vec<&Name> = blocks.iter().flat_map(ServerBlock::zones_written).collect();
            for allowed in &api.allowed {
                let strangers = allowed.zones.iter().filter(|zone| !written.contains(zone));
                for zone in strangers {
                    let message = format!("{zone} is no zone of this Corefile");
                    report.warn(&allowed.place, message, "name a zone that it writes");
                }
            }
        }
    }
}

impl ServerBlock {
    /// The API server that is asked about tokens: that of the first `kubernetes` which has one.
    #[must_use]
    pub fn api_server(&self) -> Option<&Source> {
        let mut sources = self.clusters().map(|cluster| &cluster.source);
        sources.find(|source| match source {
            Source::InCluster | Source::Kubeconfig { .. } | Source::Endpoint { .. } => true,
            Source::Manifests { .. } => false,
        })
    }
}

impl Written {
    /// Reads an option.
    fn read(&mut self, directive: &Statement, line: &Line, report: &mut Report) {
        match line.name.text.as_str() {
            "tls" => {
                let value = match line.arguments.as_slice() {
                    [certificate, key] => {
                        Some((directive.path(&certificate.text), directive.path(&key.text)))
                    }
                    other => {
                        let message = format!("tls takes two arguments, there are {}", other.len());
                        report.error(&line.name.place, message, "write: tls CERT KEY");
                        None
                    }
                };
                line.set(&mut self.tls, value, report);
            }
            "tokens" => {
                let audiences = line.arguments.iter().map(|it| it.text.clone());
                line.set(&mut self.tokens, Some(audiences.collect()), report);
            }
            "client_ca" => {
                let value = line.exactly_one("FILE", report);
                let value = value.map(|it| directive.path(&it.text));
                line.set(&mut self.client_ca, value, report);
            }
            "crl" => {
                let value = line.exactly_one("FILE", report);
                let value = value.map(|it| (it.place.clone(), directive.path(&it.text)));
                line.set(&mut self.crl, value, report);
            }
            "allow" => self.allowed.extend(read_allowed(line, report)),
            "max_connections" => {
                let value = line.value("NUMBER", from_one, report);
                line.set(&mut self.max_connections, value, report);
            }
            "requests_per_second" => {
                let value = line.value("NUMBER", from_one, report);
                line.set(&mut self.requests_per_second, value, report);
            }
            _ => directive.unknown_option(line, HistoryApi::OPTIONS, report),
        }
    }
}

/// A number from 1.
fn from_one(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("less than 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

/// Reads `allow NAME [ZONES...]`.
fn read_allowed(line: &Line, report: &mut Report) -> Option<AllowedReader> {
    let place = &line.name.place;
    let Some((name, zones)) = line.arguments.split_first() else {
        let message = "allow has no name";
        report.error(place, message, "write: allow NAME [ZONES…]");
        return None;
    };
    let Ok(parsed) = ServerName::try_from(name.text.clone()) else {
        let message = format!("{}: no name that a certificate can have", name.shown());
        let fix = "write a host name or an address, as in the certificate's subjectAltName";
        report.error(&name.place, message, fix);
        return None;
    };
    Some(AllowedReader {
        place: place.clone(),
        name: parsed,
        zones: zone::arguments(zones, &[], report),
    })
}

#[cfg(test)]
mod tests;

//! `kubernetes [ZONES...] { … }`: the zones of a cluster.
//!
//! Here are the options for the source of objects: `endpoint URL...`, `tls CERT KEY CA`, `kubeconfig FILE [CONTEXT]`,
//! `manifests DIR` (ours). Here are also `ttl SECONDS`, `namespaces N...` and `fallthrough [ZONES...]`. The options for
//! the contents of zones are in [`options`]. Options that CoreDNS has removed are refused by name.

mod options;
pub(crate) mod synthesized;

pub use options::{ApiLimits, Options, Pods, RecordLimits};

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::config::block::{Directive, Role, ServerBlock};
use crate::config::zone;
use crate::config::zoned::warn_of_unasked;
use corefile::lexer::Token;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use dns::{Name, Ttl};

/// A cluster, and the zones made from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    /// Its place in the Corefile.
    pub place: Place,
    /// The zones of names, in the order of the file.
    pub forward_zones: Vec<Name>,
    /// The zones below `in-addr.arpa` and `ip6.arpa`, in the order of the file.
    pub reverse_zones: Vec<Name>,
    /// The zones of names in the clusterset, in the order of the file: `multicluster`.
    pub clusterset_zones: Vec<Name>,
    /// Whether this is the directive `multicluster`, which watches ServiceImports alone.
    pub imports_only: bool,
    /// The source of the objects.
    pub source: Source,
    /// The TTL of all records.
    pub ttl: Ttl,
    /// The namespaces that are published; all when `None`. Never empty.
    pub namespaces: Option<BTreeSet<String>>,
    /// Missing names that fall through to the next handler, with all names below them. The root means all names;
    /// an empty list means none.
    pub fallthrough: Vec<Name>,
    /// The options for the contents of zones and for the API server.
    pub options: Options,
}

impl Kubernetes {
    /// All zones: forward, reverse, clusterset.
    pub fn zones(&self) -> impl Iterator<Item = &Name> {
        self.forward_zones
            .iter()
            .chain(&self.reverse_zones)
            .chain(&self.clusterset_zones)
    }

    /// The directive's name.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        if self.imports_only {
            "multicluster"
        } else {
            "kubernetes"
        }
    }

    /// The zone whose name servers the other zones use. Every directive has a zone of names.
    #[must_use]
    pub fn home(&self) -> Option<&Name> {
        self.forward_zones.first().or(self.clusterset_zones.first())
    }

    /// Whether both directives give a zone the same contents.
    pub(crate) fn same_contents(&self, other: &Self) -> bool {
        let Self {
            place: _,
            forward_zones,
            reverse_zones,
            clusterset_zones,
            imports_only,
            source,
            ttl,
            namespaces,
            fallthrough,
            options,
        } = self;
        // The zones have to be equal: reverse zones contain names of the forward zones.
        *forward_zones == other.forward_zones
            && *reverse_zones == other.reverse_zones
            && *clusterset_zones == other.clusterset_zones
            && *imports_only == other.imports_only
            && *source == other.source
            && *ttl == other.ttl
            && *namespaces == other.namespaces
            && *fallthrough == other.fallthrough
            && options.same_contents(&other.options)
    }
}

/// The source of a cluster's objects. Files and folders are relative to the working folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The API server of our own cluster, with the pod's service account.
    InCluster,
    /// The API server of a kubeconfig.
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// The context; the file's current one when `None`.
        context: Option<String>,
    },
    /// The API server at a URL.
    Endpoint {
        /// `http://` or `https://`, without user and password.
        url: String,
        /// The certificates, if written.
        tls: Option<ClientTls>,
    },
    /// A folder of manifests.
    Manifests {
        /// The folder.
        dir: PathBuf,
    },
}

/// The files for TLS with an API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientTls {
    /// Our certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority of the server's certificate.
    pub ca: PathBuf,
}

/// The default TTL.
const DEFAULT_TTL_SECONDS: u32 = 5;

/// The longest TTL that is accepted.
const MAX_TTL_SECONDS: u32 = 3600;

/// The options that CoreDNS has removed, each with its replacement.
const GONE: &[(&str, &str)] = &[
    ("transfer", "write the directive transfer beside kubernetes"),
    ("upstream", "remove it"),
    ("resyncperiod", "remove it"),
    ("federation", "remove it"),
];

#[derive(Default)]
struct Draft {
    endpoint: Option<(Place, String)>,
    tls: Option<(Place, ClientTls)>,
    kubeconfig: Option<(Place, PathBuf, Option<String>)>,
    manifests: Option<(Place, PathBuf)>,
    ttl: Option<Ttl>,
    /// `namespaces`, from all lines.
    namespaces: BTreeSet<String>,
    /// `fallthrough`, from all lines.
    fallthrough: Vec<Name>,
    /// The zones of `multicluster`, each with its place.
    multicluster: Vec<(Place, Name)>,
    /// The options for the contents of zones and for the API server.
    options: options::Draft,
}

impl Directive for Kubernetes {
    const WORD: &'static str = "kubernetes";
    const USAGE: &'static str = "kubernetes [ZONES…] { … }";
    const SUMMARY: &'static str = "zones of a cluster. ZONES default to the keys of the block. Reverse zones get PTRs that point into the first forward zone";
    const OPTIONS: &'static str = "endpoint, tls, kubeconfig, manifests, ttl, namespaces, namespace_labels, labels, multicluster, fallthrough, pods, endpoint_pod_names, noendpoints, zonal, ignore, limits, apiserver_qps, apiserver_burst, apiserver_max_inflight and startup_timeout";
    const ROLE: Role = Role::Zones;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let mut draft = Draft::default();
        for line in &directive.lines {
            option(directive, line, &mut draft, report);
        }
        let zones = zone::arguments(&directive.arguments, block_zones, report);
        let place = directive.name.place.clone();
        let (reverse_zones, names): (Vec<Name>, Vec<Name>) =
            zones.into_iter().partition(is_reverse);
        if names.is_empty() && !reverse_zones.is_empty() {
            let fix = "add a zone of names, such as cluster.local";
            let message = format!("{} has only reverse zones", directive.name.text);
            report.error(&place, message, fix);
        }
        for (place, zone) in &draft.multicluster {
            if !names.contains(zone) {
                let message =
                    format!("kubernetes is not authoritative for the multicluster zone {zone}");
                report.error(place, message, "add it to the zones of names of kubernetes");
            }
        }
        let is_clusterset = |zone: &Name| draft.multicluster.iter().any(|(_, other)| other == zone);
        let (clusterset_zones, forward_zones): (Vec<Name>, Vec<Name>) =
            names.into_iter().partition(is_clusterset);
        let Draft {
            endpoint,
            tls,
            kubeconfig,
            manifests,
            ttl,
            namespaces,
            fallthrough,
            multicluster: _,
            options,
        } = draft;
        let source = source(endpoint, tls, kubeconfig, manifests, report);
        Some(Kubernetes {
            place,
            forward_zones,
            reverse_zones,
            clusterset_zones,
            imports_only: false,
            source,
            ttl: ttl.unwrap_or(Ttl::decode(DEFAULT_TTL_SECONDS)),
            options: options.finish(!namespaces.is_empty(), report),
            namespaces: (!namespaces.is_empty()).then_some(namespaces),
            fallthrough,
        })
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        for block in blocks {
            for cluster in block.clusters() {
                warn_of_unasked(block, &cluster.place, cluster.zones(), report);
            }
        }
    }
}

/// Whether a zone is a reverse zone.
pub(crate) fn is_reverse(zone: &Name) -> bool {
    ["in-addr.arpa", "ip6.arpa"]
        .iter()
        .any(|tree| Name::parse(tree).is_ok_and(|tree| zone.is_within(&tree)))
}

/// Reads one option.
fn option(directive: &Statement, line: &Line, draft: &mut Draft, report: &mut Report) {
    let place = line.name.place.clone();
    match line.name.text.as_str() {
        "endpoint" => {
            let value = endpoint(line, report).map(|url| (place, url));
            line.set(&mut draft.endpoint, value, report);
        }
        "tls" => {
            let value = client_tls(line, report).map(|tls| (place, tls));
            line.set(&mut draft.tls, value, report);
        }
        "kubeconfig" => {
            let value = kubeconfig(line, report);
            line.set(&mut draft.kubeconfig, value, report);
        }
        "manifests" => {
            let value = line.exactly_one("DIR", report);
            let value = value.map(|token| (place, PathBuf::from(&token.text)));
            line.set(&mut draft.manifests, value, report);
        }
        "ttl" => {
            let value = line.value("SECONDS", ttl, report);
            line.set(&mut draft.ttl, value, report);
        }
        "namespaces" => namespaces(line, &mut draft.namespaces, report),
        "multicluster" => {
            for token in &line.arguments {
                let zones = zone::argument(token, report).into_iter();
                draft
                    .multicluster
                    .extend(zones.map(|zone| (token.place.clone(), zone)));
            }
        }
        "fallthrough" => {
            let zones = zone::arguments(&line.arguments, &[Name::root()], report);
            let new = zones
                .into_iter()
                .filter(|zone| !draft.fallthrough.contains(zone));
            let new: Vec<Name> = new.collect();
            draft.fallthrough.extend(new);
        }
        other => match GONE.iter().find(|(gone, _)| *gone == other) {
            Some((gone, fix)) => {
                let message = format!("{gone}: no longer an option of kubernetes");
                report.error(&place, message, *fix);
            }
            None if draft.options.take(line, report) => {}
            None => directive.unknown_option(line, Kubernetes::OPTIONS, report),
        },
    }
}

/// Reads `endpoint URL...`. As in CoreDNS only the first URL is used.
fn endpoint(line: &Line, report: &mut Report) -> Option<String> {
    let (first, more) = line.at_least_one("URL", report)?.split_first()?;
    if let Some(second) = more.first() {
        let message = "only the first endpoint is used";
        report.warn(
            &second.place,
            message,
            "put the API servers behind one address",
        );
    }
    let good = first.text.parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri
                .authority()
                .is_some_and(|authority| !authority.as_str().contains('@'))
    });
    if !good {
        // The text may contain a password, so the message does not repeat it.
        let fix = "write https://HOST[:PORT], credentials belong in a kubeconfig";
        report.error(
            &first.place,
            "the endpoint is not a plain http or https URL",
            fix,
        );
        return None;
    }
    Some(first.text.clone())
}

/// Reads `tls CERT KEY CA`.
fn client_tls(line: &Line, report: &mut Report) -> Option<ClientTls> {
    let [cert, key, ca] = line.arguments.as_slice() else {
        let message = format!("tls takes three files, there are {}", line.arguments.len());
        report.error(&line.name.place, message, "write: tls CERT KEY CA");
        return None;
    };
    let path = |token: &Token| PathBuf::from(&token.text);
    Some(ClientTls {
        cert: path(cert),
        key: path(key),
        ca: path(ca),
    })
}

/// Reads `kubeconfig FILE [CONTEXT]`.
fn kubeconfig(line: &Line, report: &mut Report) -> Option<(Place, PathBuf, Option<String>)> {
    let (file, context) = match line.arguments.as_slice() {
        [file] => (file, None),
        [file, context] => (file, Some(context.text.clone())),
        other => {
            let message = format!(
                "kubeconfig takes one or two arguments, there are {}",
                other.len()
            );
            report.error(
                &line.name.place,
                message,
                "write: kubeconfig FILE [CONTEXT]",
            );
            return None;
        }
    };
    Some((line.name.place.clone(), PathBuf::from(&file.text), context))
}

pub(crate) fn ttl(text: &str) -> Result<Ttl, String> {
    let seconds: u32 = text
        .parse()
        .map_err(|_| "not a whole number of seconds".to_owned())?;
    if seconds > MAX_TTL_SECONDS {
        return Err(format!("not in the range 0 to {MAX_TTL_SECONDS}"));
    }
    Ok(Ttl::decode(seconds))
}

/// Reads `namespaces N...`.
fn namespaces(line: &Line, namespaces: &mut BTreeSet<String>, report: &mut Report) {
    for token in line
        .at_least_one("NAMESPACE...", report)
        .unwrap_or_default()
    {
        // RFC 1123 labels, which the API server requires of namespaces.
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let text = token.text.as_str();
        let edges_good = !text.starts_with('-') && !text.ends_with('-');
        if (1..=63).contains(&text.len()) && text.chars().all(inner) && edges_good {
            namespaces.insert(text.to_owned());
        } else {
            let message = format!("{} cannot be the name of a namespace", token.shown());
            let fix = "write names of lower-case letters, digits and hyphens, with spaces between";
            report.error(&token.place, message, fix);
        }
    }
}

/// Decides on the source of the objects.
fn source(
    endpoint: Option<(Place, String)>,
    tls: Option<(Place, ClientTls)>,
    kubeconfig: Option<(Place, PathBuf, Option<String>)>,
    manifests: Option<(Place, PathBuf)>,
    report: &mut Report,
) -> Source {
    if let Some((_, dir)) = manifests {
        let others = [
            endpoint.map(|(place, _)| (place, "endpoint")),
            tls.map(|(place, _)| (place, "tls")),
            kubeconfig.map(|(place, _, _)| (place, "kubeconfig")),
        ];
        for (place, option) in others.into_iter().flatten() {
            let message = format!("manifests and {option} exclude each other");
            report.error(&place, message, "objects come from one source: remove one");
        }
        return Source::Manifests { dir };
    }
    let used = endpoint.is_some() && kubeconfig.is_none();
    if let Some((place, _)) = tls.as_ref().filter(|_| !used) {
        let message = "tls is used only with endpoint, and kubeconfig takes precedence over both";
        report.warn(place, message, "remove it");
    }
    match (kubeconfig, endpoint) {
        (Some((place, file, context)), endpoint) => {
            if endpoint.is_some() {
                let message = "kubeconfig takes precedence, so endpoint is not used";
                report.warn(&place, message, "remove one");
            }
            Source::Kubeconfig { file, context }
        }
        (None, Some((_, url))) => Source::Endpoint {
            url,
            tls: tls.map(|(_, tls)| tls),
        },
        (None, None) => Source::InCluster,
    }
}

#[cfg(test)]
mod tests;

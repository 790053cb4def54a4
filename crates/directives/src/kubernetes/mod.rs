//! `kubernetes [ZONES...] { … }`: the cluster whose contents the zones hold.
//!
//! Here is where the objects come from: `endpoint URL...`, `tls CERT KEY CA`, `kubeconfig FILE [CONTEXT]`,
//! `manifests DIR` (ours), and `ttl SECONDS`, `namespaces N...`, `fallthrough [ZONES...]`. What is seen of
//! them, and as what, is in [`options`]. What CoreDNS had once is refused by name.

mod options;
pub(crate) mod synthesized;

pub use options::{ApiLimits, Options, Pods};

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::config::block::{Directive, Role, ServerBlock};
use crate::config::zone;
use crate::config::zoned::warn_of_unasked;
use corefile::lexer::Token;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use dns::{Name, Ttl};

/// A cluster, and the zones made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    /// Where it stands.
    pub place: Place,
    /// The zones of the cluster's own names, in the order of the file.
    pub forward_zones: Vec<Name>,
    /// The zones of addresses, below `in-addr.arpa` and `ip6.arpa`, in the order of the file.
    pub reverse_zones: Vec<Name>,
    /// The zones of names that are those of a set of clusters, in the order of the file: `multicluster`.
    pub clusterset_zones: Vec<Name>,
    /// Whether this is the directive `multicluster`, which looks at ServiceImports alone.
    pub imports_only: bool,
    /// Where the objects come from.
    pub source: Source,
    /// The TTL of all records.
    pub ttl: Ttl,
    /// The namespaces that are shown; all when `None`. Never empty.
    pub namespaces: Option<BTreeSet<String>>,
    /// The names, and those below them, for which the next in the chain is asked when there is no
    /// such name; the root stands for all, nothing for none.
    pub fallthrough: Vec<Name>,
    /// What is seen, which names it gives, how hard the API server may be pressed.
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

    /// The zone whose name servers the others name; every directive has a zone of names.
    #[must_use]
    pub fn home(&self) -> Option<&Name> {
        self.forward_zones.first().or(self.clusterset_zones.first())
    }

    /// Whether a zone would have the same contents by both directives.
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
        // The zones count: reverse zones hold names of the forward ones.
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

/// Where a cluster's objects come from. Files and folders are relative to the working folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The API server of the cluster we run in, with the pod's service account.
    InCluster,
    /// The API server that a kubeconfig names.
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// The context; the file's current one when `None`.
        context: Option<String>,
    },
    /// The API server at a URL.
    Endpoint {
        /// `http://` or `https://`, without user or password.
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

/// The files for speaking TLS with an API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientTls {
    /// Our certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority that the server's certificate must come from.
    pub ca: PathBuf,
}

/// The TTL unless written.
const DEFAULT_TTL_SECONDS: u32 = 5;

/// The longest TTL that may be written.
const MAX_TTL_SECONDS: u32 = 3600;

/// What CoreDNS no longer has, and what to write.
const GONE: &[(&str, &str)] = &[
    ("transfer", "write the directive transfer beside kubernetes"),
    ("upstream", "take it out"),
    ("resyncperiod", "take it out"),
    ("federation", "take it out"),
];

/// What was written, each with its place.
#[derive(Default)]
struct Draft {
    /// `endpoint`.
    endpoint: Option<(Place, String)>,
    /// `tls`.
    tls: Option<(Place, ClientTls)>,
    /// `kubeconfig`.
    kubeconfig: Option<(Place, PathBuf, Option<String>)>,
    /// `manifests`.
    manifests: Option<(Place, PathBuf)>,
    /// `ttl`.
    ttl: Option<Ttl>,
    /// `namespaces`, all of them.
    namespaces: BTreeSet<String>,
    /// `fallthrough`, all of them.
    fallthrough: Vec<Name>,
    /// The zones of `multicluster`, each with its place.
    multicluster: Vec<(Place, Name)>,
    /// The others.
    options: options::Draft,
}

impl Directive for Kubernetes {
    const WORD: &'static str = "kubernetes";
    const USAGE: &'static str = "kubernetes [ZONES…] { … }";
    const SUMMARY: &'static str = "the cluster whose names the zones hold; zones default to the keys of the block; reverse zones get PTRs into the first forward zone";
    const OPTIONS: &'static str = "endpoint, tls, kubeconfig, manifests, ttl, namespaces, multicluster and fallthrough, namespace_labels, labels, pods, endpoint_pod_names, noendpoints, zonal, ignore, apiserver_qps, apiserver_burst, apiserver_max_inflight, startup_timeout";
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

/// Whether a zone is one of addresses.
pub(crate) fn is_reverse(zone: &Name) -> bool {
    ["in-addr.arpa", "ip6.arpa"]
        .iter()
        .any(|tree| Name::parse(tree).is_ok_and(|tree| zone.is_within(&tree)))
}

/// Takes one option.
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

/// Reads `endpoint URL...`; as in CoreDNS only the first is used.
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
        // The text is not repeated: it may hold a password.
        let fix = "write https://HOST[:PORT], credentials belong in a kubeconfig";
        report.error(
            &first.place,
            "the endpoint is no plain http or https URL",
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

/// Reads a TTL.
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
        // RFC 1123 labels, as the API server demands of namespaces.
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let text = token.text.as_str();
        let edges_good = !text.starts_with('-') && !text.ends_with('-');
        if (1..=63).contains(&text.len()) && text.chars().all(inner) && edges_good {
            namespaces.insert(text.to_owned());
        } else {
            let message = format!("no namespace can be called {}", token.shown());
            let fix = "write names of lower-case letters, digits and hyphens, with spaces between";
            report.error(&token.place, message, fix);
        }
    }
}

/// Decides where the objects come from.
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
            report.error(
                &place,
                message,
                "objects come from one source: take one out",
            );
        }
        return Source::Manifests { dir };
    }
    let used = endpoint.is_some() && kubeconfig.is_none();
    if let Some((place, _)) = tls.as_ref().filter(|_| !used) {
        let message = "tls is used only with endpoint, and kubeconfig goes before both";
        report.warn(place, message, "take it out");
    }
    match (kubeconfig, endpoint) {
        (Some((place, file, context)), endpoint) => {
            if endpoint.is_some() {
                let message = "kubeconfig goes before endpoint, which is not used";
                report.warn(&place, message, "take one out");
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

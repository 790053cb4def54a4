//! The configuration as a whole: what was written, resolved and checked over all blocks.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use corefile::address::DNS_PORT;
use corefile::digest;
use corefile::environment::Environment;
use corefile::lexer::lex;
use corefile::parser::{self, Block, Statement};
use corefile::place::{Place, Problem, Report};
use dns::Name;

use crate::apex::{self, Apex};
use crate::bind::{self, Bind};
use crate::catalog::{self, Catalog};
use crate::config::handlers::{self, Handlers};
use crate::config::known::{self, Word};
use crate::config::operations::{self, Operations};
use crate::config::zone::{self, Scheme, ZoneKey};
use crate::config::zoned::closest;
use crate::config::{listener, listener_tls, nested, repeats, sources, zoned};
use crate::errors::config::{self as errors, Errors};
use crate::file::{self, ZoneFile};
use crate::gate::{self, Gate};
use crate::health::{self, Health};
use crate::history::{self, History};
use crate::hosts::config as hosts;
use crate::k8s_external::{self as external, External};
use crate::kubernetes::{self, Kubernetes};
use crate::log::config::{self as log, LogRule};
use crate::multicluster;
use crate::nsid::{self, Nsid};
use crate::prometheus::{self, Prometheus};
use crate::ready::{self, Ready};
use crate::tls::{self, Tls};
use crate::transfer::{self, Transfer};
use crate::tsig::{self, KeyFile, Tsig, TsigKey};

/// A Corefile, read and checked. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The server blocks, in the order of the file; at least one.
    pub servers: Vec<ServerBlock>,
}

/// A server block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerBlock {
    /// Where its first key stands.
    pub place: Place,
    /// Its keys: the zones for which queries come to this block; at least one.
    pub zones: Vec<ZoneKey>,
    /// Where it listens.
    pub bind: Bind,
    /// The cluster.
    pub kubernetes: Option<Kubernetes>,
    /// A set of clusters.
    pub multicluster: Option<Kubernetes>,
    /// What is reached from outside the cluster.
    pub external: Option<External>,
    /// Zone files; no zone stands in two of them.
    pub files: Vec<ZoneFile>,
    /// Zones that list zones.
    pub catalogs: Vec<Catalog>,
    /// Who may have zones; no zone stands in two of them.
    pub transfers: Vec<Transfer>,
    /// The keys of all blocks on its listeners, no two of one name.
    pub keys: Vec<TsigKey>,
    /// The files that some of them are from.
    pub key_files: Vec<KeyFile>,
    /// The certificate of its `tls://` listeners.
    pub tls: Option<Tls>,
    /// The name of the server.
    pub nsid: Option<Nsid>,
    /// What stands around the zones at query time.
    pub handlers: Handlers,
    /// What stands at the top of zones; no zone stands in two of them.
    pub apexes: Vec<Apex>,
    /// What is kept of the past of zones; no zone stands in two of them.
    pub histories: Vec<History>,
    /// Which losses of zones are held; no zone stands in two of them.
    pub gates: Vec<Gate>,
    /// Logging of errors.
    pub errors: Option<Errors>,
    /// Logging of queries: the first rule that fits decides.
    pub logs: Vec<LogRule>,
    /// Its directives as they were written, name and arguments.
    pub written: Vec<Vec<String>>,
    /// What concerns the process and its listeners.
    pub operations: Operations,
    /// Readiness over HTTP.
    pub ready: Option<Ready>,
    /// Liveness over HTTP.
    pub health: Option<Health>,
    /// Metrics over HTTP.
    pub prometheus: Option<Prometheus>,
}

/// What the command line says about the Corefile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overrides {
    /// The port of keys without one.
    pub default_port: u16,
}

impl Default for Overrides {
    fn default() -> Self {
        Self {
            default_port: DNS_PORT,
        }
    }
}

/// A configuration that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What maybe is not as meant, in the order of places.
    pub warnings: Vec<Problem>,
    /// Tells one text from another, imports and environment included, comments and places left out.
    pub digest: String,
}

/// A configuration that cannot be used. Its `Display` is one problem a line, without the warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Everything that is wrong, in the order of places; at least one.
    pub problems: Vec<Problem>,
    /// What maybe is not as meant.
    pub warnings: Vec<Problem>,
    /// Tells one text from another, as in [`Loaded`].
    pub digest: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejected {}

impl ServerBlock {
    /// The clusters that the block writes.
    pub fn clusters(&self) -> impl Iterator<Item = &Kubernetes> {
        self.kubernetes.iter().chain(&self.multicluster)
    }

    /// All zones that the block makes of clusters.
    pub(crate) fn cluster_zones(&self) -> impl Iterator<Item = &Name> {
        let external = self.external.iter().flat_map(External::zones);
        self.clusters().flat_map(Kubernetes::zones).chain(external)
    }

    /// All zones with content of their own: those of clusters, then those that are files.
    pub fn content_zones(&self) -> impl Iterator<Item = &Name> {
        self.cluster_zones()
            .chain(self.file_zones().map(|(zone, _)| zone))
    }

    /// All zones that the block writes: those with content, then catalogs.
    pub fn zones_written(&self) -> impl Iterator<Item = &Name> {
        self.written_at().map(|(zone, _)| zone)
    }

    /// The same, each with the place of what writes it.
    pub(crate) fn written_at(&self) -> impl Iterator<Item = (&Name, &Place)> {
        let clusters = self.clusters();
        let clusters = clusters.flat_map(|it| it.zones().map(|zone| (zone, &it.place)));
        let external = self.external.iter();
        let external = external.flat_map(|it| it.zones().map(|zone| (zone, &it.place)));
        let files = self.file_zones().map(|(zone, file)| (zone, &file.place));
        let catalogs = self.catalogs.iter().map(|it| (&it.zone, &it.place));
        clusters.chain(external).chain(files).chain(catalogs)
    }

    /// Whether questions for a zone come to the block this way: by a key of the zone or above it; to a zone below no
    /// key, as a catalog may be, by any.
    #[must_use]
    pub fn hears(&self, zone: &Name, scheme: Scheme) -> bool {
        let holds = |key: &ZoneKey| zone.is_within(&key.apex);
        let is_below_none = !self.zones.iter().any(holds);
        let mut keys = self.zones.iter();
        keys.any(|key| key.scheme == scheme && (is_below_none || holds(key)))
    }

    /// Who may have `zone`, by the closest `transfer`; `None`: nobody.
    #[must_use]
    pub fn transfer_for(&self, zone: &Name) -> Option<&Transfer> {
        closest(&self.transfers, zone)
    }

    /// The log rule for a name: the first that fits.
    #[must_use]
    pub fn log_for(&self, name: &Name) -> Option<&LogRule> {
        self.logs
            .iter()
            .find(|rule| rule.names.iter().any(|own| name.is_within(own)))
    }

    /// The key of this name.
    #[must_use]
    pub fn key(&self, name: &Name) -> Option<&TsigKey> {
        self.keys.iter().find(|key| key.name == *name)
    }
}

impl Config {
    /// The blocks that write this zone, in the order of the file. If there are several, they agree on
    /// its contents.
    pub fn blocks_of<'a>(&'a self, zone: &'a Name) -> impl Iterator<Item = &'a ServerBlock> {
        self.servers
            .iter()
            .filter(move |block| block.zones_written().any(|there| there == zone))
    }

    /// Each listener once, with the blocks on it in the order of the file.
    #[must_use]
    pub fn listeners(&self) -> Vec<(listener::Listener, Vec<&ServerBlock>)> {
        let mut listeners: Vec<(_, Vec<&ServerBlock>)> = Vec::new();
        for block in &self.servers {
            for listener in block.listeners() {
                match listeners.iter_mut().find(|(there, _)| *there == listener) {
                    Some((_, blocks)) => blocks.push(block),
                    None => listeners.push((listener, vec![block])),
                }
            }
        }
        listeners
    }
}

/// Reads and checks a Corefile. `env` gives environment variables.
///
/// # Errors
/// [`Rejected`], with everything that is wrong; also when the file cannot be read.
pub fn load(
    path: &Path,
    overrides: &Overrides,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Rejected> {
    let name = path.display().to_string();
    match fs::read(path) {
        Ok(octets) => parse_text(&name, &String::from_utf8_lossy(&octets), overrides, env),
        Err(error) => {
            let problem = Problem {
                place: Place::start_of(&name),
                message: format!("cannot read the Corefile: {error}"),
                fix: "name a file that is there and readable with --corefile".to_owned(),
            };
            Err(Rejected {
                digest: problem.message.clone(),
                problems: vec![problem],
                warnings: Vec::new(),
            })
        }
    }
}

/// Reads and checks a Corefile that is at hand; `file` is its name in messages, and imports are
/// relative to its folder.
///
/// # Errors
/// [`Rejected`], with everything that is wrong.
pub fn parse_text(
    file: &str,
    text: &str,
    overrides: &Overrides,
    env: Environment<'_>,
) -> Result<Loaded, Rejected> {
    let mut report = Report::default();
    let name: Arc<str> = file.into();
    let tokens = lex(&name, text, &mut report);
    let blocks = parser::parse(tokens, known::is_known, env, &mut report);
    if blocks.is_empty() {
        let mend = "write a zone, '{', directives on lines of their own, and '}'";
        report.error(&Place::start_of(file), "there is no server block", mend);
    }
    let mut digest = digest::of(&blocks);
    let Overrides { default_port } = *overrides;
    let mut servers = Vec::new();
    for block in &blocks {
        servers.push(resolve(block, default_port, &mut report));
    }
    listener::check_zones(&servers, &mut report);
    listener::share_keys(&mut servers, &mut report);
    listener::check_key_names(&servers, &mut report);
    listener::check_http(&servers, &mut report);
    listener_tls::check(&servers, &mut report);
    sources::check_sources(&servers, &mut report);
    external::check(&servers, &mut report);
    file::check(&servers, &mut report);
    nested::check(&servers, &mut report);
    catalog::check(&servers, &mut report);
    hosts::check(&servers, &mut report);
    let (problems, warnings) = report.finish();
    if problems.is_empty() {
        Ok(Loaded {
            config: Config { servers },
            warnings,
            digest,
        })
    } else {
        // An import that is not there is no word of the text, nor is a `}` that is missing.
        problems
            .iter()
            .for_each(|problem| digest.push_str(&problem.message));
        Err(Rejected {
            problems,
            warnings,
            digest,
        })
    }
}

/// Reads the keys and directives of one block.
fn resolve(block: &Block, default_port: u16, report: &mut Report) -> ServerBlock {
    let Block {
        place,
        keys,
        directives,
    } = block;
    let zones: Vec<ZoneKey> = keys
        .iter()
        .flat_map(|token| zone::key(token, default_port, report))
        .collect();
    if keys.is_empty() {
        let mend = "write a zone, or '.' for all names";
        report.error(place, "this server block has no zone", mend);
    }
    let mut names: Vec<Name> = Vec::new();
    for key in &zones {
        if !names.contains(&key.apex) {
            names.push(key.apex.clone());
        }
    }
    let catalogs = catalog::names(directives);
    let mut without_catalogs = names.clone();
    without_catalogs.retain(|name| !catalogs.contains(name));
    let mut server = without_directives(block, zones);
    let root = operations::root_of(directives);
    let mut once: Vec<(Word, &Place)> = Vec::new();
    for directive in directives {
        let Some(word) = known::word(&directive.name, report) else {
            continue;
        };
        let place = &directive.name.place;
        if let Some((_, first)) = once.iter().find(|(other, _)| *other == word) {
            repeats::report(word, directive, first, report);
        }
        once.push((word, place));
        let zones = if catalog::stands_beside(word) {
            &without_catalogs
        } else {
            &names
        };
        let root = root.clone();
        let directive = Statement {
            root,
            ..directive.clone()
        };
        take(word, &directive, zones, &mut server, report);
    }
    zoned::check_zones(&server, &names, report);
    server
}

/// A block before its directives are read.
fn without_directives(block: &Block, zones: Vec<ZoneKey>) -> ServerBlock {
    ServerBlock {
        place: block.place.clone(),
        zones,
        bind: Bind::default(),
        kubernetes: None,
        multicluster: None,
        external: None,
        files: Vec::new(),
        catalogs: Vec::new(),
        transfers: Vec::new(),
        keys: Vec::new(),
        key_files: Vec::new(),
        tls: None,
        nsid: None,
        handlers: Handlers::default(),
        apexes: Vec::new(),
        histories: Vec::new(),
        gates: Vec::new(),
        errors: None,
        logs: Vec::new(),
        written: block.directives.iter().map(Statement::words).collect(),
        operations: Operations::default(),
        ready: None,
        health: None,
        prometheus: None,
    }
}

/// Reads one directive into its block.
fn take(
    word: Word,
    directive: &Statement,
    zones: &[Name],
    server: &mut ServerBlock,
    report: &mut Report,
) {
    match word {
        Word::Any
        | Word::Acl
        | Word::Autopath
        | Word::Rewrite
        | Word::Template
        | Word::Local
        | Word::Dns64
        | Word::Metadata
        | Word::Bufsize
        | Word::Cache
        | Word::Chaos
        | Word::Forward
        | Word::Hosts
        | Word::Loadbalance
        | Word::Loop
        | Word::Minimal => {
            handlers::take(word, directive, zones, &mut server.handlers, report);
        }
        Word::Apex => server.apexes.push(apex::parse(directive, zones, report)),
        Word::Bind => bind::parse(directive, &mut server.bind, report),
        Word::Catalog => server.catalogs.extend(catalog::parse(directive, report)),
        Word::Errors => server.errors = Some(errors::parse(directive, report)),
        Word::External => server.external = Some(external::parse(directive, zones, report)),
        Word::File => server.files.extend(file::parse(directive, zones, report)),
        Word::Gate => server.gates.push(gate::parse(directive, zones, report)),
        Word::Health => {
            server.health = Some(health::parse(directive, server.health.as_ref(), report));
        }
        Word::History => server
            .histories
            .push(history::parse(directive, zones, report)),
        Word::Kubernetes => server.kubernetes = Some(kubernetes::parse(directive, zones, report)),
        Word::Log => server.logs.push(log::parse(directive, report)),
        Word::Multicluster => {
            let read = multicluster::parse(directive.clone(), zones, report);
            server.multicluster = Some(read);
        }
        Word::Nsid => server.nsid = Some(nsid::parse(directive, report)),
        Word::Debug
        | Word::Multisocket
        | Word::Pprof
        | Word::Reload
        | Word::Root
        | Word::Timeouts => {
            operations::take(word, directive, &mut server.operations, report);
        }
        Word::Prometheus => server.prometheus = Some(prometheus::parse(directive, report)),
        Word::Ready => server.ready = Some(ready::parse(directive, report)),
        Word::Tls => server.tls = tls::parse(directive, report),
        Word::Transfer => server
            .transfers
            .push(transfer::parse(directive, zones, report)),
        Word::Tsig => {
            let Tsig { keys, files } = tsig::parse(directive, report);
            server.keys.extend(keys);
            server.key_files.extend(files);
        }
    }
}

//! The configuration as a whole: reads the text of a Corefile into blocks and directives, and checks them.

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

use crate::bind::add_ipv4;
use crate::catalog;
use crate::config::block::{Role, ServerBlock};
use crate::config::checks::check_all;
use crate::config::zone::{self, ZoneKey};
use crate::config::{listener, registry, secret_words};
use crate::root;
use crate::state::StateFolder;
use crate::tsig::shared_keys;

/// The environment variable with the namespace of the server's pod.
const OWN_NAMESPACE: &str = "POD_NAMESPACE";

/// A Corefile, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The server blocks, in the order of the file; at least one.
    pub servers: Vec<ServerBlock>,
    /// The namespace that this server runs in: `POD_NAMESPACE`, if it is set.
    pub namespace: Option<String>,
}

/// The settings of the command line that concern the Corefile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overrides {
    /// The default port of keys.
    pub default_port: u16,
}

impl Default for Overrides {
    fn default() -> Self {
        Self {
            default_port: DNS_PORT,
        }
    }
}

/// A valid configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings, in the order of places.
    pub warnings: Vec<Problem>,
    /// A hash of the text with its imports and environment, without comments and places.
    pub digest: String,
    /// The text with its imports and environment, without comments and secrets.
    pub text: String,
}

/// An invalid configuration. Its `Display` has one problem a line, without the warnings.
#[derive(Clone, PartialEq)]
pub struct Rejected {
    /// All errors, in the order of places; at least one. Braces and quotes without their other half are the first.
    pub problems: Vec<Problem>,
    /// The configuration as far as it was read, to look for problems of the files that it names.
    pub readable: Config,
    /// Warnings.
    pub warnings: Vec<Problem>,
    /// A hash of the text, as in [`Loaded`].
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

/// Without the configuration: a word of it may be a secret in the wrong place.
impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            problems,
            readable: _,
            warnings,
            digest,
        } = self;
        f.debug_struct("Rejected")
            .field("problems", problems)
            .field("warnings", warnings)
            .field("digest", digest)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Rejected {}

impl Config {
    /// The state folder that a block names. All that name one name the same.
    #[must_use]
    pub fn state_folder(&self) -> Option<&Path> {
        let mut named = self.servers.iter().filter_map(|block| block.get());
        named.next().map(|it: &StateFolder| it.folder.as_path())
    }

    /// The blocks that write a zone, in the order of the file. If there are several, they agree on its contents.
    pub fn blocks_of<'a>(&'a self, zone: &'a Name) -> impl Iterator<Item = &'a ServerBlock> {
        self.servers
            .iter()
            .filter(move |block| block.zones_written().any(|there| there == zone))
    }

    /// The listeners, each once, with its blocks in the order of the file.
    #[must_use]
    pub fn listeners(&self) -> Vec<(listener::Listener, Vec<&ServerBlock>)> {
        listener::listeners(&self.servers)
    }
}

/// Reads and checks a Corefile. `env` returns environment variables.
///
/// # Errors
/// [`Rejected`], with all problems. A file that cannot be read is one.
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
                fix: "name an existing, readable file with --corefile".to_owned(),
            };
            Err(Rejected {
                readable: Config {
                    servers: Vec::new(),
                    namespace: None,
                },
                digest: problem.message.clone(),
                problems: vec![problem],
                warnings: Vec::new(),
            })
        }
    }
}

/// Reads and checks the text of a Corefile. `file` is its name in messages; imports are relative to its folder.
///
/// # Errors
/// [`Rejected`], with all problems.
pub fn parse_text(
    file: &str,
    text: &str,
    overrides: &Overrides,
    env: Environment<'_>,
) -> Result<Loaded, Rejected> {
    let mut report = Report::default();
    let name: Arc<str> = file.into();
    let tokens = lex(&name, text, &mut report);
    let blocks = parser::parse(tokens, registry::VOCABULARY, env, &mut report);
    if blocks.is_empty() {
        let fix = "write a zone, '{', directives on lines of their own, and '}'";
        report.error(&Place::start_of(file), "there is no server block", fix);
    }
    let mut digest = digest::of(&blocks);
    let Overrides { default_port } = *overrides;
    let mut servers = Vec::new();
    for block in &blocks {
        servers.push(read_block(block, default_port, &mut report));
    }
    add_ipv4(&mut servers);
    shared_keys::share(&mut servers, &mut report);
    check_all(&servers, &mut report);
    let namespace = env(OWN_NAMESPACE).filter(|namespace| !namespace.is_empty());
    let (problems, warnings) = report.finish();
    if problems.is_empty() {
        Ok(Loaded {
            config: Config { servers, namespace },
            warnings,
            digest,
            text: corefile::text::of(&blocks, secret_words::hide),
        })
    } else {
        // A missing import and a missing `}` are no words of the text, so the digest has to include them.
        problems
            .iter()
            .for_each(|problem| digest.push_str(&problem.message));
        // A cluster without a zone of names cannot be planned.
        servers.retain(|block| block.clusters().all(|cluster| cluster.home().is_some()));
        Err(Rejected {
            readable: Config { servers, namespace },
            problems,
            warnings,
            digest,
        })
    }
}

fn read_block(block: &Block, default_port: u16, report: &mut Report) -> ServerBlock {
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
        let fix = "write a zone, or '.' for all names";
        report.error(place, "this server block has no zone", fix);
    }
    let mut names: Vec<Name> = Vec::new();
    for key in &zones {
        if !names.contains(&key.apex) {
            names.push(key.apex.clone());
        }
    }
    // The key of a catalog is not a zone for the directives that write zones.
    let catalogs = catalog::names(directives);
    let mut without_catalogs = names.clone();
    without_catalogs.retain(|name| !catalogs.contains(name));
    let root = root::folder(directives);
    let written = directives.iter().map(Statement::words).collect();
    let mut server = ServerBlock::new(place.clone(), zones, written);
    let mut seen: Vec<(&str, &Place)> = Vec::new();
    for statement in directives {
        let Some(directive) = registry::find(&statement.name, report) else {
            continue;
        };
        let zones = match directive.role {
            Role::Zones => &without_catalogs,
            Role::Setting | Role::Shapes | Role::Decides | Role::Answers => &names,
        };
        let mut earlier = seen.iter().filter(|(word, _)| *word == directive.word);
        let first = earlier.next().map(|(_, place)| *place);
        let root = root.clone();
        let statement_in_root = Statement {
            root,
            ..statement.clone()
        };
        directive.read(&statement_in_root, zones, first, &mut server, report);
        seen.push((directive.word, &statement.name.place));
    }
    server
}

//! `autopath [ZONE...] FILE|@kubernetes`: walks the search path of clients for them.

pub(crate) mod handler;
pub(crate) mod metrics;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;
use ops::metrics::Metric;

use crate::autopath::handler::AutopathHandler;
use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::config::zone;
use crate::handlers::chain::{BuildError, Chain};
use crate::kubernetes::{Kubernetes, Pods};

/// The syntax of the directive, for messages.
const USAGE: &str = "write: autopath [ZONE...] RESOLV-CONF, or autopath [ZONE...] @kubernetes";

/// The source of a search path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchPath {
    /// A file like `/etc/resolv.conf`: its names, in lower case.
    Names(Vec<Name>),
    /// The namespace of the client pod.
    Cluster,
}

/// The search path to walk, and the names for which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autopath {
    /// Its place in the Corefile.
    pub place: Place,
    /// The names that it applies to, and all names below them.
    pub zones: Vec<Name>,
    /// The source of the path.
    pub path: SearchPath,
}

impl Directive for Autopath {
    const WORD: &'static str = "autopath";
    const USAGE: &'static str = "autopath [ZONE…] FILE|@kubernetes";
    const SUMMARY: &'static str = "follows the search path of clients for them";
    const REPEAT: Repeat = Repeat::Joined(Some("the last counts"));
    const ROLE: Role = Role::Decides;
    const METRICS: &'static [Metric] = metrics::METRICS;

    fn wants_clients(&self) -> bool {
        self.path == SearchPath::Cluster
    }

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        let place = directive.name.place.clone();
        let Some((last, zones)) = directive.arguments.split_last() else {
            report.error(&place, "autopath has no search path", USAGE);
            return None;
        };
        let path = match last.text.strip_prefix('@') {
            Some("kubernetes") => SearchPath::Cluster,
            Some(other) => {
                let message = format!("autopath: {other} gives no search path");
                report.error(&last.place, message, USAGE);
                return None;
            }
            None => match std::fs::read_to_string(&last.text) {
                Ok(text) => SearchPath::Names(search_names(&text)),
                Err(error) => {
                    let message = format!("autopath: {} cannot be read: {error}", last.shown());
                    report.error(&last.place, message, USAGE);
                    return None;
                }
            },
        };
        Some(Autopath {
            place,
            zones: zone::arguments(zones, block_zones, report),
            path,
        })
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        for block in blocks {
            let Some(autopath) = block.get::<Self>() else {
                continue;
            };
            let pods = block.get::<Kubernetes>().map(|it| it.options.pods);
            let message = match (&autopath.path, pods) {
                (SearchPath::Names(_), _) | (SearchPath::Cluster, Some(Pods::Verified)) => continue,
                (SearchPath::Cluster, Some(Pods::Disabled | Pods::Insecure)) => {
                    "autopath has no effect: the pods are not known"
                }
                (SearchPath::Cluster, None) => {
                    "autopath has no effect: this block has no kubernetes"
                }
            };
            let fix = "write `pods verified` in the kubernetes of this block";
            report.warn(&autopath.place, message, fix);
        }
    }

    fn add_handlers(&self, block: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        if let Some(handler) = AutopathHandler::new(self.clone(), block, &chain.context) {
            chain.add(handler);
        }
        Ok(())
    }
}

/// The search path of a `resolv.conf`, in lower case: that of the last line that has one (resolv.conf(5)). Words that
/// are no names are ignored.
#[must_use]
pub fn search_names(text: &str) -> Vec<Name> {
    let mut names = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let most = match words.next() {
            Some("search") => usize::MAX,
            Some("domain") => 1,
            _ => continue,
        };
        let words = words.take(most).filter_map(|word| Name::parse(word).ok());
        names = words.map(|name| name.to_lower()).collect();
    }
    names
}

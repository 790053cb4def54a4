//! `autopath`: walks the client's search path for it, so that one query is enough where the client would send several.
//!
//! A pod that looks for `api.github.com` asks for `api.github.com.NAMESPACE.svc.cluster.local` first. If that name is
//! missing, this handler tries the other names that the client would ask for. The first one that exists is the answer,
//! behind an alias. Names of our zones are looked up in memory; only external names go through the chain.
//!
//! The rules are CoreDNS's:
//!
//! - NODATA ends the walk, as an answer does.
//! - A handler that fails ends it with its failure, unless the failure is that no handler has the name.
//! - If no name exists, the client gets the first reply.
//! - The search path's own names are treated as other names are.

use std::sync::Arc;

use dns::{Name, Rcode, Rdata, Record, Rtype};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kubernetes::facts::ClientPods;
use kubernetes::schema::{Branch, ParsedName, ZoneForm, parse_name};
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Reply, Request};

use crate::acl::handler::closest;
use crate::autopath::metrics::SUCCESS;
use crate::autopath::{Autopath, SearchPath, search_names};
use crate::config::block::ServerBlock;
use crate::handlers::chain::Context;
use crate::handlers::tally::Tally;
use crate::kubernetes::Kubernetes;

#[derive(Debug)]
struct Cluster {
    clients: Arc<ClientPods>,
    zones: Vec<Name>,
}

#[derive(Debug)]
pub(crate) struct AutopathHandler {
    /// Applies to these names, and to all names below them.
    zones: Vec<Name>,
    /// The cluster of the client pods. `None` when all clients have the same search path.
    cluster: Option<Cluster>,
    /// The search path that follows the cluster's names.
    path: Vec<Name>,
    /// Queries that were answered with a later name of the path.
    successes: Tally,
}

/// A search path for one question.
struct Path {
    /// The octets of the question before the first name of the path.
    base_octets: usize,
    /// The client's namespace and the zone, if the path begins with the cluster's names.
    of_pod: Option<(Arc<str>, Name)>,
}

impl AutopathHandler {
    pub(crate) fn new(
        autopath: Autopath,
        block: &ServerBlock,
        context: &Context<'_>,
    ) -> Option<Self> {
        let (cluster, path) = match autopath.path {
            SearchPath::Names(names) => (None, names),
            SearchPath::Cluster => {
                let cluster = Cluster {
                    clients: context.clients.clone()?,
                    zones: block.get::<Kubernetes>()?.zones().cloned().collect(),
                };
                // As in CoreDNS, a file that cannot be read counts as empty.
                let own = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
                (Some(cluster), search_names(&own))
            }
        };
        Some(Self {
            zones: autopath.zones,
            cluster,
            path,
            successes: context.counts.tally(SUCCESS),
        })
    }

    /// The path for a question that is below its first name.
    fn path(&self, question: &Question<'_>) -> Option<Path> {
        let lower = question.name;
        closest(&self.zones, lower)?;
        let (base_octets, of_pod) = match &self.cluster {
            None => {
                let first = closest(self.path.get(..1)?, lower)?;
                (lower.len() - first.as_wire().len(), None)
            }
            Some(Cluster { clients, zones }) => {
                let zone = closest(zones, lower)?;
                let ParsedName::Object(it) = parse_name(ZoneForm::Forward, zone, lower) else {
                    return None;
                };
                let own = clients.get(question.client.ip())?.namespace;
                if it.branch != Branch::Services || own.as_bytes() != it.namespace {
                    return None;
                }
                let [branch, namespace] = [it.branch.label().len(), it.namespace.len()];
                let base_octets = lower.len() - (zone.as_wire().len() + branch + namespace + 2);
                (base_octets, Some((own, zone.clone())))
            }
        };
        (base_octets > 0).then_some(Path {
            base_octets,
            of_pod,
        })
    }

    /// The names of a path, up to the root.
    fn names(&self, path: &Path) -> Vec<Name> {
        let mut names = Vec::new();
        if let Some((namespace, zone)) = &path.of_pod {
            names.extend(Branch::Services.namespace(namespace, zone));
            names.extend(Branch::Services.name(zone));
            names.push(zone.clone());
        }
        names.extend_from_slice(&self.path);
        names.push(Name::root());
        names
    }

    /// Walks the path.
    async fn walk(&self, path: Path, request: &mut Request, next: Next) -> Outcome {
        let names = self.names(&path);
        let base = request.name.as_wire()[..path.base_octets].to_vec();
        let mut first = None;
        for (place, name) in names.iter().enumerate() {
            let wire = [&base[..], name.as_wire()].concat();
            let Ok(name) = Name::from_wire(&wire) else {
                continue;
            };
            let lower = name.to_lower();
            let mut asking = request.asking(name, request.qtype);
            // If no name exists, the first is asked again: it is a name of our zones.
            if next.is_missing(&asking.question(&lower)) {
                continue;
            }
            let outcome = next.clone().run(&mut asking).await;
            match outcome {
                Outcome::Reply(reply) if reply.rcode != Rcode::NXDOMAIN => {
                    request.metadata = asking.metadata;
                    self.successes.increase(&[]);
                    return Outcome::Reply(behind_alias(reply, &request.name));
                }
                Outcome::Failed(ref failure)
                    if failure.error.is_some() && !failure.is_end_of_chain() =>
                {
                    return outcome;
                }
                Outcome::Dropped => return Outcome::Dropped,
                Outcome::Reply(_) | Outcome::Failed(_) if place == 0 => first = Some(outcome),
                Outcome::Reply(_) | Outcome::Failed(_) => {}
            }
        }
        match first {
            Some(first) => first,
            None => next.run(request).await,
        }
    }
}

/// A reply to a question for another name. Records of other names are put behind an alias.
fn behind_alias(mut reply: Reply, asked: &Name) -> Reply {
    if let Some(other) = reply.answers.first().filter(|it| it.owner != *asked) {
        let alias = Record {
            owner: asked.clone(),
            rtype: Rtype::CNAME,
            ttl: other.ttl,
            rdata: Rdata::name(&other.owner),
        };
        reply.answers.insert(0, alias);
    }
    reply
}

impl Handler for AutopathHandler {
    fn name(&self) -> &'static str {
        "autopath"
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        self.path(question).is_none()
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        let lower = request.name.to_lower();
        match self.path(&request.question(&lower)) {
            None => next.run(request),
            Some(path) => self.walk(path, request, next).boxed(),
        }
    }
}

#[cfg(test)]
mod tests;

//! The rights that a Corefile needs at API servers, and what of `deploy/` gives them, for `check --explain`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use directives::config::{Config, HistoryApi, NoteTarget, Source, server_of};
use kubernetes::facts::Kinds;
use provenance::Kind;

use crate::plan::clusters::source_name;
use crate::plan::model::Plan;
use crate::plan::notes::plan_notes;

/// Rights with the same verbs and the same giver.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rights {
    verbs: &'static str,
    resources: String,
    /// The folder of `deploy/`.
    giver: &'static str,
}

/// The text for all API servers. Empty if there is none.
pub(crate) fn rights(config: &Config) -> String {
    let mut servers: BTreeMap<String, BTreeSet<Rights>> = BTreeMap::new();
    let mut add = |source: &Source, rights: Vec<Rights>| {
        if let Source::Manifests { dir: _ } = source {
            return;
        }
        servers
            .entry(source_name(source))
            .or_default()
            .extend(rights);
    };
    for cluster in &Plan::new(config, &|_| Vec::new()).clusters {
        add(&cluster.source, of_kinds(cluster.wanted.kinds));
    }
    for notes in plan_notes(config) {
        for place in &notes.places {
            if let (Some(server), NoteTarget::ConfigMap { namespace, name }) =
                (&place.server, &place.target)
            {
                add(server, vec![of_note(namespace, name)]);
            }
        }
    }
    for block in &config.servers {
        let api = block.get::<HistoryApi>().filter(|it| it.tokens.is_some());
        if let Some(server) = api.and_then(|_| server_of(block, &config.servers)) {
            add(server, vec![of_reviews()]);
        }
    }
    let mut text = String::new();
    for (server, all) in servers {
        writeln!(text, "rights at the API server ({server}):").expect("a String takes all");
        for Rights {
            verbs,
            resources,
            giver,
        } in all
        {
            writeln!(text, "  {verbs:<15}{resources} (deploy/{giver})")
                .expect("a String takes all");
        }
    }
    text
}

/// The rights to read kinds of objects.
fn of_kinds(kinds: Kinds) -> Vec<Rights> {
    let base = match kinds.contains(Kind::EndpointSlice) {
        true => "base",
        false => "components/noendpoints",
    };
    let mut givers: BTreeMap<&'static str, Vec<&'static str>> = BTreeMap::new();
    for kind in kinds.iter() {
        let (resource, giver) = match kind {
            Kind::Namespace => ("namespaces", base),
            Kind::Service => ("services", base),
            Kind::EndpointSlice => ("endpointslices.discovery.k8s.io", base),
            Kind::Pod => ("pods", "components/pods-verified"),
            Kind::ServiceImport => (
                "serviceimports.multicluster.x-k8s.io",
                "components/multicluster",
            ),
        };
        givers.entry(giver).or_default().push(resource);
    }
    let givers = givers.into_iter();
    givers
        .map(|(giver, resources)| Rights {
            verbs: "list, watch",
            resources: resources.join(", "),
            giver,
        })
        .collect()
}

/// The rights to write a ConfigMap of notes.
fn of_note(namespace: &str, name: &str) -> Rights {
    Rights {
        verbs: "create, patch",
        resources: format!("configmaps {namespace}/{name}"),
        giver: "components/notes",
    }
}

/// The rights of `tokens` of `history_api`.
fn of_reviews() -> Rights {
    Rights {
        verbs: "create",
        resources: "tokenreviews.authentication.k8s.io, subjectaccessreviews.authorization.k8s.io"
            .to_owned(),
        giver: "components/history-api",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use directives::config::{Overrides, parse_text};

    fn of(block: &str) -> String {
        let text = format!("cluster.local clusterset.local {{\n kubernetes {{\n{block}\n }}\n}}\n");
        let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None);
        rights(
            &loaded
                .unwrap_or_else(|rejected| panic!("{rejected}"))
                .config,
        )
    }

    #[test]
    fn each_right_is_named_with_what_gives_it() {
        let base = "rights at the API server (in-cluster):\n  \
            list, watch    namespaces, services, endpointslices.discovery.k8s.io (deploy/base)\n";
        assert_eq!(of(""), base);
        let pods = "  list, watch    pods (deploy/components/pods-verified)\n";
        assert_eq!(of("pods verified"), format!("{base}{pods}"));
        let fewer = "rights at the API server (in-cluster):\n  \
            list, watch    namespaces, services (deploy/components/noendpoints)\n";
        assert_eq!(of("noendpoints"), fewer);
        let imports = "  list, watch    serviceimports.multicluster.x-k8s.io (deploy/components/multicluster)\n";
        assert_eq!(
            of("multicluster clusterset.local"),
            format!("{base}{imports}")
        );
        assert_eq!(of("manifests m"), "");
    }
}

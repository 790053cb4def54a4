//! `pods insecure`: names of pods without a lookup of the pod.
//!
//! `1-2-3-4.namespace.pod.zone` has the address 1.2.3.4 in every watched namespace, and so on for every IPv4 and IPv6
//! address. There are too many such names for a zone. So they are answered here, from the name alone, if the served
//! version does not have the name. Secondaries do not have them.

use std::net::IpAddr;
use std::sync::Arc;

use dns::{SortKey, Ttl};
use kubernetes::facts::SeenNamespaces;
use kubernetes::schema::{Below, Branch, ObjectName, ParsedName, pod_address};
use zone::Contents;

/// Answers for the names of pods in a zone.
#[derive(Debug)]
pub(super) struct InsecurePods {
    /// The watched namespaces.
    pub(super) seen: Arc<SeenNamespaces>,
    /// TTL of the addresses.
    pub(super) ttl: Ttl,
}

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodAnswer {
    /// It is a pod's, with this address.
    Address(IpAddr),
    /// Names of pods are below it.
    Empty,
    /// It does not exist.
    Missing,
    /// Its namespace may exist: the namespaces are not known yet.
    Unknown,
}

impl InsecurePods {
    /// The meaning of a name that `contents` lack.
    pub(super) fn answer(&self, contents: &Contents, name: &ParsedName<'_>) -> PodAnswer {
        match *name {
            ParsedName::Branch(Branch::Pods) => self.any_namespace(),
            ParsedName::Namespace {
                branch: Branch::Pods,
                namespace,
            } => self.in_namespace(contents, namespace, PodAnswer::Empty),
            ParsedName::Object(ObjectName {
                branch: Branch::Pods,
                namespace,
                name,
                below: Below::Nothing,
            }) => match pod_address(name) {
                Some(address) => {
                    self.in_namespace(contents, namespace, PodAnswer::Address(address))
                }
                None => PodAnswer::Missing,
            },
            ParsedName::Apex
            | ParsedName::OfZone
            | ParsedName::Branch(_)
            | ParsedName::Namespace { .. }
            | ParsedName::Object(_)
            | ParsedName::Address(_)
            | ParsedName::Other => PodAnswer::Missing,
        }
    }

    /// The meaning of `pod.zone`.
    fn any_namespace(&self) -> PodAnswer {
        match self.seen.has_any() {
            Some(true) => PodAnswer::Empty,
            Some(false) => PodAnswer::Missing,
            None => PodAnswer::Unknown,
        }
    }

    /// Returns `answer` if the namespace is watched. Until that is known, as after a start without the API
    /// server, a namespace with names in the zone counts as watched.
    fn in_namespace(&self, contents: &Contents, namespace: &[u8], answer: PodAnswer) -> PodAnswer {
        let Ok(text) = std::str::from_utf8(namespace) else {
            return PodAnswer::Missing;
        };
        match self.seen.contains(text) {
            Some(true) => answer,
            Some(false) => PodAnswer::Missing,
            None if has_services(contents, text) => answer,
            None => PodAnswer::Unknown,
        }
    }
}

/// Whether a zone has names of Services of a namespace. Only used while the namespaces are unknown.
fn has_services(contents: &Contents, namespace: &str) -> bool {
    let apex = contents.apex();
    let name = Branch::Services.namespace(namespace, apex);
    let mut key = Vec::new();
    name.is_ok_and(|name| {
        SortKey::write(name.as_wire(), apex.as_wire(), &mut key) && contents.exists(&key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::Name;
    use kubernetes::schema::{ZoneForm, parse_name};

    /// The meaning of a name in `cluster.local`. The namespaces `a` and `b` are watched, or none is known.
    fn answer(name: &str, is_known: bool) -> PodAnswer {
        let apex = Name::parse("cluster.local").unwrap();
        let pods = InsecurePods {
            seen: Arc::default(),
            ttl: Ttl::ZERO,
        };
        if is_known {
            pods.seen.publish_all(["a".into(), "b".into()].into_iter());
        }
        let name = Name::parse(name).unwrap();
        let parsed = parse_name(ZoneForm::Forward, &apex, name.as_wire());
        pods.answer(
            &Contents::empty(&apex, dns::testing::soa(&apex, 0)),
            &parsed,
        )
    }

    #[test]
    fn s55_names_of_pods_need_a_namespace_that_is_seen() {
        let one = PodAnswer::Address("10.0.0.1".parse().unwrap());
        for (name, known, unknown) in [
            ("10-0-0-1.a.pod.cluster.local", one, PodAnswer::Unknown),
            ("10-0-0-1.b.pod.cluster.local", one, PodAnswer::Unknown),
            (
                "10-0-0-1.c.pod.cluster.local",
                PodAnswer::Missing,
                PodAnswer::Unknown,
            ),
            (
                "blah.a.pod.cluster.local",
                PodAnswer::Missing,
                PodAnswer::Missing,
            ),
            ("a.pod.cluster.local", PodAnswer::Empty, PodAnswer::Unknown),
            (
                "c.pod.cluster.local",
                PodAnswer::Missing,
                PodAnswer::Unknown,
            ),
            ("pod.cluster.local", PodAnswer::Empty, PodAnswer::Unknown),
            (
                "x.10-0-0-1.a.pod.cluster.local",
                PodAnswer::Missing,
                PodAnswer::Missing,
            ),
            (
                "10-0-0-1.a.svc.cluster.local",
                PodAnswer::Missing,
                PodAnswer::Missing,
            ),
            ("foo.cluster.local", PodAnswer::Missing, PodAnswer::Missing),
        ] {
            assert_eq!(answer(name, true), known, "{name}");
            assert_eq!(answer(name, false), unknown, "{name}");
        }
    }
}

//! `pods insecure`: names of pods that need no pod.
//!
//! `1-2-3-4.namespace.pod.zone` stands for 1.2.3.4 in every namespace that is seen, and so does every
//! IPv4 and IPv6 address. There are too many such names for a zone, so they are answered here, from the
//! name alone, when the version that is served does not hold the name. No secondary has them.

use std::net::IpAddr;
use std::sync::Arc;

use dns::{SortKey, Ttl};
use kubernetes::facts::SeenNamespaces;
use kubernetes::schema::{Below, Branch, ObjectName, ParsedName, pod_address};
use zone::Contents;

/// What answers for the pods of a zone.
#[derive(Debug)]
pub(super) struct InsecurePods {
    /// The namespaces that are seen.
    pub(super) seen: Arc<SeenNamespaces>,
    /// TTL of the addresses.
    pub(super) ttl: Ttl,
}

/// What a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodAnswer {
    /// It is a pod's, with this address.
    Address(IpAddr),
    /// Names of pods are below it.
    Empty,
    /// There is no such name.
    Missing,
    /// Whether its namespace exists is not known yet.
    Unknown,
}

impl InsecurePods {
    /// What a name says that `contents` do not hold.
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

    /// What `pod.zone` says.
    fn any_namespace(&self) -> PodAnswer {
        match self.seen.has_any() {
            Some(true) => PodAnswer::Empty,
            Some(false) => PodAnswer::Missing,
            None => PodAnswer::Unknown,
        }
    }

    /// `answer`, if the namespace is seen. While that is not known, as after a start without the API
    /// server, one that has names in the zone is.
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

/// Whether a zone holds names of Services of a namespace. Only asked while the namespaces are unknown.
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
    use dns::{Name, Soa};
    use kubernetes::schema::{ZoneForm, parse_name};

    /// What a name of `cluster.local` says, with the namespaces `a` and `b` seen, or unknown.
    fn answer(name: &str, is_known: bool) -> PodAnswer {
        let apex = Name::parse("cluster.local").unwrap();
        let soa = Soa {
            mname: apex.clone(),
            rname: apex.clone(),
            refresh: Ttl::ZERO,
            retry: Ttl::ZERO,
            expire: Ttl::ZERO,
            minimum: Ttl::ZERO,
            ttl: Ttl::ZERO,
        };
        let pods = InsecurePods {
            seen: Arc::default(),
            ttl: Ttl::ZERO,
        };
        if is_known {
            pods.seen.publish_all(["a".into(), "b".into()].into_iter());
        }
        let name = Name::parse(name).unwrap();
        let parsed = parse_name(ZoneForm::Forward, &apex, name.as_wire());
        pods.answer(&Contents::empty(&apex, soa), &parsed)
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

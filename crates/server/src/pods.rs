//! `pods insecure`: names of pods that need no pod.
//!
//! `1-2-3-4.namespace.pod.zone` stands for 1.2.3.4 in every namespace that is seen, and so does every
//! IPv4 and IPv6 address. There are too many such names for a zone, so they are answered here, from the
//! name alone, when the version that is served does not hold the name. No secondary has them.
//!
//! Spellings: three dashes, none beside another, are dots; else dashes are colons. What the text then
//! says as an address counts; IPv6 need not be canonical, and an IPv4 address written as IPv6 is IPv4.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use dns::{SortKey, Ttl};
use kubernetes::facts::SeenNamespaces;
use zone::Contents;

/// What answers for the pods of a zone.
#[derive(Debug, Clone)]
pub struct InsecurePods {
    /// The namespaces that are seen.
    pub seen: Arc<SeenNamespaces>,
    /// TTL of the addresses.
    pub ttl: Ttl,
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
    /// What a name says that `contents` do not hold; `labels` are those before the zone's name, the last
    /// first, in lower case.
    pub(crate) fn answer(&self, contents: &Contents, labels: &[&[u8]]) -> PodAnswer {
        match labels {
            [b"pod"] => self.any_namespace(),
            [b"pod", namespace] => self.in_namespace(contents, namespace, PodAnswer::Empty),
            [b"pod", namespace, pod] => match address(pod) {
                Some(address) => {
                    self.in_namespace(contents, namespace, PodAnswer::Address(address))
                }
                None => PodAnswer::Missing,
            },
            _ => PodAnswer::Missing,
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
    let name = apex.child("svc").and_then(|svc| svc.child(namespace));
    let mut key = Vec::new();
    name.is_ok_and(|name| {
        SortKey::write(name.as_wire(), apex.as_wire(), &mut key) && contents.exists(&key)
    })
}

/// The address that the first label of a pod's name says.
pub fn address(label: &[u8]) -> Option<IpAddr> {
    /// The longest text of an IPv6 address.
    const LONGEST: usize = 39;
    let mut text = [0; LONGEST];
    let text = text.get_mut(..label.len())?;
    text.copy_from_slice(label);
    // A label may hold octets that are separators only after the change.
    if label.iter().any(|octet| matches!(octet, b'.' | b':')) {
        return None;
    }
    let dashes = label.iter().filter(|octet| **octet == b'-').count();
    let is_v4 = dashes == 3 && !label.windows(2).any(|pair| pair == b"--");
    let separator = if is_v4 { b'.' } else { b':' };
    for octet in text.iter_mut().filter(|octet| **octet == b'-') {
        *octet = separator;
    }
    let text = std::str::from_utf8(text).ok()?;
    if is_v4 {
        text.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
    } else {
        let address = text.parse::<Ipv6Addr>().ok()?;
        Some(IpAddr::V6(address).to_canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zonal::labels_before;
    use dns::{Name, Soa};

    /// The address that a label says, as text.
    fn said(label: &str) -> Option<String> {
        address(label.as_bytes()).map(|address| address.to_string())
    }

    #[test]
    fn s53_every_spelling_of_an_address_is_one() {
        for (label, want) in [
            ("10-0-0-1", "10.0.0.1"),
            ("255-255-255-255", "255.255.255.255"),
            ("fd00--5", "fd00::5"),
            ("fd00-0-0-0-0-0-0-5", "fd00::5"),
            ("fd00-0000-0-0-0-00-0-05", "fd00::5"),
            ("1-2--3", "1:2::3"),
            ("1--2-3", "1::2:3"),
            ("--", "::"),
            ("--1", "::1"),
            ("fd00--", "fd00::"),
            ("--ffff-a00-1", "10.0.0.1"),
            (
                "2001-db8-85a3-8d3-1319-8a2e-370-7348",
                "2001:db8:85a3:8d3:1319:8a2e:370:7348",
            ),
        ] {
            assert_eq!(said(label).as_deref(), Some(want), "{label}");
        }
    }

    #[test]
    fn s54_what_is_no_address_is_no_pod() {
        let long = "1-".repeat(31);
        for label in [
            "blah",
            "1-2-3-4-5",
            "1-2-3",
            "010-0-0-1",
            "256-0-0-1",
            "1-2-3-",
            "-1-2-3",
            "1.2.3.4",
            "fd00::5",
            "1-2-3-4-5-6-7-8-9",
            "1--2--3",
            "fd00--12345",
            "---",
            "",
            "10-0-0-1a",
            &long,
            "--ffff-1.2.3.4",
            "fd00--5%1",
        ] {
            assert_eq!(said(label), None, "{label}");
        }
    }

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
        let labels = labels_before(name.as_wire(), &apex);
        pods.answer(&Contents::empty(&apex, soa), &labels)
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

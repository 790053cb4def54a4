//! The namespaces to which an address belongs: PTRs lead to names of theirs alone.
//!
//! Whoever may write EndpointSlices can put any address into one. So an address belongs to the namespaces that have a
//! pod there. Where no pod is known at it (pods are not watched, or it is no pod's), it belongs to the namespace of the
//! oldest object that holds it.

use std::collections::BTreeSet;
use std::sync::Arc;

use provenance::{FactKey, ObjectKey};

use crate::schema::Problem;

/// An object that holds an address by an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The Service or ServiceImport.
    pub key: &'a ObjectKey,
    /// When it was created, seconds since 1970 UTC; 0 when unknown, which counts as the youngest.
    pub created_s: u64,
}

/// The namespaces to which an address belongs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners(BTreeSet<Arc<str>>);

impl Owners {
    /// The owners among those that claim an address. `is_pods` says whether any pod has it, `has_pod` whether one of a
    /// namespace has.
    #[must_use]
    pub fn of<'a>(
        claims: impl Iterator<Item = Claim<'a>>,
        is_pods: bool,
        has_pod: impl Fn(&Arc<str>) -> bool,
    ) -> Self {
        let namespace = |claim: Claim<'a>| Arc::clone(&claim.key.namespace);
        if is_pods {
            return Self(claims.map(namespace).filter(has_pod).collect());
        }
        let age = |claim: &Claim<'_>| match claim.created_s {
            0 => u64::MAX,
            known => known,
        };
        let oldest = claims.min_by(|a, b| (age(a), a.key).cmp(&(age(b), b.key)));
        Self(oldest.map(namespace).into_iter().collect())
    }

    /// Whether the address belongs to a namespace.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        self.0.contains(namespace)
    }

    /// The owner's name, or what else to say of it.
    #[must_use]
    pub fn name(&self) -> Option<&Arc<str>> {
        self.0.first()
    }
}

/// The problem of an object with an endpoint at an address that belongs to another namespace.
#[must_use]
pub fn foreign_address(
    object: &FactKey,
    address: std::net::IpAddr,
    owner: Option<&str>,
) -> Problem {
    let whose = match owner {
        Some(owner) => format!("belongs to the namespace {owner}"),
        None => "is that of a pod of another namespace".to_owned(),
    };
    Problem {
        object: object.clone(),
        message: format!("no PTR leads to its endpoint {address}: the address {whose}"),
    }
}

//! `zonal`: the endpoints of a headless Service by topology zone.
//!
//! `ZONE.pin._zone.service.namespace.svc.…` has what the Service's name has, of the endpoints in ZONE
//! alone; `ZONE.prefer._zone.…` of all endpoints where none is in ZONE. ZONE may be of several labels.
//! Any ZONE is a name, so no zone can hold them: they are answered here, when the version that is served
//! does not hold the name, from the facts it was made of. No secondary has them.

use std::sync::Arc;

use crate::cluster::{Endpoint, EndpointSlice, HeadlessServices, ObjectKey, Service};
use crate::dns::{Name, Ttl};
use crate::live::LiveAnswer;
use crate::zone::{Contents, Node};

/// What answers for topology zones.
#[derive(Debug, Clone)]
pub struct ZonalNames {
    /// The headless Services.
    pub services: Arc<HeadlessServices>,
    /// TTL of what is answered.
    pub ttl: Ttl,
    /// What stands at the name of a Service.
    pub render: RenderService,
}

/// Gives what stands at the name of a Service with these slices in a zone. Handed in, for what a Service
/// says is not decided here.
pub type RenderService = fn(&Service, &[EndpointSlice], &Name, Ttl) -> Option<Node>;

/// What is done about a zone without endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    /// Nothing is answered.
    Pin,
    /// All endpoints are answered.
    Prefer,
}

impl ZonalNames {
    /// What a name says that `contents` do not hold; `labels` are those before the zone's name, the last
    /// first, in lower case.
    pub(super) fn answer(&self, contents: &Contents, labels: &[&[u8]]) -> LiveAnswer {
        let [b"svc", namespace, service, b"_zone", rest @ ..] = labels else {
            return LiveAnswer::Missing;
        };
        let (Ok(namespace), Ok(service)) =
            (std::str::from_utf8(namespace), std::str::from_utf8(service))
        else {
            return LiveAnswer::Missing;
        };
        let directive = match rest.first().copied() {
            None => None,
            Some(b"pin") => Some(Directive::Pin),
            Some(b"prefer") => Some(Directive::Prefer),
            Some(_) => return LiveAnswer::Missing,
        };
        if !self.services.is_known() {
            return LiveAnswer::Unknown;
        }
        let Some(headless) = self.services.get(&ObjectKey::new(namespace, service)) else {
            return LiveAnswer::Missing;
        };
        let (Some(directive), [_, zone @ ..]) = (directive, rest) else {
            return LiveAnswer::Exists(None);
        };
        if zone.is_empty() {
            return LiveAnswer::Exists(None);
        }
        let zone: Vec<&[u8]> = zone.iter().rev().copied().collect();
        let zone = zone.join(&b'.');
        let is_near = |endpoint: &Endpoint| {
            endpoint
                .zone
                .as_deref()
                .is_some_and(|its| its.as_bytes() == zone)
        };
        let mut slices = filtered(&headless.slices, is_near);
        let is_empty = slices.iter().all(|slice| slice.endpoints.is_empty());
        if is_empty && directive == Directive::Prefer {
            slices.clone_from(&headless.slices);
        }
        let node = (self.render)(&headless.service, &slices, contents.apex(), self.ttl);
        LiveAnswer::Exists(node)
    }
}

/// Slices with those of their endpoints that `is_wanted`.
fn filtered(slices: &[EndpointSlice], is_wanted: impl Fn(&Endpoint) -> bool) -> Vec<EndpointSlice> {
    let wanted_of = |slice: &EndpointSlice| EndpointSlice {
        endpoints: slice
            .endpoints
            .iter()
            .filter(|endpoint| is_wanted(endpoint))
            .cloned()
            .collect(),
        ..slice.clone()
    };
    slices.iter().map(wanted_of).collect()
}

/// The labels of a wire name before those of the apex, the last first; the name lies in the zone.
pub(super) fn labels_before<'n>(name: &'n [u8], apex: &Name) -> Vec<&'n [u8]> {
    let end = name.len().saturating_sub(apex.as_wire().len());
    let mut rest = &name[..end];
    let mut labels = Vec::new();
    while let Some((length, after)) = rest.split_first() {
        let Some((label, after)) = after.split_at_checked(usize::from(*length)) else {
            break;
        };
        labels.push(label);
        rest = after;
    }
    labels.reverse();
    labels
}

#[cfg(test)]
mod tests;

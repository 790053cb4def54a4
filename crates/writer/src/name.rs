//! What stands at the name of one Service, for those who answer from facts.

use dns::{Name, Rtype, Ttl};
use kubernetes::facts::{EndpointSlice, Service};
use kubernetes::schema::{RecordLimits, render_service, service_name};
use zone::Node;

/// The addresses and SRV at the name of a Service with these slices, in a forward zone.
#[must_use]
pub fn service_node(
    service: &Service,
    slices: &[EndpointSlice],
    zone: &Name,
    ttl: Ttl,
) -> Option<Node> {
    let base = service_name(&service.key, zone).ok()?;
    let rendered = render_service(service, slices.iter(), zone, ttl, &RecordLimits::DEFAULT);
    let mut parts: Vec<_> = rendered
        .records
        .into_iter()
        .filter(|record| record.owner == base)
        .filter(|record| matches!(record.rtype, Rtype::A | Rtype::AAAA | Rtype::SRV))
        .map(|record| (record.rtype, record.ttl, record.rdata))
        .collect();
    Node::build(&base, zone, &mut parts)
}

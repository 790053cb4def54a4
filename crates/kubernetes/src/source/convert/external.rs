//! The addresses and host names of a Service outside its cluster: `externalIPs` and load balancers.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::Reader;
use super::field::{address, filled};
use crate::facts::External;
use crate::source::objects::{IngressObject, ServiceSpec, ServiceStatus};

impl Reader<'_> {
    /// The external addresses and host names of a Service, whatever its `type`; `None` when there are none. An
    /// ingress with an address and a host name counts as its address.
    pub(super) fn external(
        &mut self,
        spec: Option<&ServiceSpec>,
        status: Option<ServiceStatus>,
    ) -> Option<Arc<External>> {
        let mut addresses: BTreeSet<IpAddr> = BTreeSet::new();
        let mut external_ips: BTreeSet<IpAddr> = BTreeSet::new();
        let mut hosts: BTreeSet<Arc<str>> = BTreeSet::new();
        let written = spec.and_then(|spec| spec.external_ips.as_ref());
        for text in written
            .into_iter()
            .flatten()
            .filter(|text| !text.is_empty())
        {
            self.outer_address("externalIP", text, &mut external_ips);
        }
        let ingress = status
            .and_then(|status| status.load_balancer)
            .and_then(|balancer| balancer.ingress);
        for IngressObject { ip, hostname } in ingress.unwrap_or_default() {
            match (filled(ip), filled(hostname)) {
                (Some(ip), _) => self.outer_address("load balancer address", &ip, &mut addresses),
                (None, Some(host)) if host.parse::<IpAddr>().is_ok() => {
                    self.outer_address("load balancer address", &host, &mut addresses);
                }
                (None, Some(host)) => {
                    hosts.insert(host.into());
                }
                (None, None) => {}
            }
        }
        if addresses.is_empty() && external_ips.is_empty() && hosts.is_empty() {
            return None;
        }
        Some(Arc::new(External {
            external_ips: external_ips.difference(&addresses).copied().collect(),
            addresses: addresses.into_iter().collect(),
            hosts: hosts.into_iter().collect(),
        }))
    }

    /// Adds an address, or reports why it is invalid.
    fn outer_address(&mut self, what: &str, text: &str, addresses: &mut BTreeSet<IpAddr>) {
        match address(text) {
            Ok(address) => {
                addresses.insert(address);
            }
            Err(why) => self.complain(format!("{what} {text:?} left out: {why}")),
        }
    }
}

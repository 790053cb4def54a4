//! The names of endpoints (DNS-Based Service Discovery for Kubernetes 1.1.0, section 2.4).

use std::net::IpAddr;

use crate::cluster::Endpoint;

/// The label of an endpoint's own name for one of its addresses: its hostname, else the address with
/// dashes. An IPv6 form that would end in a dash gets a 0, as CoreDNS does.
#[must_use]
pub fn endpoint_label(endpoint: &Endpoint, address: IpAddr) -> String {
    match &endpoint.hostname {
        Some(hostname) => hostname.to_ascii_lowercase(),
        None => dashed(address),
    }
}

/// The label of an endpoint of an FQDN slice: its hostname, else the host's name with dashes.
pub(super) fn fqdn_label(endpoint: &Endpoint, fqdn: &str) -> String {
    match &endpoint.hostname {
        Some(hostname) => hostname.to_ascii_lowercase(),
        None => fqdn
            .trim_end_matches('.')
            .replace('.', "-")
            .to_ascii_lowercase(),
    }
}

/// An address with dashes for its dots or colons.
fn dashed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string().replace('.', "-"),
        IpAddr::V6(v6) => {
            let mut label = v6.to_string().replace(':', "-");
            if label.ends_with('-') {
                label.push('0');
            }
            label
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_labels_as_coredns_writes_them() {
        for (address, label) in [
            ("172.0.0.20", "172-0-0-20"),
            ("5678:abcd::1", "5678-abcd--1"),
            ("5678:abcd:1:2:3:4:5:6666", "5678-abcd-1-2-3-4-5-6666"),
            ("5678:abcd:6666::", "5678-abcd-6666--0"),
            ("::1", "--1"),
        ] {
            assert_eq!(dashed(address.parse().unwrap()), label);
        }
    }
}

//! The names of endpoints (DNS-Based Service Discovery for Kubernetes 1.1.0, section 2.4).

use std::net::IpAddr;

use crate::facts::Endpoint;

/// The label of an endpoint's own name for one of its addresses: its hostname, otherwise its pod's name if it is
/// kept, otherwise the address with dashes.
#[must_use]
pub fn endpoint_label(endpoint: &Endpoint, address: IpAddr) -> String {
    match own_name(endpoint) {
        Some(name) => name,
        None => dashed(address),
    }
}

/// The name of an endpoint that does not depend on its address.
fn own_name(endpoint: &Endpoint) -> Option<String> {
    let name = endpoint.hostname().or(endpoint.pod())?;
    Some(name.to_ascii_lowercase())
}

/// The label of an endpoint of an FQDN slice: its hostname or its pod's name, otherwise the host's name with dashes.
pub(super) fn fqdn_label(endpoint: &Endpoint, fqdn: &str) -> String {
    match own_name(endpoint) {
        Some(name) => name,
        None => fqdn
            .trim_end_matches('.')
            .replace('.', "-")
            .to_ascii_lowercase(),
    }
}

/// An address with dashes for its dots or colons. If it would end in a dash, a 0 is added: such a label is not a host
/// name (RFC 952), and some servers refuse it.
pub(super) fn dashed(address: IpAddr) -> String {
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
    use crate::facts::EndpointNames;

    #[test]
    fn s30_hostname_goes_before_pod_name_before_address() {
        let label = |hostname: Option<&str>, pod: Option<&str>| {
            let address: IpAddr = "10.0.0.1".parse().unwrap();
            let names = EndpointNames {
                hostname: hostname.map(Into::into),
                pod: pod.map(Into::into),
                ..EndpointNames::default()
            };
            endpoint_label(&Endpoint::new([address], names), address)
        };
        assert_eq!(label(Some("Host"), Some("pod-7")), "host");
        assert_eq!(label(None, Some("pod-7")), "pod-7");
        assert_eq!(label(None, None), "10-0-0-1");
    }

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

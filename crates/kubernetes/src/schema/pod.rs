//! The names of pods, `1-2-3-4.namespace.pod.zone`. The specification no longer has them, but clusters do. They have
//! only an address record.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dns::{Name, ParseError, Rdata, Record, Ttl};

use crate::schema::Branch;
use crate::schema::endpoint::dashed;

/// The name of a pod: its address with dashes for its dots or colons. If the label would end in a dash, a 0 is added
/// as for endpoints; CoreDNS uses the label that ends in a dash.
///
/// # Errors
/// [`ParseError`] when the name would be too long.
pub fn pod_name(namespace: &str, address: IpAddr, zone: &Name) -> Result<Name, ParseError> {
    Branch::Pods
        .namespace(namespace, zone)?
        .child(&dashed(address))
}

/// The record at the name of a pod, unless the name is too long.
#[must_use]
pub fn pod_record(namespace: &str, address: IpAddr, zone: &Name, ttl: Ttl) -> Option<Record> {
    let owner = pod_name(namespace, address, zone).ok()?;
    let (rtype, rdata) = Rdata::address(address);
    Some(Record {
        owner,
        rtype,
        ttl,
        rdata,
    })
}

/// Parses an address from the first label of a pod's name. Three dashes that are not adjacent are dots; otherwise
/// dashes are colons. IPv6 need not be canonical, and an IPv4 address mapped into IPv6 is IPv4.
#[must_use]
pub fn pod_address(label: &[u8]) -> Option<IpAddr> {
    /// The longest text of an IPv6 address.
    const LONGEST: usize = 39;
    let mut text = [0; LONGEST];
    let text = text.get_mut(..label.len())?;
    text.copy_from_slice(label);
    // The label may contain bytes that are separators without being dashes.
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

    #[test]
    fn pods_are_called_after_their_addresses() {
        let zone = Name::parse("cluster.local").unwrap();
        for (address, want) in [
            ("10.244.0.7", "10-244-0-7.n.pod.cluster.local."),
            ("fd00::5", "fd00--5.n.pod.cluster.local."),
            ("fd00:1::", "fd00-1--0.n.pod.cluster.local."),
        ] {
            let name = pod_name("N", address.parse().unwrap(), &zone).unwrap();
            assert_eq!(name.to_string(), want);
        }
    }

    /// The address that a label says, as text.
    fn said(label: &str) -> Option<String> {
        pod_address(label.as_bytes()).map(|address| address.to_string())
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
}

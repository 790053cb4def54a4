//! The names of pods, `1-2-3-4.namespace.pod.zone`: no part of the specification any more, but what
//! clusters have had since the beginning. Only an address record stands there.

use std::net::IpAddr;

use dns::{Name, ParseError, Rdata, Record, Ttl};

use crate::schema::endpoint::dashed;

/// The name of a pod by its address: the address with dashes for its dots or colons. CoreDNS knows a pod
/// whose address ends in a colon by the label that ends in a dash; ours gets the 0 that endpoints get.
///
/// # Errors
/// [`ParseError`] when the name would be too long.
pub fn pod_name(namespace: &str, address: IpAddr, zone: &Name) -> Result<Name, ParseError> {
    zone.child("pod")?
        .child(&namespace.to_ascii_lowercase())?
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
}

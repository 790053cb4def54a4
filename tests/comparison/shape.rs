//! What a name means by its form alone.

use super::options::is_reverse;
use crate::support::contents::is_below;

/// The form of a name in one of the zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Apex,
    /// `svc` or `pod`, or a namespace below one of them.
    Level,
    Service,
    Endpoint,
    /// `_port._proto.service.namespace.svc`
    Port,
    /// The same without both underscores, or without a port.
    PortLike,
    /// One label below a namespace of `pod`.
    Pod,
    /// More labels before such a name.
    PodLike,
    /// The whole reverse of an address.
    Pointer,
    /// More labels before such a name.
    PointerLike,
    /// `dns-version`
    Version,
    /// `dns` or `ns.dns`
    NameServer,
    /// `zone.pin._zone.service.namespace.svc`
    Zonal,
    Other,
}

/// The zone that holds a name: the longest.
pub fn zone_of<'a>(name: &str, zones: &'a [String]) -> Option<&'a str> {
    zones
        .iter()
        .filter(|zone| is_below(name, zone))
        .max_by_key(|zone| zone.len())
        .map(String::as_str)
}

/// The form of a name, in lower case, in its zone.
pub fn shape(name: &str, zone: &str) -> Shape {
    let Some(rest) = name
        .strip_suffix(zone)
        .and_then(|rest| rest.strip_suffix('.'))
    else {
        return Shape::Apex;
    };
    if is_reverse(zone) {
        return pointer(name);
    }
    let labels: Vec<&str> = rest.split('.').rev().collect();
    match labels[..] {
        ["svc" | "pod"] | ["svc" | "pod", _] => Shape::Level,
        ["svc", _, _] => Shape::Service,
        ["svc", _, _, _] => Shape::Endpoint,
        ["svc", _, _, protocol, port] => {
            let marked = |label: &str| label.len() > 1 && label.starts_with('_');
            if marked(protocol) && marked(port) {
                Shape::Port
            } else {
                Shape::PortLike
            }
        }
        ["svc", _, _, "_zone", "pin" | "prefer", _, ..] => Shape::Zonal,
        ["pod", _, _] => Shape::Pod,
        ["pod", ..] => Shape::PodLike,
        ["dns-version"] => Shape::Version,
        ["dns"] | ["dns", "ns"] => Shape::NameServer,
        _ => Shape::Other,
    }
}

/// The form of a name in a zone of `k8s_external`: there is no `svc`, and `names` stands for `dns` where the
/// options say so.
pub fn external_shape(name: &str, zone: &str, apex: &str) -> Shape {
    if is_reverse(zone) {
        return shape(name, zone);
    }
    let Some(rest) = name
        .strip_suffix(zone)
        .and_then(|rest| rest.strip_suffix('.'))
    else {
        return Shape::Apex;
    };
    let labels: Vec<&str> = rest.split('.').rev().collect();
    if labels[0] == apex {
        return match labels[1..] {
            [] | ["ns1"] => Shape::NameServer,
            _ => Shape::Other,
        };
    }
    shape(&format!("{rest}.svc.{zone}"), zone)
}

/// The form of a name in the zone of a set of clusters: an endpoint is below its cluster.
pub fn clusterset_shape(name: &str, zone: &str) -> Shape {
    let plain = shape(name, zone);
    let marked = name.split('.').take(2).any(|label| label.starts_with('_'));
    match plain {
        Shape::PortLike if !marked => Shape::Endpoint,
        Shape::Apex
        | Shape::Level
        | Shape::Service
        | Shape::Endpoint
        | Shape::Port
        | Shape::PortLike
        | Shape::Pod
        | Shape::PodLike
        | Shape::Pointer
        | Shape::PointerLike
        | Shape::Version
        | Shape::NameServer
        | Shape::Zonal
        | Shape::Other => plain,
    }
}

/// The form of a name in a reverse zone.
fn pointer(name: &str) -> Shape {
    let (rest, whole, is_part): (&str, usize, fn(&str) -> bool) =
        if let Some(rest) = name.strip_suffix(".in-addr.arpa.") {
            (rest, 4, |label| {
                label
                    .parse::<u8>()
                    .is_ok_and(|octet| octet.to_string() == label)
            })
        } else if let Some(rest) = name.strip_suffix(".ip6.arpa.") {
            (rest, 32, |label| {
                label.len() == 1 && u8::from_str_radix(label, 16).is_ok()
            })
        } else {
            return Shape::Apex;
        };
    let labels: Vec<&str> = rest.split('.').rev().collect();
    let address = labels.len() >= whole && labels[..whole].iter().all(|label| is_part(label));
    match (address, labels.len() == whole) {
        (true, true) => Shape::Pointer,
        (true, false) => Shape::PointerLike,
        (false, _) => Shape::Other,
    }
}

#[test]
fn names_have_their_shapes() {
    let zone = "cluster.local.";
    for (name, wanted) in [
        ("cluster.local.", Shape::Apex),
        ("a.svc.cluster.local.", Shape::Level),
        ("_._tcp.s.n.svc.cluster.local.", Shape::PortLike),
        ("_http._tcp.s.n.svc.cluster.local.", Shape::Port),
        ("x.1-2-3-4.n.pod.cluster.local.", Shape::PodLike),
    ] {
        assert_eq!(shape(name, zone), wanted, "{name}");
    }
    let zone = "10.in-addr.arpa.";
    assert_eq!(shape("1.2.3.10.in-addr.arpa.", zone), Shape::Pointer);
    assert_eq!(shape("01.2.3.10.in-addr.arpa.", zone), Shape::Other);
    assert_eq!(shape("0.1.2.3.10.in-addr.arpa.", zone), Shape::PointerLike);
}

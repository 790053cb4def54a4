//! Names by topology zone, as CoreDNS answers them.

use std::net::IpAddr;

use super::*;
use crate::cluster::{HeadlessService, Origin, Service, ServiceForm, SliceForm, SlicePort};
use crate::dns::{Rtype, Soa};

/// An endpoint in a zone.
fn endpoint(last: u8, zone: Option<&str>) -> Endpoint {
    Endpoint {
        addresses: [IpAddr::from([10, 0, 0, last])].into(),
        hostname: None,
        fqdn: None,
        pod: None,
        zone: zone.map(Into::into),
    }
}

/// A headless Service of the namespace `n` with these endpoints.
fn headless(name: &str, endpoints: Vec<Endpoint>) -> HeadlessService {
    let key = |name: &str| ObjectKey::new("n", name);
    HeadlessService {
        service: Service {
            key: key(name),
            form: ServiceForm::Headless,
            ports: [].into(),
            external: None,
            origin: Origin::default(),
        },
        slices: vec![EndpointSlice {
            key: key("slice"),
            service: Some(name.into()),
            import: None,
            form: SliceForm::Ipv4,
            ports: [SlicePort {
                name: "http".into(),
                protocol: crate::cluster::Protocol::Tcp,
                number: Some(80),
            }]
            .into(),
            endpoints: endpoints.into(),
            origin: Origin::default(),
        }],
    }
}

/// How many A and SRV records a name of `z.` has; -1 for a missing name, -2 for one that is not known.
fn counts(names: &ZonalNames, name: &str) -> (isize, isize) {
    let apex = Name::parse("z").unwrap();
    let soa = Soa {
        mname: apex.clone(),
        rname: apex.clone(),
        refresh: Ttl::ZERO,
        retry: Ttl::ZERO,
        expire: Ttl::ZERO,
        minimum: Ttl::ZERO,
        ttl: Ttl::ZERO,
    };
    let name = Name::parse(name).unwrap();
    let labels = labels_before(name.as_wire(), &apex);
    match names.answer(&Contents::empty(&apex, soa), &labels) {
        LiveAnswer::Exists(node) => {
            let count = |rtype| {
                let rrset = node.as_ref().and_then(|node| node.rrset(rtype));
                rrset.map_or(0, |rrset| isize::try_from(rrset.data().count()).unwrap())
            };
            (count(Rtype::A), count(Rtype::SRV))
        }
        LiveAnswer::Missing => (-1, -1),
        LiveAnswer::Unknown => (-2, -2),
    }
}

/// A Service with endpoints in `a` (two), `b.c` (one) and in none (one), and one without endpoints.
fn names() -> ZonalNames {
    let services = HeadlessServices::default();
    let endpoints = vec![
        endpoint(1, Some("a")),
        endpoint(2, Some("a")),
        endpoint(3, Some("b.c")),
        endpoint(4, None),
    ];
    let all = [("s", endpoints), ("empty", Vec::new())];
    let fact = |(name, endpoints)| (ObjectKey::new("n", name), Some(headless(name, endpoints)));
    services.publish(all.into_iter().map(fact));
    ZonalNames {
        services: Arc::new(services),
        ttl: Ttl::ZERO,
        render: crate::pipeline::service_node,
    }
}

#[test]
fn s69_s70_s71_pin_filters_and_prefer_falls_back() {
    let names = names();
    for (name, want) in [
        ("a.pin._zone.s.n.svc.z", (2, 2)),
        ("b.c.pin._zone.s.n.svc.z", (1, 1)),
        ("c.pin._zone.s.n.svc.z", (0, 0)),
        ("a.prefer._zone.s.n.svc.z", (2, 2)),
        ("d.prefer._zone.s.n.svc.z", (4, 4)),
        ("a.pin._zone.empty.n.svc.z", (0, 0)),
        ("a.prefer._zone.empty.n.svc.z", (0, 0)),
    ] {
        assert_eq!(counts(&names, name), want, "{name}");
    }
}

#[test]
fn s72_what_is_no_zonal_name_is_missing_and_what_is_passed_through_is_empty() {
    let names = names();
    for (name, want) in [
        ("a.pin._zone.unknown.n.svc.z", -1),
        ("a.other._zone.s.n.svc.z", -1),
        ("a.pin.zone.s.n.svc.z", -1),
        ("a.pin._zone.s.n.pod.z", -1),
        ("s.n.svc.z", -1),
        ("x.s.n.svc.z", -1),
        ("pin._zone.s.n.svc.z", 0),
        ("_zone.s.n.svc.z", 0),
        ("_zone.unknown.n.svc.z", -1),
    ] {
        assert_eq!(counts(&names, name), (want, want), "{name}");
    }
}

#[test]
fn before_anything_is_listed_nothing_is_said() {
    let names = ZonalNames {
        services: Arc::default(),
        ttl: Ttl::ZERO,
        render: crate::pipeline::service_node,
    };
    assert_eq!(counts(&names, "a.pin._zone.s.n.svc.z"), (-2, -2));
    assert_eq!(counts(&names, "x.s.n.svc.z"), (-1, -1));
}

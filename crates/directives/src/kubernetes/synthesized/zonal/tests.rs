//! Tests of names by topology zone, with the answers of CoreDNS.

use std::net::IpAddr;

use dns::Rtype;
use kubernetes::facts::{Endpoint, EndpointNames, ServiceForm, SliceForm, SlicePort};
use kubernetes::schema::{ZoneForm, parse_name};
use provenance::Origin;
use zone::Edit;

use super::*;

/// An endpoint in a zone.
fn endpoint(last: u8, zone: Option<&str>) -> Endpoint {
    Endpoint::new(
        [IpAddr::from([10, 0, 0, last])],
        EndpointNames {
            zone: zone.map(Into::into),
            ..EndpointNames::default()
        },
    )
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
            created_s: 0,
            origin: Origin::default(),
        },
        slices: vec![EndpointSlice {
            key: key("slice"),
            service: Some(name.into()),
            import: None,
            form: SliceForm::Ipv4,
            ports: [SlicePort {
                name: "http".into(),
                protocol: kubernetes::facts::Protocol::Tcp,
                number: Some(80),
            }]
            .into(),
            endpoints: endpoints.into(),
            created_s: 0,
            origin: Origin::default(),
        }],
    }
}

/// The contents of `z.` with the records of all endpoints of these Services.
fn contents(services: &[HeadlessService]) -> Contents {
    let apex = Name::parse("z").unwrap();
    let mut edit = Edit::new(&Contents::empty(&apex, dns::testing::soa(&apex, 0)));
    for it in services {
        let node = writer::service_node(&it.service, &it.slices, &apex, Ttl::ZERO);
        node.into_iter().for_each(|node| edit.set(node, 0));
    }
    edit.into_contents()
}

/// The numbers of A and SRV records of a name of `z.`; -1 for a missing name, -2 for one that is not known.
fn counts(names: &ZonalNames, name: &str) -> (isize, isize) {
    let contents = contents(&services());
    let name = Name::parse(name).unwrap();
    let parsed = parse_name(ZoneForm::Forward, contents.apex(), name.as_wire());
    match names.answer(&contents, &parsed) {
        Synthesized::Exists { node, .. } => {
            let count = |rtype| {
                let rrset = node.as_ref().and_then(|node| node.rrset(rtype));
                rrset.map_or(0, |rrset| isize::try_from(rrset.data().count()).unwrap())
            };
            (count(Rtype::A), count(Rtype::SRV))
        }
        Synthesized::Missing => (-1, -1),
        Synthesized::Unknown => (-2, -2),
    }
}

/// A Service with endpoints in `a` (two), `b.c` (one) and in none (one), and one without endpoints.
fn services() -> [HeadlessService; 2] {
    let endpoints = vec![
        endpoint(1, Some("a")),
        endpoint(2, Some("a")),
        endpoint(3, Some("b.c")),
        endpoint(4, None),
    ];
    [headless("s", endpoints), headless("empty", Vec::new())]
}

fn names_of(services: HeadlessServices) -> ZonalNames {
    let render = writer::service_node;
    ZonalNames::new(Arc::new(services), Ttl::ZERO, render)
}

fn names() -> ZonalNames {
    let known = HeadlessServices::default();
    known.publish_all(services().into_iter());
    names_of(known)
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
    let names = names_of(HeadlessServices::default());
    assert_eq!(counts(&names, "a.pin._zone.s.n.svc.z"), (-2, -2));
    assert_eq!(counts(&names, "x.s.n.svc.z"), (-1, -1));
}

#[test]
fn of_services_that_may_be_there_nothing_is_said() {
    let known = HeadlessServices::default();
    known.publish_some(services().into_iter());
    let names = names_of(known);
    assert_eq!(counts(&names, "a.pin._zone.s.n.svc.z"), (2, 2));
    assert_eq!(counts(&names, "a.pin._zone.t.n.svc.z"), (-2, -2));
}

#[test]
fn a_service_is_rendered_once_however_often_its_names_are_asked_for() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    /// Counts the renderings.
    static RENDERED: AtomicUsize = AtomicUsize::new(0);
    let mut names = names();
    names.render = |service, slices, apex, ttl| {
        RENDERED.fetch_add(1, Ordering::Relaxed);
        writer::service_node(service, slices, apex, ttl)
    };
    for name in ["a.pin", "a.prefer", "b.c.pin", "x.pin", "y.prefer"] {
        counts(&names, &format!("{name}._zone.s.n.svc.z"));
    }
    // Once for each topology zone.
    assert_eq!(RENDERED.load(Ordering::Relaxed), 2);
    let changed = headless("s", vec![endpoint(9, Some("a"))]);
    let key = changed.service.key.clone();
    names.services.publish([(key, Some(changed))].into_iter());
    assert_eq!(counts(&names, "a.pin._zone.s.n.svc.z"), (1, 1));
    assert_eq!(RENDERED.load(Ordering::Relaxed), 3);
}

#[test]
fn what_was_rendered_of_services_that_are_gone_is_forgotten() {
    let names = names();
    for round in 0..50 {
        let name = format!("s{round}");
        let service = headless(&name, vec![endpoint(1, Some("a"))]);
        names.services.publish_all([service].into_iter());
        let name = format!("a.pin._zone.{name}.n.svc.z");
        assert_eq!(counts(&names, &name), (1, 1));
    }
    let rendered = names.rendered.lock().unwrap();
    assert!(rendered.services.len() <= 3, "{}", rendered.services.len());
}

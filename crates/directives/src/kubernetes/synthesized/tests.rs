//! Tests of names that no zone holds: pods and topology zones.

use dns::Rtype;
use dns::testing::{line, query, with_opt};
use server::testing::Setup;
use server::testing::desk::Desk;
use zone::testing::zone;

use super::*;
use crate::history::version_name::VersionName;

const TTL: Ttl = Ttl::decode(9);

/// These namespaces, or `None` while nothing is known.
fn seen<const N: usize>(namespaces: [&str; N], is_known: bool) -> Option<Arc<SeenNamespaces>> {
    let seen = Arc::<SeenNamespaces>::default();
    if is_known {
        seen.publish_all(namespaces.into_iter().map(Into::into));
    }
    Some(seen)
}

/// A desk for the zone `z.` with these lines and names.
fn desk(
    lines: &[&str],
    seen: Option<Arc<SeenNamespaces>>,
    headless: Option<HeadlessServices>,
) -> Desk {
    let mut setup = Setup::new(vec![zone("z.", 5, lines)]);
    let names = ClusterNames::new(seen, headless.map(Arc::new), TTL, writer::service_node);
    setup.synthesized.push(Arc::new(names.unwrap()));
    Desk::new(setup)
}

/// A desk for a zone with `pods insecure`. The namespace `a` is watched, if anything is known.
fn pods_desk(is_known: bool) -> Desk {
    let lines = ["s.a.svc A 10.0.0.1", "alias.a.svc CNAME fd00--7.a.pod.z."];
    desk(&lines, seen(["a"], is_known), None)
}

/// The answer as text: addresses, NODATA or NXDOMAIN with the zone's SOA, or SERVFAIL.
fn said_of_pod(desk: &mut Desk, qname: &str, qtype: Rtype) -> String {
    let message = desk.ask(&query(1, qname, qtype));
    assert_eq!(
        message.authorities.is_empty(),
        !message.answers.is_empty() || message.metadata.response_code.low() == 2
    );
    let answers = message.answers.iter().map(line).collect::<Vec<_>>();
    format!(
        "{} {}",
        message.metadata.response_code.low(),
        answers.join(", ")
    )
}

#[test]
fn s53_s54_s55_insecure_pods_are_answered_from_their_names() {
    let mut desk = pods_desk(true);
    for (qname, qtype, want) in [
        (
            "10-0-0-7.a.pod.z.",
            Rtype::A,
            "0 10-0-0-7.a.pod.z. 9 IN A 10.0.0.7",
        ),
        ("10-0-0-7.a.pod.z.", Rtype::AAAA, "0 "),
        ("10-0-0-7.a.pod.z.", Rtype::SRV, "0 "),
        (
            "10-0-0-7.a.pod.z.",
            Rtype::ANY,
            "0 10-0-0-7.a.pod.z. 9 IN A 10.0.0.7",
        ),
        (
            "FD00--7.A.pod.z.",
            Rtype::AAAA,
            "0 FD00--7.A.pod.z. 9 IN AAAA fd00::7",
        ),
        ("blah.a.pod.z.", Rtype::A, "3 "),
        ("10-0-0-7.b.pod.z.", Rtype::A, "3 "),
        ("x.10-0-0-7.a.pod.z.", Rtype::A, "3 "),
        ("a.pod.z.", Rtype::A, "0 "),
        ("pod.z.", Rtype::A, "0 "),
        ("b.pod.z.", Rtype::A, "3 "),
        ("nothing.z.", Rtype::A, "3 "),
    ] {
        assert_eq!(
            said_of_pod(&mut desk, qname, qtype),
            want,
            "{qname} {qtype}"
        );
    }
    let alias = said_of_pod(&mut desk, "alias.a.svc.z.", Rtype::AAAA);
    assert!(
        alias.starts_with("0 ") && alias.ends_with("fd00--7.a.pod.z. 9 IN AAAA fd00::7"),
        "{alias}"
    );
}

#[test]
fn while_namespaces_are_unknown_no_pod_is_denied() {
    let mut desk = pods_desk(false);
    for (qname, want) in [
        ("10-0-0-7.a.pod.z.", "0 10-0-0-7.a.pod.z. 9 IN A 10.0.0.7"),
        ("10-0-0-7.b.pod.z.", "2 "),
        ("b.pod.z.", "2 "),
        ("blah.b.pod.z.", "3 "),
        ("nothing.z.", "3 "),
    ] {
        assert_eq!(said_of_pod(&mut desk, qname, Rtype::A), want, "{qname}");
    }
    let unknown = with_opt(query(1, "10-0-0-7.b.pod.z.", Rtype::A), 1232, 0, &[]);
    assert_eq!(desk.code(&unknown), (2, Some(14)));
}

/// A headless Service with endpoints in the topology zones `eu` and `us`.
fn headless_services() -> HeadlessServices {
    use kubernetes::facts::{
        Endpoint, EndpointNames, EndpointSlice, HeadlessService, Protocol, Service, ServiceForm,
        SliceForm, SlicePort,
    };
    use provenance::{ObjectKey, Origin};
    let key = ObjectKey::new("n", "s");
    let endpoint = |last: u8, zone: &str| {
        Endpoint::new(
            [std::net::IpAddr::from([10, 0, 0, last])],
            EndpointNames {
                hostname: Some(format!("h{last}").into()),
                zone: Some(zone.into()),
                ..EndpointNames::default()
            },
        )
    };
    let slice = EndpointSlice {
        key: ObjectKey::new("n", "s-1"),
        service: Some("s".into()),
        import: None,
        form: SliceForm::Ipv4,
        ports: [SlicePort {
            name: "".into(),
            protocol: Protocol::Tcp,
            number: Some(80),
        }]
        .into(),
        endpoints: [endpoint(1, "eu"), endpoint(2, "us")].into(),
        created_s: 0,
        origin: Origin::default(),
    };
    let service = Service {
        key: key.clone(),
        form: ServiceForm::Headless,
        ports: [].into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    };
    let services = HeadlessServices::default();
    let slices = vec![slice];
    services.publish([(key, Some(HeadlessService { service, slices }))].into_iter());
    services
}

#[test]
fn s71_zonal_names_are_answered_with_the_addresses_of_their_targets() {
    let lines = ["h1.s.n.svc A 10.0.0.1", "h2.s.n.svc A 10.0.0.2"];
    let mut desk = desk(&lines, None, Some(headless_services()));
    let message = desk.ask(&query(1, "EU.pin._zone.s.n.svc.z.", Rtype::SRV));
    let want = "EU.pin._zone.s.n.svc.z. 9 IN SRV 0 100 80 h1.s.n.svc.z.";
    assert_eq!(message.answers.iter().map(line).collect::<Vec<_>>(), [want]);
    assert_eq!(message.additionals.len(), 1);
    let message = desk.ask(&query(1, "us.prefer._zone.s.n.svc.z.", Rtype::A));
    let want = "us.prefer._zone.s.n.svc.z. 9 IN A 10.0.0.2";
    assert_eq!(message.answers.iter().map(line).collect::<Vec<_>>(), [want]);
    for (qname, rcode) in [
        ("ap.pin._zone.s.n.svc.z.", 0),
        ("pin._zone.s.n.svc.z.", 0),
        ("us.near._zone.s.n.svc.z.", 3),
        ("us.pin._zone.t.n.svc.z.", 3),
    ] {
        let message = desk.ask(&query(1, qname, Rtype::A));
        let counts = (message.answers.len(), message.authorities.len());
        assert_eq!(
            (message.metadata.response_code.low(), counts),
            (rcode, (0, 1)),
            "{qname}"
        );
    }
}

/// A zone with pods and topology zones, and with a file under it whose wildcard is at the apex.
fn overlaid_desk() -> Desk {
    overlaid_desk_with(true)
}

/// As [`overlaid_desk`]. The namespaces `n` and `q` are watched, if anything is known.
fn overlaid_desk_with(is_known: bool) -> Desk {
    let lines = [
        "* A 192.0.2.9",
        "to CNAME 5-6-7-8.n.pod.z.",
        "past CNAME blah.n.pod.z.",
        "*.w CNAME 5-6-7-8.q.pod.z.",
        "h1.s.n.svc A 10.0.0.1",
        "h2.s.n.svc A 10.0.0.2",
        "*.pin._zone.s.n.svc A 192.0.2.8",
        "5-6-7-9.n.pod A 192.0.2.7",
        "*.n.pod A 192.0.2.6",
        "*.m.pod A 192.0.2.5",
    ];
    let names = ClusterNames::new(
        seen(["n", "q"], is_known),
        Some(Arc::new(headless_services())),
        TTL,
        writer::service_node,
    );
    let mut setup = Setup::new(vec![zone("z.", 5, &lines)]);
    setup.synthesized = vec![Arc::new(VersionName), Arc::new(names.unwrap())];
    Desk::new(setup)
}

#[test]
fn names_that_no_version_holds_come_before_its_wildcards_alone() {
    let mut desk = overlaid_desk();
    for (qname, qtype, want) in [
        (
            "5-6-7-8.n.pod.z.",
            Rtype::A,
            "0 5-6-7-8.n.pod.z. 9 IN A 5.6.7.8",
        ),
        (
            "5-6-7-9.n.pod.z.",
            Rtype::A,
            "0 5-6-7-9.n.pod.z. 60 IN A 192.0.2.7",
        ),
        (
            "fd00--1.n.pod.z.",
            Rtype::AAAA,
            "0 fd00--1.n.pod.z. 9 IN AAAA fd00::1",
        ),
        ("5-6-7-8.n.pod.z.", Rtype::TXT, "0 "),
        ("n.pod.z.", Rtype::A, "0 "),
        (
            "us.pin._zone.s.n.svc.z.",
            Rtype::A,
            "0 us.pin._zone.s.n.svc.z. 9 IN A 10.0.0.2",
        ),
        ("ap.pin._zone.s.n.svc.z.", Rtype::A, "0 "),
        // The file answers for names that the cluster lacks.
        (
            "blah.n.pod.z.",
            Rtype::A,
            "0 blah.n.pod.z. 60 IN A 192.0.2.6",
        ),
        ("_version.z.", Rtype::A, "0 "),
        ("us.near._zone.s.n.svc.z.", Rtype::A, "3 "),
        ("x.z.", Rtype::A, "0 x.z. 60 IN A 192.0.2.9"),
        ("x.t.n.svc.z.", Rtype::A, "3 "),
    ] {
        assert_eq!(
            said_of_pod(&mut desk, qname, qtype),
            want,
            "{qname} {qtype}"
        );
    }
    let alias = said_of_pod(&mut desk, "to.z.", Rtype::A);
    assert_eq!(
        alias,
        "0 to.z. 60 IN CNAME 5-6-7-8.n.pod.z., 5-6-7-8.n.pod.z. 9 IN A 5.6.7.8"
    );
    // By a wildcard, to a name that does not exist.
    let made = said_of_pod(&mut desk, "x.w.z.", Rtype::A);
    assert_eq!(
        made,
        "0 x.w.z. 60 IN CNAME 5-6-7-8.q.pod.z., 5-6-7-8.q.pod.z. 9 IN A 5.6.7.8"
    );
    let past = said_of_pod(&mut desk, "past.z.", Rtype::A);
    assert_eq!(
        past,
        "0 past.z. 60 IN CNAME blah.n.pod.z., blah.n.pod.z. 60 IN A 192.0.2.6"
    );
}

#[test]
fn while_namespaces_are_unknown_no_wildcard_answers_for_a_pod() {
    let mut desk = overlaid_desk_with(false);
    for (qname, want) in [
        ("5-6-7-8.m.pod.z.", "2 "),
        ("5-6-7-9.n.pod.z.", "0 5-6-7-9.n.pod.z. 60 IN A 192.0.2.7"),
        ("x.z.", "0 x.z. 60 IN A 192.0.2.9"),
    ] {
        assert_eq!(said_of_pod(&mut desk, qname, Rtype::A), want, "{qname}");
    }
}

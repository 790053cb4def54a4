//! The Service in front of us becomes the name server of the zones, and ceases to be.

use dns::Rtype;

use super::*;

const OURS: &str = "10.0.0.53";

/// A plan whose servers are reached at [`OURS`], port 5353; the second reverse zone is that address alone.
fn front_plan() -> World {
    let mut plan = plan().plan;
    plan.reverse[1].name = "53.0.0.10.in-addr.arpa.".parse().unwrap();
    plan.external.clear();
    plan.front = Front {
        addresses: [OURS.parse().unwrap()].into(),
        ports: [5353].into(),
        zones: [0, 1, 2].into(),
        trusted: Trusted::In("a".into()),
        named: BTreeMap::new(),
    };
    World::new(plan)
}

/// A Service in namespace `a`.
fn service(name: &str, form: ServiceForm) -> Change {
    service_in("a", name, form)
}

/// A Service.
fn service_in(namespace: &str, name: &str, form: ServiceForm) -> Change {
    Change::Applied(Fact::Service(Service {
        key: ObjectKey::new(namespace, name),
        form,
        ports: [].into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    }))
}

/// A slice of a Service in namespace `a` with endpoints at these addresses and this port.
fn slice(service: &str, addresses: &[&str], port: u16) -> Change {
    slice_in("a", service, addresses, port)
}

/// A slice of a Service.
fn slice_in(namespace: &str, service: &str, addresses: &[&str], port: u16) -> Change {
    let endpoint = |address: &&str| Endpoint::at([address.parse().unwrap()]);
    Change::Applied(Fact::EndpointSlice(EndpointSlice {
        key: ObjectKey::new(namespace, &format!("{service}-1")),
        service: Some(service.into()),
        form: SliceForm::Ipv4,
        ports: [SlicePort {
            name: "dns".into(),
            protocol: Protocol::Udp,
            number: Some(port),
        }]
        .into(),
        endpoints: addresses.iter().map(endpoint).collect(),
        import: None,
        created_s: 0,
        origin: Origin::default(),
    }))
}

/// What stands at the tops and at `ns.dns`, without what never differs.
fn tops(plan: &World) -> Vec<String> {
    let all = lines(&contents(plan));
    let is_top = |line: &&String| line.contains(" NS ") || line.starts_with("ns.dns.");
    let short = |line: &String| line.replace(" 5 IN", "").replace(".svc.cluster.local.", "");
    all.iter().filter(is_top).map(short).collect()
}

/// A writer that has listed everything, and nothing was there but the namespace `a`.
fn listed(plan: &World) -> Pipeline<NoStore> {
    let mut pipeline = pipeline(plan.clone());
    for kind in plan.kinds.iter() {
        feed(&mut pipeline, Change::Listed(kind, Vec::new()));
    }
    feed(&mut pipeline, Change::Applied(namespace("a")));
    assert!(pipeline.commit());
    pipeline
}

/// Without a Service in front of us.
const NONE: [&str; 4] = [
    "cluster.local. NS ns.dns.cluster.local.",
    "ns.dns.cluster.local. A 10.0.0.10",
    "10.in-addr.arpa. NS ns.dns.cluster.local.",
    "53.0.0.10.in-addr.arpa. NS ns.dns.cluster.local.",
];

#[test]
fn the_service_in_front_of_us_is_the_name_server_while_it_is_there() {
    let plan = front_plan();
    let mut pipeline = listed(&plan);
    assert_eq!(tops(&plan), NONE);
    let cluster_ip = |last| ServiceForm::ClusterIp([IpAddr::from([10, 96, 0, last])].into());
    let front = |last: u8| {
        [
            "cluster.local. NS dns.a".to_owned(),
            format!("ns.dns.cluster.local. A 10.96.0.{last}"),
            "10.in-addr.arpa. NS dns.a".to_owned(),
            "53.0.0.10.in-addr.arpa. NS dns.a".to_owned(),
        ]
    };
    let mut step = |change: Change| {
        feed(&mut pipeline, change);
        assert!(pipeline.commit());
        tops(&plan)
    };
    assert_eq!(step(service("dns", cluster_ip(10))), NONE);
    assert_eq!(step(slice("dns", &["10.0.0.54", OURS], 5353)), front(10));
    assert_eq!(step(service("dns", cluster_ip(11))), front(11));
    // Our address, another's port: no way to us.
    assert_eq!(step(slice("dns", &[OURS], 9153)), NONE);
    assert_eq!(step(slice("dns", &[OURS], 5353)), front(11));
    assert_eq!(step(slice("dns", &["10.0.0.54"], 5353)), NONE);
    assert_eq!(step(slice("dns", &[OURS], 5353)), front(11));
    let key = FactKey {
        kind: Kind::Namespace,
        key: ObjectKey::new("", "a"),
    };
    // A Service that is hidden is never named.
    assert_eq!(step(Change::Deleted(key, Origin::default())), NONE);
    assert_eq!(step(Change::Applied(namespace("a"))), front(11));
    let key = FactKey {
        kind: Kind::Service,
        key: ObjectKey::new("a", "dns"),
    };
    assert_eq!(step(Change::Deleted(key, Origin::default())), NONE);
}

#[test]
fn several_services_and_headless_ones_are_all_named() {
    let plan = front_plan();
    let mut pipeline = listed(&plan);
    let form = ServiceForm::ClusterIp(["10.96.0.10".parse().unwrap()].into());
    for change in [
        service("dns", form),
        service("flat", ServiceForm::Headless),
        service("alias", ServiceForm::ExternalName("example.org".into())),
        slice("dns", &[OURS], 5353),
        slice("flat", &[OURS, "10.0.0.54"], 5353),
        slice("alias", &[OURS], 5353),
    ] {
        feed(&mut pipeline, change);
    }
    assert!(pipeline.commit());
    assert_eq!(
        tops(&plan)[..6],
        [
            "cluster.local. NS dns.a",
            "cluster.local. NS 10-0-0-53.flat.a",
            "cluster.local. NS 10-0-0-54.flat.a",
            "ns.dns.cluster.local. A 10.0.0.53",
            "ns.dns.cluster.local. A 10.0.0.54",
            "ns.dns.cluster.local. A 10.96.0.10",
        ]
    );
    // Every name server has an address in the zone.
    let zone = plan.zone("cluster.local.").current().unwrap();
    let apex = zone.contents.get(&[]).unwrap();
    for data in apex.rrset(Rtype::NS).unwrap().data() {
        let target = Name::from_wire(data).unwrap();
        let key = target.sort_key(zone.contents.apex()).unwrap();
        let node = zone.contents.get(key.as_bytes()).expect("the name exists");
        assert!(node.rrset(Rtype::A).is_some(), "{target}");
    }
}

/// The review's manifest: a slice in `evil` with our address and the attacker's.
#[test]
fn security_08_a_slice_of_another_namespace_is_no_name_server() {
    let plan = front_plan();
    let mut pipeline = listed(&plan);
    let cluster_ip = |last| ServiceForm::ClusterIp([IpAddr::from([10, 96, 0, last])].into());
    for change in [
        Change::Applied(namespace("evil")),
        service_in("evil", "ns", cluster_ip(66)),
        slice_in("evil", "ns", &[OURS, "10.0.0.66"], 5353),
        service_in("evil", "flat", ServiceForm::Headless),
        slice_in("evil", "flat", &[OURS, "10.0.0.66"], 5353),
    ] {
        feed(&mut pipeline, change);
    }
    assert!(pipeline.commit());
    assert_eq!(tops(&plan), NONE);
    assert_eq!(
        problems(&pipeline),
        ["flat", "ns"].map(|name| format!(
            "Service evil/{name}: its EndpointSlice {name}-1 has an address and port of this server, but no zone names it as name server: this server is in the namespace a; to name it write `apex {{ service evil/{name} }}`"
        ))
    );
    feed(&mut pipeline, service("dns", cluster_ip(10)));
    feed(&mut pipeline, slice("dns", &[OURS], 5353));
    assert!(pipeline.commit());
    assert_eq!(
        tops(&plan)[..2],
        [
            "cluster.local. NS dns.a",
            "ns.dns.cluster.local. A 10.96.0.10"
        ]
    );
}

#[test]
fn security_08_without_a_namespace_of_ours_only_the_clusters_dns_is_named() {
    let mut plan = front_plan().plan;
    plan.front.trusted = Trusted::ClusterDns;
    let plan = World::new(plan);
    let mut pipeline = listed(&plan);
    let cluster_ip = |last| ServiceForm::ClusterIp([IpAddr::from([10, 96, 0, last])].into());
    for change in [
        Change::Applied(namespace("kube-system")),
        service("kube-dns", cluster_ip(66)),
        slice("kube-dns", &[OURS], 5353),
        service_in("kube-system", "other", cluster_ip(67)),
        slice_in("kube-system", "other", &[OURS], 5353),
    ] {
        feed(&mut pipeline, change);
    }
    assert!(pipeline.commit());
    assert_eq!(tops(&plan), NONE);
    let said = problems(&pipeline);
    let untrusted = said.iter().filter(|it| it.contains("POD_NAMESPACE"));
    assert_eq!(untrusted.count(), 2, "{said:?}");
    feed(
        &mut pipeline,
        service_in("kube-system", "kube-dns", cluster_ip(10)),
    );
    feed(
        &mut pipeline,
        slice_in("kube-system", "kube-dns", &[OURS], 5353),
    );
    assert!(pipeline.commit());
    assert_eq!(
        tops(&plan)[..2],
        [
            "cluster.local. NS kube-dns.kube-system",
            "ns.dns.cluster.local. A 10.96.0.10"
        ]
    );
}

#[test]
fn a_service_that_the_configuration_names_needs_no_endpoint_here() {
    let mut plan = front_plan().plan;
    plan.front.named = (0..3)
        .map(|place| (place, ObjectKey::new("b", "dns")))
        .collect();
    let plan = World::new(plan);
    let mut pipeline = listed(&plan);
    let cluster_ip = |last| ServiceForm::ClusterIp([IpAddr::from([10, 96, 0, last])].into());
    let mut step = |change: Change| {
        feed(&mut pipeline, change);
        assert!(pipeline.commit());
        tops(&plan)[..2].to_vec()
    };
    // Our own namespace has one too, but another is written.
    assert_eq!(step(service("dns", cluster_ip(10))), NONE[..2]);
    assert_eq!(step(slice("dns", &[OURS], 5353)), NONE[..2]);
    assert_eq!(step(service_in("b", "dns", cluster_ip(11))), NONE[..2]);
    let named = [
        "cluster.local. NS dns.b",
        "ns.dns.cluster.local. A 10.96.0.11",
    ];
    assert_eq!(step(Change::Applied(namespace("b"))), named);
    assert_eq!(step(slice_in("b", "dns", &["192.0.2.1"], 53)), named);
    let headless = [
        "cluster.local. NS 192-0-2-1.dns.b",
        "ns.dns.cluster.local. A 192.0.2.1",
    ];
    assert_eq!(
        step(service_in("b", "dns", ServiceForm::Headless)),
        headless
    );
}

/// The zone of one address has PTRs at its top.
#[test]
fn pointers_at_the_top_of_a_zone_stay_when_its_name_server_changes() {
    let plan = front_plan();
    let mut pipeline = listed(&plan);
    let form = ServiceForm::ClusterIp(["10.96.0.10".parse().unwrap()].into());
    feed(&mut pipeline, service("dns", form));
    feed(&mut pipeline, slice("dns", &[OURS], 9153));
    assert!(pipeline.commit());
    let top = |plan: &World| lines(&contents(plan)[2..]);
    assert_eq!(
        top(&plan),
        [
            "53.0.0.10.in-addr.arpa. 5 IN NS ns.dns.cluster.local.",
            "53.0.0.10.in-addr.arpa. 5 IN PTR 10-0-0-53.dns.a.svc.cluster.local.",
        ]
    );
    feed(&mut pipeline, slice("dns", &[OURS], 5353));
    assert!(pipeline.commit());
    assert_eq!(
        top(&plan),
        [
            "53.0.0.10.in-addr.arpa. 5 IN NS dns.a.svc.cluster.local.",
            "53.0.0.10.in-addr.arpa. 5 IN PTR 10-0-0-53.dns.a.svc.cluster.local.",
        ]
    );
}

#[test]
fn a_change_elsewhere_does_not_look_at_the_top() {
    let plan = front_plan();
    let mut pipeline = listed(&plan);
    let form = ServiceForm::ClusterIp(["10.96.0.99".parse().unwrap()].into());
    feed(&mut pipeline, service("other", form));
    let rendering = rendering_of(&pipeline);
    let top = rendering.drafts[0].draft.added.iter();
    assert_eq!(top.count(), 1, "the Service's address alone");
}

/// Changes of two Services that may be in front of us, and nothing else.
fn any_change() -> impl Strategy<Value = Change> {
    let name = || prop::sample::select(vec!["s", "t"]);
    let form = prop::sample::select(vec![
        ServiceForm::ClusterIp(["10.96.0.1".parse().unwrap()].into()),
        ServiceForm::ClusterIp(["10.96.0.2".parse().unwrap()].into()),
        ServiceForm::Headless,
        ServiceForm::ExternalName("example.org".into()),
    ]);
    let addresses = prop::sample::subsequence(vec![OURS, "10.0.0.54"], 0..=2);
    let port = prop::sample::select(vec![5353, 9153]);
    let deleted = prop::sample::select(vec![
        (Kind::Service, "a", "s"),
        (Kind::EndpointSlice, "a", "s-1"),
        (Kind::EndpointSlice, "a", "t-1"),
        (Kind::Namespace, "", "a"),
    ]);
    prop_oneof![
        3 => (name(), form).prop_map(|(name, form)| service(name, form)),
        4 => (name(), addresses, port)
            .prop_map(|(name, addresses, port)| slice(name, &addresses, port)),
        1 => deleted.prop_map(|(kind, namespace, name)| {
            let key = ObjectKey::new(namespace, name);
            Change::Deleted(FactKey { kind, key }, Origin::default())
        }),
        1 => Just(Change::Applied(namespace("a"))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The law of the top: what is in front of us after any changes is what a writer finds that sees
    /// the same objects for the first time.
    #[test]
    fn the_top_is_the_same_however_it_came_about(
        changes in prop::collection::vec(any_change(), 1..30),
    ) {
        let plan = front_plan();
        let mut pipeline = listed(&plan);
        let mut objects = Objects::new();
        objects.extend([namespace("a")].map(|fact| (key_of(&fact), fact)));
        for change in changes {
            match &change {
                Change::Applied(fact) => drop(objects.insert(key_of(fact), fact.clone())),
                Change::Deleted(key, _) => drop(objects.remove(key)),
                Change::Listed(..) => {}
            }
            feed(&mut pipeline, change);
            prop_assert!(pipeline.commit());
            let again = front_plan();
            let mut fresh = super::pipeline(again.clone());
            for kind in again.kinds.iter() {
                feed(&mut fresh, list(&objects, kind));
            }
            prop_assert!(fresh.commit());
            prop_assert_eq!(lines(&contents(&plan)), lines(&contents(&again)));
        }
    }
}

#[test]
fn s48_the_name_server_of_an_external_zone_has_the_outer_addresses_of_the_service_in_front_of_us() {
    let mut plan = front_plan().plan;
    plan.external = super::plan().plan.external;
    let place = plan.first_clusterset() + plan.clusterset.len();
    plan.front.zones.insert(place);
    let plan = World::new(plan);
    let mut pipeline = listed(&plan);
    let outer = |plan: &World| {
        let zone = plan.zone("example.org.").current().unwrap();
        let all = lines(std::slice::from_ref(&zone.contents));
        let is_server = |line: &&String| line.contains(" NS ") || line.starts_with("ns1.");
        all.iter().filter(is_server).cloned().collect::<Vec<_>>()
    };
    let with = |addresses: &[&str]| {
        let mut lines = vec!["example.org. 5 IN NS ns1.a.example.org.".to_owned()];
        let line = |address: &&str| format!("ns1.a.example.org. 5 IN A {address}");
        lines.extend(addresses.iter().map(line));
        lines
    };
    // CoreDNS has a name server without an address here; ours has one always.
    assert_eq!(outer(&plan), with(&["10.0.0.10"]));
    let front = |external: Option<External>, form: ServiceForm| {
        Change::Applied(Fact::Service(Service {
            key: ObjectKey::new("a", "dns"),
            form,
            ports: [].into(),
            external: external.map(Arc::new),
            created_s: 0,
            origin: Origin::default(),
        }))
    };
    let inner = ServiceForm::ClusterIp(["10.96.0.10".parse().unwrap()].into());
    feed(&mut pipeline, front(None, inner.clone()));
    feed(&mut pipeline, slice("dns", &[OURS], 5353));
    pipeline.commit();
    assert_eq!(outer(&plan), with(&["10.0.0.10"]));
    let external = External {
        addresses: ["192.0.2.53".parse().unwrap()].into(),
        external_ips: [].into(),
        hosts: [].into(),
    };
    feed(&mut pipeline, front(Some(external), inner));
    pipeline.commit();
    assert_eq!(outer(&plan), with(&["192.0.2.53"]));
    feed(&mut pipeline, front(None, ServiceForm::Headless));
    pipeline.commit();
    let headless = plan.external[0].settings.headless;
    assert_eq!(
        outer(&plan),
        with(&[if headless { OURS } else { "10.0.0.10" }])
    );
}

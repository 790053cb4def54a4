//! The situations that CoreDNS's own tests have for sets of clusters (72 to 77, 89) and for external zones
//! (86, 91 to 94), by their numbers; where we differ it is meant, and said.

use super::*;

/// What a zone says at a name: its records without owner and TTL, sorted, else `NODATA` where something
/// is below, else `NXDOMAIN`.
fn said(plan: &World, name: &str) -> Vec<String> {
    let all = lines(&contents(plan));
    let (own, below) = (format!("{name} "), format!(".{name} "));
    let found: Vec<String> = all
        .iter()
        .filter(|line| line.starts_with(&own))
        .map(|line| line.splitn(4, ' ').nth(3).unwrap().to_owned())
        .collect();
    match found.is_empty() {
        false => found,
        true if all.iter().any(|line| line.contains(&below)) => vec!["NODATA".to_owned()],
        true => vec!["NXDOMAIN".to_owned()],
    }
}

/// A port called `http`.
fn http() -> Arc<[Port]> {
    [Port {
        name: "http".into(),
        protocol: Protocol::Tcp,
        number: 80,
    }]
    .into()
}

/// An import in the namespace `a`.
fn import(name: &str, form: ImportForm, ports: Arc<[Port]>) -> Fact {
    Fact::ServiceImport(ServiceImport {
        key: ObjectKey::new("a", name),
        form,
        ports,
        created_s: 0,
        origin: Origin::default(),
    })
}

/// A slice of the import `hdls` that comes from `cluster1`: addresses with their host names.
fn slice(name: &str, endpoints: &[(&str, Option<&str>)], port: Option<u16>) -> Fact {
    let endpoint = |(address, hostname): &(&str, Option<&str>)| {
        Endpoint::new(
            [address.parse().unwrap()],
            EndpointNames {
                hostname: hostname.map(Into::into),
                ..EndpointNames::default()
            },
        )
    };
    Fact::EndpointSlice(EndpointSlice {
        key: ObjectKey::new("a", name),
        service: None,
        import: Some(Arc::new(ImportOfSlice {
            service: name.into(),
            cluster: "cluster1".into(),
        })),
        form: SliceForm::Ipv4,
        ports: port
            .map(|number| SlicePort {
                name: "http".into(),
                protocol: Protocol::Tcp,
                number: Some(number),
            })
            .into_iter()
            .collect(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        created_s: 0,
        origin: Origin::default(),
    })
}

/// A set of clusters: headless imports with and without ports, and one with an address.
fn set_of_clusters() -> (World, Pipeline<NoStore>) {
    let plan = plan_with_imports();
    let mut pipeline = pipeline(plan.clone());
    let twins = [
        ("10.2.0.4", Some("dup-name")),
        ("10.2.0.5", Some("dup-name")),
    ];
    let slices = vec![
        slice(
            "hdls",
            &[&[("10.2.0.2", None)], &twins[..]].concat(),
            Some(80),
        ),
        slice("bare", &[("10.2.0.20", None)], None),
    ];
    let addresses = ["10.4.2.4".parse().unwrap()];
    let imports = vec![
        import("hdls", ImportForm::Headless, http()),
        import("bare", ImportForm::Headless, [].into()),
        import("web", ImportForm::ClusterSetIp(addresses.into()), http()),
    ];
    for (kind, facts) in [
        (Kind::Namespace, vec![namespace("a")]),
        (Kind::Service, Vec::new()),
        (Kind::EndpointSlice, slices),
        (Kind::ServiceImport, imports),
    ] {
        feed(&mut pipeline, Change::Listed(kind, facts));
    }
    assert!(pipeline.commit());
    (plan, pipeline)
}

#[test]
fn s73_an_import_has_what_a_service_has() {
    let (plan, _) = set_of_clusters();
    let zone = "svc.clusterset.local.";
    assert_eq!(
        said(&plan, &format!("web.a.{zone}")),
        ["A 10.4.2.4", "SRV 0 100 80 web.a.svc.clusterset.local."]
    );
    assert_eq!(
        said(&plan, &format!("_http._tcp.web.a.{zone}")),
        ["SRV 0 100 80 web.a.svc.clusterset.local."]
    );
    assert_eq!(said(&plan, &format!("web.b.{zone}")), ["NXDOMAIN"]);
    assert_eq!(said(&plan, zone), ["NODATA"]);
    assert_eq!(said(&plan, "web.a.svc.cluster.local."), ["NXDOMAIN"]);
}

#[test]
fn s74_srv_of_a_headless_import_leads_to_names_with_the_cluster() {
    let (plan, _) = set_of_clusters();
    let want = [
        "SRV 0 100 80 dup-name.cluster1.hdls.a.svc.clusterset.local.",
        "SRV 0 100 80 10-2-0-2.cluster1.hdls.a.svc.clusterset.local.",
    ];
    let found = said(&plan, "_http._tcp.hdls.a.svc.clusterset.local.");
    assert_eq!(found.len(), want.len(), "{found:?}");
    assert!(
        want.iter().all(|line| found.iter().any(|it| it == line)),
        "{found:?}"
    );
}

#[test]
fn s75_endpoints_have_names_with_the_cluster() {
    let (plan, _) = set_of_clusters();
    let name = |rest: &str| format!("{rest}.a.svc.clusterset.local.");
    let twins = said(&plan, &name("dup-name.cluster1.hdls"));
    assert_eq!(twins[..2], ["A 10.2.0.4", "A 10.2.0.5"], "{twins:?}");
    assert_eq!(
        said(&plan, &name("10-2-0-20.cluster1.bare")),
        ["A 10.2.0.20"]
    );
    assert_eq!(said(&plan, &name("bare")), ["A 10.2.0.20"]);
}

#[test]
fn s76_without_the_cluster_an_endpoint_has_no_name() {
    let (plan, _) = set_of_clusters();
    let name = |rest: &str| format!("{rest}.a.svc.clusterset.local.");
    assert_eq!(said(&plan, &name("10-2-0-2.hdls")), ["NXDOMAIN"]);
    // CoreDNS says NXDOMAIN though there are names below (RFC 8020)
    assert_eq!(said(&plan, &name("cluster1.hdls")), ["NODATA"]);
}

#[test]
fn s77_an_endpoint_that_is_not_there_has_no_name() {
    let (plan, _) = set_of_clusters();
    let name = "nobody.cluster1.hdls.a.svc.clusterset.local.";
    assert_eq!(said(&plan, name), ["NXDOMAIN"]);
}

#[test]
fn s89_an_import_that_says_something_else_is_another_version() {
    let (plan, mut pipeline) = set_of_clusters();
    let zone = Arc::clone(plan.zone("clusterset.local."));
    let serial = || zone.current().unwrap().serial;
    let with = |last: u8| ImportForm::ClusterSetIp([IpAddr::from([10, 4, 2, last])].into());
    for (fact, is_new) in [
        (import("web", with(4), http()), false),
        (import("web", with(4), [].into()), true),
        (import("web", ImportForm::Headless, [].into()), true),
        // CoreDNS does not look at the addresses
        (import("web", with(4), [].into()), true),
        (import("web", with(5), [].into()), true),
    ] {
        let before = serial();
        feed(&mut pipeline, Change::Applied(fact));
        assert!(pipeline.commit());
        assert_eq!(serial() != before, is_new);
    }
}

/// A Service in the namespace `a` with these outer addresses and hosts.
fn outer(name: &str, addresses: &[&str], hosts: &[&str]) -> Fact {
    let external = External {
        addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        external_ips: [].into(),
        hosts: hosts.iter().map(|it| Arc::from(*it)).collect(),
    };
    let is_empty = addresses.is_empty() && hosts.is_empty();
    Fact::Service(Service {
        key: ObjectKey::new("a", name),
        form: ServiceForm::ClusterIp(["10.9.9.9".parse().unwrap()].into()),
        ports: http(),
        external: (!is_empty).then(|| Arc::new(external)),
        created_s: 0,
        origin: Origin::default(),
    })
}

/// A cluster with Services that are reached from outside.
fn outside() -> (World, Pipeline<NoStore>) {
    outside_with(plan())
}

/// The same with this plan.
fn outside_with(plan: World) -> (World, Pipeline<NoStore>) {
    let mut pipeline = pipeline(plan.clone());
    let services = vec![
        outer("svc1", &["192.168.0.1"], &[]),
        outer("svc6", &["fd01::1"], &[]),
        outer("lb", &[], &["lb.example.net"]),
        outer("inner", &[], &[]),
    ];
    for (kind, facts) in [
        (Kind::Namespace, vec![namespace("a")]),
        (Kind::Service, services),
        (Kind::EndpointSlice, Vec::new()),
    ] {
        feed(&mut pipeline, Change::Listed(kind, facts));
    }
    assert!(pipeline.commit());
    (plan, pipeline)
}

#[test]
fn s86_each_zone_has_its_own_serial() {
    let (plan, mut pipeline) = outside();
    let serials = || {
        let of = |name: &str| plan.zone(name).current().unwrap().serial;
        (of("cluster.local."), of("example.org."))
    };
    for (fact, want) in [
        // CoreDNS leaves the external serial when a Service comes or goes
        (outer("new", &["192.168.0.9"], &[]), (true, true)),
        (outer("new", &["192.168.0.8"], &[]), (false, true)),
        (outer("new", &[], &[]), (false, true)),
        (outer("quiet", &[], &[]), (true, false)),
    ] {
        let before = serials();
        feed(&mut pipeline, Change::Applied(fact));
        assert!(pipeline.commit());
        let now = serials();
        assert_eq!((now.0 != before.0, now.1 != before.1), want);
    }
}

#[test]
fn s91_what_is_outside_has_names() {
    let (plan, _) = outside();
    let name = |rest: &str| format!("{rest}.a.example.org.");
    let srv = |target: &str| format!("SRV 0 100 80 {target}");
    assert_eq!(
        said(&plan, &name("svc1")),
        ["A 192.168.0.1".to_owned(), srv(&name("svc1"))]
    );
    assert_eq!(said(&plan, &name("_http._tcp.svc1")), [srv(&name("svc1"))]);
    assert_eq!(
        said(&plan, &name("svc6")),
        ["AAAA fd01::1".to_owned(), srv(&name("svc6"))]
    );
    // CoreDNS has SRV beside the alias; no zone can
    assert_eq!(said(&plan, &name("lb")), ["CNAME lb.example.net."]);
    assert_eq!(
        said(&plan, &name("_http._tcp.lb")),
        [srv("lb.example.net.")]
    );
    assert_eq!(said(&plan, &name("inner")), ["NXDOMAIN"]);
}

#[test]
fn s92_a_protocol_that_is_none_has_no_name() {
    let (plan, _) = outside();
    let name = "_http._not-udp-or-tcp.svc1.a.example.org.";
    assert_eq!(said(&plan, name), ["NXDOMAIN"]);
}

#[test]
fn s93_outer_addresses_lead_back() {
    let (plan, _) = outside();
    let name = |last: &str| format!("{last}.0.168.192.in-addr.arpa.");
    assert_eq!(said(&plan, &name("1")), ["PTR svc1.a.example.org."]);
    assert_eq!(said(&plan, &name("2")), ["NXDOMAIN"]);
}

#[test]
fn security_13_an_address_that_moves_between_load_balancer_and_external_ips_gets_and_loses_its_pointer()
 {
    let mut plan = plan().plan;
    plan.external[0].settings.external_ips = false;
    let (plan, mut pipeline) = outside_with(World::new(plan));
    let with = |balanced: &[&str], external_ips: &[&str]| {
        let addresses = |of: &[&str]| of.iter().map(|it| it.parse().unwrap()).collect();
        let mut fact = outer("moves", &["192.168.0.7"], &[]);
        if let Fact::Service(service) = &mut fact {
            service.external = Some(Arc::new(External {
                addresses: addresses(balanced),
                external_ips: addresses(external_ips),
                hosts: [].into(),
            }));
        }
        fact
    };
    let names = ["moves.a.example.org.", "7.0.168.192.in-addr.arpa."];
    let address = ["192.168.0.7"];
    for (fact, want) in [
        (with(&[], &address), [true, true]),
        (with(&address, &[]), [false, false]),
        (with(&[], &address), [true, true]),
    ] {
        feed(&mut pipeline, Change::Applied(fact));
        assert!(pipeline.commit());
        assert_eq!(names.map(|name| at(&plan, name).is_empty()), want);
    }
}

#[test]
fn s94_the_apex_of_an_external_zone_has_a_name_server_with_its_address() {
    let (plan, _) = outside();
    assert_eq!(said(&plan, "example.org."), ["NS ns1.a.example.org."]);
    assert_eq!(said(&plan, "ns1.a.example.org."), ["A 10.0.0.10"]);
    assert_eq!(said(&plan, "x.t.example.org."), ["NXDOMAIN"]);
}

#[test]
fn s11_an_empty_service_that_is_ignored_has_no_name_and_no_pointer() {
    let plan = World::new(ClusterPlan {
        hides_empty_services: true,
        ..plan().plan
    });
    let mut pipeline = one_service(&plan, 0);
    let names = ["s.a.svc.cluster.local.", "9.9.9.10.in-addr.arpa."];
    let found = |plan: &World| names.map(|name| at(plan, name).len());
    assert_eq!(found(&plan), [0, 0]);
    feed(&mut pipeline, Change::Applied(slice_of(1)));
    assert!(pipeline.commit());
    assert_eq!(found(&plan), [1, 1]);
    feed(&mut pipeline, Change::Applied(slice_of(0)));
    assert!(pipeline.commit());
    assert_eq!(found(&plan), [0, 0]);
}

#[test]
fn s2_an_empty_service_has_its_address_by_default() {
    let plan = plan();
    one_service(&plan, 0);
    assert_eq!(at(&plan, "s.a.svc.cluster.local.").len(), 1);
}

fn pod(name: &str, addresses: &[&str]) -> Fact {
    Fact::Pod(Pod {
        key: ObjectKey::new("a", name),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        labels: None,
        origin: Origin::default(),
    })
}

#[test]
fn s56_pods_of_one_address_are_one_name_until_the_last_is_gone() {
    let plan = World::new(ClusterPlan {
        kinds: Kinds::BASE.with(Kind::Pod),
        ..plan().plan
    });
    let mut pipeline = pipeline(plan.clone());
    for kind in Kinds::BASE.iter() {
        let facts = Vec::from_iter((kind == Kind::Namespace).then(|| namespace("a")));
        feed(&mut pipeline, Change::Listed(kind, facts));
    }
    let pods = vec![pod("p", &["10.1.0.1", "fd00::1"]), pod("q", &["10.1.0.1"])];
    feed(&mut pipeline, Change::Listed(Kind::Pod, pods));
    assert!(pipeline.commit());
    let (v4, v6) = (
        "10-1-0-1.a.pod.cluster.local.",
        "fd00--1.a.pod.cluster.local.",
    );
    assert_eq!(at(&plan, v4), [format!("{v4} 5 IN A 10.1.0.1")]);
    assert_eq!(at(&plan, v6), [format!("{v6} 5 IN AAAA fd00::1")]);
    let key = |name| FactKey {
        kind: Kind::Pod,
        key: ObjectKey::new("a", name),
    };
    feed(&mut pipeline, Change::Deleted(key("p"), Origin::default()));
    assert!(pipeline.commit());
    assert_eq!((at(&plan, v4).len(), at(&plan, v6).len()), (1, 0));
    // s90: changed and gone in one batch
    feed(&mut pipeline, Change::Applied(pod("q", &["10.1.0.2"])));
    feed(&mut pipeline, Change::Deleted(key("q"), Origin::default()));
    assert!(pipeline.commit());
    assert!(
        !lines(&contents(&plan))
            .iter()
            .any(|line| line.contains(".pod."))
    );
}

#[test]
fn s97_who_asks_is_known_by_name_and_label_without_a_version() {
    let plan = World::new(ClusterPlan {
        publishes_clients: true,
        kinds: Kinds::BASE.with(Kind::Pod),
        ..plan().plan
    });
    let clients = Arc::clone(plan.handles.live.clients.as_ref().unwrap());
    let mut pipeline = pipeline(plan.clone());
    for (kind, facts) in [
        (Kind::Namespace, vec![namespace("a")]),
        (Kind::Service, vec![]),
        (Kind::EndpointSlice, vec![]),
        (
            Kind::Pod,
            vec![pod("p", &["10.1.0.1"]), pod("o", &["10.1.0.1"])],
        ),
    ] {
        feed(&mut pipeline, Change::Listed(kind, facts));
    }
    assert!(pipeline.commit());
    let who = || {
        let client = clients.get([10, 1, 0, 1].into())?;
        let labels = client.labels.iter().flat_map(|labels| labels.iter());
        let labels: String = labels
            .map(|(key, value)| format!(" {key}={value}"))
            .collect();
        Some(format!("{}/{}{labels}", client.namespace, client.name))
    };
    assert_eq!(who().as_deref(), Some("a/o"));
    let versions = pipeline.store.commits;
    let gone = Kind::Pod.of(&ObjectKey::new("a", "o"));
    feed(&mut pipeline, Change::Deleted(gone, Origin::default()));
    assert!(pipeline.commit());
    assert_eq!(who().as_deref(), Some("a/p"));
    let Fact::Pod(other) = pod("p", &["10.1.0.1"]) else {
        panic!("a pod");
    };
    let labels = Some([("app".into(), "web".into())].into());
    let labelled = Fact::Pod(Pod { labels, ..other });
    feed(&mut pipeline, Change::Applied(labelled));
    assert!(pipeline.commit());
    assert_eq!(who().as_deref(), Some("a/p app=web"));
    assert_eq!(pipeline.store.commits, versions);
}

#[test]
fn s87_a_pod_that_keeps_its_address_makes_no_version() {
    let plan = World::new(ClusterPlan {
        kinds: Kinds::BASE.with(Kind::Pod),
        ..plan().plan
    });
    let mut pipeline = pipeline(plan.clone());
    for kind in plan.kinds.iter() {
        let facts = Vec::from_iter((kind == Kind::Namespace).then(|| namespace("a")));
        feed(&mut pipeline, Change::Listed(kind, facts));
    }
    feed(&mut pipeline, Change::Applied(pod("p", &["10.1.0.1"])));
    assert!(pipeline.commit());
    let commits = pipeline.store.commits;
    feed(&mut pipeline, Change::Applied(pod("p", &["10.1.0.1"])));
    assert!(pipeline.commit());
    assert_eq!(pipeline.store.commits, commits);
    feed(&mut pipeline, Change::Applied(pod("p", &["10.1.0.2"])));
    let [services, _, pods] = rendering_of(&pipeline).work;
    assert_eq!((services, pods), (0, 2));
    assert!(pipeline.commit());
    assert_eq!(pipeline.store.commits, commits + 1);
}

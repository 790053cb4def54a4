//! What a namespace can do to others by its objects alone: nothing.

use super::*;

/// A Service.
fn service(namespace: &str, name: &str, form: ServiceForm, created_s: u64) -> Fact {
    Fact::Service(Service {
        key: ObjectKey::new(namespace, name),
        form,
        ports: [].into(),
        external: None,
        created_s,
        origin: Origin::default(),
    })
}

/// A slice of a Service, with these addresses.
fn slice(namespace: &str, service: &str, addresses: &[&str]) -> Fact {
    let endpoint = |address: &&str| Endpoint::at([address.parse().unwrap()]);
    Fact::EndpointSlice(EndpointSlice {
        key: ObjectKey::new(namespace, &format!("{service}-1")),
        service: Some(service.into()),
        import: None,
        form: SliceForm::Ipv4,
        ports: [].into(),
        endpoints: addresses.iter().map(endpoint).collect(),
        created_s: 0,
        origin: Origin::default(),
    })
}

fn pod(namespace: &str, name: &str, address: &str) -> Fact {
    Fact::Pod(Pod {
        key: ObjectKey::new(namespace, name),
        addresses: [address.parse().unwrap()].into(),
        labels: None,
        origin: Origin::default(),
    })
}

fn deleted(fact: &Fact) -> Change {
    Change::Deleted(key_of(fact), Origin::default())
}

/// A writer of two namespaces that has listed everything.
fn listed(plan: &World) -> Pipeline<NoStore> {
    let mut pipeline = pipeline(plan.clone());
    for kind in plan.kinds.iter() {
        feed(&mut pipeline, Change::Listed(kind, Vec::new()));
    }
    for name in ["shop", "evil"] {
        feed(&mut pipeline, Change::Applied(namespace(name)));
    }
    assert!(pipeline.commit());
    pipeline
}

/// Applies these objects and commits.
fn apply<const N: usize>(pipeline: &mut Pipeline<NoStore>, facts: [Fact; N]) {
    for fact in facts {
        feed(pipeline, Change::Applied(fact));
    }
    assert!(pipeline.commit());
}

/// All PTRs, short, sorted.
fn pointers(plan: &World) -> Vec<String> {
    let all = lines(&contents(plan));
    let pointers = all.iter().filter_map(|line| line.split_once(" 5 IN PTR "));
    let short = |(owner, target): (&str, &str)| {
        let owner = owner.replace(".10.in-addr.arpa.", "");
        format!("{owner} {}", target.replace(".svc.cluster.local.", ""))
    };
    let mut all: Vec<String> = pointers.map(short).collect();
    all.sort();
    all
}

#[test]
fn security_13_an_address_without_a_known_pod_belongs_to_the_oldest_service() {
    let plan = plan();
    let mut pipeline = listed(&plan);
    let payroll = service("evil", "payroll", ServiceForm::Headless, 9);
    let slice_of_evil = slice("evil", "payroll", &["10.244.0.7", "10.244.0.8"]);
    apply(&mut pipeline, [payroll.clone(), slice_of_evil.clone()]);
    let of_evil = [
        "7.0.244 10-244-0-7.payroll.evil",
        "8.0.244 10-244-0-8.payroll.evil",
    ];
    assert_eq!(pointers(&plan), of_evil);
    let web = service("shop", "web", ServiceForm::Headless, 3);
    let twin = service("shop", "twin", ServiceForm::Headless, 20);
    apply(
        &mut pipeline,
        [
            web.clone(),
            slice("shop", "web", &["10.244.0.7"]),
            // A younger Service of the same namespace has its PTR too.
            twin.clone(),
            slice("shop", "twin", &["10.244.0.7"]),
        ],
    );
    let of_shop = [
        "7.0.244 10-244-0-7.twin.shop",
        "7.0.244 10-244-0-7.web.shop",
        "8.0.244 10-244-0-8.payroll.evil",
    ];
    assert_eq!(pointers(&plan), of_shop);
    let complaint = "Service evil/payroll: no PTR leads to its endpoint 10.244.0.7: the address belongs to the namespace shop";
    assert_eq!(problems(&pipeline), [complaint]);
    // A new Service of an old name is not old, and an unknown age is the youngest.
    feed(&mut pipeline, deleted(&web));
    feed(
        &mut pipeline,
        Change::Applied(service("shop", "web", ServiceForm::Headless, 0)),
    );
    assert!(pipeline.commit());
    assert_eq!(pointers(&plan), of_evil);
    assert_eq!(problems(&pipeline).len(), 2);
    apply(&mut pipeline, [web]);
    assert_eq!(pointers(&plan), of_shop);
    feed(&mut pipeline, deleted(&slice_of_evil));
    assert!(pipeline.commit());
    assert_eq!(problems(&pipeline), [""; 0]);
}

#[test]
fn security_13_an_address_of_a_pod_belongs_to_the_namespace_of_the_pod() {
    let kinds = Kinds::BASE.with(Kind::Pod);
    let plan = World::new(ClusterPlan {
        kinds,
        ..plan().plan
    });
    let mut pipeline = listed(&plan);
    apply(
        &mut pipeline,
        [
            service("evil", "payroll", ServiceForm::Headless, 1),
            slice("evil", "payroll", &["10.244.0.7"]),
        ],
    );
    assert_eq!(pointers(&plan), ["7.0.244 10-244-0-7.payroll.evil"]);
    // The pod alone takes the address away from the slice, though no Service of its own has it.
    let victim = pod("shop", "web-0", "10.244.0.7");
    apply(&mut pipeline, [victim.clone()]);
    assert_eq!(pointers(&plan), [""; 0]);
    let complaint = "Service evil/payroll: no PTR leads to its endpoint 10.244.0.7: the address is that of a pod of another namespace";
    assert_eq!(problems(&pipeline), [complaint]);
    apply(
        &mut pipeline,
        [
            service("shop", "web", ServiceForm::Headless, 5),
            slice("shop", "web", &["10.244.0.7"]),
        ],
    );
    assert_eq!(pointers(&plan), ["7.0.244 10-244-0-7.web.shop"]);
    // On the network of the host pods of several namespaces share an address.
    let second = pod("evil", "host", "10.244.0.7");
    apply(&mut pipeline, [second]);
    assert_eq!(pointers(&plan).len(), 2);
    feed(&mut pipeline, deleted(&victim));
    assert!(pipeline.commit());
    assert_eq!(pointers(&plan), ["7.0.244 10-244-0-7.payroll.evil"]);
}

#[test]
fn security_13_external_ips_have_no_name_and_no_ptr_unless_the_configuration_says_so() {
    let with = |external_ips: bool| {
        let mut plan = plan().plan;
        plan.external[0].settings.external_ips = external_ips;
        plan.external[0].settings.headless = false;
        let plan = World::new(plan);
        let mut pipeline = listed(&plan);
        let external = External {
            addresses: [].into(),
            external_ips: ["192.168.0.80".parse().unwrap()].into(),
            hosts: [].into(),
        };
        let Fact::Service(claims) = service("evil", "ns", ServiceForm::Pending, 1) else {
            unreachable!("it is a Service");
        };
        let claims = Fact::Service(Service {
            external: Some(Arc::new(external)),
            ..claims
        });
        apply(&mut pipeline, [claims]);
        let all = lines(&contents(&plan));
        let of_evil = all.into_iter().filter(|line| line.contains("ns.evil."));
        (of_evil.collect::<Vec<_>>(), problems(&pipeline))
    };
    let complaint = "Service evil/ns: its externalIPs are not published in example.org.: write `external_ips` in k8s_external if its author may choose them";
    assert_eq!(with(false), (Vec::new(), vec![complaint.to_owned()]));
    let names = [
        "ns.evil.example.org. 7 IN A 192.168.0.80",
        "80.0.168.192.in-addr.arpa. 7 IN PTR ns.evil.example.org.",
    ];
    assert_eq!(with(true), (names.map(str::to_owned).to_vec(), Vec::new()));
}

#[test]
fn security_05_a_namespace_has_so_many_records_and_others_keep_theirs() {
    let mut plan = plan().plan;
    plan.limits.namespace = 10;
    plan.external.clear();
    let plan = World::new(plan);
    let mut pipeline = listed(&plan);
    let cluster_ip = |last| ServiceForm::ClusterIp([IpAddr::from([10, 96, 0, last])].into());
    let four = ["10.244.0.1", "10.244.0.2", "10.244.0.3", "10.244.0.4"];
    apply(
        &mut pipeline,
        [
            service("shop", "web", cluster_ip(1), 50),
            service("evil", "new", cluster_ip(2), 40),
            slice("evil", "new", &["10.244.0.9"]),
            service("evil", "big", cluster_ip(3), 20),
            slice("evil", "big", &four),
            service("evil", "old", cluster_ip(4), 10),
            service("evil", "newest", cluster_ip(5), 60),
        ],
    );
    let names = |plan: &World| {
        let all = lines(&contents(plan)[..1]);
        let ours = all.iter().filter(|line| line.contains(" A 10.96."));
        let short = |line: &String| line.split(".svc.").next().unwrap().to_owned();
        ours.map(short).collect::<Vec<_>>()
    };
    // One record of `old`, five of `big`, two of `new`, one of `newest`.
    let all = "big.evil new.evil newest.evil old.evil web.shop";
    let all: Vec<&str> = all.split(' ').collect();
    assert_eq!(names(&plan), all);
    assert_eq!(problems(&pipeline), [""; 0]);
    // Four more of `big`, and the endpoints of the youngest go with their PTRs. Their own names stay: each has room before any endpoint.
    let eight = [
        &four[..],
        &["10.244.0.5", "10.244.0.6", "10.244.0.7", "10.244.0.8"],
    ]
    .concat();
    apply(&mut pipeline, [slice("evil", "big", &eight)]);
    assert_eq!(names(&plan), all);
    let of_endpoints = |line: &String| line.contains("244");
    assert!(!pointers(&plan).iter().any(of_endpoints));
    let complaints = ["big", "new"].map(|name| {
        format!(
            "Service evil/{name}: its endpoints are left out: the objects of the namespace evil that are older, and this one, have more than 10 records (`limits namespace`)"
        )
    });
    assert_eq!(problems(&pipeline), complaints);
    apply(&mut pipeline, [slice("evil", "big", &four)]);
    assert_eq!(names(&plan), all);
    assert!(pointers(&plan).contains(&"9.0.244 10-244-0-9.new.evil".to_owned()));
    assert_eq!(problems(&pipeline), [""; 0]);
}

/// The cost of a change in a full namespace follows what comes and goes, not what is there.
#[test]
fn security_05_a_change_in_a_full_namespace_renders_what_moves_alone() {
    let mut plan = plan().plan;
    plan.limits.namespace = 100;
    plan.external.clear();
    let plan = World::new(plan);
    let mut pipeline = listed(&plan);
    for number in 0..200_u8 {
        let form = ServiceForm::ClusterIp([IpAddr::from([10, 96, 0, number])].into());
        let age = 1000 + u64::from(number);
        feed(
            &mut pipeline,
            Change::Applied(service("evil", &format!("s{number}"), form, age)),
        );
    }
    assert!(pipeline.commit());
    assert_eq!(problems(&pipeline).len(), 100);
    let older = ServiceForm::ClusterIp([IpAddr::from([10, 96, 1, 1])].into());
    feed(
        &mut pipeline,
        Change::Applied(service("evil", "older", older, 1)),
    );
    let mut ready = Vec::new();
    let now = pipeline.now();
    let rendering = pipeline.clusters[0].render(now, &mut ready).unwrap();
    // The new one, and the one that has to go; their addresses.
    assert_eq!(rendering.work, [2, 2, 0]);
}

//! ServiceImports are listed apart from all else: what waits for them and what does not.

use super::*;

/// A headless import, the slice of it that comes from a cluster, and a ClusterSetIP import.
fn imports() -> (Vec<Fact>, Vec<Fact>) {
    let import = |name: &str, form| {
        Fact::ServiceImport(ServiceImport {
            key: ObjectKey::new("a", name),
            form,
            ports: [].into(),
            created_s: 0,
            origin: Origin::default(),
        })
    };
    let slice = Fact::EndpointSlice(EndpointSlice {
        key: ObjectKey::new("a", "db-east"),
        service: None,
        import: Some(Arc::new(ImportOfSlice {
            service: "db".into(),
            cluster: "east".into(),
        })),
        form: SliceForm::Ipv4,
        ports: [].into(),
        endpoints: [Endpoint::new(
            ["10.1.1.1".parse().unwrap()],
            EndpointNames {
                hostname: Some("db-0".into()),
                ..EndpointNames::default()
            },
        )]
        .into(),
        created_s: 0,
        origin: Origin::default(),
    });
    let addresses = ["10.4.2.4".parse().unwrap()];
    let web = import("web", ImportForm::ClusterSetIp(addresses.into()));
    (vec![import("db", ImportForm::Headless), web], vec![slice])
}

/// A writer that was told everything but imports.
fn without_imports(plan: &World) -> Pipeline<NoStore> {
    let mut pipeline = pipeline(plan.clone());
    let (_, slices) = imports();
    for (kind, facts) in [
        (Kind::Namespace, vec![namespace("a")]),
        (Kind::Service, Vec::new()),
        (Kind::EndpointSlice, slices),
    ] {
        feed(&mut pipeline, Change::Listed(kind, facts));
    }
    assert!(pipeline.commit());
    pipeline
}

/// Serials of the zones, in the plan's order.
fn serials(plan: &World) -> Vec<Option<u32>> {
    let serial = |zone: &Arc<Zone>| zone.current().map(|version| version.serial.encode());
    plan.zones.all().iter().map(serial).collect()
}

#[test]
fn only_the_zones_of_imports_wait_for_them() {
    let plan = plan_with_imports();
    let mut pipeline = without_imports(&plan);
    let is_there: Vec<bool> = serials(&plan).iter().map(Option::is_some).collect();
    // forward, two reverse, clusterset, external, its reverse
    assert_eq!(is_there, [true, true, true, false, true, true]);
    assert!(pipeline.is_synced(SourceId(0), false) && !pipeline.is_synced(SourceId(0), true));

    let before = serials(&plan);
    feed(
        &mut pipeline,
        Change::Listed(Kind::ServiceImport, imports().0),
    );
    assert!(pipeline.commit());
    let now = serials(&plan);
    let differs: Vec<bool> = now
        .iter()
        .zip(&before)
        .map(|(now, then)| now != then)
        .collect();
    assert_eq!(differs, [false, true, false, true, false, false]);
    let text = lines(&contents(&plan));
    for line in [
        "web.a.svc.clusterset.local. 5 IN A 10.4.2.4",
        "db-0.east.db.a.svc.clusterset.local. 5 IN A 10.1.1.1",
        "1.1.1.10.in-addr.arpa. 5 IN PTR db-0.east.db.a.svc.clusterset.local.",
        "4.2.4.10.in-addr.arpa. 5 IN PTR web.a.svc.clusterset.local.",
    ] {
        assert!(text.iter().any(|there| there == line), "{line}\n{text:#?}");
    }
}

#[test]
fn what_leads_to_imports_outlives_a_restart_without_them() {
    let plan = plan_with_imports();
    let mut first = without_imports(&plan);
    feed(&mut first, Change::Listed(Kind::ServiceImport, imports().0));
    assert!(first.commit());
    let before = (serials(&plan), lines(&contents(&plan)));

    // the zones hold what they held; the imports cannot be seen
    let mut second = without_imports(&plan);
    assert_eq!((serials(&plan), lines(&contents(&plan))), before);
    // not even when what holds the address changes
    let key = Kind::EndpointSlice.of(&ObjectKey::new("a", "db-east"));
    feed(&mut second, Change::Deleted(key, Origin::default()));
    assert!(second.commit());
    assert_eq!((serials(&plan), lines(&contents(&plan))), before);

    feed(&mut second, Change::Listed(Kind::ServiceImport, Vec::new()));
    assert!(second.commit());
    let text = lines(&contents(&plan));
    let left: Vec<&String> = text
        .iter()
        .filter(|line| line.contains("svc.clusterset"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_part_that_is_away_makes_only_its_zones_stale() {
    let plan = plan_with_imports();
    let mut pipeline = without_imports(&plan);
    // as it is restored from the store
    let restored = Some(5);
    plan.zone("clusterset.local.").set_stale_since_ms(restored);
    let since = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let stale = || -> Vec<Option<u64>> {
        let zones = plan.zones.all().iter();
        zones.map(|zone| zone.stale_since_ms()).collect()
    };
    pipeline.take(found(Part::Cluster));
    assert_eq!(stale(), [None, None, None, restored, None, None]);
    feed(
        &mut pipeline,
        Change::Listed(Kind::ServiceImport, Vec::new()),
    );
    pipeline.take(found(Part::Imports));
    assert_eq!(stale(), [None, None, None, restored, None, None]);
    assert!(pipeline.commit());
    assert_eq!(stale(), [None; 6]);
    pipeline.take(lost(Part::Imports, since(7)));
    assert_eq!(stale(), [None, None, None, Some(7000), None, None]);
    pipeline.take(lost(Part::Cluster, since(9)));
    let all = Some(9000);
    assert_eq!(stale(), [all, all, all, Some(7000), all, all]);
    pipeline.take(found(Part::Imports));
    assert_eq!(stale(), [all; 6]);
    pipeline.take(found(Part::Cluster));
    assert_eq!(stale(), [None; 6]);
}

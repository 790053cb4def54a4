//! Changes of the configuration in the running writer.

use zone::gate::GateSettings;

use super::*;

/// A writer of `cluster.local` and its reverse zones with two Services, and what it wrote.
fn written() -> (World, Pipeline<NoStore>) {
    let world = plan();
    let pipeline = written_in(&world);
    (world, pipeline)
}

/// A writer that saw two Services, and wrote them into a world.
fn written_in(world: &World) -> Pipeline<NoStore> {
    let mut pipeline = pipeline(world.clone());
    feed(
        &mut pipeline,
        Change::Listed(Kind::Namespace, vec![namespace("a")]),
    );
    let services = ["10.0.0.1", "10.0.0.2"].map(files::at_address);
    feed(
        &mut pipeline,
        Change::Listed(Kind::Service, services.to_vec()),
    );
    feed(
        &mut pipeline,
        Change::Listed(Kind::EndpointSlice, Vec::new()),
    );
    assert!(pipeline.commit());
    pipeline
}

/// The numbers of the versions of all zones.
fn numbers(world: &World) -> Vec<u64> {
    let zones = world.zones.all().iter();
    zones.map(|zone| zone.current().unwrap().seq).collect()
}

/// The same world under another plan.
fn with_plan(world: &World, change: impl FnOnce(&mut ClusterPlan)) -> World {
    let mut new = world.clone();
    change(&mut new.plan);
    new
}

/// What a writer that saw the same objects under this plan from the start writes.
fn fresh_lines(world: &World) -> Vec<String> {
    let fresh = World::new(world.plan.clone());
    let _pipeline = written_in(&fresh);
    lines(&contents(&fresh))
}

#[test]
fn a_retention_and_a_gate_render_nothing() {
    let (world, mut pipeline) = written();
    let before = numbers(&world);
    let zone: Name = "cluster.local.".parse().unwrap();
    let retention = Retention {
        versions: 3,
        ..RETENTION
    };
    let gate = Some(GateSettings::DEFAULT);
    let changes = vec![
        PlanChange::SetRetention {
            zone: zone.clone(),
            retention,
        },
        PlanChange::SetGate {
            zone: zone.clone(),
            gate,
        },
    ];
    configure(&mut pipeline, &world, changes, Some("x"));
    assert!(!pipeline.clusters[0].is_due());
    assert!(pipeline.commit());
    assert_eq!(numbers(&world), before);
    let plan = pipeline.clusters[0].plan.zone(&zone).unwrap();
    assert_eq!((plan.retention, plan.gate), (retention, gate));
    assert_eq!(pipeline.guard_of(&zone).unwrap().1.gate, gate);
}

#[test]
fn an_apex_renders_the_top_of_its_zone_alone() {
    let (world, mut pipeline) = written();
    let before = numbers(&world);
    let new = with_plan(&world, |plan| {
        plan.forward[0].apex.refresh = Ttl::decode(77);
        plan.forward[0].apex.name_servers[0].addresses = vec!["10.0.0.11".parse().unwrap()];
    });
    let change = PlanChange::SetApex {
        zone: new.plan.forward[0].name.clone(),
        apex: new.plan.forward[0].apex.clone(),
    };
    configure(&mut pipeline, &new, vec![change], Some("x"));
    assert!(!pipeline.clusters[0].all_dirty && pipeline.clusters[0].is_due());
    assert!(pipeline.commit());
    assert_eq!(numbers(&new)[0], before[0] + 1);
    assert_eq!(numbers(&new)[1..], before[1..]);
    assert_eq!(lines(&contents(&new)), fresh_lines(&new));
    let version = new.zone("cluster.local.").current().unwrap();
    assert_eq!(version.contents.soa().refresh, Ttl::decode(77));
}

#[test]
fn an_apex_with_other_name_servers_gives_what_a_new_writer_gives() {
    let (world, mut pipeline) = written();
    let new = with_plan(&world, |plan| {
        plan.forward[0].apex.name_servers[0].name = "b.dns.cluster.local.".parse().unwrap();
    });
    let change = PlanChange::SetApex {
        zone: new.plan.forward[0].name.clone(),
        apex: new.plan.forward[0].apex.clone(),
    };
    configure(&mut pipeline, &new, vec![change], None);
    assert!(pipeline.commit());
    assert_eq!(lines(&contents(&new)), fresh_lines(&new));
}

#[test]
fn a_ttl_renders_the_zones_from_the_facts_that_are_there() {
    let (world, mut pipeline) = written();
    let new = with_plan(&world, |plan| plan.ttl = Ttl::decode(77));
    let change = PlanChange::SetTtl {
        cluster: new.plan.home().clone(),
        ttl: new.plan.ttl,
    };
    configure(&mut pipeline, &new, vec![change], Some("x"));
    assert!(pipeline.commit());
    assert_eq!(lines(&contents(&new)), fresh_lines(&new));
}

#[test]
fn another_view_of_the_same_objects_needs_no_list() {
    let (world, mut pipeline) = written();
    let new = with_plan(&world, |plan| plan.namespaces = Some(BTreeSet::new()));
    let change = PlanChange::SetCluster {
        cluster: new.plan.home().clone(),
        plan: new.plan.clone(),
    };
    configure(&mut pipeline, &new, vec![change], None);
    assert!(pipeline.commit());
    assert_eq!(lines(&contents(&new)), fresh_lines(&new));
}

#[test]
fn late_events_of_a_source_that_was_replaced_count_for_nothing() {
    let (world, mut pipeline) = written();
    let before = numbers(&world);
    let mut new = world.clone();
    new.handles.source = SourceId(7);
    let restart = PlanChange::RestartSource {
        cluster: new.plan.home().clone(),
        plan: new.plan.clone(),
    };
    configure(&mut pipeline, &new, vec![restart], None);
    let list = |kind| Change::Listed(kind, Vec::new());
    // The old source has the number 0.
    for kind in Kinds::BASE.iter() {
        feed(&mut pipeline, list(kind));
    }
    assert!(pipeline.commit());
    assert_eq!(numbers(&world), before);
    let seen = pipeline.clock.now();
    for kind in Kinds::BASE.iter() {
        let (source, event) = (SourceId(7), seen_at(list(kind), seen));
        pipeline.take(Input::Source { source, event });
    }
    assert!(pipeline.commit());
    assert_ne!(numbers(&world), before);
}

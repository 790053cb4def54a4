//! A writer that makes no versions, because another replica leads.

use std::sync::atomic::Ordering;

use super::*;

/// A headless Service of the namespace `a`, and the namespace.
fn objects(services: &[&str]) -> Objects {
    let service = |name: &&str| {
        Fact::Service(Service {
            key: ObjectKey::new("a", name),
            form: ServiceForm::ClusterIp([IpAddr::from([10, 0, 0, 1])].into()),
            ports: [].into(),
            external: None,
            created_s: 0,
            origin: Origin::default(),
        })
    };
    let facts = services.iter().map(service).chain([namespace("a")]);
    facts.map(|fact| (key_of(&fact), fact)).collect()
}

/// Lists these objects, all that there are.
fn list_all(pipeline: &mut Pipeline<NoStore>, world: &World, objects: &Objects) {
    for kind in Kind::ALL {
        if world.plan.kinds.contains(kind) {
            feed(pipeline, list(objects, kind));
        }
    }
}

/// The serial of each zone.
fn serials(world: &World) -> Vec<u32> {
    let versions = world.zones.all().iter().filter_map(|zone| zone.current());
    versions.map(|version| version.serial.encode()).collect()
}

#[test]
fn a_writer_that_follows_makes_no_version_and_begins_with_all_that_it_has_seen() {
    let world = plan();
    let mut subject = pipeline(world.clone());
    subject.store.leader = Some("ask a".to_owned());
    list_all(&mut subject, &world, &objects(&["s"]));
    assert!(subject.commit());
    list_all(&mut subject, &world, &objects(&["s", "t"]));
    assert!(subject.commit());
    assert_eq!((subject.store.commits, contents(&world).len()), (0, 0));
    assert_eq!(world.handles.gauges.synced.load(Ordering::Relaxed), 1);
    let (asked, mut answer) = oneshot::channel();
    subject.take(Input::Release {
        zone: world.plan.home().clone(),
        by: Operator::default(),
        asked,
    });
    assert_eq!(answer.try_recv(), Ok(Err("ask a".to_owned())));

    subject.store.leader = None;
    subject.take(Input::Lead {
        must_publish: false,
    });
    assert!(subject.commit());
    assert_eq!(subject.store.commits, 1);
    let other = plan();
    let mut leader = pipeline(other.clone());
    list_all(&mut leader, &other, &objects(&["s", "t"]));
    assert!(leader.commit());
    assert_eq!(lines(&contents(&world)), lines(&contents(&other)));
}

#[test]
fn a_writer_that_leads_again_publishes_only_what_differs_unless_it_must() {
    let world = plan();
    let mut subject = pipeline(world.clone());
    list_all(&mut subject, &world, &objects(&["s"]));
    assert!(subject.commit());
    let (first, published) = (serials(&world), lines(&contents(&world)));
    subject.take(Input::Lead {
        must_publish: false,
    });
    assert!(subject.commit());
    assert_eq!(serials(&world), first);
    subject.take(Input::Lead { must_publish: true });
    assert!(subject.commit());
    let second = serials(&world);
    assert!(
        second.iter().zip(&first).all(|(new, old)| new > old),
        "{second:?} after {first:?}"
    );
    assert_eq!(lines(&contents(&world)), published);
}

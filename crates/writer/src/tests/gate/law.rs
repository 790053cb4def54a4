//! What was held is nothing lost.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The law of the gate: whatever was held and let out, in the end the zones are what rendering all
    /// gives; and what is let out leads from the served version to it.
    #[test]
    fn what_was_held_equals_full_rendering_once_it_is_out(
        options in any_options(),
        events in prop::collection::vec(any_event(), 1..40),
    ) {
        let gate = GateSettings { shrink_percent: 10, at_least: 2, hold: None };
        let mut subject = Subject::new(World::new(gated(same_options(&options).plan, gate)));
        let mut objects: Objects =
            ["a", "b"].map(namespace).into_iter().map(|fact| (key_of(&fact), fact)).collect();
        let told = subject.plan.kinds;
        for kind in told.iter() {
            feed(&mut subject.pipeline, list(&objects, kind));
        }
        prop_assert!(subject.pipeline.commit());
        for event in events {
            match event {
                Event::Apply(fact) if !told.contains(fact.kind()) => {}
                Event::Delete(key) if !told.contains(key.kind) => {}
                Event::Relist(kind, ..) if !told.contains(kind) => {}
                Event::Apply(fact) => {
                    objects.insert(key_of(&fact), fact.clone());
                    feed(&mut subject.pipeline, Change::Applied(fact));
                }
                Event::Delete(key) => {
                    objects.remove(&key);
                    feed(&mut subject.pipeline, Change::Deleted(key, Origin::default()));
                }
                Event::Relist(kind, applied, deleted) => {
                    objects.retain(|key, _| key.kind != kind || deleted.contains(key));
                    for fact in applied.into_iter().filter(|fact| fact.kind() == kind) {
                        objects.insert(key_of(&fact), fact);
                    }
                    feed(&mut subject.pipeline, list(&objects, kind));
                }
                Event::Commit => prop_assert!(subject.pipeline.commit()),
            }
        }
        prop_assert!(subject.pipeline.commit());
        let before = contents(&subject.plan);
        let zones: Vec<_> = subject.plan.zones.all().to_vec();
        let held: Vec<bool> = zones.iter().map(|zone| zone.held().is_some()).collect();
        for zone in &zones {
            let _answer = subject.release(&zone.apex().to_string());
        }
        prop_assert!(subject.pipeline.commit());
        let after = contents(&subject.plan);
        let (want, want_seen) = fresh(&options, told, &objects);
        prop_assert_eq!(lines(&after), lines(&want));
        prop_assert_eq!(seen(&subject.plan), want_seen);
        for (place, zone) in zones.iter().enumerate().filter(|(place, _)| held[*place]) {
            let version = zone.current().unwrap();
            let step = version.history.last().unwrap();
            prop_assert!(zone.held().is_none());
            prop_assert!(step.apply(&before[place]).unwrap().same_as(&after[place]));
            let named = step.removed.iter().chain(step.added.iter()).all(|rr| {
                usize::try_from(rr.tag).is_ok_and(|tag| step.causes.get(tag).is_some_and(|it| !it.is_empty()))
            });
            prop_assert!(named, "a record without a cause");
        }
    }
}

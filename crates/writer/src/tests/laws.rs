//! Bit by bit is as at once: any events, in any order, end in the zones of a first rendering.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// The law of the pipeline: rendering dirty keys one by one gives what rendering all gives; the
    /// steps between the versions lead from each to the next.
    #[test]
    fn incremental_rendering_equals_full_rendering(
        plan in any_options(),
        events in prop::collection::vec(any_event(), 1..40),
    ) {
        let plan = same_options(&plan);
        let mut pipeline = pipeline(plan.clone());
        let mut objects: Objects =
            ["a", "b"].map(namespace).into_iter().map(|fact| (key_of(&fact), fact)).collect();
        // imports are listed when they are, the others at the start
        let mut told = plan.kinds.without(Kind::ServiceImport);
        for kind in told.iter() {
            feed(&mut pipeline, list(&objects, kind));
        }
        prop_assert!(pipeline.commit());
        let current = |zone: &Arc<Zone>| zone.current().map(|version| version.contents.clone());
        let mut before: Vec<Option<Contents>> = plan.zones.all().iter().map(current).collect();
        for event in events {
            match event {
                // a source that is not asked for a kind says nothing of it
                Event::Apply(fact) if !told.contains(fact.kind()) => {}
                Event::Delete(key) if !told.contains(key.kind) => {}
                Event::Relist(kind, ..) if !plan.kinds.contains(kind) => {}
                Event::Apply(fact) => {
                    objects.insert(key_of(&fact), fact.clone());
                    feed(&mut pipeline, Change::Applied(fact));
                }
                Event::Delete(key) => {
                    objects.remove(&key);
                    feed(&mut pipeline, Change::Deleted(key, Origin::default()));
                }
                Event::Relist(kind, applied, deleted) => {
                    for key in deleted.iter().filter(|key| key.kind == kind) {
                        objects.remove(key);
                    }
                    for fact in applied.into_iter().filter(|fact| fact.kind() == kind) {
                        objects.insert(key_of(&fact), fact);
                    }
                    told = told.with(kind);
                    feed(&mut pipeline, list(&objects, kind));
                }
                Event::Commit => {
                    prop_assert!(pipeline.commit());
                    let now = contents(&plan);
                    let (want, first) = fresh_writer(&plan, told, &objects);
                    prop_assert_eq!(lines(&now), lines(&contents(&want)));
                    prop_assert_eq!(seen(&plan), seen(&want));
                    prop_assert_eq!(problems(&pipeline), problems(&first));
                    for (zone, before) in plan.zones.all().iter().zip(&before) {
                        let (Some(version), Some(before)) = (zone.current(), before) else {
                            continue;
                        };
                        if let Some(step) = version.history.last()
                            && step.seq == version.seq
                        {
                            let start = if version.contents.same_as(before) {
                                continue
                            } else {
                                step.apply(before).unwrap()
                            };
                            prop_assert!(start.same_as(&version.contents));
                            prop_assert!(step.revert(&version.contents).unwrap().same_as(before));
                        }
                    }
                    before = plan.zones.all().iter().map(current).collect();
                }
            }
        }
    }
}

//! A change of the configuration: a cause of what the first rendering after it changes, and of no more.

use super::*;

#[test]
fn a_change_of_the_corefile_is_a_cause_of_what_its_first_rendering_changes() {
    let subject = Subject::of_ten();
    let what = "the Corefile, SHA512 2…, before 1…";
    let cause = format!("configured {what} by ");
    let ttl = Ttl::decode(11);
    let mut next = Subject::new(ClusterPlan {
        ttl,
        ..subject.plan
    });
    next.pipeline = next.pipeline.with_change(Some(what));
    let serial = next.serial();
    next.relist(0..10);
    assert!(next.serial() > serial);
    let causes = next.causes();
    assert!(causes.contains(&cause), "{causes:?}");
    // The objects stay named beside it.
    assert!(causes.contains("listed a/s0 by "), "{causes:?}");
    next.add(10);
    assert_eq!(next.causes(), ["applied a/s10 by ".to_owned()].into());
}

//! Catalogs, by the numbers of the reference's test list (G): what is listed, under which labels, when.

use dns::{Rtype, Soa};
use kubernetes::schema::{CATALOG_TTL, CatalogMember, invalid};
use zone::testing;

use super::*;

/// A zone with a version.
pub(super) fn there(name: &str) -> Arc<Zone> {
    testing::zone(name, 1, &[])
}

fn awaited(name: &str) -> Arc<Zone> {
    Arc::new(Zone::new(&name.parse().unwrap()))
}

/// A catalog and its zones.
#[derive(Clone)]
pub(super) struct Catalog {
    /// Its plan.
    pub(super) plan: CatalogPlan,
    /// Its own zone.
    pub(super) zone: Arc<Zone>,
    /// That and those of its members.
    pub(super) zones: Vec<Arc<Zone>>,
}

/// A catalog of these zones, which holds what `before` held.
pub(super) fn catalog(zones: &[&Arc<Zone>], before: Option<&Catalog>) -> Catalog {
    let zone = awaited("catalog.invalid.");
    if let Some(version) = before.and_then(|plan| plan.zone.current()) {
        zone.restore(Version::clone(&version));
    }
    catalog_in(zone, zones)
}

/// A catalog of these zones with this zone as its own.
fn catalog_in(zone: Arc<Zone>, zones: &[&Arc<Zone>]) -> Catalog {
    let member = |zone: &&Arc<Zone>| CatalogMember {
        zone: zone.apex().clone(),
        groups: Vec::new(),
        moves_to: None,
    };
    let timer = Ttl::decode(300);
    let plan = CatalogPlan {
        zone: zone.apex().clone(),
        retention: RETENTION,
        soa: Soa {
            mname: invalid(),
            rname: invalid(),
            refresh: timer,
            retry: timer,
            expire: timer,
            minimum: CATALOG_TTL,
            ttl: CATALOG_TTL,
        },
        members: zones.iter().map(member).collect(),
    };
    let members = zones.iter().map(|zone| Arc::clone(zone));
    let zones = members.chain([Arc::clone(&zone)]).collect();
    Catalog { plan, zone, zones }
}

/// A writer of this catalog, after one commit.
pub(super) fn written(catalog: &Catalog) -> Pipeline<NoStore> {
    let pipeline = files::without_clusters(&catalog.zones, NoStore::default());
    let mut pipeline = pipeline.with_catalogs(vec![catalog.plan.clone()]);
    assert!(pipeline.commit());
    pipeline
}

/// The records of a catalog but its SOA.
fn records(plan: &Catalog) -> Vec<String> {
    lines(&[plan.zone.current().unwrap().contents.clone()])
}

/// The label of a member.
fn label(plan: &Catalog, member: &str) -> Option<String> {
    let version = plan.zone.current()?;
    let apex = version.contents.apex().clone();
    let target: Name = member.parse().unwrap();
    let mut nodes = version.contents.nodes();
    let node = nodes.find(|node| {
        let pointer = node.rrset(Rtype::PTR);
        pointer.is_some_and(|it| it.data().any(|data| data == target.as_wire()))
    })?;
    let owner = Name::from_wire(&node.owner_wire(&apex)).unwrap();
    Some(owner.to_string())
}

/// The serial of a catalog.
fn serial(plan: &Catalog) -> u32 {
    plan.zone.current().unwrap().serial.encode()
}

#[test]
fn g1_a_catalog_of_three_members_is_what_rfc_9432_wants() {
    let zones = [there("a."), there("b."), there("10.in-addr.arpa.")];
    let plan = catalog(&zones.each_ref(), None);
    written(&plan);
    let records = records(&plan);
    let count = |part: &str| records.iter().filter(|line| line.contains(part)).count();
    assert_eq!(records.len(), 5, "{records:#?}");
    assert_eq!(
        count("catalog.invalid. 0 IN NS invalid."),
        1,
        "{records:#?}"
    );
    assert_eq!(
        count("version.catalog.invalid. 0 IN TXT \"2\""),
        1,
        "{records:#?}"
    );
    assert_eq!(
        count(".zones.catalog.invalid. 0 IN PTR "),
        3,
        "{records:#?}"
    );
    assert!(records.iter().all(|line| line.contains(" 0 IN ")));
    assert_eq!(plan.zone.current().unwrap().contents.soa().ttl, CATALOG_TTL);
}

#[test]
fn g2_a_member_that_left_and_comes_back_has_another_label_each_time() {
    let (a, b) = (there("a."), there("b."));
    let mut before = catalog(&[&a, &b], None);
    written(&before);
    let kept = label(&before, "a.").unwrap();
    let mut seen = BTreeSet::from([label(&before, "b.").unwrap()]);
    for _ in 0..3 {
        let without = catalog(&[&a], Some(&before));
        written(&without);
        assert_eq!(label(&without, "b."), None);
        let again = catalog(&[&a, &b], Some(&without));
        written(&again);
        assert!(seen.insert(label(&again, "b.").unwrap()), "{seen:?}");
        assert_eq!(label(&again, "a."), Some(kept.clone()));
        before = again;
    }
}

#[test]
fn g3_a_restart_changes_neither_labels_nor_serial() {
    let zones = [there("a."), there("b.")];
    let before = catalog(&zones.each_ref(), None);
    written(&before);
    let after = catalog(&zones.each_ref(), Some(&before));
    written(&after);
    assert_eq!(records(&before), records(&after));
    assert_eq!(serial(&before), serial(&after));
    // A new disk gives the same labels.
    let anew = catalog(&zones.each_ref(), None);
    written(&anew);
    assert_eq!(records(&before), records(&anew));
}

/// RFC 9432 section 4.3.1: a member that moves under the same label keeps what consumers know of it.
#[test]
fn g5_a_member_keeps_its_label_in_the_catalog_it_moves_to() {
    let (a, b) = (there("a."), there("b."));
    let first_label = |plan: &Catalog| {
        let owner = label(plan, "a.")?;
        Some(owner.split('.').next()?.to_owned())
    };
    let mut old = catalog(&[&a, &b], None);
    written(&old);
    let kept = first_label(&old).unwrap();
    // The old catalog says where it goes, the new one has it; then the old one has it no more.
    let mut moving = catalog(&[&a, &b], Some(&old));
    moving.plan.members[0].moves_to = Some("other.invalid.".parse().unwrap());
    let new = catalog_in(awaited("other.invalid."), &[&a]);
    written(&moving);
    written(&new);
    assert_eq!(first_label(&moving), Some(kept.clone()));
    assert_eq!(first_label(&new), Some(kept));
    old = catalog(&[&b], Some(&moving));
    written(&old);
    assert_eq!(first_label(&old), None);
}

#[test]
fn g6_groups_and_moves_stand_below_the_member() {
    let a = there("a.");
    let mut plan = catalog(&[&a], None);
    plan.plan.members[0].groups = vec!["internal".into()];
    plan.plan.members[0].moves_to = Some("other.invalid.".parse().unwrap());
    written(&plan);
    let label = label(&plan, "a.").unwrap();
    let records = records(&plan);
    for want in [
        format!("group.{label} 0 IN TXT \"internal\""),
        format!("coo.{label} 0 IN PTR other.invalid."),
    ] {
        assert!(
            records.iter().any(|line| line.ends_with(&want)),
            "{want}\n{records:#?}"
        );
    }
}

#[test]
fn g7_one_more_among_many_members_is_a_step_of_one_record() {
    let many: Vec<Arc<Zone>> = (0..20_000).map(|i| there(&format!("z{i}."))).collect();
    let all: Vec<&Arc<Zone>> = many.iter().collect();
    let last = awaited("last.");
    let mut with_last = all.clone();
    with_last.push(&last);
    let before = catalog(&all, None);
    written(&before);
    let after = catalog(&with_last, Some(&before));
    let mut pipeline = written(&after);
    assert_eq!(serial(&before), serial(&after));
    last.restore(Version::clone(&there("last.").current().unwrap()));
    assert!(pipeline.commit());
    let version = after.zone.current().unwrap();
    let step = version.history.last().unwrap();
    assert_eq!((step.added.len(), step.removed.len()), (1, 0));
}

#[test]
fn g8_what_was_announced_stays_while_its_version_is_gone() {
    let (a, b) = (there("a."), there("b."));
    let before = catalog(&[&a, &b], None);
    written(&before);
    let (a, b) = (awaited("a."), awaited("b."));
    let after = catalog(&[&a, &b], Some(&before));
    written(&after);
    assert_eq!(records(&before), records(&after));
    assert_eq!(serial(&before), serial(&after));
}

#[test]
fn g9_a_member_is_announced_once_it_has_a_version() {
    let (a, b) = (there("a."), awaited("b."));
    let first = catalog(&[&a], None);
    written(&first);
    let plan = catalog(&[&a, &b], Some(&first));
    let mut pipeline = written(&plan);
    assert_eq!(label(&plan, "b."), None);
    b.restore(Version::clone(&there("b.").current().unwrap()));
    assert!(pipeline.commit());
    assert!(label(&plan, "b.").is_some());
    // Nothing more is due: no version without a change.
    let serial_then = serial(&plan);
    assert!(pipeline.commit());
    assert_eq!(serial(&plan), serial_then);
}

#[test]
fn a_first_catalog_waits_until_all_members_are_there() {
    let (a, b) = (there("a."), awaited("b."));
    let plan = catalog(&[&a, &b], None);
    let mut pipeline = written(&plan);
    assert!(plan.zone.current().is_none(), "secondaries would drop b.");
    b.restore(Version::clone(&there("b.").current().unwrap()));
    assert!(pipeline.commit());
    assert!(label(&plan, "a.").is_some() && label(&plan, "b.").is_some());
}

#[test]
fn a_catalog_that_the_store_refused_is_tried_again() {
    let a = there("a.");
    let plan = catalog(&[&a], None);
    let store = NoStore {
        refusals: 1,
        ..NoStore::default()
    };
    let pipeline = files::without_clusters(&plan.zones, store);
    let mut pipeline = pipeline.with_catalogs(vec![plan.plan.clone()]);
    assert!(!pipeline.commit());
    assert!(plan.zone.current().is_none());
    assert!(pipeline.commit());
    assert!(label(&plan, "a.").is_some());
}

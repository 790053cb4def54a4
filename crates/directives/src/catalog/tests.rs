//! Tests of `catalog`.

use crate::config::Catalog;
use crate::config::tests::{config, name, read, warnings};

/// A block with two zones that may be transferred, and these lines.
fn text(lines: &str) -> String {
    format!(
        "cluster.local 10.in-addr.arpa catalog.invalid {{\nkubernetes\ntransfer {{\n allow \
         192.0.2.1\n}}\n{lines}\n}}\n"
    )
}

/// The problems of a text.
fn wrong(text: &str) -> String {
    read(text).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_catalog_lists_all_zones_that_somebody_may_have() {
    let config = config(&text("catalog Catalog.invalid"));
    let block = &config.servers[0];
    let catalog = &block.get::<Catalog>().unwrap();
    assert_eq!(catalog.zone, name("catalog.invalid"));
    let entries = block.catalog_members(catalog);
    let zones: Vec<String> = entries.iter().map(|it| it.zone.to_string()).collect();
    assert_eq!(zones, ["cluster.local.", "10.in-addr.arpa."]);
    let zones: Vec<String> = block.zones_written().map(ToString::to_string).collect();
    assert_eq!(
        zones,
        ["cluster.local.", "10.in-addr.arpa.", "catalog.invalid."]
    );
}

/// transfer D4
#[test]
fn a_catalog_whose_questions_go_to_another_block_is_warned_about() {
    let own = "a {\nkubernetes\ntransfer a catalog.invalid {\nallow 192.0.2.1\n}\ncatalog catalog.invalid\n}\n";
    assert_eq!(warnings(own), [""; 0]);
    let other = warnings(&format!("{own}. {{\nwhoami\n}}\n"));
    let want = "Corefile:6:1: questions for catalog.invalid. on port 53 go to the block at Corefile:8:1: it is not \
                transferred there";
    assert!(other[0].starts_with(want), "{other:?}");
    assert_eq!(warnings(&format!("{own}.:54 {{\nwhoami\n}}\n")), [""; 0]);
}

#[test]
fn members_groups_and_moves_are_by_member() {
    let config = config(&text(
        "catalog catalog.invalid cluster.local 10.0.0.0/8 {\n group names cluster.local\n coo \
         new.invalid 10.0.0.0/8\n}",
    ));
    let block = &config.servers[0];
    let entries = block.catalog_members(block.get::<Catalog>().unwrap());
    assert_eq!(entries[0].groups, ["names"]);
    assert_eq!(entries[0].moves_to, None);
    assert!(entries[1].groups.is_empty());
    assert_eq!(entries[1].moves_to, Some(name("new.invalid")));
}

#[test]
fn who_reads_a_catalog_and_may_not_have_a_member_is_warned_about() {
    let of = |members: &str| {
        let text = format!(
            "cluster.local 10.in-addr.arpa catalog.invalid {{\nkubernetes\ntransfer cluster.local 10.in-addr.arpa {{\n allow 192.0.2.0/24\n}}\n\
             transfer catalog.invalid {{\n to 192.0.2.1 198.51.100.1\n}}\ncatalog catalog.invalid {members}\n}}\n"
        );
        warnings(&text)
    };
    let said = of("");
    let [said] = &said[..] else {
        panic!("{said:?}")
    };
    let reads = "198.51.100.1 reads the catalog catalog.invalid. and may not transfer";
    let want = format!("{reads} 2 of its members, such as cluster.local.; name it");
    assert!(said.contains(&want), "{said}");
    let [said] = &of("cluster.local")[..] else {
        panic!("one is left")
    };
    let want = format!("{reads} its member cluster.local.; name it");
    assert!(said.contains(&want), "{said}");
}

#[test]
fn what_secondaries_would_choke_on_is_refused() {
    for (lines, want) in [
        ("catalog", "catalog has no zone"),
        (
            "catalog catalog.invalid\nk8s_external catalog.invalid",
            "is a zone with content already",
        ),
        ("catalog other.invalid", "no peer may transfer the catalog"),
        (
            "catalog catalog.invalid x.org",
            "which this block does not write",
        ),
        (
            "catalog catalog.invalid {\n group a\n group b\n}",
            "is in several groups",
        ),
        (
            "catalog catalog.invalid {\n coo catalog.invalid\n}",
            "names its own catalog",
        ),
        (
            "catalog catalog.invalid {\n coo a.b\n coo c.d\n}",
            "moves to several catalogs",
        ),
        (
            "catalog catalog.invalid {\n group a x.org\n}",
            "is not a member",
        ),
        ("catalog catalog.invalid {\n groop a\n}", "groop"),
    ] {
        let wrong = wrong(&text(lines));
        assert!(wrong.contains(want), "{lines}: {wrong}");
    }
    read(&text(
        "catalog catalog.invalid {\n group a\n group b\n several_groups\n}",
    ))
    .unwrap();
    let long = format!("{}.invalid", ["abcdefghijklmnopqrstuvwxyz"; 8].join("."));
    let lines = format!("catalog {long}\n");
    assert!(wrong(&text(&lines)).contains("too long"));
}

#[test]
fn g8_a_catalog_without_a_member_is_refused() {
    let text = "cluster.local catalog.invalid {\nkubernetes\ntransfer catalog.invalid {\n allow \
                192.0.2.1\n}\ncatalog catalog.invalid\n}\n";
    assert!(wrong(text).contains("would drop all"));
}

#[test]
fn g4_one_zone_in_two_catalogs_is_refused_unless_it_moves() {
    let two = |more: &str| {
        format!(
            "cluster.local a.invalid b.invalid {{\nkubernetes\ntransfer {{\n allow \
             192.0.2.1\n}}\ncatalog a.invalid {{\n{more}\n}}\ncatalog b.invalid\n}}\n"
        )
    };
    assert!(wrong(&two("group x")).contains("is also in the catalog a.invalid."));
    read(&two("coo b.invalid")).unwrap();
    let both = two("coo b.invalid").replace(
        "catalog b.invalid",
        "catalog b.invalid {\n coo a.invalid\n}",
    );
    assert!(wrong(&both).contains("is also in the catalog"));
    let config = config(&text("catalog catalog.invalid cluster.local cluster.local"));
    let block = &config.servers[0];
    assert_eq!(
        block.catalog_members(block.get::<Catalog>().unwrap()).len(),
        1
    );
}

//! Tests of `file`: zones from files, and files under a cluster's zones.

use std::time::Duration;

use crate::config::ZoneFile;
use crate::config::tests::{block, check_problems, config, faults, shown, warnings};

/// The zones from files, and the files under zones, as `zone file` and `zone over file for names`.
fn made(text: &str) -> Vec<String> {
    let server = config(text).servers.remove(0);
    let mut made: Vec<String> = server
        .file_zones()
        .map(|(zone, file)| format!("{zone} {}", file.path.display()))
        .collect();
    for zone in server.zones_written() {
        if let Some((file, names)) = server.overlay_of(zone) {
            let names = shown(&names).join(" ");
            made.push(format!("{zone} over {} for {names}", file.path.display()));
        }
    }
    made
}

#[test]
fn a_file_is_for_the_zones_it_names_else_those_of_its_block() {
    assert_eq!(made("a b {\n file db\n}"), ["a. db", "b. db"]);
    assert_eq!(
        made("a b {\n file db B\n file other a\n}"),
        ["b. db", "a. other"]
    );
    assert_eq!(
        made("10.0.0.0/24 {\n file db\n}"),
        ["0.0.10.in-addr.arpa. db"]
    );
}

#[test]
fn a_file_is_looked_at_every_minute_unless_told() {
    let reload = |option: &str| {
        block(&format!("file db {{\n{option}\n}}"))
            .all::<ZoneFile>()
            .collect::<Vec<_>>()
            .remove(0)
            .reload
    };
    assert_eq!(
        block("file db").get::<ZoneFile>().unwrap().reload,
        Some(Duration::from_secs(60))
    );
    assert_eq!(reload("reload 1h30m"), Some(Duration::from_secs(5400)));
    assert_eq!(reload("reload 0"), None);
    assert_eq!(
        reload("reload 0s\n upstream 1.1.1.1\n reload_by_mtime"),
        None
    );
    assert_eq!(
        shown(
            &block("file db {\n fallthrough\n}")
                .get::<ZoneFile>()
                .unwrap()
                .fallthrough
        ),
        ["."]
    );
}

#[test]
fn a_file_under_a_cluster_is_asked_where_kubernetes_falls_through() {
    let with = |fallthrough: &str| {
        format!(
            "z 10.0.0.0/8 {{\n kubernetes {{\n{fallthrough}\n}}\n file db z\n file r 10.0.0.0/8\n}}"
        )
    };
    assert_eq!(
        made(&with("fallthrough")),
        [
            "z. over db for z.",
            "10.in-addr.arpa. over r for 10.in-addr.arpa."
        ]
    );
    assert_eq!(made(&with("fallthrough z")), ["z. over db for z."]);
    assert_eq!(
        made(&with("fallthrough a.z b.z")),
        ["z. over db for a.z. b.z."]
    );
    assert_eq!(made(&with("")), Vec::<String>::new());
    let outside = "z c {\n kubernetes c\n k8s_external z {\n fallthrough\n }\n file db z\n}";
    assert_eq!(made(outside), ["z. over db for z."]);
    let warned = warnings(&with(""));
    assert!(
        warned[0].starts_with(
            "Corefile:5:2: kubernetes answers for all names of z.: this file is never used"
        ),
        "{warned:?}"
    );
}

/// conformance 1
#[test]
fn a_name_is_left_to_forward_where_every_layer_of_its_zone_leaves_it() {
    let left = |zone: &str, directives: &str| {
        let block = &config(&format!("z c in-addr.arpa {{\n{directives}\n}}\n")).servers[0];
        shown(&block.fallthrough_of(&dns::Name::parse(zone).unwrap())).join(" ")
    };
    let layers = |kubernetes: &str, file: &str| {
        format!("kubernetes z in-addr.arpa {{\n{kubernetes}\n}}\nfile db z {{\n{file}\n}}")
    };
    for (kubernetes, file, names) in [
        ("", "", ""),
        ("fallthrough", "", ""),
        ("", "fallthrough", ""),
        ("fallthrough", "fallthrough", "z."),
        ("fallthrough", "fallthrough a.z", "a.z."),
        (
            "fallthrough b.z a.z",
            "fallthrough c.a.z b.z",
            "c.a.z. b.z.",
        ),
        ("fallthrough a.z", "fallthrough b.z", ""),
        ("fallthrough in-addr.arpa", "fallthrough", ""),
    ] {
        let text = layers(kubernetes, file);
        assert_eq!(left("z", &text), names, "{text}");
    }
    let all = layers("fallthrough", "");
    assert_eq!(left("in-addr.arpa", &all), "in-addr.arpa.");
    let outside = "kubernetes c\nk8s_external z {\nfallthrough\n}\nfile db z";
    assert_eq!(left("z", outside), "");
    assert_eq!(left("z", &format!("{outside} {{\nfallthrough\n}}")), "z.");
    for (etcd, names) in [
        ("", ""),
        ("fallthrough", "z."),
        ("fallthrough b.z a.z", "a.z. b.z."),
        ("fallthrough c", ""),
    ] {
        assert_eq!(
            left("z", &format!("etcd z {{\n{etcd}\n}}")),
            names,
            "{etcd}"
        );
    }
    // A zone in the zone of another layer.
    let within = "kubernetes z in-addr.arpa {\nfallthrough\n}\nfile db 10.in-addr.arpa";
    assert_eq!(left("10.in-addr.arpa", within), "");
    assert_eq!(left("in-addr.arpa", within), "in-addr.arpa.");
    let within = format!("{within} {{\nfallthrough\n}}");
    assert_eq!(left("10.in-addr.arpa", &within), "10.in-addr.arpa.");
    assert_eq!(left("elsewhere", &within), "");
}

#[test]
fn faults_of_file_have_their_place() {
    assert_eq!(faults("file"), ["1:1: file has no file name"]);
    assert_eq!(
        faults("file db {\n reload x\n bogus\n}"),
        [
            "2:9: reload 'x': not a duration such as 300ms, 30s or 1h5m",
            "3:2: file has no option 'bogus'"
        ]
    );
    assert_eq!(
        faults("file db a\nfile other a"),
        ["2:1: a. already has a file in line 2"]
    );
}

#[test]
fn a_zone_is_made_of_one_thing_in_all_blocks() {
    let clash = "Corefile:5:2: the block at Corefile:1:1 has another source for z.";
    check_problems("z {\n file db\n}\nz:54 {\n file other\n}", &[clash]);
    check_problems("z {\n file db\n}\nz:54 {\n file db\n}", &[]);
    check_problems("z {\n kubernetes\n}\nz:54 {\n file db\n}", &[clash]);
    let over = |file: &str| format!("z {{\n kubernetes {{\n fallthrough\n }}\n {file}\n}}");
    let text = format!("{}\n{}", over("file db"), over("").replace("z {", "z:54 {"));
    check_problems(
        &text,
        &["Corefile:7:1: the block at Corefile:1:1 has another source for z."],
    );
    let text = format!(
        "{}\n{}",
        over("file db"),
        over("file db").replace("z {", "z:54 {")
    );
    check_problems(&text, &[]);
}

#[test]
fn a_file_below_a_clusters_zone_is_warned_about() {
    let warned = warnings("z {\n kubernetes\n file db a.z\n}");
    assert!(
        warned[0].starts_with(
            "Corefile:3:2: a.z. is a zone of its own: names of z. at or below it are hidden"
        ),
        "{warned:?}"
    );
    assert_eq!(
        warnings("z {\n kubernetes z\n file db y\n}").len(),
        1,
        "no query comes"
    );
}

/// CoreDNS asks `kubernetes` before `file`, in whatever order they are written.
#[test]
fn a_clusters_zone_below_that_of_a_file_is_warned_about() {
    for directives in ["kubernetes a.z\n file db", "file db\n kubernetes a.z"] {
        let warned = warnings(&format!("z {{\n {directives}\n}}"));
        let want = "a.z. is a zone of its own: names at or below it in the file of z. are hidden";
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].contains(want), "{warned:?}");
    }
    let apart = "z {\n file db\n}\na.z {\n kubernetes\n}";
    assert_eq!(warnings(apart), [""; 0]);
    // One warning for all zones of a network.
    let network = "arpa y {\n kubernetes y 10.96.0.0/12\n file db arpa\n}";
    assert_eq!(warnings(network).len(), 1);
}

#[test]
fn a_zone_where_a_cluster_has_names_is_refused_in_any_block() {
    let said = |place: &str, zone: &str| {
        format!(
            "Corefile:{place}: {zone} is at a place where the cluster of z. has names: secondaries of z. would have them, and this server would not"
        )
    };
    let same = &said("2:2", "svc.z.");
    check_problems("z svc.z {\n kubernetes\n}", &[same]);
    let external = &said("3:2", "a.svc.z.");
    check_problems(
        "z a.svc.z {\n kubernetes z\n k8s_external a.svc.z\n}",
        &[external],
    );
    let other = &said("5:2", "a.pod.z.");
    let apart = |key: &str| format!("z {{\n kubernetes\n}}\n{key} {{\n file db\n}}");
    check_problems(&apart("a.pod.z"), &[other]);
    check_problems(&apart("dns.z"), &[&said("5:2", "dns.z.")]);
    let named = apart("dns.z").replace("kubernetes", "kubernetes\n apex {\n ns ns.elsewhere\n}");
    check_problems(&named, &[]);
    check_problems(&apart("x.dns.z"), &[]);
    check_problems(&apart("a.pod.z:54"), &[]);
    check_problems(&apart("a.z"), &[]);
    check_problems(&apart("svc.y"), &[]);
    let set = |key: &str| apart(key).replace("kubernetes", "multicluster");
    check_problems(&set("a.svc.z"), &[&said("5:2", "a.svc.z.")]);
    check_problems(&set("dns.z"), &[&said("5:2", "dns.z.")]);
    check_problems(&set("pod.z"), &[]);
    let beside = |key: &str| {
        apart(key).replace(
            "z {\n kubernetes",
            "z y {\n kubernetes z y {\nmulticluster z\n}",
        )
    };
    check_problems(&beside("svc.z"), &[&said("7:2", "svc.z.")]);
    // Its name server is that of the cluster's own zone.
    check_problems(&beside("dns.z"), &[]);
    let outside = apart("dns.z").replace("kubernetes", "kubernetes y\n k8s_external z");
    check_problems(&outside, &[&said("6:2", "dns.z.")]);
    check_problems(&outside.replace("dns.z {", "a.z {"), &[]);
}

#[test]
fn a_zone_within_a_transferred_one_is_warned_about() {
    let with = |transfer: &str, key: &str| {
        format!("z 10.0.0.0/8 {{\n kubernetes\n{transfer}\n}}\n{key} {{\n file db\n}}")
    };
    let transfer = "transfer {\nallow 127.0.0.1\n}";
    let warned = warnings(&with(transfer, "a.z"));
    let want = "Corefile:8:2: a.z. is a zone of its own: names of z. at or below it are hidden";
    assert!(warned[0].starts_with(want), "{warned:?}");
    assert!(warned[0].contains("secondaries of z. need a.z. too"));
    assert_eq!(warnings(&with(transfer, "10.1.0.0/16")).len(), 1);
    let pointers = format!("z 10.0.0.0/8 10.1.0.0/16 {{\n kubernetes\n{transfer}\n}}");
    assert_eq!(warnings(&pointers), [""; 0]);
    assert_eq!(warnings(&with("", "a.z")), [""; 0]);
    assert_eq!(warnings(&with(transfer, "y")), [""; 0]);
}

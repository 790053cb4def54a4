//! Tests of `cache` and `hosts`: options, limits, places.

use std::time::Duration;

use crate::config::tests::{block, problems, warnings};
use crate::config::{Cache, Hosts, Prefetch, Stale};

/// The `cache` of a block.
fn cache(words: &str) -> Cache {
    block(&format!(" cache {words}"))
        .get::<Cache>()
        .unwrap()
        .clone()
}

/// The `hosts` of a block.
fn hosts(words: &str) -> Hosts {
    block(&format!(" hosts {words}"))
        .get::<Hosts>()
        .unwrap()
        .clone()
}

/// The one problem of a line.
fn problem(line: &str) -> String {
    let mut said = problems(&format!(". {{\n {line}\n}}\n"));
    assert_eq!(said.len(), 1, "{line}: {said:?}");
    said.remove(0)
}

#[test]
fn cache_has_coredns_s_defaults_and_its_ttl_is_for_both_kinds() {
    let read = cache("");
    let kept = |cache: &Cache| {
        [&cache.success, &cache.denial].map(|it| (it.capacity, it.most_seconds, it.least_seconds))
    };
    assert_eq!(kept(&read), [(10_000, 3600, 5), (10_000, 1800, 5)]);
    assert_eq!(read.zones[0].to_string(), "cluster.local.");
    assert_eq!(
        (read.servfail, read.prefetch, read.stale),
        (Duration::from_secs(5), None, None)
    );
    let read = cache("30 a.test {\n success 5 6 7\n}");
    assert_eq!(kept(&read), [(5, 6, 7), (10_000, 30, 5)]);
    assert_eq!(read.zones[0].to_string(), "a.test.");
}

#[test]
fn cache_reads_every_option() {
    let read = cache(
        "{\n denial 9\n prefetch 3 2m 25%\n servfail 5m\n disable success a.test\n disable denial\n keepttl\n serve_stale 2h \
                      verify 1s 3s 10s\n serve_stale_policy prefer_positive\n}",
    );
    let prefetch = Prefetch {
        amount: 3,
        within: Duration::from_secs(120),
        percent: 25,
    };
    assert_eq!(read.prefetch, Some(prefetch));
    assert_eq!(
        (read.denial.capacity, read.servfail, read.keeps_ttl),
        (9, Duration::from_secs(300), true)
    );
    assert_eq!(read.success.disabled[0].to_string(), "a.test.");
    assert!(read.denial.disabled[0].is_root());
    let stale = Stale {
        up_to: Duration::from_secs(7200),
        verify: Some(Some(Duration::from_secs(1))),
        ttl_seconds: 3,
        recheck: Duration::from_secs(10),
        prefers_positive: true,
    };
    assert_eq!(read.stale, Some(stale));
    let plain = cache("{\n serve_stale\n}").stale.unwrap();
    assert_eq!(
        (plain.up_to, plain.verify),
        (Duration::from_secs(3600), None)
    );
    let immediate = cache("{\n serve_stale 1m immediate 4s 5s\n}")
        .stale
        .unwrap();
    assert_eq!(
        (immediate.ttl_seconds, immediate.recheck),
        (4, Duration::from_secs(5))
    );
}

/// CoreDNS takes them silently, and caches nothing.
#[test]
fn cache_warns_of_zones_that_are_not_of_its_block_and_of_times_that_are_zones() {
    let said = |words: &str| {
        warnings(&format!(
            "b.test a.b.c.test {{\n cache {words}\n forward . 192.0.2.1\n}}\n"
        ))
    };
    for words in ["", "30", "30 b.test", "x.b.test c.test .", "300 a.b.c.test"] {
        assert_eq!(said(words), Vec::<String>::new(), "{words}");
    }
    assert_eq!(
        said("30 shop.test b.test"),
        [
            "Corefile:2:2: cache: no query for shop.test. comes to this block; write a zone of the block, or none for all of them"
        ]
    );
    let all = warnings(". {\n cache 5m b.test\n forward . 192.0.2.1\n}\n");
    assert_eq!(
        all,
        [
            "Corefile:2:8: cache: '5m' is a zone here, not a time; write whole seconds, and before the zones: cache 300"
        ]
    );
}

#[test]
fn faults_of_cache_say_where_they_are() {
    for (lines, want) in [
        ("cache 0", "2:8: cache: '0' is not a TTL"),
        ("cache -1", "2:8: cache: '-1' is not a TTL"),
        ("cache {\n success\n}", "3:2: success needs an argument"),
        ("cache {\n success many\n}", "success 'many'"),
        ("cache {\n denial 10 0\n}", "cache: '0' is not a TTL"),
        ("cache {\n denial 10 1 -1\n}", "denial '-1'"),
        ("cache {\n prefetch x\n}", "not a number of questions"),
        (
            "cache {\n prefetch 1 1m 9%\n}",
            "not a percentage from 10% to 90%",
        ),
        (
            "cache {\n prefetch 1 1m 20\n}",
            "not a percentage from 10% to 90%",
        ),
        (
            "cache {\n serve_stale 1h maybe\n}",
            "serve_stale 'maybe': no such mode",
        ),
        ("cache {\n serve_stale -1h\n}", "must not be negative"),
        (
            "cache {\n serve_stale 1h immediate 1s 6m\n}",
            "more than 300s",
        ),
        (
            "cache {\n serve_stale 1h immediate 1500ms\n}",
            "not in whole seconds",
        ),
        (
            "cache {\n serve_stale_policy prefer_positive\n}",
            "serve_stale_policy without serve_stale",
        ),
        (
            "cache {\n serve_stale\n serve_stale_policy x\n}",
            "no such policy",
        ),
        ("cache {\n servfail 6m\n}", "more than 5m is not permitted"),
        ("cache {\n disable\n}", "disable needs an argument"),
        ("cache {\n disable all\n}", "disable 'all': no such kind"),
        ("cache {\n keepttl now\n}", "'now' is one argument too many"),
        ("cache {\n nonsense\n}", "cache has no option 'nonsense'"),
        ("cache\n cache", "cache is already given in line 2"),
    ] {
        let said = problem(lines);
        assert!(said.contains(want), "{lines}\n{said}\n{want}");
    }
}

#[test]
fn hosts_reads_files_lines_and_options() {
    let read = hosts("");
    assert_eq!(
        (read.file.to_str(), read.ttl.seconds()),
        (Some("/etc/hosts"), 3600)
    );
    assert_eq!((read.reload, read.reverse), (Duration::from_secs(5), true));
    let read = hosts(
        "/no/such a.test {\n 10.0.0.1 One.a.test two.a.test\n fe80::1%eth0 three.a.test\n ttl 5\n no_reverse\n reload 0\n \
                      fallthrough b.test\n fallthrough_unsupported\n}",
    );
    assert_eq!(read.lines.len(), 2);
    assert_eq!(read.lines[0].names[0].to_string(), "one.a.test.");
    assert_eq!(read.lines[1].address.to_string(), "fe80::1");
    assert_eq!(
        (read.ttl.seconds(), read.reverse, read.reload),
        (5, false, Duration::ZERO)
    );
    assert_eq!(read.fallthrough[0].to_string(), "b.test.");
    assert!(read.fallthrough_unsupported);
    assert!(warnings(". {\n hosts /no/such\n}\n")[0].contains("/no/such does not exist"));
}

/// Without fallthrough, a name that `hosts` lacks is SERVFAIL and no further handler is asked: a cluster after it is
/// out of reach.
#[test]
fn hosts_lines_may_follow_fallthrough() {
    let read = hosts("{\n fallthrough\n 10.0.0.1 a.test\n}");
    assert_eq!((read.lines.len(), read.fallthrough.len()), (1, 1));
    let said = problem("hosts {\n  fallthrough\n  no.address a.test\n }");
    assert!(said.contains("no.address"), "{said}");
}

#[test]
fn hosts_without_fallthrough_before_others_is_warned_of() {
    let said = |lines: &str| {
        warnings(&format!(
            ". {{\n hosts /dev/null {lines}\n forward . 192.0.2.1\n}}\n"
        ))
    };
    assert_eq!(said("{\n  fallthrough\n }"), [""; 0]);
    assert_eq!(
        said("a.example b.example {\n  fallthrough example\n }"),
        [""; 0]
    );
    let all = "write fallthrough without names in its block";
    for (lines, which, fix) in [
        ("", "below .", "write fallthrough in its block"),
        (
            "{\n  fallthrough example\n }",
            "below ., but not below example.",
            all,
        ),
        (
            "a.example b.example {\n  fallthrough a.example test\n }",
            "below b.example.",
            all,
        ),
    ] {
        let said = said(lines);
        let want = format!("that it lacks {which}: the handlers after it are not asked; {fix}");
        assert!(said.len() == 1 && said[0].contains(&want), "{said:?}");
    }
    // The handlers after `hosts` are asked, or have other names.
    for (lines, behind) in [
        ("{\n  fallthrough a.example\n }", "a.example"),
        ("{\n  fallthrough example\n }", "a.example"),
        ("a.example", "b.example"),
    ] {
        let text = format!(". {{\n hosts /dev/null {lines}\n forward {behind} 192.0.2.1\n}}\n");
        assert_eq!(warnings(&text), [""; 0], "{lines} {behind}");
    }
    assert_eq!(
        warnings(". {\n hosts /dev/null\n}\n"),
        [""; 0],
        "nothing is behind it"
    );
}

#[test]
fn lines_of_hosts_without_address_or_name_are_passed_over_with_a_warning() {
    let lines =
        ". {\n hosts / {\n 10.0.0.1\n nonsense a.test\n 10.0.0.2 b.test\n fallthrough\n }\n}\n";
    let said = warnings(lines);
    assert!(
        said.iter()
            .any(|it| it.contains(":3:2: hosts: '10.0.0.1' does not begin a line")),
        "{said:?}"
    );
    assert!(
        said.iter()
            .any(|it| it.contains(":4:2: hosts: 'nonsense' does not begin a line")),
        "{said:?}"
    );
    let read = hosts("/ {\n 10.0.0.1\n nonsense a.test\n 10.0.0.2 b.test\n fallthrough\n}");
    let names: Vec<_> = read
        .lines
        .iter()
        .map(|line| line.names[0].to_string())
        .collect();
    assert_eq!(names, ["b.test."]);
}

#[test]
fn faults_of_hosts_say_where_they_are() {
    for (lines, want) in [
        ("hosts {\n ttl 0\n}", "not a number from 1 to 65535"),
        ("hosts {\n ttl 65536\n}", "not a number from 1 to 65535"),
        ("hosts {\n ttl\n}", "3:2: ttl needs an argument"),
        ("hosts {\n reload x\n}", "reload 'x': not a duration"),
        (
            "hosts {\n fallthrough_unsupported\n}",
            "fallthrough_unsupported without fallthrough",
        ),
        (
            "hosts {\n fallthrough\n nonsense a.test\n}",
            "hosts has no option 'nonsense'",
        ),
        (
            "hosts {\n fallthrough\n 10.0.0.1\n}",
            "hosts has no option '10.0.0.1'",
        ),
        ("loop x", "loop: 'x' is one argument too many"),
    ] {
        let said = problem(lines);
        assert!(said.contains(want), "{lines}\n{said}\n{want}");
    }
}

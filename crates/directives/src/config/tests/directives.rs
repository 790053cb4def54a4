//! Tests of the other directives.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::config::tests::{block, check_problems, config, faults, name, shown, warnings};
use crate::config::{
    Any, Apex, Bind, BindHost, Bufsize, Chaos, DebugLines, Dns64, Errors, Health, History,
    Loadbalance, Local, LogClass, LogField, LogPiece, LogRule, Minimal, Monitor, Prometheus, Ready,
    Reload, Timeouts, Tls, ZoneFile,
};

#[test]
fn apex_says_what_stands_at_the_top() {
    let server = block(
        "kubernetes\napex {\n ns ns1.dns.cluster.local 192.0.2.1 2001:db8::1\n ns NS2.example.org\n \
         ns ns1.dns.cluster.local 192.0.2.1 192.0.2.2\n mbox first.last@example.org\n refresh 5m\n \
         retry 30\n expire 24h\n minimum 0\n ttl 1h\n}",
    );
    let apex = server.for_zone::<Apex>(&name("cluster.local")).unwrap();
    let servers: Vec<_> = apex
        .name_servers
        .iter()
        .map(|ns| (ns.name.to_string(), ns.addresses.len()))
        .collect();
    assert_eq!(
        servers,
        [
            ("ns1.dns.cluster.local.".to_owned(), 3),
            ("ns2.example.org.".to_owned(), 0)
        ]
    );
    assert_eq!(
        apex.mbox.as_ref().unwrap().to_string(),
        "first\\.last.example.org."
    );
    let timers = [
        apex.refresh,
        apex.retry,
        apex.expire,
        apex.minimum,
        apex.ttl,
    ];
    assert_eq!(
        timers.map(|timer| timer.unwrap().seconds()),
        [300, 30, 86400, 0, 3600]
    );
}

#[test]
fn apex_is_checked() {
    for (line, want) in [
        ("ns", "2:1: ns needs an argument"),
        ("ns ns1", "2:4: 'ns1' is not a fully qualified host name"),
        ("ns a.b x", "2:8: 'x' is not an IP address"),
        (
            "mbox a..b",
            "2:6: not a domain name: \"a..b\" has an empty label",
        ),
        ("refresh 0", "2:9: refresh '0': less than 1 s"),
        ("retry 1500ms", "2:7: retry '1500ms': not whole seconds"),
        (
            "expire -1h",
            "2:8: expire '-1h': a duration must not be negative",
        ),
        (
            "ttl 2147483648",
            "2:5: ttl '2147483648': 2147483648 seconds are more than a TTL can hold (2147483647)",
        ),
        (
            "minimum 1d",
            "2:9: minimum '1d': not a duration such as 300ms, 30s or 1h5m",
        ),
        ("service", "2:1: service needs an argument"),
        ("service kube-dns", "2:9: 'kube-dns' is not a Service"),
        ("service a/B", "2:9: 'a/B' is not a Service"),
        ("soa x", "2:1: apex has no option 'soa'"),
    ] {
        assert_eq!(faults(&format!("apex {{\n{line}\n}}")), [want], "{line}");
    }
    assert_eq!(faults("apex"), ["1:1: apex has no options"]);
}

#[test]
fn a_service_in_front_is_for_zones_of_names_and_stands_without_name_servers() {
    let zones = "kubernetes a.example 10.in-addr.arpa\nk8s_external b.example";
    let said = |lines: &str| faults(&format!("{zones}\n{lines}"));
    for zone in ["", "a.example", "b.example"] {
        let lines = format!("apex {zone} {{\nservice infra/dns\n}}");
        assert_eq!(said(&lines), [""; 0], "{lines}");
    }
    assert_eq!(
        said("apex 10.in-addr.arpa {\nservice infra/dns\n}"),
        ["3:1: no zone of this apex has names of Services"]
    );
    assert_eq!(
        said("apex {\nservice infra/dns\nns x.elsewhere\n}"),
        ["3:1: ns and service exclude each other"]
    );
}

#[test]
fn a_name_server_in_a_zone_of_the_block_has_an_address_there() {
    let zones = "kubernetes a.example 10.in-addr.arpa\nk8s_external b.example";
    let said = |lines: &str| faults(&format!("{zones}\n{lines}"));
    let missing = |at: &str, name: &str, zone: &str| {
        format!("{at}: name server {name} has no address in the zone {zone}")
    };
    for (lines, want) in [
        (
            "apex a.example {\nns x.a.example\n}",
            Some(missing("4:4", "x.a.example.", "a.example.")),
        ),
        (
            "apex 10.in-addr.arpa {\nns x.a.example\n}",
            Some(missing("4:4", "x.a.example.", "a.example.")),
        ),
        (
            "apex b.example {\nns x.b.example\n}",
            Some(missing("4:4", "x.b.example.", "b.example.")),
        ),
        (
            "apex {\nns x.svc.a.example 192.0.2.1\n}",
            Some(
                "4:4: x.svc.a.example. has the addresses of its Service, not those given here"
                    .to_owned(),
            ),
        ),
        (
            "apex {\nns x.a.example 192.0.2.1\nns x.y.svc.a.example\nns x.elsewhere\n}",
            None,
        ),
        (
            "apex a.example {\nns x.a.example 192.0.2.1\n}\napex 10.in-addr.arpa {\nns x.a.example\n}",
            None,
        ),
        ("apex 10.in-addr.arpa {\nns ns.dns.a.example\n}", None),
        ("apex b.example {\nns web.shop.b.example\n}", None),
        ("apex b.example {\nns web.svc.b.example 192.0.2.1\n}", None),
        // The default name server of an external zone is below its apex label, and no namespace has that name.
        ("apex 10.in-addr.arpa {\nns ns1.dns.b.example\n}", None),
        (
            "apex 10.in-addr.arpa {\nns ns.dns.b.example\n}",
            Some(missing("4:4", "ns.dns.b.example.", "b.example.")),
        ),
    ] {
        let want: Vec<String> = want.into_iter().collect();
        assert_eq!(said(lines), want, "{lines}");
    }
    let overlaid =
        "kubernetes a.example {\nfallthrough\n}\nfile db a.example\napex {\nns x.a.example\n}";
    assert_eq!(faults(overlaid), [""; 0]);
}

#[test]
fn a_name_server_in_a_zone_of_a_set_of_clusters_is_a_service_or_has_an_address() {
    for (zones, home) in [
        (
            "kubernetes a.example c.example {\nmulticluster c.example\n}",
            "a.example",
        ),
        ("multicluster c.example", "c.example"),
    ] {
        let places = zones.lines().count();
        let said = |zone: &str, ns: &str| {
            faults(&format!("{zones}\napex {zone} {{\nns {ns}\n}}"))
                .iter()
                .map(|fault| fault.replacen(&format!("{}:4: ", places + 2), "", 1))
                .collect::<Vec<_>>()
        };
        let good = [""; 0];
        assert_eq!(said("c.example", "web.shop.svc.c.example"), good, "{zones}");
        assert_eq!(
            said("c.example", "web.shop.svc.c.example 192.0.2.1"),
            ["web.shop.svc.c.example. has the addresses of its Service, not those given here"]
        );
        assert_eq!(
            said("c.example", "x.c.example"),
            ["name server x.c.example. has no address in the zone c.example."]
        );
        assert_eq!(
            said("elsewhere", &format!("ns.dns.{home}")),
            good,
            "{zones}"
        );
    }
}

#[test]
fn history_has_bounds() {
    let server = block(
        "kubernetes\nhistory {\n keep 36h\n versions 500\n size 2GiB\n publish\n archive s3://audit/dns\n}",
    );
    let history = server.for_zone::<History>(&name("cluster.local")).unwrap();
    assert!(history.publishes);
    assert_eq!(history.keep, Some(Duration::from_secs(36 * 3600)));
    assert_eq!(history.versions.unwrap().get(), 500);
    assert_eq!(history.size_bytes.unwrap().get(), 2 << 30);
    assert_eq!(history.archive.as_deref(), Some("s3://audit/dns"));
    for (line, want) in [
        (
            "keep x",
            "2:6: keep 'x': not a duration such as 300ms, 30s or 1h5m",
        ),
        (
            "versions 0",
            "2:10: versions '0': not a whole number from 1",
        ),
        (
            "size 0",
            "2:6: size '0': the size is too small for any version",
        ),
        (
            "size 1X",
            "2:6: size '1X': not an amount of bytes such as 500M, 2G or 64MiB",
        ),
        (
            "archive ftp://host/dns",
            "2:9: archive 'ftp://host/dns': ftp is no scheme of an archive; those are file, s3, gs and az",
        ),
        ("age 1", "2:1: history has no option 'age'"),
    ] {
        assert_eq!(faults(&format!("history {{\n{line}\n}}")), [want], "{line}");
    }
}

#[test]
fn a_block_without_bind_and_one_that_binds_all_addresses_have_one_socket() {
    let wanted = "port 53 on all addresses is for the block at Corefile:1 too: one of the two has no bind; \
                  write the same bind in both blocks";
    for text in [
        "a {\n bind ::\n}\nb {\n whoami\n}\n",
        "a {\n whoami\n}\nb {\n bind 0.0.0.0\n}\n",
    ] {
        let place = text.lines().count() - 2;
        check_problems(text, &[&format!("Corefile:{place}:1: {wanted}")]);
    }
    check_problems("a {\n bind ::\n}\nb:54 {\n whoami\n}\n", &[]);
}

/// transfer D2
#[test]
fn bind_to_all_addresses_of_ipv6_takes_those_of_ipv4_too() {
    let bound = |text: &str| -> Vec<String> {
        let config = config(text);
        let bind = config.servers[0].get::<Bind>().unwrap();
        bind.hosts.iter().map(ToString::to_string).collect()
    };
    assert_eq!(bound("a {\n bind ::\n}"), ["::", "0.0.0.0"]);
    assert_eq!(bound("a {\n bind :: ::1\n}"), ["::", "::1", "0.0.0.0"]);
    for text in [
        "a {\n bind :: {\n except 0.0.0.0\n}\n}",
        "a {\n bind ::\n}\nb {\n bind 0.0.0.0\n}",
    ] {
        assert_eq!(bound(text), ["::"], "{text}");
    }
    for text in [
        "a {\n bind ::\n}\nb {\n bind ::\n}",
        "a {\n bind ::\n}\nb:54 {\n bind 0.0.0.0\n}",
    ] {
        assert_eq!(bound(text), ["::", "0.0.0.0"], "{text}");
    }
}

#[test]
fn bind_takes_addresses_and_interfaces_several_times() {
    let server = block("bind 127.0.0.1 eth0 {\n except 127.0.0.2\n}\nbind ::1 127.0.0.1 127.0.0.2");
    let hosts: Vec<_> = server
        .get::<Bind>()
        .unwrap()
        .hosts
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(hosts, ["127.0.0.1", "eth0", "::1", "127.0.0.2"]);
    assert_eq!(
        server.get::<Bind>().unwrap().except,
        [BindHost::Address("127.0.0.2".parse().unwrap())]
    );
    assert_eq!(server.listeners().len(), 3);
    for (line, want) in [
        ("bind", "1:1: bind needs an argument"),
        (
            "bind 127.0.0",
            "1:6: '127.0.0' is neither an IP address nor the name of an interface",
        ),
        (
            "bind ns1.example.org.",
            "1:6: 'ns1.example.org.' is neither an IP address nor the name of an interface",
        ),
        ("bind ::1 {\n only x\n}", "2:2: bind has no option 'only'"),
        (
            "bind ::1 {\n except ::1\n}",
            "1:1: except removes all addresses to listen on",
        ),
    ] {
        assert_eq!(faults(line), [want], "{line}");
    }
}

#[test]
fn http_servers_have_the_defaults_of_coredns() {
    let server = block("prometheus\nhealth\nready");
    let (health, ready) = (
        server.get::<Health>().unwrap(),
        server.get::<Ready>().unwrap(),
    );
    assert_eq!(
        server.get::<Prometheus>().unwrap().address.to_string(),
        "localhost:9153"
    );
    assert_eq!(
        (health.address.to_string().as_str(), health.lameduck),
        (":8080", Duration::ZERO)
    );
    assert_eq!(
        (ready.address.to_string().as_str(), ready.monitor),
        (":8181", Monitor::UntilReady)
    );
    let server = block(
        "health 127.0.0.1:1 {\n lameduck 1500ms\n}\nready [::1]:2 {\n monitor continuously\n}",
    );
    assert_eq!(
        server.get::<Health>().unwrap().lameduck,
        Duration::from_millis(1500)
    );
    assert_eq!(
        server.get::<Ready>().unwrap().monitor,
        Monitor::Continuously
    );
}

#[test]
fn health_may_stand_again_and_keeps_its_lameduck() {
    let health = block("health :1 {\n lameduck 5s\n}\nhealth :2")
        .get::<Health>()
        .unwrap()
        .clone();
    assert_eq!(
        (
            health.address.to_string().as_str(),
            health.lameduck.as_secs()
        ),
        (":2", 5)
    );
}

#[test]
fn http_servers_are_checked() {
    for (line, want) in [
        ("prometheus 9153", "1:12: '9153': the port is missing"),
        (
            "prometheus {\n tls x\n}",
            "2:2: prometheus tls: not supported: metrics are served only over HTTP: listen on 127.0.0.1, with a proxy beside it that serves them over TLS (such as kube-rbac-proxy)",
        ),
        (
            "health {\n lameduck 5\n}",
            "2:11: lameduck '5': not a duration such as 300ms, 30s or 1h5m",
        ),
        ("health {\n lameduck\n}", "2:2: lameduck needs an argument"),
        ("health {\n x\n}", "2:2: health has no option 'x'"),
        ("ready :1 :2", "1:10: ready: ':2' is one argument too many"),
        (
            "ready {\n monitor never\n}",
            "2:10: monitor 'never': not a way to monitor",
        ),
        (
            "health :8181\nready",
            "2:1: :8181 is already taken in line 2",
        ),
        (
            "ready\nready",
            "2:1: ready is already given in line 2 of this block",
        ),
    ] {
        assert_eq!(faults(line), [want], "{line}");
    }
}

#[test]
fn errors_go_to_stdout() {
    assert!(!block("errors stdout").get::<Errors>().unwrap().stacktrace);
    assert!(
        block("errors {\n stacktrace\n}")
            .get::<Errors>()
            .unwrap()
            .stacktrace
    );
    for (line, want) in [
        ("errors file", "1:8: errors cannot be logged to 'file'"),
        (
            "errors {\n consolidate 5m\n}",
            "2:2: consolidate takes two to four arguments, there are 1",
        ),
        (
            "errors {\n consolidate 5 x\n}",
            "2:14: consolidate '5': not a duration such as 300ms, 30s or 1h5m",
        ),
        (
            "errors {\n consolidate 5m x fatal\n}",
            "2:19: consolidate: 'fatal' is neither a level nor show_first at the end",
        ),
        (
            "errors {\n consolidate 5m x show_first show_first\n}",
            "2:19: consolidate: 'show_first' is neither a level nor show_first at the end",
        ),
        (
            "errors\nerrors",
            "2:1: errors is already given in line 2 of this block",
        ),
    ] {
        assert_eq!(faults(line), [want], "{line}");
    }
}

#[test]
fn errors_are_consolidated_at_a_level() {
    let errors = block("errors {\n consolidate 5m ^2 warning show_first\n consolidate 1h x\n}");
    let [first, second] =
        <[_; 2]>::try_from(errors.get::<Errors>().unwrap().consolidations.clone()).unwrap();
    assert_eq!(first.level, crate::config::Level::Warning);
    assert_eq!((first.show_first, second.show_first), (true, false));
    assert_eq!(second.period, Duration::from_secs(3600));
    assert_eq!(second.level, crate::config::Level::Error);
}

#[test]
fn the_process_and_its_listeners_are_told() {
    let server = block(
        "reload 10s 8s\ntimeouts {\n read 5\n idle 1m\n maxtcpqueries 3\n}\nmultisocket 4\ndebug",
    );
    let reload = server.get::<Reload>().unwrap();
    assert_eq!(
        (reload.interval, reload.jitter),
        (Duration::from_secs(10), Duration::from_secs(5))
    );
    let timeouts = server.get::<Timeouts>().unwrap();
    assert_eq!(timeouts.read, Some(Duration::from_secs(5)));
    assert_eq!(timeouts.write, None);
    assert_eq!(timeouts.max_queries, Some(3));
    assert!(server.has::<DebugLines>());
    let rooted = block("file db\nroot /zones\ntls c k");
    assert_eq!(
        rooted.get::<ZoneFile>().unwrap().path,
        std::path::Path::new("/zones/db")
    );
    assert_eq!(
        rooted.get::<Tls>().unwrap().key,
        std::path::Path::new("/zones/k")
    );
    for (line, want) in [
        ("reload 1s", "1:8: reload: interval '1s' is too short"),
        (
            "reload 10s 10ms",
            "1:12: reload: jitter '10ms' is too short",
        ),
        (
            "timeouts {\n read 25h\n}",
            "2:7: read '25h': not between 1s and 24h",
        ),
        ("timeouts", "1:1: timeouts has no options"),
        (
            "multisocket 1025",
            "1:13: multisocket: '1025' is not a number of sockets",
        ),
        ("debug all", "1:7: debug: 'all' is one argument too many"),
        ("root", "1:1: root has no folder"),
        ("state", "1:1: state has no folder"),
        ("state a b", "1:9: state: 'b' is one argument too many"),
        ("pprof {\n cpu\n}", "2:2: pprof has no option 'cpu'"),
    ] {
        assert_eq!(faults(line), [want], "{line}");
    }
}

#[test]
fn log_has_names_a_format_and_classes() {
    let server = block(
        "log a b \"{name} {rcode}\" {\n class denial error\n}\nlog example.org\nlog . {combined}\nlog",
    );
    let logs = &server.all::<LogRule>().collect::<Vec<_>>();
    assert_eq!(shown(&logs[0].names), ["a.", "b."]);
    assert_eq!(
        logs[0].format,
        [
            LogPiece::Field(LogField::Name),
            LogPiece::Text(" ".into()),
            LogPiece::Field(LogField::Rcode)
        ]
    );
    assert_eq!(
        logs[0].classes,
        BTreeSet::from([LogClass::Denial, LogClass::Error])
    );
    assert_eq!(
        (shown(&logs[1].names), logs[1].classes.len()),
        (vec!["example.org.".to_owned()], 3)
    );
    assert!(logs[2].format.contains(&LogPiece::Field(LogField::Opcode)));
    assert_eq!(
        (shown(&logs[3].names), &logs[3].format),
        (vec![".".to_owned()], &logs[1].format)
    );
    for (line, want) in [
        ("log {combined}", "1:5: '{combined}' is not a name"),
        ("log {\n class foo\n}", "2:8: log has no class 'foo'"),
        ("log {\n class\n}", "2:2: class needs an argument"),
        ("log {\n x\n}", "2:2: log has no option 'x'"),
    ] {
        assert_eq!(faults(line), [want], "{line}");
    }
}

#[test]
fn what_stands_twice_means_what_it_means_in_coredns() {
    let server = block(
        "bufsize 512\nbufsize 1232\nchaos one a\nchaos two\nroot x\nroot y\nany\nany\nminimal\nminimal\n\
         debug\ndebug\ndns64 64:1::/96\ndns64 {\nallow_ipv4\n}\ntimeouts {\nread 2s\nidle 9s\n}\n\
         timeouts {\nread 1s\n}\nloadbalance weighted w {\nprefer 10.0.0.0/8\n}\n\
         loadbalance round_robin {\nprefer 192.0.2.0/24\n}\nlocal {\nlocalhost_prefix off\n}\nlocal\n\
         file db cluster.local",
    );
    let handlers = &server;
    assert_eq!(handlers.get(), Some(&Bufsize(512)));
    let chaos = handlers.get::<Chaos>().unwrap();
    assert_eq!(
        (chaos.version.as_deref(), chaos.authors.len()),
        (Some("one"), 1)
    );
    assert!(server.get::<ZoneFile>().unwrap().path.ends_with("y/db"));
    let dns64 = handlers.get::<Dns64>().unwrap();
    let prefix: std::net::Ipv6Addr = "64:1::".parse().unwrap();
    assert_eq!((dns64.prefix, dns64.allows_ipv4), (prefix, true));
    let timeouts = server.get::<Timeouts>().unwrap();
    assert_eq!(timeouts.read, Some(Duration::from_secs(1)));
    assert_eq!(timeouts.idle, Some(Duration::from_secs(9)));
    let loadbalance = handlers.get::<Loadbalance>().unwrap();
    assert_eq!(loadbalance.policy, crate::config::Policy::RoundRobin);
    assert_eq!(loadbalance.prefer.len(), 2);
    assert!(!handlers.get::<Local>().unwrap().has_prefix);
    assert!(handlers.has::<Any>() && handlers.has::<Minimal>() && server.has::<DebugLines>());
}

#[test]
fn what_stands_twice_is_warned_about() {
    for (lines, want) in [
        ("any\nany", "any is also given in line 2, once is the same"),
        (
            "bufsize 512\nbufsize",
            "bufsize is also given in line 2, the first counts",
        ),
        (
            "root a\nroot b",
            "root is also given in line 2, the last counts",
        ),
        (
            "loadbalance\nloadbalance",
            "loadbalance is also given in line 2, the last policy counts, and every prefer",
        ),
    ] {
        let said = warnings(&format!(". {{\n{lines}\n}}\n"));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains(&format!("3:1: {want}; ")), "{said:?}");
    }
}

#[test]
fn what_prometheus_says_of_go_has_no_effect() {
    let said = warnings(". {\nprometheus {\nruntime_metrics\n}\n}\n");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("3:1: runtime_metrics has no effect"),
        "{said:?}"
    );
}

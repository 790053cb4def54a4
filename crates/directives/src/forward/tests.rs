//! Tests of `forward`: options, limits, places.

use std::time::Duration;

use super::*;
use crate::config::{Forward, Loaded, Overrides, Rejected, parse_text};

/// Reads a block with these lines.
fn read(lines: &str) -> Result<Loaded, Rejected> {
    parse_text(
        "Corefile",
        &format!(". {{\n{lines}\n}}\n"),
        &Overrides::default(),
        &|_| None,
    )
}

/// The only `forward` of a block.
fn forward(lines: &str) -> Forward {
    let server = read(lines).unwrap().config.servers.remove(0);
    assert_eq!(server.all::<Forward>().count(), 1);
    server.get::<Forward>().unwrap().clone()
}

#[test]
fn everything_has_coredns_s_default() {
    let read = forward("forward . 192.0.2.1");
    assert_eq!((read.policy, read.max_fails), (ForwardPolicy::Random, 2));
    assert_eq!(read.expire, Duration::from_secs(10));
    assert_eq!(read.read_timeout, Duration::from_secs(2));
    assert_eq!(read.health, HealthCheck::default());
    assert_eq!((read.max_concurrent, read.max_connect_attempts), (0, None));
}

/// A target as `[SCHEME ]HOST PORT[ SERVERNAME]`.
fn shown(target: &Target) -> String {
    let host = match &target.host {
        TargetHost::Address(address) => address.to_string(),
        TargetHost::Name(name) => format!("'{name}'"),
    };
    let tls = match target.scheme {
        TargetScheme::Dns => "",
        TargetScheme::Tls => "tls ",
        TargetScheme::Https => "https ",
        TargetScheme::Https3 => "https3 ",
        TargetScheme::Quic => "quic ",
    };
    let name = target
        .server_name
        .as_deref()
        .map_or(String::new(), |name| format!(" {name}"));
    format!("{tls}{host} {}{name}", target.port)
}

#[test]
fn targets_are_addresses_names_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("resolv.conf");
    let text = "nameserver 192.0.2.9\nnameserver fe80::1%eth0\nsearch a\n";
    std::fs::write(&file, text).unwrap();
    for (to, want) in [
        ("192.0.2.1", "192.0.2.1 53"),
        ("192.0.2.1:5353", "192.0.2.1 5353"),
        ("dns://[2001:db8::1]:54", "2001:db8::1 54"),
        ("2001:db8::1", "2001:db8::1 53"),
        ("tls://192.0.2.1", "tls 192.0.2.1 853"),
        ("tls://192.0.2.1%dns.test", "tls 192.0.2.1 853 dns.test"),
        (
            "tls://192.0.2.1%dns.test:8853",
            "tls 192.0.2.1 8853 dns.test",
        ),
        (
            "tls://[2001:db8::1%dns.test]:8853",
            "tls 2001:db8::1 8853 dns.test",
        ),
        ("https://192.0.2.1%dns.test", "https 192.0.2.1 443 dns.test"),
        ("https3://192.0.2.1:8443", "https3 192.0.2.1 8443"),
        ("https3://dns.test", "https3 'dns.test' 443"),
        ("quic://192.0.2.1", "quic 192.0.2.1 853"),
        (
            "https3://192.0.2.1 https://192.0.2.1 tls://192.0.2.1:443",
            "https3 192.0.2.1 443, https 192.0.2.1 443",
        ),
        ("dns.test", "'dns.test' 53"),
        ("tls://dns.test:99", "tls 'dns.test' 99"),
        (
            "192.0.2.1 192.0.2.1:53 192.0.2.2",
            "192.0.2.1 53, 192.0.2.2 53",
        ),
        (file.to_str().unwrap(), "192.0.2.9 53, fe80::1 53"),
    ] {
        let read = forward(&format!("forward . {to}"));
        let targets: Vec<String> = read.targets.iter().map(shown).collect();
        assert_eq!(targets.join(", "), want, "{to}");
    }
}

#[test]
fn the_servers_of_a_file_are_not_asked_in_the_clear_where_a_scheme_says_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("resolv.conf");
    std::fs::write(&file, "nameserver 192.0.2.9\n").unwrap();
    let want = "the servers of a file are asked in the clear";
    check_fault(&format!("forward . quic://{}", file.display()), want);
    // As in CoreDNS.
    let loaded = read(&format!("forward . tls://{}", file.display())).unwrap();
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|it| it.contains(want)), "{warnings:?}");
}

#[test]
fn every_option_is_read() {
    let read = forward(
        "forward Test 192.0.2.1 {\n except a.test b.test\n force_tcp\n prefer_udp\n expire 5s\n max_age 7s\n \
         max_idle_conns 3\n read_timeout 1s\n max_fails 0\n max_connect_attempts 9\n tls cert key ca\n tls_servername x.test\n \
         policy round_robin\n health_check 2s no_rec domain Up.test\n max_concurrent 8\n next NXDOMAIN refused\n next_on_nodata\n \
         failover SERVFAIL\n failfast_all_unhealthy_upstreams\n doh_method GET\n random_case\n client_subnet\n source_address 192.0.2.7\n resolver 192.0.2.8 \
         192.0.2.9:54\n}",
    );
    assert_eq!(
        (read.from.to_string(), read.except.len()),
        ("test.".to_owned(), 2)
    );
    assert!(read.random_case && read.client_subnet);
    assert!(read.force_tcp && read.prefer_udp && read.next_on_nodata && read.failfast);
    assert_eq!(
        (read.expire, read.max_age),
        (Duration::from_secs(5), Duration::from_secs(7))
    );
    assert_eq!(
        (read.max_idle_conns, read.max_fails, read.max_concurrent),
        (3, 0, 8)
    );
    assert_eq!(
        (read.policy, read.max_connect_attempts),
        (ForwardPolicy::RoundRobin, Some(9))
    );
    assert_eq!(
        (read.next, read.failover),
        (vec![Rcode(3), Rcode(5)], vec![Rcode(2)])
    );
    assert_eq!(
        (
            read.health.recursion_desired,
            read.health.domain.to_string()
        ),
        (false, "up.test.".to_owned())
    );
    assert_eq!(read.tls.identity, Some(("cert".into(), "key".into())));
    assert_eq!(
        read.resolvers,
        [
            "192.0.2.8:53".parse().unwrap(),
            "192.0.2.9:54".parse().unwrap()
        ]
    );
}

/// Asserts that a block with these lines has one problem, which contains this.
fn check_fault(lines: &str, want: &str) {
    let said = read(lines).unwrap_err().to_string();
    let is_one = said.lines().count() == 1;
    assert!(said.contains(want) && is_one, "{lines}\n{said}\n{want}");
}

#[test]
fn faults_of_arguments_say_where_they_are() {
    let many = ["192.0.2.1"; 16].join(" ");
    for (arguments, want) in [
        ("", "2:1: forward needs FROM and TO"),
        (".", "2:1: forward '.' has no TO"),
        (". grpc://192.0.2.1", "upstreams are not asked over gRPC"),
        (
            ". https://192.0.2.1/path",
            "a path is not supported, the path is /dns-query",
        ),
        (". ftp://192.0.2.1", "unknown scheme in 'ftp://192.0.2.1'"),
        (
            ". /no/such/file",
            "'/no/such/file' is not an address, file or host name",
        ),
        (". 192.0.2.1%eth0", "'%' and a server name are only for"),
        (&format!(". {many}"), "forward has 16 TO"),
    ] {
        check_fault(&format!("forward {arguments}"), want);
    }
    let lines = "forward . tls://192.0.2.1%a {\n tls_servername b\n}";
    check_fault(lines, "tls_servername gives another");
}

#[test]
fn faults_of_options_say_where_they_are() {
    for (option, want) in [
        ("max_age 5s", "max_age 5s is less than expire 10s"),
        ("read_timeout 0", "must be positive"),
        ("policy best", "3:9: policy 'best': unknown word"),
        ("failover NOERROR", "an answer is not a failure"),
        ("next BAD", "next 'BAD' is not a response code"),
        ("health_check 1s fast", "health_check has no option 'fast'"),
        ("health_check 1s domain", "domain needs a name"),
        ("tls a b c d", "tls takes at most three arguments"),
        ("resolver x", "resolver 'x' is not an address"),
        ("doh_method PUT", "unknown word"),
        ("max_fails -1", "max_fails '-1'"),
        ("nonsense", "forward has no option 'nonsense'"),
    ] {
        check_fault(&format!("forward . 192.0.2.1 {{\n {option}\n}}"), want);
    }
}

#[test]
fn a_slip_of_an_address_is_no_host_name() {
    use crate::config::{Overrides, parse_text};
    for (target, is_good) in [
        ("300.1.1.1", false),
        ("1.2.3", false),
        ("10.0.0.1.:53", false),
        ("1.2.3.test", true),
        ("1a.2b", true),
    ] {
        let text = format!(". {{\n forward . {target}\n}}\n");
        let read = parse_text("Corefile", &text, &Overrides::default(), &|_| None);
        assert_eq!(read.is_ok(), is_good, "{target}");
    }
}

//! `forward`: options, limits, places.

use std::net::IpAddr;
use std::time::Duration;

use super::super::{Loaded, Overrides, Rejected, parse_text};
use super::*;

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
    let mut forwards = read(lines)
        .unwrap()
        .config
        .servers
        .remove(0)
        .handlers
        .forwards;
    assert_eq!(forwards.len(), 1);
    forwards.remove(0)
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

#[test]
fn targets_are_addresses_names_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("resolv.conf");
    std::fs::write(
        &file,
        "nameserver 192.0.2.9\nnameserver fe80::1%eth0\nsearch a\n",
    )
    .unwrap();
    let address = |text: &str| TargetHost::Address(text.parse::<IpAddr>().unwrap());
    for (to, want) in [
        ("192.0.2.1", vec![(address("192.0.2.1"), 53, false, None)]),
        (
            "192.0.2.1:5353",
            vec![(address("192.0.2.1"), 5353, false, None)],
        ),
        (
            "dns://[2001:db8::1]:54",
            vec![(address("2001:db8::1"), 54, false, None)],
        ),
        (
            "2001:db8::1",
            vec![(address("2001:db8::1"), 53, false, None)],
        ),
        (
            "tls://192.0.2.1",
            vec![(address("192.0.2.1"), 853, true, None)],
        ),
        (
            "tls://192.0.2.1%dns.test",
            vec![(address("192.0.2.1"), 853, true, Some("dns.test"))],
        ),
        (
            "tls://192.0.2.1%dns.test:8853",
            vec![(address("192.0.2.1"), 8853, true, Some("dns.test"))],
        ),
        (
            "tls://[2001:db8::1%dns.test]:8853",
            vec![(address("2001:db8::1"), 8853, true, Some("dns.test"))],
        ),
        (
            "dns.test",
            vec![(TargetHost::Name("dns.test".into()), 53, false, None)],
        ),
        (
            "tls://dns.test:99",
            vec![(TargetHost::Name("dns.test".into()), 99, true, None)],
        ),
        (
            "192.0.2.1 192.0.2.1:53 192.0.2.2",
            vec![
                (address("192.0.2.1"), 53, false, None),
                (address("192.0.2.2"), 53, false, None),
            ],
        ),
        (
            file.to_str().unwrap(),
            vec![
                (address("192.0.2.9"), 53, false, None),
                (address("fe80::1"), 53, false, None),
            ],
        ),
    ] {
        let read = forward(&format!("forward . {to}"));
        let targets = read.targets.into_iter();
        let targets: Vec<_> = targets
            .map(|it| (it.host, it.port, it.is_tls, it.server_name))
            .collect();
        let want: Vec<_> = want
            .into_iter()
            .map(|it| (it.0, it.1, it.2, it.3.map(str::to_owned)))
            .collect();
        assert_eq!(targets, want, "{to}");
    }
}

#[test]
fn every_option_is_read() {
    let read = forward(
        "forward Test 192.0.2.1 {\n except a.test b.test\n force_tcp\n prefer_udp\n expire 5s\n max_age 7s\n \
         max_idle_conns 3\n read_timeout 1s\n max_fails 0\n max_connect_attempts 9\n tls cert key ca\n tls_servername x.test\n \
         policy round_robin\n health_check 2s no_rec domain Up.test\n max_concurrent 8\n next NXDOMAIN refused\n next_on_nodata\n \
         failover SERVFAIL\n failfast_all_unhealthy_upstreams\n doh_method GET\n source_address 192.0.2.7\n resolver 192.0.2.8 \
         192.0.2.9:54\n}",
    );
    assert_eq!(
        (read.from.to_string(), read.except.len()),
        ("test.".to_owned(), 2)
    );
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

#[test]
fn faults_say_where_they_are() {
    let many = ["192.0.2.1"; 16].join(" ");
    for (lines, want) in [
        ("forward", "2:1: forward needs FROM and TO"),
        ("forward .", "2:1: forward '.' has no TO"),
        (
            "forward . https://192.0.2.1",
            "upstreams are asked by DNS and DNS over TLS alone",
        ),
        (
            "forward . ftp://192.0.2.1",
            "unknown scheme in 'ftp://192.0.2.1'",
        ),
        (
            "forward . /no/such/file",
            "'/no/such/file' is no address, file or host name",
        ),
        ("forward . 192.0.2.1%eth0", "no zone behind '%'"),
        (&format!("forward . {many}"), "forward has 16 TO"),
        (
            "forward . 192.0.2.1 {\n max_age 5s\n}",
            "max_age 5s is less than expire 10s",
        ),
        (
            "forward . 192.0.2.1 {\n read_timeout 0\n}",
            "must be positive",
        ),
        (
            "forward . 192.0.2.1 {\n policy best\n}",
            "3:9: policy 'best': unknown word",
        ),
        (
            "forward . 192.0.2.1 {\n failover NOERROR\n}",
            "an answer is no failure",
        ),
        (
            "forward . 192.0.2.1 {\n next BAD\n}",
            "next 'BAD' is no response code",
        ),
        (
            "forward . 192.0.2.1 {\n health_check 1s fast\n}",
            "health_check has no option 'fast'",
        ),
        (
            "forward . 192.0.2.1 {\n health_check 1s domain\n}",
            "domain needs a name",
        ),
        (
            "forward . 192.0.2.1 {\n tls a b c d\n}",
            "tls takes at most three arguments",
        ),
        (
            "forward . 192.0.2.1 {\n resolver x\n}",
            "resolver 'x' is no address",
        ),
        ("forward . 192.0.2.1 {\n doh_method PUT\n}", "unknown word"),
        ("forward . 192.0.2.1 {\n max_fails -1\n}", "max_fails '-1'"),
        (
            "forward . 192.0.2.1 {\n nonsense\n}",
            "forward has no option 'nonsense'",
        ),
        (
            "forward . tls://192.0.2.1%a {\n tls_servername b\n}",
            "tls_servername gives another",
        ),
    ] {
        let said = read(lines).unwrap_err().to_string();
        assert!(
            said.contains(want) && said.lines().count() == 1,
            "{lines}\n{said}\n{want}"
        );
    }
}

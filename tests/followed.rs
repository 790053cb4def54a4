//! Every file that the Corefile names is followed by the system's watch: with polls an hour apart, a change counts
//! within seconds.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::process::Process;
use crate::support::product::{CHANGE, START, Site, cluster_ip};
use crate::support::wire;

/// Type A.
const A: u16 = 1;

/// Waits until the name has this address.
fn wait_for_address(site: &Site, server: &mut Process, name: &str, address: &str) {
    let query = wire::Query::new(name, A);
    server.wait_for(&format!("{name} at {address}"), CHANGE, || {
        let reply = wire::udp(site.dns, &query).ok()?;
        let found = reply.matching(name, A).next()?;
        found.text().ends_with(address).then_some(())
    });
}

/// A zone file with one host.
fn zone_file(address: &str) -> String {
    format!("$TTL 5\n@ SOA ns h 1 300 30 86400 5\n@ NS ns\nns A 192.0.2.53\nhost A {address}\n")
}

#[test]
fn a_changed_corefile_hosts_or_zone_file_counts_at_once() {
    let site = Site::new();
    let port = site.dns.port();
    // As a ConfigMap is mounted: links whose target is swapped.
    let mount = site.path("mount");
    let corefile = |hosts: &str| {
        format!(
            ".:{port} {{\n bind 127.0.0.1\n reload 1h 0s\n hosts {hosts} {{\n  reload 1h\n  fallthrough\n }}\n \
             file zone a.test {{\n  reload 1h\n }}\n}}\n"
        )
    };
    fs::create_dir(&mount).unwrap();
    for (version, hosts) in [("..1", "hosts"), ("..2", "other")] {
        fs::create_dir(mount.join(version)).unwrap();
        fs::write(mount.join(version).join("Corefile"), corefile(hosts)).unwrap();
    }
    symlink("..1", mount.join("..data")).unwrap();
    symlink("..data/Corefile", mount.join("Corefile")).unwrap();
    fs::remove_file(site.path("Corefile")).unwrap();
    symlink("mount/Corefile", site.path("Corefile")).unwrap();
    site.write("hosts", "192.0.2.1 host.test\n");
    site.write("other", "192.0.2.9 host.test\n");
    site.write("zone", &zone_file("192.0.2.1"));
    let mut server = site.start();
    server.wait_for("its zone", START, || wire::serial(site.dns, "a.test"));
    wait_for_address(&site, &mut server, "host.test.", "192.0.2.1");
    wait_for_address(&site, &mut server, "host.a.test.", "192.0.2.1");

    site.write("hosts", "192.0.2.20 host.test\n");
    wait_for_address(&site, &mut server, "host.test.", "192.0.2.20");
    site.write("zone", &zone_file("192.0.2.30"));
    wait_for_address(&site, &mut server, "host.a.test.", "192.0.2.30");
    symlink("..2", mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    wait_for_address(&site, &mut server, "host.test.", "192.0.2.9");
    // Without a watch the files are read every two seconds: then this test shows nothing.
    assert!(!server.log().contains("gives no watch"));
}

/// conformance 2, 3, 4
#[test]
fn a_zone_file_that_cannot_be_used_at_the_first_start_stops_its_own_names_alone() {
    let site = Site::new();
    let (port, ready) = (site.dns.port(), site.ready.port());
    let manifests = site.path("manifests").display().to_string();
    let corefile = format!(
        "cluster.local:{port} {{\n bind 127.0.0.1\n ready 127.0.0.1:{ready}\n kubernetes {{\n  manifests {manifests}\n  \
         fallthrough some.cluster.local\n }}\n file under\n}}\n\
         good.test:{port} bad.test:{port} {{\n bind 127.0.0.1\n file good good.test\n file bad bad.test\n}}\n"
    );
    site.write("Corefile", &corefile);
    site.manifest("all.yaml", &cluster_ip("web", 7, 80));
    site.write(
        "good",
        "$TTL 5\n@ SOA ns h 1 300 30 86400 5\nhost A 192.0.2.1\n",
    );
    site.write("bad", "this is no zone file\n");
    site.write("under", "nor is this\n");
    let checked = site.run(&["check", "--corefile", "Corefile"]);
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    let mut server = site.start();
    server.wait_for("the other zones", START, || {
        let zones = ["cluster.local", "good.test"];
        let all = zones.map(|zone| wire::serial(site.dns, zone));
        all.iter().all(Option::is_some).then_some(())
    });
    let code = |name: &str| {
        let reply = wire::udp(site.dns, &wire::Query::new(name, A)).unwrap();
        (reply.rcode(), reply.answers.len())
    };
    for (name, want) in [
        ("web.test.svc.cluster.local.", (0, 1)),
        ("nothing.cluster.local.", (3, 0)),
        ("a.some.cluster.local.", (2, 0)),
        ("host.good.test.", (0, 1)),
        ("host.bad.test.", (2, 0)),
    ] {
        assert_eq!(code(name), want, "{name}");
    }
    let records = wire::axfr(site.dns, "good.test");
    assert!(records.is_err(), "nobody may have it: {records:?}");
    let is_ready =
        || crate::support::zonewright::http(ready, "/ready").is_some_and(|it| it.0 == 200);
    assert!(!is_ready());
    site.write("bad", &zone_file("192.0.2.2"));
    wait_for_address(&site, &mut server, "host.bad.test.", "192.0.2.2");
    server.wait_for("readiness", CHANGE, || is_ready().then_some(()));
    site.write("under", "$TTL 5\na.some A 192.0.2.3\n");
    wait_for_address(&site, &mut server, "a.some.cluster.local.", "192.0.2.3");
    assert_eq!(code("b.some.cluster.local."), (3, 0));
    server.terminate(START);
}

#[test]
fn a_reload_logs_the_zones_that_come_and_go() {
    let site = Site::new();
    let port = site.dns.port();
    site.write("zone", &zone_file("192.0.2.1"));
    let corefile = |zones: &str| {
        let keys = zones.replace(".test", &format!(".test:{port}"));
        format!("{keys} {{\n bind 127.0.0.1\n file zone\n}}\n")
    };
    site.write("Corefile", &corefile("a.test b.test"));
    let mut server = site.start();
    server.wait_for("its zone", START, || wire::serial(site.dns, "a.test"));
    site.write("Corefile", &corefile("b.test c.test"));
    site.ask(&["reload"]);
    let log = server.log();
    for (zone, said) in [
        ("c.test.", "the Corefile has new zones"),
        ("a.test.", "the Corefile has these zones no more"),
    ] {
        let mut lines = log.lines().filter(|line| line.contains(said));
        assert!(
            lines.any(|line| line.contains(zone) && !line.contains("b.test.")),
            "{log}"
        );
    }
    server.terminate(START);
}

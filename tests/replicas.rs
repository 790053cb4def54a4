//! Several replicas with fixed roles: one leads, the others have its versions and its history.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;

use crate::support::certificates::Certificates;
use crate::support::ports;
use crate::support::process::{Process, wait_for};
use crate::support::product::{CHANGE, START, Site, ZONES, cluster_ip, headless};
use crate::support::wire;

/// The name in the certificates.
const NAME: &str = "replicas.example";

/// Replicas with their folders.
pub struct Installation {
    pub sites: Vec<Site>,
    pub servers: Vec<Process>,
}

/// The directive of a replica, with what says who leads.
pub fn replicas(listen: SocketAddr, role: &str, certificates: &Certificates) -> String {
    format!(
        "replicas {{\n        listen {listen}\n        tls {} {} {}\n        name {NAME}\n        {role}\n    }}",
        certificates.file(NAME, "pem").display(),
        certificates.file(NAME, "key").display(),
        certificates.folder.join("ca.pem").display(),
    )
}

/// Folders for so many replicas, their addresses, and certificates.
pub fn sites(count: usize) -> (Vec<Site>, Vec<SocketAddr>, Certificates) {
    let sites: Vec<Site> = (0..count).map(|_| Site::new()).collect();
    let certificates = Certificates::new(sites[0].path("."));
    certificates.write(NAME);
    let addresses = sites.iter().map(|_| ports::free_address()).collect();
    (sites, addresses, certificates)
}

impl Installation {
    /// Replicas that read the same manifests. The first one leads.
    fn start(count: usize) -> Self {
        let (sites, addresses, certificates) = sites(count);
        let manifests = sites[0].path("manifests").display().to_string();
        for (place, site) in sites.iter().enumerate() {
            let role = match place {
                0 => "role primary".to_owned(),
                _ => format!("follow {}", addresses[0]),
            };
            let corefile = site.corefile(&replicas(addresses[place], &role, &certificates));
            let own = site.path("manifests").display().to_string();
            site.write("Corefile", &corefile.replace(&own, &manifests));
        }
        sites[0].manifest("base.yaml", &cluster_ip("base", 1, 80));
        sites[0].manifest("web.yaml", &headless("web", 1, &[1]));
        Self::start_sites(sites)
    }

    /// Starts all, and waits until they answer.
    pub fn start_sites(sites: Vec<Site>) -> Self {
        let mut servers: Vec<Process> = sites.iter().map(Site::start).collect();
        for (site, server) in sites.iter().zip(&mut servers) {
            site.wait_until_answering(server);
        }
        Self { sites, servers }
    }

    /// Changes the manifests; gives the new serial when all running replicas answer with it.
    fn change(&mut self, hosts: &[u8]) -> u32 {
        let before = wire::serial(self.sites[0].dns, ZONES[0]);
        let before = before.expect("the leader answers");
        self.sites[0].manifest("web.yaml", &headless("web", 1, hosts));
        let serial = self.sites[0].new_serial(&mut self.servers[0], ZONES[0], before);
        self.wait_until_all_have(serial);
        serial
    }

    /// Waits until all running replicas answer with a serial.
    pub fn wait_until_all_have(&mut self, serial: u32) {
        for (site, server) in self.sites.iter().zip(&mut self.servers) {
            if server.ended().is_none() {
                server.wait_for("the leader's version", CHANGE, || {
                    (wire::serial(site.dns, ZONES[0]) == Some(serial)).then_some(())
                });
            }
        }
    }

    /// Checks that all replicas export the same history, byte for byte.
    pub fn check_histories(&self) {
        let mut first: Option<BTreeMap<String, Vec<u8>>> = None;
        for site in &self.sites {
            let folder = site.path("exported");
            let exported = wait_for("an export", CHANGE, String::new, || {
                drop(fs::remove_dir_all(&folder));
                let zones = ZONES.map(str::to_owned);
                let mut args = vec!["export"];
                args.extend(zones.iter().map(String::as_str));
                args.extend(["--history", "--to", "exported", "--state", "state"]);
                let output = site.run(&args);
                assert!(output.status.success(), "{output:?}");
                let found = contents_of(&folder);
                // The last versions may be on their way.
                let is_it = first.as_ref().is_none_or(|first| *first == found);
                is_it.then_some(found)
            });
            assert!(!exported.is_empty());
            first = Some(exported);
        }
    }
}

/// The histories in a folder, by file. The manifest has the time of the export.
fn contents_of(folder: &std::path::Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let files = entries.map(|it| it.expect("it can be read").path());
    let named = files.map(|path| {
        let name = path.file_name().expect("a file has a name");
        (
            name.to_string_lossy().into_owned(),
            fs::read(&path).expect("it can be read"),
        )
    });
    named
        .filter(|(name, _)| !name.starts_with("manifest"))
        .collect()
}

#[test]
fn followers_have_the_versions_and_the_history_of_their_leader() {
    let mut installation = Installation::start(3);
    let mut last = 0;
    for (site, leads) in installation.sites.iter().zip(["} 1.0", "} 0.0", "} 0.0"]) {
        let has_it = || {
            let text = site.metrics();
            let mut lines = text
                .lines()
                .filter(|it| it.starts_with("zonewright_leader{"));
            lines.any(|it| it.ends_with(leads)).then_some(())
        };
        wait_for(
            "the metric of the leader",
            CHANGE,
            || site.metrics(),
            has_it,
        );
    }
    check_status(&installation.sites);
    for hosts in [&[1, 2][..], &[2], &[2, 3, 4], &[]] {
        let serial = installation.change(hosts);
        assert!(serial > last, "{serial} comes after {last}");
        last = serial;
    }
    installation.check_histories();
    // A follower is away while versions are made, and gets them when it is back.
    installation.servers[2].kill();
    let serial = installation.change(&[5, 6]);
    installation.servers[2] = installation.sites[2].start();
    installation.wait_until_all_have(serial);
    installation.check_histories();
    for (site, server) in installation.sites.iter().zip(&mut installation.servers) {
        assert!(server.terminate(START).success(), "{}", server.log_tail());
        site.ask(&["verify"]);
    }
}

/// Each replica says in `status` whether it leads, and the leader which others it has.
fn check_status(sites: &[Site]) {
    let lines = |site: &Site| {
        let text = site.ask(&["status"]);
        let of_replica = |it: &&str| it.starts_with("replica ") || it.contains("follower ");
        let lines: Vec<String> = text.lines().filter(of_replica).map(str::to_owned).collect();
        (text, lines)
    };
    let leads = || {
        let (_, lines) = lines(&sites[0]);
        let is_there = lines.len() == sites.len() && lines[0].contains(" LEADS, epoch ");
        is_there.then_some(())
    };
    wait_for("the leader's status", CHANGE, || lines(&sites[0]).0, leads);
    for follower in &sites[1..] {
        let follows = || {
            let (_, lines) = lines(follower);
            (lines.len() == 1 && lines[0].contains(" follows ")).then_some(())
        };
        let text = || lines(follower).0;
        wait_for("a follower's status", CHANGE, text, follows);
    }
}

#[test]
fn a_leader_that_was_killed_continues_its_serials_and_followers_answer_meanwhile() {
    let mut installation = Installation::start(2);
    let before = installation.change(&[1, 2]);
    installation.servers[0].kill();
    let follower = installation.sites[1].dns;
    assert_eq!(wire::serial(follower, ZONES[0]), Some(before));
    installation.servers[0] = installation.sites[0].start_answering();
    let after = installation.change(&[3]);
    assert!(after > before, "{after} comes after {before}");
    installation.check_histories();
}

#[test]
fn an_order_at_a_follower_is_refused_with_the_address_of_the_leader() {
    let mut installation = Installation::start(2);
    let serial = installation.change(&[1, 2]);
    let next = (serial + 1000).to_string();
    let order = ["advance", ZONES[0], &next, "--state", "state"];
    let refused = installation.sites[1].run(&order);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{text}");
    assert!(text.contains("this replica does not lead: ask"), "{text}");
    let taken = installation.sites[0].run(&order);
    let text = String::from_utf8_lossy(&taken.stderr);
    assert!(taken.status.success(), "{text}");
    installation.wait_until_all_have(serial + 1001);
    let frozen = installation.sites[0].run(&["freeze", ZONES[0], "--state", "state"]);
    let text = String::from_utf8_lossy(&frozen.stderr);
    assert!(
        text.contains("freezes and rollbacks do not work together with `replicas`"),
        "{text}"
    );
}

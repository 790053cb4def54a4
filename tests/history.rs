//! The history as an auditor gets it: checks `export --history` with code that knows the documented definition and
//! nothing of the product, and the commands about it with and without a server.

use std::collections::BTreeMap;

use crate::support::product::{Site, cluster_ip, headless};
use crate::support::wire;
use ring::digest::{SHA256, digest};
use serde_json::Value;

/// An independent check of an exported history: the definition of docs/evidence.md, in plain code.
mod independent {
    use super::*;

    /// Records in wire form by owner (labels from the right, lower case), type and data.
    type Zone = BTreeMap<Vec<Vec<u8>>, BTreeMap<(u16, Vec<u8>), Vec<u8>>>;

    /// SHA-256 of octets behind one that says what they are.
    fn hash(what: u8, octets: &[u8]) -> Vec<u8> {
        digest(&SHA256, &[&[what], octets].concat())
            .as_ref()
            .to_vec()
    }

    /// Octets from hexadecimal.
    fn octets(value: &Value) -> Vec<u8> {
        let text = value.as_str().expect("it is text");
        (0..text.len() / 2)
            .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("it is hexadecimal"))
            .collect()
    }

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    /// The owner's length in a record.
    fn owner_len(wire: &[u8]) -> usize {
        let mut at = 0;
        while wire[at] > 0 {
            at += usize::from(wire[at]) + 1;
        }
        at + 1
    }

    /// Where a record stands in a zone.
    fn place(wire: &[u8]) -> (Vec<Vec<u8>>, (u16, Vec<u8>)) {
        let end = owner_len(wire);
        let (mut labels, mut at) = (Vec::new(), 0);
        while wire[at] > 0 {
            let next = at + usize::from(wire[at]) + 1;
            labels.push(wire[at + 1..next].to_ascii_lowercase());
            at = next;
        }
        labels.reverse();
        let rtype = u16::from_be_bytes([wire[end], wire[end + 1]]);
        (labels, (rtype, wire[end + 10..].to_vec()))
    }

    /// A record comes.
    fn insert(zone: &mut Zone, wire: Vec<u8>) -> Result<(), String> {
        let (owner, key) = place(&wire);
        match zone.entry(owner).or_default().insert(key, wire) {
            None => Ok(()),
            Some(_) => Err("a record comes that is there".into()),
        }
    }

    /// A record goes.
    fn remove(zone: &mut Zone, wire: &[u8]) -> Result<(), String> {
        let (owner, key) = place(wire);
        let records = zone
            .get_mut(&owner)
            .ok_or("a record goes that is not there")?;
        if records.remove(&key).as_deref() != Some(wire) {
            return Err("a record goes that is not there".into());
        }
        if records.is_empty() {
            zone.remove(&owner);
        }
        Ok(())
    }

    /// The hash of the content.
    fn content(zone: &Zone, soa: &[u8]) -> Vec<u8> {
        let mut row: Vec<(Vec<u8>, usize)> = zone
            .values()
            .map(|records| {
                let all: Vec<u8> = records.values().flatten().copied().collect();
                let first = records.values().next().expect("an owner has records");
                let owner = first[..owner_len(first)].to_ascii_lowercase();
                let digits = hex(digest(&SHA256, &owner).as_ref());
                let zeros = digits.chars().take_while(|digit| *digit == '0').count();
                (hash(0, &all), zeros.min(4))
            })
            .collect();
        for round in 1..=4 {
            let mut next = Vec::new();
            let mut piece = Vec::new();
            let count = row.len();
            for (at, (value, height)) in row.into_iter().enumerate() {
                piece.extend(value);
                if height >= round || at + 1 == count {
                    next.push((hash(1, &piece), height));
                    piece.clear();
                }
            }
            row = next;
        }
        let mut soa = soa.to_vec();
        // The serial stands before the last 16 octets of the data.
        let at = soa.len() - 20;
        soa[at..at + 4].fill(0);
        soa.extend(row.into_iter().flat_map(|(value, _)| value));
        hash(2, &soa)
    }

    /// What a version's hash is over.
    fn version(line: &Value) -> Vec<u8> {
        let mut all = octets(&line["previousHash"]);
        all.extend(octets(&line["contentHash"]));
        let number = |field: &str| line[field].as_u64().expect("it is a number");
        for field in ["version", "timeMs", "records"] {
            all.extend(number(field).to_be_bytes());
        }
        let count = |count: usize| u32::try_from(count).expect("it is small").to_be_bytes();
        let list = |value: &Value| value.as_array().expect("it is a list").clone();
        if line["previousSoa"].is_null() {
            all.extend(count(0));
        } else {
            all.extend(count(1));
            all.extend(octets(&line["previousSoa"]));
        }
        all.extend(octets(&line["soa"]));
        let groups = list(&line["causes"]);
        all.extend(count(groups.len()));
        for group in groups {
            let group = list(&group);
            all.extend(count(group.len()));
            for cause in group {
                for field in [
                    "verb",
                    "kind",
                    "namespace",
                    "name",
                    "uid",
                    "resourceVersion",
                    "manager",
                    "operation",
                    "place",
                ] {
                    let text = cause[field].as_str().unwrap_or("");
                    all.extend(count(text.len()));
                    all.extend(text.as_bytes());
                }
            }
        }
        for field in ["removed", "added"] {
            let records = list(&line[field]);
            all.extend(count(records.len()));
            for record in records {
                let cause = record["cause"].as_u64().expect("it is a number");
                all.extend(count(usize::try_from(cause).expect("it is small")));
                all.extend(octets(&record["wire"]));
            }
        }
        hash(3, &all)
    }

    /// Goes through an exported history; gives the hash of its last version and how many there are.
    pub(super) fn check(text: &str) -> Result<(String, usize), String> {
        let mut zone = Zone::new();
        let (mut previous, mut number) = (None::<String>, None::<u64>);
        let mut versions = 0;
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            match line["type"].as_str() {
                Some("zone") => number = line["after"].as_u64(),
                Some("record") => insert(&mut zone, octets(&line["wire"]))?,
                Some("version") => {
                    let serial = &line["serial"];
                    let fault = |what: &str| format!("serial {serial}: {what}");
                    for record in line["removed"].as_array().into_iter().flatten() {
                        remove(&mut zone, &octets(&record["wire"])).map_err(|what| fault(&what))?;
                    }
                    for record in line["added"].as_array().into_iter().flatten() {
                        insert(&mut zone, octets(&record["wire"])).map_err(|what| fault(&what))?;
                    }
                    if line["version"].as_u64() != number.map(|number| number + 1) {
                        return Err(fault("a version is missing"));
                    }
                    if line["contentHash"] != hex(&content(&zone, &octets(&line["soa"]))).as_str() {
                        return Err(fault("another content"));
                    }
                    let own = hex(&version(&line));
                    if line["hash"] != own.as_str() {
                        return Err(fault("another hash"));
                    }
                    if previous.is_some_and(|previous| line["previousHash"] != previous.as_str()) {
                        return Err(fault("another version before"));
                    }
                    number = line["version"].as_u64();
                    previous = Some(own);
                    versions += 1;
                }
                _ => return Err("a line of no known type".into()),
            }
        }
        Ok((previous.ok_or("there are no versions")?, versions))
    }
}

/// A site with a history of some versions; the server is stopped.
fn with_history() -> Site {
    let site = Site::new();
    site.write(
        "Corefile",
        &site.corefile("history {\n        versions 4\n    }"),
    );
    let (mut server, _) = site.start_with_history(60);
    for command in [
        &["verify"][..],
        &["export", "cluster.local", "--history", "--to", "live"],
        &["export", "cluster.local", "--to", "live"],
    ] {
        site.ask(command);
    }
    server.terminate(crate::support::product::START);
    site
}

/// security 7: "keep is a floor".
#[test]
fn security_07_the_log_status_and_a_metric_say_that_versions_were_dropped_too_early() {
    let site = Site::new();
    site.write(
        "Corefile",
        &site.corefile("history {\n        versions 2\n    }"),
    );
    let (server, _) = site.start_with_history(1);
    let status = site.ask(&["status"]);
    assert!(status.contains("HISTORY SHORT"), "{status}");
    let metrics = site.metrics();
    let counted = metrics.lines().any(|line| {
        line.starts_with("zonewright_history_dropped_early_total{zone=\"cluster.local.\"} ")
            && !line.ends_with(" 0")
    });
    assert!(counted, "{metrics}");
    let log = server.log();
    let said = "versions younger than `keep` are dropped from the history";
    let mut lines = log.lines().filter(|line| line.contains(said));
    let of_zone = lines
        .clone()
        .filter(|line| line.contains("zone=cluster.local."));
    assert_eq!(of_zone.count(), 1, "each zone once an hour\n{log}");
    assert!(lines.all(|line| line.contains("ERROR")), "{log}");
}

#[test]
fn an_exported_history_is_checked_without_the_product() {
    let site = with_history();
    site.ask(&["export", "cluster.local", "--history", "--to", "out"]);
    let read = |name: &str| std::fs::read_to_string(site.path(name)).expect("it was written");
    let text = read("out/cluster.local.ndjson");
    assert_eq!(
        text,
        read("live/cluster.local.ndjson"),
        "with and without a server"
    );
    let (hash, versions) = independent::check(&text).expect("the history holds");
    assert_eq!(versions, 4, "as many as `history` keeps");
    assert!(
        text.contains("\"type\":\"record\""),
        "what stood before is there"
    );
    let verified: Value = serde_json::from_str(
        site.ask(&["verify", "cluster.local", "--output", "json"])
            .trim(),
    )
    .expect("it is JSON");
    assert_eq!(verified["hash"], hash.as_str());
    assert_eq!(verified["good"], true);
    // What is altered anywhere is found, also by a stranger.
    let last = text.lines().count() - 1;
    for (line, from, to) in [
        (last, "\"timeMs\":1", "\"timeMs\":2"),
        (last, "\"verb\":\"applied\"", "\"verb\":\"deleted\""),
        (last - 1, "\"added\":[{", "\"added\":[],\"was\":[{"),
        (1, "\"wire\":\"", "\"wire\":\"0161"),
    ] {
        let altered: Vec<String> = text
            .lines()
            .enumerate()
            .map(|(at, text)| {
                if at == line {
                    text.replacen(from, to, 1)
                } else {
                    text.to_owned()
                }
            })
            .collect();
        let altered = altered.join("\n");
        assert_ne!(altered, text.trim_end(), "{from}");
        assert!(independent::check(&altered).is_err(), "{from} -> {to}");
    }
    let without: Vec<&str> = text
        .lines()
        .enumerate()
        .filter(|(at, _)| *at != last - 1)
        .map(|(_, line)| line)
        .collect();
    assert!(independent::check(&without.join("\n")).is_err());
}

#[test]
fn exported_master_files_are_the_versions() {
    let site = with_history();
    let log = site.ask(&["log", "cluster.local", "--output", "json"]);
    let serials: Vec<String> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .filter(|line: &Value| line["type"].is_null())
        .map(|version| version["serial"].to_string())
        .collect();
    let oldest = format!("cluster.local@{}", serials[3]);
    site.ask(&["export", "cluster.local", &oldest, "--to", "out"]);
    for serial in [&serials[0], &serials[3]] {
        let file = std::fs::read_to_string(site.path(&format!("out/cluster.local.{serial}.zone")));
        let shown = site.ask(&["show", &format!("cluster.local@{serial}")]);
        assert_eq!(file.expect("it was written"), shown);
    }
    // Without a zone, of all.
    let verified = site.ask(&["verify", "--output", "json"]);
    for more in [&[][..], &["--history"]] {
        let written = site.ask(&[&["export", "--to", "all"], more].concat());
        let files = written.lines().filter(|file| site.path(file).exists());
        let manifest = more.len();
        assert_eq!(
            files.count(),
            verified.lines().count() + manifest,
            "{written}"
        );
        let of_zone = written
            .lines()
            .filter(|file| file.starts_with("all/cluster.local."));
        assert_eq!(of_zone.count(), 1, "{written}");
    }
    let name = "web.test.svc.cluster.local.";
    for serial in &serials {
        let at = format!("cluster.local@{serial}");
        let all = site.ask(&["show", &at]);
        let of_name: Vec<&str> = all.lines().filter(|line| line.starts_with(name)).collect();
        let shown = site.run(&["show", &at, name, "--state", "state"]);
        let shown = String::from_utf8(shown.stdout).expect("answers are UTF-8");
        let shown: Vec<&str> = shown
            .lines()
            .filter(|line| !line.starts_with(';'))
            .collect();
        assert_eq!(shown, of_name, "{at}");
    }
    let blamed = site.ask(&["blame", "cluster.local", name]);
    assert!(blamed.contains("10.244.1.6\n    since "), "{blamed}");
    assert!(
        blamed.contains("EndpointSlice test/web-1 (web.yaml:"),
        "{blamed}"
    );
    // A Service from the first version, which is not kept any more.
    let blamed = site.ask(&["blame", "cluster.local", "s7.test.svc.cluster.local."]);
    assert!(blamed.contains("from before the kept history"), "{blamed}");
}

#[test]
fn the_newest_hash_is_served_where_history_publishes_it_and_is_no_part_of_the_zone() {
    let site = Site::new();
    let name = "_version.cluster.local.";
    let txt = || {
        let query = wire::Query::new(name, 16);
        let reply = wire::ask(site.dns, &query).expect("it answers");
        wire::texts(&reply.answers)
    };
    site.write(
        "Corefile",
        &site.corefile("history {\n        versions 9\n    }"),
    );
    let mut server = site.start_answering();
    assert!(txt().is_empty(), "off by default");
    server.terminate(crate::support::product::START);
    site.write(
        "Corefile",
        &site.corefile("history {\n        publish\n    }"),
    );
    let mut server = site.start_answering();
    for host in [1, 2] {
        let old = wire::serial(site.dns, "cluster.local.").expect("it answers");
        site.manifest("web.yaml", &headless("web", 1, &[host]));
        let serial = site.new_serial(&mut server, "cluster.local.", old);
        let verified = site.ask(&["verify", "cluster.local", "--output", "json"]);
        let verified: Value = serde_json::from_str(verified.trim()).expect("it is JSON");
        let hash = verified["hash"].as_str().expect("it has one");
        let said = txt().join("\n");
        assert!(
            said.contains(&format!("serial={serial} hash={hash}")),
            "{said}"
        );
        let status: Value =
            serde_json::from_str(&site.ask(&["status", "--output", "json"])).expect("it is JSON");
        assert_eq!(status["zones"][0]["hash"], hash);
        let history = &status["zones"][0]["history"];
        assert!(
            history["begins"].is_u64() && history["octets"].as_u64() > Some(100),
            "{status}"
        );
        let shown = site.ask(&["show", "cluster.local"]);
        assert!(!shown.contains("_version"), "{shown}");
    }
    server.terminate(crate::support::product::START);
}

#[test]
fn a_store_without_its_database_is_no_good_history_and_an_empty_folder_is_none() {
    let site = with_history();
    std::fs::remove_dir_all(site.path("state/db")).expect("it was there");
    for _ in 0..2 {
        let output = site.run(&["verify", "--state", "state", "--output", "json"]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said
            .lines()
            .find(|line| line.contains("\"cluster.local.\""));
        let line: Value = serde_json::from_str(line.expect("it is named")).expect("it is JSON");
        assert_eq!(line["good"], false);
        let what = line["faults"][0]["what"].as_str().expect("it says what");
        assert!(what.starts_with("all versions up to serial"), "{what}");
    }
    std::fs::create_dir(site.path("empty")).expect("a folder can be made");
    let output = site.run(&["verify", "--state", "empty"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no zone is stored"), "{said}");
    let left = std::fs::read_dir(site.path("empty")).expect("it is there");
    assert_eq!(left.count(), 0, "whoever reads makes no store");
}

#[test]
fn a_corefile_that_changed_while_the_server_was_away_is_named_with_what_that_changes() {
    let site = Site::new();
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    let mut before = None;
    let is_named = || site.ask(&["log", "cluster.local"]).contains("the Corefile");
    for (ttl, named) in [("ttl 5", false), ("ttl 5", false), ("ttl 17", true)] {
        site.write("Corefile", &site.corefile("").replace("ttl 5", ttl));
        let mut server = site.start_answering();
        let serial = match before {
            Some(serial) if named => site.new_serial(&mut server, "cluster.local.", serial),
            _ => wire::serial(site.dns, "cluster.local.").expect("it answers"),
        };
        assert_eq!(is_named(), named, "with {ttl}");
        let web = "web.test.svc.cluster.local.";
        let blamed = site.ask(&["blame", "cluster.local", web]);
        assert_eq!(
            blamed.contains("configured from the Corefile"),
            named,
            "{blamed}"
        );
        assert_eq!(blamed.contains("Service test/web"), !named, "{blamed}");
        before = Some(serial);
        server.terminate(crate::support::product::START);
    }
}

#[test]
fn the_corefile_behind_a_version_is_shown_and_compared_with_and_without_a_server() {
    let site = Site::new();
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    let key = "MDEyMzQ1Njc4OWFiY2RlZg==";
    let corefile = site.corefile(&format!("tsig {{\n        secret k. {key}\n    }}"));
    site.write("Corefile", &format!("# a comment\n{corefile}"));
    let mut server = site.start_answering();
    let first = wire::serial(site.dns, "cluster.local.").expect("it answers");
    let changed = corefile.replace("ttl 5", "ttl \"17\"");
    site.write("Corefile", &changed);
    site.ask(&["reload"]);
    let second = site.new_serial(&mut server, "cluster.local.", first);
    // A refused Corefile is in no version.
    site.write("Corefile", "nonsense {\n");
    let refused = site.run(&["reload", "--state", "state"]);
    assert_eq!(refused.status.code(), Some(2));
    site.manifest("web.yaml", &headless("web", 1, &[1, 2]));
    let third = site.new_serial(&mut server, "cluster.local.", second);
    let state = |args: &[&str]| site.run(&[args, &["--state", "state"]].concat());
    let text = |args: &[&str]| String::from_utf8(state(args).stdout).expect("it is UTF-8");
    let of = |serial: u32| text(&["show", &format!("cluster.local@{serial}"), "--corefile"]);
    let [range, same] = [(first, third), (second, third)].map(|(from, to)| {
        let (from, to) = (from.to_string(), to.to_string());
        move |text: &dyn Fn(&[&str]) -> String| {
            text(&["diff", "cluster.local", &from, &to, "--corefile"])
        }
    });
    let check = || {
        let (old, new) = (of(first), of(third));
        assert!(old.contains("        ttl 5\n"), "{old}");
        assert!(new.contains("        ttl 17\n"), "{new}");
        for shown in [&old, &new] {
            assert!(
                !shown.contains(key) && shown.contains("secret k. (key-"),
                "{shown}"
            );
            assert!(!shown.contains("comment"), "{shown}");
        }
        let changes = range(&text);
        let lines: Vec<&str> = changes
            .lines()
            .filter(|line| line.contains("ttl "))
            .collect();
        assert_eq!(lines, ["-        ttl 5", "+        ttl 17"]);
        let alike = same(&text);
        assert!(
            alike.starts_with("# both have the same Corefile: ") && alike.lines().count() == 1,
            "{alike}"
        );
    };
    check();
    server.terminate(crate::support::product::START);
    check();
    // What is shown is what was in use, but for the key.
    let shown = of(third).replace("(key-", "MDEy").replace(")\n", "\n");
    site.write("Corefile", &shown);
    let mut server = site.start_answering();
    let serial = site.ask(&["show", "cluster.local", "--corefile"]);
    assert!(
        serial.contains(&format!("cluster.local. {third} of ")),
        "{serial}"
    );
    server.terminate(crate::support::product::START);
}

/// The acts of a zone, the oldest first.
fn acts_of(site: &Site, zone: &str) -> Vec<String> {
    let log = site.ask(&["log", zone, "--output", "json"]);
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let acts = lines.filter(|line: &Value| line["type"] == "act");
    let word = |act: Value| act["act"].as_str().unwrap().to_owned();
    let mut acts: Vec<String> = acts.map(word).collect();
    acts.reverse();
    acts
}

/// The Corefile in use is shown, which does not have the zone, and that it is not served.
fn expect_absent(shown: &str) {
    let remark = "the server does not have the zone: this is not served";
    assert!(
        shown.contains(remark) && !shown.contains("10.244."),
        "{shown}"
    );
}

#[test]
fn reloads_and_zones_that_leave_the_corefile_and_come_back_are_in_the_log() {
    const START: std::time::Duration = crate::support::product::START;
    const LEAVES: &str = "244.10.in-addr.arpa.";
    let site = Site::new();
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    let whole = site.corefile("");
    let fewer = whole.replace(&format!(" 10.244.0.0/16:{}", site.dns.port()), "");
    site.write("Corefile", &whole);
    let mut server = site.start_answering();
    let expect = |server: &mut crate::support::process::Process, zone: &str, acts: &[&str]| {
        server.wait_for(&format!("{acts:?}"), START, || {
            (acts_of(&site, zone) == acts).then_some(())
        });
    };
    // The same text again is no act, and the first start is none.
    site.ask(&["reload"]);
    site.write("Corefile", &site.corefile("nsid a"));
    site.ask(&["reload"]);
    expect(&mut server, "cluster.local.", &["configured"]);
    expect(&mut server, LEAVES, &["configured"]);
    let log = site.ask(&["log", "cluster.local", "-n", "1"]);
    assert!(
        log.contains(" configured from the Corefile, digest "),
        "{log}"
    );
    assert!(
        log.contains(", by uid ") && log.contains(" reload "),
        "{log}"
    );
    site.write("Corefile", &fewer);
    site.ask(&["reload"]);
    let left = ["configured", "configured", "removed"];
    expect(&mut server, LEAVES, &left);
    expect_absent(&site.ask(&["show", LEAVES, "--corefile"]));
    server.terminate(START);
    // It stays away over a restart, and comes back with another one.
    let start = |text: &str| {
        site.write("Corefile", text);
        let mut server = site.start();
        server.wait_for("an answer", START, || {
            wire::serial(site.dns, "cluster.local.")
        });
        server
    };
    let mut server = start(&fewer);
    expect(&mut server, LEAVES, &left);
    server.terminate(START);
    let mut server = start(&whole);
    let back = [&left[..], &["returned", "configured"]].concat();
    expect(&mut server, LEAVES, &back);
    let both = ["configured", "configured", "configured"];
    expect(&mut server, "cluster.local.", &both);
    server.terminate(START);
    let mut server = start(&fewer);
    let away = [&back[..], &["removed"]].concat();
    expect(&mut server, LEAVES, &away);
    site.write("Corefile", &whole);
    site.ask(&["reload"]);
    expect(&mut server, LEAVES, &[&away[..], &["returned"]].concat());
    let log = site.ask(&["log", LEAVES]);
    for about in [
        "removed from the Corefile, digest ",
        "returned to the Corefile, as found at a start\n",
        "removed from the Corefile, as found at a start\n",
        "returned to the Corefile, digest ",
    ] {
        assert!(log.contains(about), "{about}: {log}");
    }
    server.terminate(START);
    let verify = site.run(&["verify", "--state", "state"]);
    assert_eq!(verify.status.code(), Some(0));
}

#[test]
fn security_07_the_versions_of_others_are_shown_after_any_churn_of_one() {
    let site = Site::new();
    site.write(
        "Corefile",
        &site.corefile("history {\n        versions 10\n    }"),
    );
    let write = |namespace: &str, number: u8| {
        let service = cluster_ip("web", number, 80);
        let service = service.replace("namespace: test", &format!("namespace: {namespace}"));
        site.manifest(&format!("{namespace}.yaml"), &service);
    };
    write("victim", 1);
    write("evil", 2);
    let mut server = site.start_answering();
    let mut serial = wire::serial(site.dns, "cluster.local.").expect("it answers");
    let mut change = |namespace: &str, number: u8| {
        write(namespace, number);
        serial = site.new_serial(&mut server, "cluster.local.", serial);
        serial
    };
    let of_victim = change("victim", 3);
    let hidden: Vec<u32> = (10..15).map(|number| change("evil", number)).collect();
    for number in 15..50 {
        change("evil", number);
    }
    let name = "web.victim.svc.cluster.local.";
    let log = site.ask(&["log", "cluster.local."]);
    let has = |text: &str, part: &str| assert!(text.contains(part), "{text}");
    has(&log, " versions of namespace evil condensed, the first of ");
    for asked in [
        &["log", "cluster.local.", "--name", name][..],
        &["log", "cluster.local."],
    ] {
        let said = site.ask(asked);
        assert!(
            said.contains(&format!("cluster.local. {of_victim} ")),
            "{said}"
        );
    }
    let lines = site.ask(&["log", "cluster.local.", "--output", "json"]);
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"));
    let condensed: u64 = lines
        .filter_map(|line: Value| line["condensed"]["versions"].as_u64())
        .sum();
    assert!(condensed > 20, "{condensed}");
    let at = format!("cluster.local.@{of_victim}");
    let shown = site.ask(&["show", &at, name]);
    assert!(shown.contains("10.96.3.1"), "{shown}");
    let blamed = site.ask(&["blame", "cluster.local.", name]);
    assert!(blamed.contains(&format!("since {of_victim} ")), "{blamed}");
    let changed = site.ask(&["diff", "cluster.local.", &of_victim.to_string()]);
    assert!(
        changed.contains("10.96.49.1") && !changed.contains("10.96.30.1"),
        "{changed}"
    );
    let at = format!("cluster.local.@{}", hidden[2]);
    let refused = site.run(&["show", &at, "--state", "state"]);
    let refused = String::from_utf8(refused.stderr).expect("errors are UTF-8");
    has(&refused, "that were condensed into one: ask for serial ");
    let verified = site.ask(&["verify", "cluster.local."]);
    assert!(
        verified.contains("good") && verified.contains("are condensed"),
        "{verified}"
    );
    let status = site.ask(&["status"]);
    assert!(!status.contains("HISTORY SHORT"), "{status}");
    server.kill();
}

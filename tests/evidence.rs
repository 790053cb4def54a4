//! Evidence that stands without the store and without the program: exports that are checked elsewhere by a Python program, by
//! openssl and by `verify FILE`, hashes that were noted, and state folders that nothing may change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::evidence::{make_keys, run, said};
use crate::support::needs::{self, zonewright};
use crate::support::product::{START, Site};
use ring::digest::{SHA256, digest};
use serde_json::Value;

/// A site with a history of `versions`, at most seven; the server is stopped.
fn with_history(versions: usize) -> Site {
    with_serials(versions).0
}

/// The same with the serials of all seven versions, oldest first.
fn with_serials(versions: usize) -> (Site, Vec<u32>) {
    let site = Site::new();
    let text = format!("history {{\n        versions {versions}\n    }}");
    site.write("Corefile", &site.corefile(&text));
    let (mut server, serials) = site.start_with_history(5);
    server.terminate(START);
    (site, serials)
}

const SIGNED: [&str; 8] = [
    "export",
    "cluster.local",
    "96.10.in-addr.arpa",
    "--history",
    "--sign",
    "key.pem",
    "--to",
    "out",
];

/// The checker of the hashes of an exported history, without the program.
const HASHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/verify-export.py");
/// The one of its manifest and its texts.
const TEXTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/verify-texts.py");

/// Runs a program in Python, with -O, where an `assert` would check nothing.
fn python(site: &Site, args: &[&str]) -> Output {
    let args = [&["-O"][..], args].concat();
    run(site, &needs::program("python3"), &args)
}

/// The three checkers of an export: their names, and what each says.
fn checked(site: &Site) -> [(&'static str, Output); 3] {
    let python = python(site, &[TEXTS, "out", "public.pem"]);
    let ours = ["verify", "out/manifest.json", "--key", "public.pem"];
    let openssl = [
        "pkeyutl",
        "-verify",
        "-rawin",
        "-pubin",
        "-inkey",
        "public.pem",
        "-in",
        "out/manifest.json",
        "-sigfile",
        "out/manifest.json.sig",
    ];
    [
        ("python", python),
        ("zonewright", run(site, &zonewright(), &ours)),
        ("openssl", run(site, &needs::program("openssl"), &openssl)),
    ]
}

#[test]
fn a_flipped_byte_of_any_file_of_an_export_is_found_and_named() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let site = with_history(4);
    make_keys(&site);
    let listed = site.ask(&SIGNED);
    assert!(
        listed.ends_with("out/manifest.json\nout/manifest.json.sig\n"),
        "{listed}"
    );
    for (checker, output) in checked(&site) {
        assert!(output.status.success(), "{checker}: {}", said(&output));
    }
    let mut random = fastrand::Rng::with_seed(fuzz::seed());
    for file in [
        "cluster.local.ndjson",
        "96.10.in-addr.arpa.ndjson",
        "manifest.json",
        "manifest.json.sig",
    ] {
        let path = site.path(&format!("out/{file}"));
        let good = fs::read(&path).expect("it was written");
        for round in 0..10 {
            let (at, bit) = (random.usize(..good.len()), random.u8(..8));
            let mut flipped = good.clone();
            flipped[at] ^= 1 << bit;
            fs::write(&path, &flipped).expect("it can be written");
            for (checker, output) in checked(&site) {
                let text = said(&output);
                let what =
                    format!("{checker}, round {round}, byte {at} of {file}, bit {bit}: {text}");
                if checker == "openssl" && !file.starts_with("manifest") {
                    assert!(output.status.success(), "{what}");
                    continue;
                }
                assert_eq!(output.status.code(), Some(1), "{what}");
                // openssl is asked about nothing else.
                let named = file.strip_suffix(".sig").unwrap_or(file);
                assert!(checker == "openssl" || text.contains(named), "{what}");
            }
        }
        fs::write(&path, &good).expect("it can be written");
    }
    for (checker, output) in checked(&site) {
        assert!(output.status.success(), "{checker}: {}", said(&output));
    }
    check_signatures(&site);
}

/// What is said without the signature, with that of another key, and of an export without one.
fn check_signatures(site: &Site) {
    let signature = site.path("out/manifest.json.sig");
    let good = fs::read(&signature).expect("it was written");
    fs::remove_file(&signature).expect("it was there");
    let gone = "its signature out/manifest.json.sig is not there";
    let [(_, python), (_, ours), _] = checked(site);
    let text = said(&ours);
    assert_eq!(ours.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("BROKEN: {gone}")), "{text}");
    assert!(!text.contains("lost versions"), "{text}");
    assert_eq!(python.status.code(), Some(1), "{}", said(&python));
    assert!(said(&python).contains("is not there"), "{}", said(&python));
    let text = site.ask(&["verify", "out"]);
    let want = format!("out/manifest.json: good; it says that it is signed, but {gone}\n");
    assert!(text.contains(&want), "{text}");
    fs::write(&signature, good).expect("it can be written");
    make_other_key(site);
    let (code, text) = verified(site, &["out", "--key", "other.pem"]);
    assert_eq!(code, Some(1), "{text}");
    let want = "out/manifest.json: signed with another key than --key: with ";
    assert!(text.starts_with(want), "{text}");
    for word in ["BROKEN", "changed bytes", "not as it was written"] {
        assert!(!text.contains(word), "{text}");
    }
    assert!(text.contains("cluster.local.: good; "), "{text}");
    let (code, text) = verified(site, &["out", "--key", "other.pem", "-o", "json"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("\"signature\":\"otherKey\""), "{text}");
    // An unsigned export leaves no signature behind.
    site.ask(&["export", "cluster.local", "--history", "--to", "out"]);
    assert!(!signature.exists());
    let text = site.ask(&["verify", "out/manifest.json"]);
    assert!(
        text.starts_with("out/manifest.json: good; not signed\n"),
        "{text}"
    );
}

/// A history that the signed manifest does not name is not vouched for by the signature.
#[test]
fn a_history_that_the_manifest_does_not_name_is_not_good_with_a_key() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let site = with_history(4);
    make_keys(&site);
    site.ask(&SIGNED);
    let other = site.path("out/other.ndjson");
    fs::copy(site.path("out/cluster.local.ndjson"), other).expect("it can be copied");
    let what = "the manifest beside it does not name it";
    let keyed = ["verify", "out/other.ndjson", "--key", "public.pem"];
    let output = run(&site, &zonewright(), &keyed);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let fault = format!("broken chain: {what}");
    assert!(said(&output).contains(&fault), "{}", said(&output));
    // Notes may be kept there.
    site.write("out/notes.ndjson", "{\"note\":{}}\n");
    // Nor where the whole folder is checked.
    let (code, text) = verified(&site, &["out", "--key", "public.pem"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("out/other.ndjson: cluster.local.: BROKEN"),
        "{text}"
    );
    assert!(text.contains(what) && !text.contains("notes"), "{text}");
    let text = site.ask(&["verify", "out/manifest.json"]);
    assert!(text.contains(what), "{text}");
    // Without a key nobody vouches for the manifest either.
    let text = site.ask(&["verify", "out/other.ndjson"]);
    assert!(text.contains(what), "{text}");
    for (file, is_named) in [("cluster.local", true), ("other", false)] {
        let file = format!("out/{file}.ndjson");
        let text = site.ask(&["verify", &file, "--output", "json"]);
        let line = text.lines().last().expect("there is one");
        let line: Value = serde_json::from_str(line).expect("it is JSON");
        assert_eq!(line["named"], is_named, "{line}");
    }
    let keyed = ["verify", "out/cluster.local.ndjson", "--key", "public.pem"];
    let output = run(&site, &zonewright(), &keyed);
    assert!(output.status.success(), "{}", said(&output));
}

/// The fields of the first fault that `verify FILE --output json` names.
fn damage_of(site: &Site, file: &str) -> String {
    let output = run(site, &zonewright(), &["verify", file, "--output", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let line: Value = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .find(|line: &Value| line["good"] == false)
        .expect("one is not good");
    line["faults"][0]["damage"]
        .as_str()
        .expect("it is named")
        .to_owned()
}

#[test]
fn changed_bytes_lost_versions_and_a_broken_chain_are_told_apart_in_a_file() {
    let site = with_history(7);
    site.ask(&["export", "cluster.local", "--history", "--to", "out"]);
    let good = fs::read_to_string(site.path("out/cluster.local.ndjson")).expect("it was written");
    site.ask(&["verify", "out/cluster.local.ndjson"]);
    // Somebody sent the history without its manifest.
    fs::create_dir(site.path("sent")).expect("a folder can be made");
    let file = "sent/cluster.local.ndjson";
    let write = |lines: &[&str]| site.write(file, &format!("{}\n", lines.join("\n")));
    let lines: Vec<&str> = good.lines().collect();
    write(&lines);
    let text = site.ask(&["verify", file]);
    assert!(text.contains("cluster.local.: good; 7 versions"), "{text}");
    let changed = lines[3].replacen("\"records\":", "\"records\":1", 1);
    let mut altered = lines.clone();
    altered[3] = &changed;
    write(&altered);
    assert_eq!(damage_of(&site, file), "changed");
    altered.remove(3);
    write(&altered);
    assert_eq!(damage_of(&site, file), "lost");
    // A history of another server, from some version on.
    let other = with_history(7);
    other.ask(&["export", "cluster.local", "--history", "--to", "out"]);
    let others = fs::read_to_string(other.path("out/cluster.local.ndjson")).expect("it is there");
    let others: Vec<&str> = others.lines().collect();
    let mixed: Vec<&str> = lines[..4].iter().chain(&others[4..]).copied().collect();
    write(&mixed);
    assert_eq!(damage_of(&site, file), "chain");
    // The whole chain is another one: only a hash that was noted tells.
    write(&others);
    site.ask(&["verify", file]);
    let noted: Value = serde_json::from_str(lines[4]).expect("it is JSON");
    let noted = noted["hash"].as_str().expect("it has one");
    let output = run(&site, &zonewright(), &["verify", file, "--anchor", noted]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("broken chain: no version has the hash"),
        "{}",
        said(&output)
    );
    write(&lines);
    let text = site.ask(&["verify", file, "--anchor", noted]);
    assert!(
        text.contains(&format!("hash {noted} is that of serial")),
        "{text}"
    );
    // Beside a manifest, a cut file is found, too.
    let cut = format!("{}\n", lines[..lines.len() - 1].join("\n"));
    site.write("out/cluster.local.ndjson", &cut);
    assert_eq!(damage_of(&site, "out/cluster.local.ndjson"), "lost");
    fs::remove_file(site.path("out/cluster.local.ndjson")).expect("it was there");
    assert_eq!(damage_of(&site, "out/manifest.json"), "lost");
    site.write("out/cluster.local.ndjson", "");
    let (_, text) = verified(&site, &["out"]);
    assert!(
        !text.contains("serial 0") && text.contains("it has 0 bytes"),
        "{text}"
    );
    let json = ["out/cluster.local.ndjson", "-o", "json"];
    assert!(verified(&site, &json).1.contains("\"zone\":null"));
}

#[test]
fn a_noted_hash_is_found_in_the_store_with_and_without_a_server() {
    let site = with_history(3);
    let log = site.ask(&["log", "cluster.local", "--output", "json"]);
    let oldest: Value = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .rfind(|line: &Value| line["type"].is_null())
        .expect("there are versions");
    let noted = oldest["hash"].as_str().expect("it has one").to_owned();
    let ask = |anchor: &str| {
        let args = ["verify", "--state", "state", "--anchor", anchor];
        let output = site.run(&args);
        (output.status.code(), said(&output))
    };
    let mut server = site.start_answering();
    let of_zone = format!("cluster.local={noted}");
    let of_other = format!("96.10.in-addr.arpa={noted}");
    let check = || {
        for anchor in [&noted, &of_zone] {
            let (code, text) = ask(anchor);
            assert_eq!(code, Some(0), "{text}");
            let want = format!("hash {noted} is that of serial {}", oldest["serial"]);
            assert!(text.contains(&want), "{text}");
        }
        // A slip: no history is to blame.
        let (code, text) = ask(&of_other);
        assert_eq!(code, Some(2), "{text}");
        let want =
            format!("{noted} is that of a version of cluster.local., not of 96.10.in-addr.arpa.");
        assert!(text.contains(&want) && !text.contains("BROKEN"), "{text}");
        // That zone has its first version, so the hash cannot be that of a dropped one.
        let of_other = format!("96.10.in-addr.arpa={}", "cd".repeat(32));
        let (code, text) = ask(&of_other);
        assert_eq!(code, Some(1), "{text}");
        // Some zone dropped versions.
        let (code, text) = ask(&"ab".repeat(32));
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains("cluster.local.: good; 3 versions"), "{text}");
        // What is wrong with one zone is not hidden by what is not known of another.
        let of_dropped = format!("cluster.local={}", "ab".repeat(32));
        for anchors in [[&of_other, &of_dropped], [&of_dropped, &of_other]] {
            let [one, two] = anchors;
            let args = [
                "verify", "--state", "state", "--anchor", one, "--anchor", two,
            ];
            let output = site.run(&args);
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            let broken = "96.10.in-addr.arpa.: BROKEN";
            assert!(said(&output).contains(broken), "{}", said(&output));
        }
        let (code, text) = ask("abc");
        assert_eq!(code, Some(2), "{text}");
    };
    check();
    server.terminate(START);
    check();
}

/// A file with its size, mode, times of change in nanoseconds, and bytes.
type Found = (u64, u32, [i64; 4], Vec<u8>);

/// The files of a folder and below it.
fn listing(folder: &Path) -> BTreeMap<PathBuf, Found> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        let meta = fs::metadata(&path).expect("it is there");
        let times = [
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec(),
        ];
        let octets = if meta.is_file() {
            fs::read(&path).expect("it can be read")
        } else {
            Vec::new()
        };
        if meta.is_dir() {
            found.extend(listing(&path));
        }
        found.insert(path, (meta.len(), meta.mode(), times, octets));
    }
    found
}

#[test]
fn a_state_folder_that_is_read_only_is_read_and_nothing_in_it_changes() {
    let (site, serials) = with_serials(5);
    let temporary = site.path("tmp");
    fs::create_dir(&temporary).expect("a folder can be made");
    let ask = |args: &[&str]| {
        let mut command = Command::new(zonewright());
        command
            .args(args)
            .args(["--state", "state"])
            .env("TMPDIR", &temporary);
        command
            .current_dir(site.path(""))
            .output()
            .expect("it can be run")
    };
    let [older, newer] = [serials[5], serials[6]].map(|serial| serial.to_string());
    let before = listing(&site.state());
    for args in [
        &["verify"][..],
        &["log", "cluster.local"],
        &["show", "cluster.local"],
        &["blame", "cluster.local", "web.test.svc.cluster.local"],
        &["diff", "cluster.local", &older, &newer],
        &["export", "cluster.local", "--history", "--to", "out"],
    ] {
        let output = ask(&[args, &["--read-only"]].concat());
        assert!(output.status.success(), "{args:?}: {}", said(&output));
        assert!(
            listing(&site.state()) == before,
            "{args:?} changed the state folder"
        );
        let left = fs::read_dir(&temporary).expect("it is there").count();
        assert_eq!(left, 0, "the copy of {args:?} is removed");
    }
    // Damage is repaired in the copy alone.
    let database = site.path("state/db/db");
    let mut octets = fs::read(&database).expect("it is there");
    let middle = octets.len() / 2;
    octets[middle..].fill(0x5a);
    fs::write(&database, octets).expect("it can be written");
    let damaged = listing(&site.state());
    let output = ask(&["verify", "--read-only"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("in the copy: "), "{}", said(&output));
    assert!(
        listing(&site.state()) == damaged,
        "the damage is left as it is"
    );
    // An error names the folder, not its copy.
    let format = site.path("state/format");
    let good = fs::read(&format).expect("it was written");
    fs::write(&format, "zonewright state 99\n").expect("it can be written");
    let text = said(&ask(&["verify", "--read-only"]));
    assert!(text.contains("the state folder state "), "{text}");
    assert!(
        !text.contains(temporary.to_str().expect("it is UTF-8")),
        "{text}"
    );
    fs::write(&format, good).expect("it can be written");
    let damaged = listing(&site.state());
    // Without a place for the copy the state folder is not opened.
    fs::remove_dir(&temporary).expect("it is empty");
    let output = ask(&["verify", "--read-only"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(listing(&site.state()) == damaged);
    // The same command without the flag repairs: the comparison sees that.
    ask(&["verify"]);
    assert!(listing(&site.state()) != damaged);
}

#[test]
fn a_key_or_a_file_that_cannot_be_used_is_refused() {
    let site = with_history(3);
    site.write("key.pem", "no key\n");
    for (args, want) in [
        (&SIGNED[..], "make a key with `openssl genpkey"),
        (
            &["verify", "--key", "key.pem"],
            "--key checks the manifest of an export",
        ),
        (&["verify", "none.ndjson"], "none.ndjson: "),
        (&["verify", "none/manifest.json"], "none/manifest.json: "),
        (
            &[
                "export",
                "cluster.local",
                "--to",
                "out",
                "--sign",
                "key.pem",
            ],
            "--history",
        ),
    ] {
        let output = run(&site, &zonewright(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(want), "{args:?}: {}", said(&output));
    }
    assert!(
        !site.path("out").exists(),
        "nothing is written with a key that is none"
    );
}

/// The answer of `verify` with these arguments: its exit code, and what it says.
fn verified(site: &Site, args: &[&str]) -> (Option<i32>, String) {
    let output = run(site, &zonewright(), &[&["verify"][..], args].concat());
    (output.status.code(), said(&output))
}

#[test]
fn a_changed_octet_of_any_file_of_a_state_folder_is_named() {
    let site = with_history(3);
    let mut server = site.start_answering();
    site.ask(&[
        "freeze",
        "cluster.local",
        "--for",
        "1h",
        "--reason",
        "an audit",
    ]);
    server.terminate(START);
    for args in [
        &["--state", "state"][..],
        &["--state", "state", "--read-only"],
    ] {
        let (code, text) = verified(&site, args);
        assert_eq!(code, Some(0), "{text}");
        assert!(!text.contains("mark:"), "{text}");
    }
    let mut random = fastrand::Rng::with_seed(fuzz::seed());
    for (file, code) in [
        ("format", 2),
        ("serials", 1),
        ("newest", 3),
        ("orders", 1),
        ("corefile", 1),
        ("corefile.key", 1),
        ("incarnation", 1),
    ] {
        let path = site.path(&format!("state/{file}"));
        let good = fs::read(&path).expect("it was written");
        let was = fs::metadata(&path).and_then(|it| it.modified());
        for round in 0..6 {
            // White space at the end says nothing.
            let (at, bit) = (random.usize(..good.len() - 1), random.u8(..8));
            let mut flipped = good.clone();
            flipped[at] ^= 1 << bit;
            fs::write(&path, &flipped).expect("it can be written");
            let what = format!("round {round}, byte {at} of {file}, bit {bit}");
            let args: &[&str] = match round % 2 {
                0 => &["--state", "state"],
                _ => &["--state", "state", "--read-only"],
            };
            let (found, text) = verified(&site, args);
            let name_of_sum = file == "orders" && !text.contains("orders");
            if name_of_sum || file == "format" && found == Some(0) {
                // The name of the checksum's field, which has no meaning alone; the layout before, which is written anew.
                assert_eq!(found, Some(0), "{what}: {text}");
                continue;
            }
            assert_eq!(found, Some(code), "{what}: {text}");
            assert!(text.contains(file), "{what}: {text}");
        }
        fs::write(&path, &good).expect("it can be written");
        let opened = fs::File::options().append(true).open(&path);
        let opened = opened.expect("it can be opened");
        opened
            .set_modified(was.expect("it has a time"))
            .expect("it can be set");
    }
    let (code, text) = verified(&site, &["--state", "state"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("mark:"), "{text}");
}

#[test]
fn without_the_file_newest_it_is_not_known_whether_later_versions_were_announced() {
    let site = with_history(3);
    let mut server = site.start_answering();
    let known = crate::support::wire::serial(site.dns, "cluster.local.").expect("it answers");
    site.manifest(
        "late.yaml",
        &crate::support::product::cluster_ip("late", 90, 80),
    );
    let serial = site.new_serial(&mut server, "cluster.local.", known);
    server.kill();
    let (code, text) = verified(&site, &["cluster.local", "--state", "state"]);
    assert_eq!(code, Some(0), "{text}");
    let newest = site.path("state/newest");
    let sound = fs::read(&newest).expect("it was written");
    fs::remove_file(&newest).expect("it is there");
    for why in ["is missing", "is empty"] {
        let (code, text) = verified(&site, &["cluster.local", "--state", "state"]);
        assert_eq!(code, Some(3), "{text}");
        let want = format!(
            "cluster.local.: NOT KNOWN: it is not known whether versions after serial {serial} were announced, with serials up to "
        );
        assert!(text.contains(&want), "{text}");
        assert!(
            text.contains(&format!(" at most: the file newest {why}\n")),
            "{text}"
        );
        assert!(
            text.contains("what could be checked is good; 3 versions"),
            "{text}"
        );
        fs::write(&newest, "").expect("it can be written");
    }
    let (_, text) = verified(&site, &["cluster.local", "--state", "state", "-o", "json"]);
    let line = text.lines().next().expect("there is one");
    let line: Value = serde_json::from_str(line).expect("it is JSON");
    assert_eq!(line["good"], false, "{line}");
    assert_eq!(line["faults"][0]["damage"], "unknown", "{line}");
    // After a clean end the ceilings are exact.
    fs::write(&newest, sound).expect("it can be written");
    let mut server = site.start_answering();
    site.manifest(
        "later.yaml",
        &crate::support::product::cluster_ip("later", 91, 80),
    );
    site.new_serial(&mut server, "cluster.local.", serial);
    server.terminate(START);
    fs::remove_file(&newest).expect("it is there");
    let (code, text) = verified(&site, &["cluster.local", "--state", "state"]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_folder_is_verified_as_its_manifest_and_other_folders_get_the_right_command() {
    let site = with_history(3);
    make_keys(&site);
    site.ask(&SIGNED);
    let (code, text) = verified(&site, &["out"]);
    assert_eq!(code, Some(0), "{text}");
    let want = "manifest.json: good; signed, but the signature was not checked: --key PUBLIC.pem checks it\n";
    assert!(text.contains(want), "{text}");
    assert!(
        text.contains("cluster.local.ndjson: cluster.local.: good"),
        "{text}"
    );
    let (code, text) = verified(&site, &["out/", "--key", "public.pem"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("good; signed with this key"), "{text}");
    for folder in ["lost", "cluster.local"] {
        fs::create_dir(site.path(folder)).expect("a folder can be made");
    }
    // A zone that is there has precedence.
    let (code, text) = verified(&site, &["cluster.local", "--state", "state"]);
    assert_eq!(code, Some(0), "{text}");
    for (target, want) in [
        (
            "lost",
            "the folder lost has no manifest.json: name a folder",
        ),
        (
            "../gone/cluster.local.zone",
            "there is no file or folder ../gone/cluster.local.zone",
        ),
        (
            "state",
            "state is a state folder: write zonewright verify --state state",
        ),
        ("./", "the folder ./ has no manifest.json"),
        (".", "the folder . has no manifest.json"),
        ("./Corefile", "./Corefile is no export"),
    ] {
        let (code, text) = verified(&site, &[target]);
        assert_eq!(code, Some(2), "{target}: {text}");
        assert!(text.contains(want), "{target}: {text}");
    }
}

#[test]
fn what_waits_is_not_exported_as_if_it_were_a_version() {
    let site = with_history(1);
    let (code, text) = {
        let output = site.run(&["export", "cluster.local@held", "--to", "out"]);
        (output.status.code(), said(&output))
    };
    assert_eq!(code, Some(2), "{text}");
    let want = "what waits is no version, and is not exported: zonewright show cluster.local@held prints it";
    assert!(text.contains(want), "{text}");
    assert!(!site.path("out").exists());
}

#[test]
fn the_python_checkers_say_what_is_wrong_in_words() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let site = with_history(3);
    make_keys(&site);
    site.ask(&SIGNED);
    make_other_key(&site);
    for (args, code, want) in [
        (
            &["out"][..],
            0,
            "the signature was not checked: add PUBLIC-KEY.pem",
        ),
        (&["out", "public.pem"], 0, "signed with this key"),
        (&["state"], 1, "state/manifest.json: "),
        (
            &["out", "other.pem"],
            1,
            "manifest.json.sig is not its signature with other.pem",
        ),
        (
            &["out", "public.pem", "other.pem"],
            1,
            "verify-texts.py FOLDER",
        ),
    ] {
        let output = python(&site, &[&[TEXTS][..], args].concat());
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(want), "{args:?}: {text}");
    }
    site.write("out/another.ndjson", "{}\n");
    let output = python(&site, &[TEXTS, "out"]);
    let want = "another.ndjson: the manifest does not name it";
    assert!(said(&output).contains(want), "{}", said(&output));
    assert_eq!(python(&site, &[HASHES]).status.code(), Some(1));
}

/// The program of fifty lines finds each change of what is hashed, without the manifest.
#[test]
fn the_python_checker_finds_a_change_of_the_hashed_bytes() {
    let site = with_history(3);
    site.ask(&["export", "cluster.local", "--history", "--to", "out"]);
    let file = "out/cluster.local.ndjson";
    let good = fs::read_to_string(site.path(file)).expect("it was written");
    let hashes = || {
        let output = python(&site, &[HASHES, file]);
        (output.status.code(), said(&output))
    };
    let (code, text) = hashes();
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.starts_with(&format!("{file}: good; newest version ")),
        "{text}"
    );
    let with = |at: &str, to: &str| {
        let changed = good.replacen(at, to, 1);
        assert_ne!(changed, good, "{at}");
        changed
    };
    let lines: Vec<&str> = good.lines().collect();
    let without = |at: usize| {
        let kept: Vec<&str> = [&lines[..at], &lines[at + 1..]].concat();
        kept.join("\n")
    };
    let first = lines
        .iter()
        .position(|line| line.contains("\"previousHash\""));
    let first = first.expect("there is a version");
    let changed = "changed, its hash is another";
    for (what, text, want) in [
        ("timeMs", with("\"timeMs\":1", "\"timeMs\":2"), changed),
        ("a cause", with("\"verb\":\"", "\"verb\":\"x"), changed),
        ("an object", with("\"name\":\"", "\"name\":\"x"), changed),
        ("no hash", with("\"hash\":\"", "\"hash\":\"00"), changed),
        (
            "recordsBefore",
            with("\"recordsBefore\":", "\"recordsBefore\":9"),
            "from before the oldest version",
        ),
        (
            "a version",
            without(first + 1),
            "a version is missing before it",
        ),
        (
            "the first version",
            without(first),
            "a version is missing before it",
        ),
        (
            "all versions",
            lines[..first].join("\n"),
            "the records are others",
        ),
        (
            "a cut line",
            good[..good.len() - 9].to_owned(),
            "not as it was exported",
        ),
    ] {
        site.write(file, &text);
        let (code, text) = hashes();
        assert_eq!(code, Some(1), "{what}: {text}");
        assert!(text.contains(file) && text.contains(want), "{what}: {text}");
    }
}

/// A copy of a state folder knows nothing of what came after it was made: neither before it is started, nor in an export of its
/// history afterwards.
#[test]
fn a_copy_of_the_state_folder_says_what_is_not_known_in_it() {
    let (site, serials) = with_serials(7);
    let copied = Command::new("cp")
        .args(["-r", "state", "copy"])
        .current_dir(site.path(""))
        .status();
    assert!(copied.expect("it can be run").success());
    let asked = |args: &[&str]| {
        let output = site.run(&[args, &["--state", "copy"]].concat());
        (output.status.code(), said(&output))
    };
    let newest = serials.last().expect("there are some");
    let doubt = format!(
        "it is not known whether versions after serial {newest} were announced: the state folder is a copy"
    );
    for at in ["cluster.local", "cluster.local@now"] {
        let (code, text) = asked(&["show", at]);
        assert_eq!(code, Some(0), "{text}");
        assert!(
            text.contains(&format!(
                "; one of them may have been current then: {doubt}"
            )),
            "{text}"
        );
    }
    let (code, text) = asked(&["show", &format!("cluster.local@{newest}")]);
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("not known"), "it was published: {text}");
    let (code, text) = asked(&["show", &format!("cluster.local@{}", newest + 1)]);
    assert_eq!(code, Some(3), "{text}");
    let never = ["log", "cluster.local", "--name", "never.cluster.local"];
    let (code, text) = asked(&never);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains(&doubt), "{text}");
    // The original has no doubts.
    let output = site.run(&[&never[..], &["--state", "state"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let output = site.run(&["show", "cluster.local", "--state", "state"]);
    assert!(!said(&output).contains("not known"), "{}", said(&output));
    // The copy is put in its place and started.
    fs::remove_dir_all(site.path("state")).expect("it is there");
    fs::rename(site.path("copy"), site.path("state")).expect("it can be moved");
    let mut server = site.start_answering();
    site.manifest(
        "late.yaml",
        &crate::support::product::cluster_ip("late", 90, 80),
    );
    site.new_serial(&mut server, "cluster.local.", *newest);
    server.terminate(START);
    let zones = ["cluster.local", "96.10.in-addr.arpa"];
    let output = site.run(&[&["export"], &zones[..], &["--history", "--to", "out"]].concat());
    assert!(said(&output).contains("NOT KNOWN"), "{}", said(&output));
    let (code, text) = verified(&site, &["out"]);
    assert_eq!(code, Some(3), "{text}");
    let want = "not all of the history of 96.10.in-addr.arpa., cluster.local. is known";
    assert!(text.contains(want), "{text}");
    let output = python(&site, &[HASHES, "out/cluster.local.ndjson"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let want = format!("versions after serial {newest} may be lost");
    assert!(said(&output).contains(&want), "{}", said(&output));
}

/// An export of a history, and what the Python checker says once its text was changed and the manifest made to fit.
struct Forged {
    site: Site,
    good: String,
    manifest: String,
}

impl Forged {
    const FILE: &str = "out/cluster.local.ndjson";

    fn new() -> Self {
        let site = with_history(3);
        site.ask(&["export", "cluster.local", "--history", "--to", "out"]);
        let read = |file: &str| fs::read_to_string(site.path(file)).expect("it was written");
        Self {
            good: read(Self::FILE),
            manifest: read("out/manifest.json"),
            site,
        }
    }

    fn check(&self) -> (Option<i32>, String) {
        let output = python(&self.site, &[TEXTS, "out"]);
        (output.status.code(), said(&output))
    }

    fn check_text(&self, text: &str) -> (Option<i32>, String) {
        let mut manifest: Value = serde_json::from_str(&self.manifest).expect("it is JSON");
        let digest = digest(&SHA256, text.as_bytes());
        let octets = digest.as_ref().iter();
        let file = &mut manifest["files"][0];
        file["sha256"] = octets
            .map(|it| format!("{it:02x}"))
            .collect::<String>()
            .into();
        file["bytes"] = text.len().into();
        self.site
            .write("out/manifest.json", &format!("{manifest:#}\n"));
        self.site.write(Self::FILE, text);
        self.check()
    }

    /// A field as it is written first, with its value up to the end of it.
    fn field(&self, name: &str) -> String {
        let (_, rest) = self.good.split_once(name).expect("there is one");
        let end = rest.find(['"', ',']).expect("it ends");
        format!("{name}{}", &rest[..end])
    }
}

/// What a person reads of a line is not hashed; a checker of its own compares it.
#[test]
fn the_python_checker_finds_a_text_that_is_not_that_of_the_hashed_bytes() {
    let forged = Forged::new();
    let (code, text) = forged.check_text(&forged.good);
    assert_eq!(code, Some(0), "{text}");
    let (time, serial) = (forged.field("\"time\":\""), forged.field("\"serial\":"));
    let (wire, form) = (
        "is not that of its wire form",
        "not written as it was exported",
    );
    for (from, to, want) in [
        (" IN A 10.", " IN A 11.", wire),
        (" IN SRV 0 ", " IN SRV 1 ", wire),
        (" IN TXT \\\"", " IN TXT \\\"x", wire),
        (
            &time,
            "\"time\":\"2026-01-01T10:00:00.000Z",
            "the time is not that of timeMs",
        ),
        (&serial, "\"serial\":7", "the serial 7 is not that of soa"),
        ("\"timeMs\":", "\"seen\":1,\"timeMs\":", form),
        ("\"timeMs\":", "\"timeMs\": ", form),
        (
            "{\"cause\":",
            "{\"also\":1,\"cause\":",
            "a record has other fields",
        ),
        (
            "\"uid\":",
            "\"typed\":\"\",\"uid\":",
            "a cause has other fields",
        ),
    ] {
        let changed = forged.good.replacen(from, to, 1);
        assert_ne!(changed, forged.good, "{from}");
        let (code, text) = forged.check_text(&changed);
        assert_eq!(code, Some(1), "{from}: {text}");
        assert!(
            text.contains(want) && text.contains(Forged::FILE),
            "{from}: {text}"
        );
    }
    // A manifest that lacks a field is described in words.
    let cut = forged.manifest.replace("\"timeMs\"", "\"tineMs\"");
    forged.site.write("out/manifest.json", &cut);
    let (_, text) = forged.check();
    assert!(text.contains("there is no 'timeMs'"), "{text}");
}

/// Gives a record's type, data and text to the Python checker: prints the types that it does not know, or what is wrong.
const ONE_RECORD: &str = r#"
import collections, importlib.util, struct, sys
spec = importlib.util.spec_from_file_location("checker", sys.argv[1])
checker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checker)
kind, data, text = int(sys.argv[2]), bytes.fromhex(sys.argv[3]), sys.argv[4]
wire = b"\x01z\x00" + struct.pack("!HHIH", kind, 1, 5, len(data)) + data
others = collections.Counter()
checker.check_record({"wire": wire.hex(), "record": text}, others)
print(sorted(others))
"#;

#[test]
fn the_python_checker_knows_the_text_of_the_types_that_a_cluster_has() {
    let check = |kind: &str, data: &str, text: &str| {
        let mut command = Command::new(needs::program("python3"));
        command.args(["-c", ONE_RECORD, TEXTS, kind, data, text]);
        let output = command.output().expect("it can be run");
        (output.status.success(), said(&output))
    };
    let address = "fd000000000000000000000000000001";
    for (kind, data, text) in [
        ("1", "0a000001", "z. 5 IN A 10.0.0.1"),
        ("2", "0161017a00", "z. 5 IN NS a.z."),
        ("5", "03612e62017a00", "z. 5 IN CNAME a\\.b.z."),
        ("12", "00", "z. 5 IN PTR ."),
        ("16", "04612220010162", "z. 5 IN TXT \"a\\\" \\001\" \"b\""),
        ("28", address, "z. 5 IN AAAA fd00::1"),
        (
            "28",
            "00000000000000000000ffff0a000001",
            "z. 5 IN AAAA ::ffff:10.0.0.1",
        ),
        ("33", "0000006401bb0161017a00", "z. 5 IN SRV 0 100 443 a.z."),
    ] {
        assert_eq!(check(kind, data, text), (true, "[]\n".to_owned()), "{text}");
        for (from, to) in [("z. 5", "z. 6"), ("z. 5", "y. 5"), (" IN ", " CH ")] {
            let forged = text.replacen(from, to, 1);
            let (is_good, said) = check(kind, data, &forged);
            assert!(
                !is_good && said.contains("is not that of its wire form"),
                "{forged}: {said}"
            );
        }
    }
    for forged in ["fd00::2", "fd00::1%lo", "FD00::1", "10.0.0.1"] {
        assert!(
            !check("28", address, &format!("z. 5 IN AAAA {forged}")).0,
            "{forged}"
        );
    }
    // Others are named, not compared.
    assert_eq!(
        check("15", "00010161017a00", "what it likes"),
        (true, "[15]\n".to_owned())
    );
}

/// Another public key in `other.pem`.
fn make_other_key(site: &Site) {
    let [key, public] = ["key.pem", "public.pem"].map(|file| site.path(file));
    let good = [&key, &public].map(|file| fs::read(file).expect("it is there"));
    make_keys(site);
    fs::rename(&public, site.path("other.pem")).expect("it can be moved");
    for (file, octets) in [key, public].iter().zip(good) {
        fs::write(file, octets).expect("it can be written");
    }
}

//! An auditor's questions whose true answer is "it was not there", "not known" or "you asked wrongly": the text and the
//! exit code of each, from a running server and from the store of a stopped one.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::support::needs;
use crate::support::process::Process;
use crate::support::product::{CHANGE, START, Site, cluster_ip, copy_folder, headless};
use crate::support::wire;

/// The answer is in the history.
const TOLD: i32 = 0;
/// The question is at fault.
const WRONG: i32 = 2;
/// The history does not tell.
const NOT_KNOWN: i32 = 3;

/// A command, its exit code, and a part of what it says: on standard output if the code is 0, else on standard error.
/// `OLDEST`, `SECOND` and `NEWEST` are serials that are kept, `GONE` is one that is not. No version ever had `BETWEEN`, or
/// has `LATER` yet.
const QUESTIONS: &[(&str, i32, &str)] = &[
    // It was not there: the serial and the hash prove it.
    (
        "show ZONE gone.test.svc.ZONE",
        TOLD,
        "; gone.test.svc.cluster.local. has no record in cluster.local. serial NEWEST of ",
    ),
    (
        "show ZONE@OLDEST gone.test.svc.ZONE",
        TOLD,
        ", content hash ",
    ),
    (
        "show ZONE@SECOND gone.test.svc.ZONE --output json",
        TOLD,
        "\"type\":\"absent\"",
    ),
    (
        "show ZONE svc.ZONE",
        TOLD,
        "; svc.cluster.local. has no record in",
    ),
    (
        "show ZONE@now gone.test.svc.ZONE",
        TOLD,
        "serial NEWEST of ",
    ),
    (
        "blame ZONE gone.test.svc.ZONE",
        TOLD,
        "; gone.test.svc.cluster.local. has no record in cluster.local. serial NEWEST",
    ),
    (
        "blame ZONE@OLDEST gone.test.svc.ZONE",
        TOLD,
        "serial OLDEST of ",
    ),
    (
        "blame ZONE gone.test.svc.ZONE --output json",
        TOLD,
        "\"contentHash\":\"",
    ),
    (
        "log other.local --name gone.other.local",
        TOLD,
        "; no version of other.local. matches, from serial ",
    ),
    (
        "log --name gone.other.local",
        TOLD,
        "; no version of other.local. matches, from serial ",
    ),
    ("log other.local --object svc/test/never", TOLD, ", hash "),
    (
        "log other.local --object endpointslices/test/never --output json",
        TOLD,
        "\"type\":\"none\"",
    ),
    (
        "log other.local --object Namespace/never",
        TOLD,
        "no version of other.local. matches",
    ),
    (
        "diff ZONE NEWEST NEWEST",
        TOLD,
        "; both are cluster.local. serial NEWEST",
    ),
    // The history does not tell.
    (
        "show ZONE@2001-01-01",
        NOT_KNOWN,
        "nothing is kept of cluster.local. at that time: history begins at serial OLDEST, ",
    ),
    (
        "show ZONE@20_years_ago",
        NOT_KNOWN,
        "history begins at serial OLDEST, ",
    ),
    (
        "show ZONE@2001-01-01 web.test.svc.ZONE",
        NOT_KNOWN,
        "history begins at",
    ),
    (
        "show ZONE@GONE",
        NOT_KNOWN,
        "no version of cluster.local. with serial GONE is kept: history begins at serial OLDEST, ",
    ),
    (
        "show ZONE@LATER",
        NOT_KNOWN,
        "with serial LATER is kept: the newest is serial NEWEST, ",
    ),
    ("blame ZONE@GONE", NOT_KNOWN, "with serial GONE is kept"),
    (
        "blame other.local@2001-01-01",
        NOT_KNOWN,
        "nothing is kept of other.local. at that time",
    ),
    (
        "diff ZONE 2001-01-01",
        NOT_KNOWN,
        "nothing is kept of cluster.local. at that time",
    ),
    (
        "diff ZONE GONE NEWEST",
        NOT_KNOWN,
        "with serial GONE is kept",
    ),
    (
        "log ZONE --until 2001-01-01",
        NOT_KNOWN,
        "no version that is kept matches; the history of cluster.local. begins at serial OLDEST, ",
    ),
    (
        "log ZONE --name gone.test.svc.ZONE",
        NOT_KNOWN,
        "no version that is kept matches; the history of cluster.local. begins",
    ),
    (
        "log ZONE --object svc/test/never",
        NOT_KNOWN,
        "no version that is kept matches; the history of cluster.local. begins",
    ),
    (
        "log ZONE --object svc/test/never --output json",
        NOT_KNOWN,
        "no version that is kept matches",
    ),
    (
        "export ZONE@2001-01-01 --to out",
        NOT_KNOWN,
        "nothing is kept of cluster.local. at that time",
    ),
    (
        "export ZONE@GONE --to out",
        NOT_KNOWN,
        "with serial GONE is kept",
    ),
    // The question is at fault.
    (
        "show ZONE@BETWEEN",
        WRONG,
        "no version of cluster.local. had serial BETWEEN: ",
    ),
    (
        "show nowhere.local",
        WRONG,
        "no zone nowhere.local. here; there are 244.10.in-addr.arpa., ",
    ),
    (
        "show ZONE www.example.org",
        WRONG,
        "www.example.org. is not a name of cluster.local.",
    ),
    (
        "show ZONE@2999-01-01",
        WRONG,
        "\"2999-01-01\" is in the future: it is 2",
    ),
    (
        "show ZONE@soon",
        WRONG,
        "\"soon\" is neither a serial nor a time",
    ),
    (
        "show ZONE@2001-01-01_14:03",
        WRONG,
        "has no offset from UTC; write 2001-01-01T14:03:00Z for UTC, or an offset, such as 2001-01-01T14:03:00+01:00",
    ),
    (
        "log ZONE --until 2001-01-01T14:03:00",
        WRONG,
        "has no offset from UTC",
    ),
    ("blame ZONE@2999-01-01", WRONG, "is in the future"),
    ("blame ZONE a..b", WRONG, "empty label"),
    ("diff ZONE 2999-01-01", WRONG, "is in the future"),
    ("diff ZONE NEWEST 2999-01-01", WRONG, "is in the future"),
    ("export ZONE@2999-01-01 --to out", WRONG, "is in the future"),
    (
        "export nowhere.local --history --to out",
        WRONG,
        "no zone nowhere.local. here",
    ),
    (
        "log --since OLDEST",
        WRONG,
        "serial OLDEST of which zone? write: log",
    ),
    ("log ZONE --since 2999-01-01", WRONG, "is in the future"),
    ("log ZONE --until 2999-01-01", WRONG, "is in the future"),
    (
        "log ZONE --until OLDEST",
        WRONG,
        "is a serial, but a time is needed",
    ),
    (
        "log ZONE --since 2002-01-01 --until 2001-01-01",
        WRONG,
        "--until 2001-01-01T00:00:00.000Z is before --since 2002-01-01T00:00:00.000Z",
    ),
    (
        "log ZONE --object Deployment/test/web",
        WRONG,
        "\"Deployment\" is none of the kinds that records come from: Namespace, Service, ",
    ),
    (
        "log ZONE --object Servce/test/web",
        WRONG,
        "\"Servce\" is none of the kinds",
    ),
    (
        "log ZONE --object test/web",
        WRONG,
        "\"test\" is none of the kinds",
    ),
    (
        "log ZONE --object Service/web",
        WRONG,
        "\"Service/web\" names no object: write Service/NAMESPACE/NAME",
    ),
    (
        "log ZONE --object ns/test/web",
        WRONG,
        "write Namespace/NAME",
    ),
    (
        "log ZONE --name www.example.org",
        WRONG,
        "www.example.org. is not a name of cluster.local.",
    ),
];

/// A site with two zones: `cluster.local`, whose first versions are not kept, and `other.local`, whose one version is.
/// Gives its server, and the serials by their words.
fn with_history(site: &Site) -> (Process, Vec<(&'static str, String)>) {
    let zone =
        "@ 300 IN SOA ns hostmaster 1 7200 1800 86400 30\n@ 300 IN NS ns\nns 300 IN A 192.0.2.1\n";
    site.write("other.zone", zone);
    let port = site.dns.port();
    let other = format!("other.local:{port} {{\n    bind 127.0.0.1\n    file other.zone\n}}\n");
    let corefile = site.corefile("history {\n        versions 4\n    }");
    site.write("Corefile", &(corefile + &other));
    site.manifest("s1.yaml", &cluster_ip("s1", 1, 80));
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    let twin = |number| {
        let service = cluster_ip("twin", number, 80);
        service.replace("namespace: test", "namespace: twin")
    };
    site.manifest("twin.yaml", &twin(101));
    let mut server = site.start_answering();
    let mut serials = vec![wire::serial(site.dns, "cluster.local.").expect("it answers")];
    let wait = |server: &mut Process, serials: &mut Vec<u32>| {
        let last = serials[serials.len() - 1];
        serials.push(site.new_serial(server, "cluster.local.", last));
    };
    // In turn of two namespaces: adjacent versions of one would be condensed, and stay.
    for (number, hosts) in [(101, &[1, 2][..]), (102, &[2]), (103, &[])] {
        if number > 101 {
            site.manifest("twin.yaml", &twin(number));
            wait(&mut server, &mut serials);
        }
        site.manifest("web.yaml", &headless("web", 1, hosts));
        wait(&mut server, &mut serials);
    }
    // The serial of a change is that of the clock, once that is past the last one.
    let last = serials[serials.len() - 1];
    server.wait_for("a later second", CHANGE, || {
        let now = UNIX_EPOCH.elapsed().expect("it is after 1970").as_secs();
        (now > u64::from(last) + 2).then_some(())
    });
    site.manifest("twin.yaml", &twin(104));
    wait(&mut server, &mut serials);
    let word = |word, serial: u32| (word, serial.to_string());
    // Four in the history, and two in the archive.
    let [gone, oldest, second, .., before, newest] = serials[..] else {
        panic!("there are seven versions")
    };
    let words = vec![
        word("GONE", gone),
        word("OLDEST", oldest),
        word("SECOND", second),
        word("BETWEEN", before + 1),
        word("NEWEST", newest),
        word("LATER", newest + 1000),
    ];
    (server, words)
}

/// Asks all questions; gives those with another answer.
fn wrong_answers(site: &Site, words: &[(&str, String)]) -> String {
    let fill = |text: &str| {
        let text = text.replace("ZONE", "cluster.local");
        words
            .iter()
            .fold(text, |text, (word, serial)| text.replace(word, serial))
    };
    let mut wrong = String::new();
    for (command, code, part) in QUESTIONS {
        // `_` is a space in an argument.
        let command = fill(command);
        let mut args: Vec<String> = command
            .split(' ')
            .map(|arg| arg.replace('_', " "))
            .collect();
        args.extend(["--state".to_owned(), "state".to_owned()]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = site.run(&args);
        let (told, silent) = match code {
            0 => (output.stdout, output.stderr),
            _ => (output.stderr, output.stdout),
        };
        let told = String::from_utf8_lossy(&told).into_owned();
        let part = fill(part);
        if output.status.code() != Some(*code) || !told.contains(&part) || !silent.is_empty() {
            wrong += &format!(
                "{command}: {}, not {code} with {part:?}: {told}\n",
                output.status
            );
        }
    }
    wrong
}

#[test]
fn what_is_not_there_not_known_or_not_a_question_is_told_apart() {
    let site = Site::new();
    let (mut server, words) = with_history(&site);
    let wrong = wrong_answers(&site, &words);
    assert!(wrong.is_empty(), "from the server:\n{wrong}");
    server.terminate(START);
    let wrong = wrong_answers(&site, &words);
    assert!(wrong.is_empty(), "from the store:\n{wrong}");
    let left: Vec<_> = std::fs::read_dir(site.path("out")).unwrap().collect();
    assert!(left.is_empty(), "files of failed exports: {left:?}");
}

#[test]
fn a_server_that_may_not_be_asked_is_not_said_to_be_away() {
    let site = Site::new();
    let _server = site.start_answering();
    let nobody = Command::new(needs::zonewright())
        .current_dir(site.path(""))
        .args(["status", "--state", "state"])
        .uid(65534)
        .output()
        .expect("the test runs as root");
    let told = String::from_utf8_lossy(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(1), "{told}");
    assert!(
        told.contains("Permission denied") && told.contains("read socket"),
        "{told}"
    );
}

/// The copy was made before the newest versions were published: whether a serial or a hash was one of theirs is not known in it.
#[test]
fn of_a_copy_that_came_back_it_is_not_known_what_was_published_after_it() {
    const ZONE: &str = "cluster.local";
    let site = Site::new();
    let (mut server, serials) = site.start_with_history(3);
    server.terminate(START);
    copy_folder(&site.state(), &site.path("copy"));
    let mut server = site.start_answering();
    site.manifest("late.yaml", &cluster_ip("late", 90, 80));
    let kept = *serials.last().expect("there are some");
    let lost = site.new_serial(&mut server, "cluster.local.", kept);
    let newest = site.ask(&["log", ZONE, "-n", "1", "--output", "json"]);
    let newest: serde_json::Value = serde_json::from_str(newest.trim()).expect("it is JSON");
    let hash = newest["hash"].as_str().expect("it has one").to_owned();
    server.terminate(START);
    std::fs::remove_dir_all(site.state()).expect("it can be removed");
    copy_folder(&site.path("copy"), &site.state());
    let answer = |args: &[&str]| {
        let output = site.run(args);
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    let anchored = ["verify", ZONE, "--anchor", &hash, "--read-only"];
    let (code, said) = answer(&anchored);
    assert_eq!(code, Some(NOT_KNOWN), "{said}");
    assert!(!said.contains("no version is missing"), "{said}");

    let mut server = site.start_answering();
    let (code, said) = answer(&["show", &format!("{ZONE}@{lost}")]);
    let want =
        format!("whether cluster.local. had serial {lost} is not known: versions after serial ");
    assert_eq!(code, Some(NOT_KNOWN), "{said}");
    assert!(said.contains(&want), "{said}");
    let (_, said) = answer(&["log", ZONE, "--name", "web.test.svc.cluster.local"]);
    assert!(said.contains("not all versions before"), "{said}");
    let (_, said) = answer(&["log", ZONE]);
    assert!(said.contains(" lost versions after serial "), "{said}");
    let out = ["export", ZONE, "--history", "--to", "out"];
    assert_eq!(answer(&out).0, Some(TOLD));
    for args in [
        &["verify", "out"][..],
        &["verify", "out/cluster.local.ndjson", "--anchor", &hash],
        &["verify", ZONE],
        &["verify", ZONE, "--anchor", &hash],
    ] {
        let (code, said) = answer(args);
        assert_eq!(code, Some(NOT_KNOWN), "{args:?}: {said}");
    }
    server.terminate(START);
}

//! Tests of the grammar: braces, commas, snippets, imports, environment.

use std::fs;

use corefile::argument::option_words;
use proptest::prelude::*;

use crate::config::tests::{block, check_problems, config, env, keys, problems, read, warnings};
use crate::config::{
    Errors, Health, Kubernetes, LogRule, Overrides, Ready, Rejected, directives, load,
};

#[test]
fn five_mistakes_are_five_problems_each_with_its_place() {
    let text = "\
cluster.local:99999 {
    kubernets
    kubernetes {
        ttl 3601
        pods some
    }
    health 8080
}
";
    check_problems(
        text,
        &[
            "Corefile:1:1: the port of 'cluster.local:99999' is not a number",
            "Corefile:2:5: unknown directive 'kubernets'; did you mean 'kubernetes'?",
            "Corefile:4:13: ttl '3601': not in the range 0 to 3600; write: ttl SECONDS",
            "Corefile:5:14: wrong value for pods: 'some'; ",
            "Corefile:7:12: '8080': the port is missing; write HOST:PORT",
        ],
    );
}

#[test]
fn a_file_without_blocks_is_an_error_where_coredns_starts_whoami() {
    for text in ["", "# nothing\n", "(s) {\n errors\n}\n"] {
        check_problems(text, &["Corefile:1:1: there is no server block; "]);
    }
}

#[test]
fn keys_are_separated_by_space_and_a_last_comma_goes_on() {
    assert_eq!(keys("a b,\nc,d {\n}\n"), [["a.:53", "b.:53", "c,d.:53"]]);
    assert_eq!(keys("a\n{\n errors\n}\nb {\n}"), [["a.:53"], ["b.:53"]]);
    assert_eq!(keys("a { }\nb"), [["a.:53"], ["b.:53"]]);
    // `.{` is one word. As a name it has an empty label.
    check_problems(
        ".{\n}\n",
        &[
            "Corefile:1:1: not a domain name: \".{\" has an empty label; ",
            "Corefile:2:1: '}' without a '{' before it; ",
        ],
    );
}

#[test]
fn the_text_of_a_corefile_says_what_the_file_says_but_for_secrets() {
    for text in [
        "a b,\nc,d {\n}\n",
        "a\nerrors\nlog\n",
        "(s) {\n errors {\n stacktrace\n }\n}\na {\n import s\n}\nb { # of b\n import s\n log . \"{remote} #\\\"{type}\\\"\"\n}",
        "a {\n template IN A {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n rcode NXDOMAIN\n }\n}\n",
        "a:1053 {\n kubernetes {\n manifests \"my folder\"\n }\n health 127.0.0.1:8080 {\n }\n}\n",
    ] {
        let digest_and_text = |text: &str| match read(text) {
            Ok(loaded) => (loaded.digest, loaded.text),
            Err(rejected) => panic!("{text}: {rejected}"),
        };
        let (digest, said) = digest_and_text(text);
        assert_eq!(digest_and_text(&said), (digest, said.clone()), "{said}");
        assert!(!said.contains("# of"), "{said}");
    }
    let text = "a {\n tsig {\n secret k. MDEyMzQ1Njc4OWFiY2RlZg== hmac-sha256\n }\n}\nb {\n etcd {\n endpoint http://127.0.0.1:2379\n credentials user pass\n }\n}\n";
    let said = read(text).unwrap().text;
    assert!(
        said.contains("        secret k. (key-7b95c91398cb469d55772d1d1c8e6dddb889d0ee13c9047620cb856ed421dbb5) hmac-sha256\n"),
        "{said}"
    );
    assert!(
        said.contains("        credentials user (password)\n"),
        "{said}"
    );
}

#[test]
fn commas_without_a_zone_are_errors() {
    check_problems(
        "a, {\n}\n",
        &["Corefile:1:1: a comma with no zone after it; "],
    );
    check_problems("a , b {\n}\n", &["Corefile:1:3: a comma without a zone; "]);
    check_problems("a,", &["Corefile:1:1: the file ends after a comma; "]);
}

#[test]
fn without_braces_the_rest_of_the_file_is_one_block() {
    let servers = config("a b\nerrors\nlog\n").servers;
    assert_eq!(servers.len(), 1);
    assert!(servers[0].get::<Errors>().is_some() && servers[0].all::<LogRule>().count() == 1);
}

#[test]
fn a_quoted_brace_is_a_brace() {
    assert!(
        config("\"a\" \"{\"\n errors\n\"}\"\n").servers[0]
            .get::<Errors>()
            .is_some()
    );
}

#[test]
fn arguments_may_follow_a_word_of_several_lines() {
    let logs = block("log . \"{name}\n{type}\" {\n class error\n}")
        .all::<LogRule>()
        .map(|rule| rule.classes.len())
        .collect::<Vec<_>>();
    assert_eq!(logs, [1]);
}

#[test]
fn one_line_blocks_are_errors() {
    let own_line = "'}' must be on a line of its own; write it on the next line";
    check_problems(". { errors }\n", &[&format!("Corefile:1:12: {own_line}")]);
    check_problems(
        ". {\n health { lameduck 5s }\n}\n",
        &[&format!("Corefile:2:23: {own_line}")],
    );
    check_problems(
        ". {\n errors {\n } }\n",
        &[&format!("Corefile:3:4: {own_line}")],
    );
    assert!(block("errors { }").get::<Errors>().is_some());
    assert!(block("health { lameduck 5s\n}").get::<Health>().is_some());
}

#[test]
fn a_stray_brace_is_an_error_where_coredns_serves_a_zone_of_that_name() {
    check_problems(
        ". {\n}\n}\n",
        &["Corefile:3:1: '}' without a '{' before it; "],
    );
    check_problems(
        ". \n errors\n}\n",
        &["Corefile:3:1: '}' without a '{' before it; "],
    );
    check_problems(
        "{\n}\na",
        &["Corefile:1:1: a block without a zone before its '{'; "],
    );
}

#[test]
fn a_missing_brace_is_an_error_though_coredns_may_let_it_pass() {
    check_problems(
        ". {\n errors {\n }\n",
        &["Corefile:1:3: the '{' here is never closed; "],
    );
    check_problems(
        ". {\n errors\n",
        &["Corefile:1:3: the '{' here is never closed; "],
    );
    check_problems(
        "a {\n errors\nb.test:53 {\n log\n}\n",
        &["Corefile:3:1: the block of 'b.test:53' begins before the block opened in line 1 ends; "],
    );
    check_problems(
        "a\n errors\nb.test:53 {\n log\n}\n",
        &["Corefile:3:1: the block of 'b.test:53' begins inside a block without braces; "],
    );
}

/// It was said of the zone's '{', after "kubernetes has no option 'cache'".
#[test]
fn a_missing_brace_comes_first_and_what_follows_is_read_without_it() {
    let unclosed = |word| {
        format!(
            "Corefile:2:13: the '{{' here is never closed; write the '}}' on a line of its own before '{word}' in line 4"
        )
    };
    // At the end of the file, before the next zone, and before a directive with a block.
    let first = "a.test {\n kubernetes {\n manifests m\n";
    for (rest, word) in [
        (" cache 30\n forward . 192.0.2.1\n}\n", "cache"),
        (" cache 30\n}\nb.test {\n whoami\n}\n", "cache"),
        (" cache 30\n}\nb {\n}\n", "cache"),
        (" transfer {\n  to *\n }\n}\n", "transfer"),
        (" cache 30\n transfer {\n  to *\n }\n}\n", "cache"),
    ] {
        let got = problems(&format!("{first}{rest}"));
        assert_eq!(got[0], unclosed(word));
        let is_other_zone = |it: &String| it.contains("unknown directive 'b'");
        assert!(got[1..].iter().all(is_other_zone), "{rest}\n{got:#?}");
    }
    // The lines after it are read as directives, and their errors are found.
    check_problems(
        "x.test:99999 {\n kubernetes {\n manifests m\n cache 0\n health 8080\n}\n",
        &[
            &unclosed("cache"),
            "Corefile:1:1: the port of",
            "Corefile:4:8: ",
            "Corefile:5:9: '8080': the port is missing",
        ],
    );
    // Both are missing.
    check_problems(
        "a.test {\n kubernetes {\n manifests m\n cache 30\n",
        &[
            "Corefile:1:8: the '{' here is never closed; ",
            &unclosed("cache"),
        ],
    );
    // `reload` is an option of hosts, so that the zone's is the missing one.
    check_problems(
        ". {\n hosts {\n reload 5s\n }\n errors\n",
        &["Corefile:1:3: the '{' here is never closed; "],
    );
    // A quote takes all that follows it.
    check_problems(
        ". {\n log \"x\n errors\n}\n",
        &["Corefile:2:6: the quote that opens here is never closed; "],
    );
    check_problems(
        "a.test {\n kubernetes {\n manifests m\n errors\n }\n}\n",
        &["Corefile:4:2: kubernetes has no option 'errors'; its options are "],
    );
}

#[test]
fn a_misspelt_option_is_answered_with_the_one_that_was_meant() {
    for (directive, option, want) in [
        ("kubernetes", "namespace a", "namespaces"),
        ("kubernetes", "manifest m", "manifests"),
        ("cache", "sucess 10", "success"),
        ("health", "lameduk 5s", "lameduck"),
        ("forward . 192.0.2.1", "max_fail 1", "max_fails"),
    ] {
        let text = format!("a.test {{\n {directive} {{\n {option}\n }}\n}}\n");
        let said = problems(&text).join("\n");
        assert!(
            said.contains(&format!("'; did you mean '{want}'?")),
            "{option}: {said}"
        );
    }
    // CoreDNS ignores such a line of hosts.
    let said = warnings("a.test {\n hosts {\n no_revers\n }\n}\n").join("\n");
    assert!(said.ends_with("; did you mean 'no_reverse'?"), "{said}");
    // Its word may be a secret, so it is not repeated.
    check_problems(
        "a.test {\n tsig {\n secert k. MDEyMzQ1Njc4OWFiY2RlZg==\n }\n}\n",
        &["Corefile:3:2: tsig has no such option; did you mean 'secret'?"],
    );
}

/// The suggestions and the search for a missing brace read the options from these lists.
#[test]
fn the_options_of_each_directive_are_a_list_of_words() {
    for directive in directives() {
        for word in option_words(directive.options).filter(|it| !it.is_empty()) {
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
            assert!(word.chars().all(is_plain), "{}: {word:?}", directive.word);
        }
    }
}

#[test]
fn braces_stand_where_their_directive_does() {
    check_problems(
        ". {\n errors\n {\n }\n}\n",
        &["Corefile:3:2: the '{' of 'errors' is on another line; "],
    );
    check_problems(
        ". {\n errors {\n } x y\n}\n",
        &[
            "Corefile:3:4: 'x' follows a '}'; ",
            "Corefile:3:6: 'y' follows a '}'; ",
        ],
    );
    check_problems(
        ". {\n errors {\n stacktrace {\n a\n }\n }\n}\n",
        &["Corefile:3:13: a block inside a directive's block; "],
    );
    check_problems(
        ". {\n {\n a\n }\n errors\n}\n",
        &["Corefile:2:2: '{' at the start of a line; "],
    );
}

#[test]
fn directives_are_unknown_known_but_not_supported_or_gone() {
    check_problems(
        ". {\n nonsense a b {\n c\n }\n nomad\n auto 30 {\n x\n }\n proxy . x\n}\n",
        &[
            "Corefile:2:2: unknown directive 'nonsense'; ",
            "Corefile:5:2: nomad: not supported: the services of Nomad are not read: ",
            "Corefile:6:2: auto: not supported: ",
            "Corefile:9:2: proxy: no longer a directive; write forward",
        ],
    );
}

/// A Corefile like kubeadm's. A word too many after any directive in it is found.
#[test]
fn the_usual_cluster_corefile_is_accepted_and_read_word_by_word() {
    let text = "\
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
    }
    loop
    reload
    loadbalance
}
";
    check_problems(text, &[]);
    for line in text.lines().filter(|line| line.len() > 1) {
        let opening = line.strip_suffix(" {").unwrap_or(line);
        let wrong = text.replace(line, &line.replace(opening, &format!("{opening} a..b")));
        assert!(!problems(&wrong).is_empty(), "{wrong}");
    }
}

/// The words of plugin.cfg in CoreDNS 1.15.0.
#[test]
fn every_directive_of_coredns_is_known() {
    let all = "root metadata geoip cancel proxyproto quic grpc_server https https3 timeouts \
               multisocket reload nsid bufsize bind debug trace ready health pprof shed prometheus \
               errors log dnstap local dns64 siit any chaos loadbalance tsig rewrite autopath acl cache \
               header dnssec tls minimal template transfer dynupdate hosts route53 azure clouddns k8s_external \
               kubernetes file auto secondary etcd loop forward grpc erratic whoami on sign view nomad";
    for directive in all.split_whitespace() {
        let got = problems(&format!(". {{\n {directive}\n}}\n"));
        assert!(!got.iter().any(|line| line.contains("unknown")), "{got:?}");
    }
}

#[test]
fn variables_stay_one_word_and_may_be_empty() {
    assert_eq!(
        keys("{$ZONE}:{%PORT%} {$NOPE} {\n}\n"),
        [["example.org.:5353"]]
    );
    check_problems(
        ". {\n bind {$SPACED}\n}\n",
        &["Corefile:2:7: 'p q' is neither an IP address nor"],
    );
    check_problems(
        ". {\n bind {$NOPE}\n}\n",
        &["Corefile:2:7: '' is neither an IP address nor"],
    );
    assert_eq!(
        config(".\nlog {$ZONE} {$ZONE}.\n").servers[0]
            .get::<LogRule>()
            .unwrap()
            .names
            .len(),
        1
    );
}

#[test]
fn snippets_are_put_in_where_they_are_imported() {
    let text =
        "(s) { errors }\n(t) {\n log\n import s\n}\na {\n import t\n}\nb {\n import s\n ready\n}\n";
    let servers = config(text).servers;
    assert!(servers[0].get::<Errors>().is_some() && servers[0].all::<LogRule>().count() == 1);
    assert!(servers[1].get::<Errors>().is_some() && servers[1].get::<Ready>().is_some());
    assert_eq!(
        servers[0].get::<Errors>().unwrap().place.to_string(),
        "Corefile:1:7"
    );
}

#[test]
fn snippets_may_hold_lines_of_a_directive() {
    let text = "(s) {\n ttl 7\n}\na {\n kubernetes {\n import s\n pods disabled\n }\n}\n";
    let server = config(text).servers.remove(0);
    let kubernetes = server.get::<Kubernetes>().unwrap();
    assert_eq!(kubernetes.ttl.seconds(), 7);
}

#[test]
fn a_snippet_used_twice_in_a_row_is_two_lines() {
    let text = "(s) {\n log a\n}\n. {\n import s\n import s\n}\n";
    assert_eq!(config(text).servers[0].all::<LogRule>().count(), 2);
}

#[test]
fn wrong_snippets_are_errors() {
    check_problems(
        ". {\n import later\n}\n(later) {\n errors\n}\n",
        &[
            "Corefile:2:9: file to import not found: later; a snippet must be defined before its use",
        ],
    );
    check_problems(
        "(s) {\n}\n(s) {\n}\n.\n",
        &["Corefile:3:1: the snippet 's' is defined twice; "],
    );
    check_problems(
        "(s) {\n import s\n}\n.\n",
        &["Corefile:2:9: the snippet 's' imports itself; "],
    );
    check_problems(
        "(s)\n.\n",
        &["Corefile:1:1: the snippet 's' has no block; "],
    );
    check_problems(
        "(s) {\n errors\n",
        &[
            "Corefile:1:5: the '{' here is never closed; ",
            "Corefile:1:1: there is no server block; ",
        ],
    );
    check_problems(
        ". {\n import\n import a b\n import \"\"\n}\n",
        &[
            "Corefile:2:2: import takes exactly one argument; ",
            "Corefile:3:11: import takes exactly one argument; ",
            "Corefile:4:9: the argument of import is empty; ",
        ],
    );
}

#[test]
fn snippets_that_import_each_other_end() {
    let text = "(a) {\n import b\n}\n(b) {\n import a\n}\n. {\n import a\n errors\n}\n";
    // `b` is not defined where `a` is defined, but it is where `a` is used.
    let got = problems(text);
    assert_eq!(got.len(), 1, "{got:?}");
    assert!(got[0].contains("more than 10000 imports"), "{got:?}");
}

#[test]
fn an_error_in_a_snippet_of_several_uses_stands_once() {
    let text = "(s) {\n nonsense\n}\na {\n import s\n}\nb {\n import s\n}\n";
    check_problems(text, &["Corefile:2:2: unknown directive 'nonsense'; "]);
}

/// Loads a Corefile from a folder with these files.
fn loaded(files: &[(&str, &str)]) -> Result<crate::config::Loaded, Rejected> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let path = folder.path().join("Corefile");
    let shorten = |problems: &mut Vec<corefile::Problem>| {
        for problem in problems {
            let folder = format!("{}/", folder.path().display());
            problem.place.file = problem.place.file.replace(&folder, "").into();
            problem.message = problem.message.replace(&folder, "");
        }
    };
    let mut result = load(&path, &Overrides::default(), &env);
    match &mut result {
        Ok(loaded) => shorten(&mut loaded.warnings),
        Err(rejected) => shorten(&mut rejected.problems),
    }
    result
}

#[test]
fn imports_are_relative_to_their_file_and_keep_its_places() {
    let files = [
        (
            "Corefile",
            "import custom/*.server\n. {\n import custom/*.override\n ready\n}\n",
        ),
        ("custom/b.server", "b {\n errors\n}\n"),
        ("custom/a.server", "a {\n import more/log\n}\n"),
        ("custom/more/log", "log"),
        ("custom/x.override", "errors\nlog"),
        ("custom/..data/x.override", "nonsense"),
    ];
    let servers = loaded(&files).unwrap().config.servers;
    let zones: Vec<_> = servers
        .iter()
        .map(|block| block.zones[0].apex.to_string())
        .collect();
    assert_eq!(zones, ["a.", "b.", "."]);
    assert_eq!(servers[0].all::<LogRule>().count(), 1);
    assert!(servers[2].get::<Errors>().is_some() && servers[2].get::<Ready>().is_some());

    let bad = [
        ("Corefile", "\n. {\n import x\n}\n"),
        ("x", "errors\n\n  nonsense\n"),
    ];
    assert!(
        loaded(&bad)
            .unwrap_err()
            .to_string()
            .starts_with("x:3:3: unknown directive")
    );
}

/// The line alone would point into the wrong file.
#[test]
fn what_an_import_brings_a_second_time_is_told_with_the_file_of_the_first() {
    let files = [
        ("Corefile", ". {\n import x\n errors\n}\n"),
        ("x", "\n\n\nerrors\n"),
    ];
    let said = loaded(&files).unwrap_err().to_string();
    let want = "Corefile:3:2: errors is already given in x:4:1 of this block; ";
    assert!(said.starts_with(want), "{said}");
}

#[test]
fn imports_that_find_nothing_or_too_much_are_told() {
    let text = ". {\n import none/*.override\n}\n";
    let warned = loaded(&[("Corefile", text)]).unwrap().warnings;
    assert_eq!(
        warned[0].to_string(),
        "Corefile:2:9: no file matches 'none/*.override'; ignore this if no file should match"
    );
    for (pattern, want) in [
        ("none", "Corefile:2:9: file to import not found: none; "),
        (
            "*/*",
            "Corefile:2:9: the pattern '*/*' has more wildcards than one '*' and one '?'; ",
        ),
        (
            "custom/*",
            "Corefile:2:9: cannot read custom/..data: Is a directory",
        ),
        ("custom", "Corefile:2:9: cannot read custom: Is a directory"),
    ] {
        let text = format!(". {{\n import {pattern}\n}}\n");
        let said = loaded(&[("Corefile", &text), ("custom/..data/x", "")])
            .unwrap_err()
            .to_string();
        assert!(said.starts_with(want), "{said}");
    }
}

#[test]
fn a_file_that_imports_itself_ends() {
    let said = loaded(&[("Corefile", "import Corefile\n.\n")])
        .unwrap_err()
        .to_string();
    assert!(said.contains("more than 10000 imports"), "{said}");
}

#[test]
fn a_corefile_that_is_not_there_is_a_problem_with_its_name() {
    let said = load("none/Corefile".as_ref(), &Overrides::default(), &env)
        .unwrap_err()
        .to_string();
    assert!(
        said.starts_with("none/Corefile:1:1: cannot read the Corefile: "),
        "{said}"
    );
}

#[test]
fn words_of_a_glued_comment_are_read_and_warned_about() {
    assert_eq!(
        warnings(". {\n log a.#x b.\n}\n"),
        [
            "Corefile:2:8: a '#' inside a word hides only the rest of that word, not the rest of the line; put \
         a space before the '#'"
        ]
    );
    assert_eq!(
        config(". {\n log a.#x b.\n}\n").servers[0]
            .get::<LogRule>()
            .unwrap()
            .names
            .len(),
        2
    );
}

#[test]
fn a_quote_that_is_never_closed_is_an_error() {
    check_problems(
        ".\nlog \"x\n",
        &["Corefile:2:5: the quote that opens here is never closed; "],
    );
}

proptest! {
    #[test]
    fn reading_never_panics(words in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "\n", "\n", "\"", ",", "(s)", "import", "s", ".", "a:53", "10.0.0.0/15", "#", "errors",
        "kubernetes", "transfer", "tsig", "secret", "to", "*", "key", "apex", "ns", "log", "class",
        "health", "lameduck", "5s", "bind", "{$PORT}", "tls", "manifests", "fallthrough", "b.c",
    ]), 0..60)) {
        let text = words.join(" ");
        match read(&text) {
            Ok(loaded) => prop_assert!(!loaded.config.servers.is_empty()),
            Err(rejected) => prop_assert!(!rejected.problems.is_empty()),
        }
    }
}

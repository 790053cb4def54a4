//! Corefiles of any bytes: each is read, or refused with problems that have a place, without a panic.

use ::fuzz::{Fuzz, Outcome};

use super::*;

/// The Corefiles of the cases, and one with many directives.
fn seeds() -> Vec<Vec<u8>> {
    let many = "(common) {\n errors\n}\n$ZONE:{$PORT} 10.0.0.0/8 {\n import common\n bind 127.0.0.1\n \
                kubernetes {\n  endpoint_pod_names\n  ttl 30\n  namespaces a b\n  pods verified\n  fallthrough\n }\n \
                transfer {\n  to 192.0.2.1:53 [2001:db8::1]:54 key k\n  allow 10.0.0.0/8 tls\n  source 192.0.2.9\n }\n \
                tsig {\n  secret k c2VjcmV0 hmac-sha512\n }\n apex {\n  ns ns1 127.0.0.1\n  refresh 1h30m\n }\n \
                history {\n  keep 30d\n  versions 10\n  size 1MiB\n }\n gate {\n  shrink 30\n  hold 10m\n }\n \
                cache 30\n log\n}\n";
    // Directives with handlers.
    let handlers = "t:53 {\n errors {\n  consolidate 5m \".* timeout$\" warning\n }\n \
                    forward . 192.0.2.1 tls://[2001:db8::1]:853 tls://up.test%dns.test {\n  except a.t\n  policy sequential\n  \
                    health_check 1s domain x. no_rec\n  max_concurrent 9\n  tls_servername dns.test\n  next NXDOMAIN\n  \
                    failover SERVFAIL\n  resolver 192.0.2.53\n }\n \
                    rewrite stop {\n  name regex (.*)\\.a\\.t {1}.b.t\n  answer auto\n }\n \
                    rewrite ttl suffix t 5-30\n rewrite edns0 subnet set 24 56 revert\n rewrite type AAAA A\n \
                    template IN A t {\n  match ^ip-(?P<a>[0-9]*)\\.t\\.$\n  answer \"{{ .Name }} 60 IN A 10.0.0.{{ .Group.a }}\"\n  \
                    rcode NXDOMAIN\n  ederror 21 \"no\"\n  fallthrough\n }\n \
                    hosts {\n  10.0.0.1 a.t b.t\n  ttl 60\n  no_reverse\n  reload 10s\n  fallthrough a.t\n }\n \
                    acl t {\n  allow type A net 10.0.0.0/8\n  filter type * net 192.168.0.0/16\n  block\n }\n \
                    dns64 {\n  prefix 64:ff9b::/96\n  translate_all\n }\n autopath /etc/resolv.conf\n metadata\n \
                    loadbalance round_robin {\n  prefer 10.0.0.0/8\n }\n \
                    cache 30 {\n  success 9 60 5\n  denial 9 30\n  prefetch 2 1m 10%\n  serve_stale 1h verify 1s\n  servfail 5s\n }\n}\n";
    let mut seeds = vec![many.as_bytes().to_vec(), handlers.as_bytes().to_vec()];
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../zones")).unwrap() {
        if let Ok(text) = std::fs::read(entry.unwrap().path().join("Corefile")) {
            seeds.push(text);
        }
    }
    assert!(seeds.len() > 10);
    seeds
}

/// Words of the language.
const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"\n",
    b"\"",
    b"\\",
    b"#",
    b"{$",
    b"%",
    b"import",
    b"(",
    b")",
    b":",
    b"://",
    b"/",
    b"*",
    b"0",
    b"-1",
    b"65536",
    b"99999999999",
    b"5m",
    b"1d",
    b"::",
    b"[",
    b"]",
    b"kubernetes {",
    b"transfer {",
    b"tsig {",
    b"apex {",
    b"catalog",
    b"forward . ",
    b"rewrite name regex ",
    b"template IN ANY . {",
    b"{{ .Name }}",
    b"hosts {",
    b"acl {",
    b"dns64",
    b"autopath @kubernetes",
    b"loadbalance",
    b"consolidate",
    b"(.*",
    b"gate {",
    b"history {",
    b"tls",
    b"key",
    b"\xff",
    b"\0",
    b"\r\n",
    b"in-addr.arpa",
    b"10.0.0.0/33",
    b"fd00::/129",
    b" ",
];

/// Reads a Corefile twice.
fn target(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let said = |text: &str| match read(text) {
        Ok(loaded) => Ok(format!("{} warnings", loaded.warnings.len())),
        Err(rejected) => Err(rejected),
    };
    match (said(&text), said(&text)) {
        (Ok(first), Ok(second)) if first == second => Ok(first),
        (Err(first), Err(second)) => {
            if first.problems.is_empty() {
                return Err("refused without a reason".to_owned());
            }
            if first.to_string() != second.to_string() {
                return Err("refused twice with different reasons".to_owned());
            }
            let lines = text.lines().count() + 1;
            for problem in &first.problems {
                if problem.message.is_empty() || problem.fix.is_empty() {
                    return Err(format!("no message or no fix: {problem}"));
                }
                if problem.place.line as usize > lines && !text.contains("import") {
                    return Err(format!("beyond the end of {lines} lines: {problem}"));
                }
            }
            Ok(kind(&first.problems[0].message))
        }
        (Ok(_), Ok(_) | Err(_)) | (Err(_), Ok(_)) => {
            Err("read otherwise the second time".to_owned())
        }
    }
}

/// The words of a message that do not come from the input.
fn kind(message: &str) -> String {
    let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == ',');
    let words: Vec<&str> = message.split(' ').filter(is_word).take(8).collect();
    words.join(" ")
}

#[test]
fn corefiles_of_any_octets_are_read_or_refused_with_reasons() {
    Fuzz::new(seeds(), WORDS).run("Corefile", target);
}

/// Tests the fuzzer: it finds a planted fault behind two conditions.
#[test]
fn a_fault_planted_behind_a_corefile_is_found() {
    let planted = |input: &[u8]| {
        let outcome = target(input)?;
        let text = String::from_utf8_lossy(input);
        assert!(!(outcome.contains("warnings") && text.contains("fd00::/129")) || text.len() < 40);
        match outcome.contains("not closed") || outcome.contains("missing") {
            true => Err("planted".to_owned()),
            false => Ok(outcome),
        }
    };
    Fuzz::new(seeds(), WORDS).finds("Corefile", planted);
}

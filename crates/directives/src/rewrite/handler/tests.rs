//! Tests of the answers that clients get for rewritten questions.

use std::fmt::Write as _;
use std::sync::Arc;

use dns::{Rdata, Record, Ttl};
use server::message::Reply;
use server::testing::{Counting, ask_request, chain, chain_around, request};
use zone::testing::zone;

use super::*;
use crate::config::{Overrides, parse_text};

/// Answers with a TXT record at the question's name. Its text is the question with its options. Records that lead to
/// names accompany it. `gone.` names are missing, `fail.` names fail.
struct Tells;

impl Handler for Tells {
    fn name(&self) -> &'static str {
        "tells"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, _next: Next) -> BoxFuture<'a, Outcome> {
        let text = request.name.to_string();
        if text.starts_with("fail.") {
            return std::future::ready(Outcome::failed("tells", Rcode::SERVFAIL, "why")).boxed();
        }
        let mut reply = Reply::empty("tells", Rcode::NOERROR, 0);
        if text.starts_with("gone.") {
            reply.rcode = Rcode::NXDOMAIN;
            return std::future::ready(Outcome::Reply(reply)).boxed();
        }
        let record = |rtype, rdata| Record {
            owner: request.name.clone(),
            rtype,
            ttl: Ttl::decode(60),
            rdata,
        };
        let below = request.name.child("srv").unwrap();
        let class = request.qclass;
        let mut says = format!("{text} {} {class}", request.qtype);
        if let Some(edns) = &request.edns {
            write!(says, " {}", edns.size).unwrap();
            for (code, data) in edns::split(&edns.options) {
                write!(says, " {code}={data:?}").unwrap();
            }
        }
        reply.answers = vec![
            record(Rtype::TXT, Rdata::txt(&says)),
            record(Rtype::SRV, Rdata::srv(0, 1, 2, &below)),
            record(Rtype::CNAME, Rdata::name(&"alias.test.".parse().unwrap())),
        ];
        match request.qtype {
            Rtype::SRV => reply.answers.retain(|it| it.rtype == Rtype::SRV),
            Rtype::A if text.starts_with("x.") => {
                reply.answers.retain(|it| it.rtype == Rtype::CNAME);
            }
            Rtype::CNAME => reply.answers.retain(|it| it.rtype == Rtype::CNAME),
            _ => reply.answers.truncate(1),
        }
        std::future::ready(Outcome::Reply(reply)).boxed()
    }
}

/// The handler of these directives.
fn rewrite(directives: &str) -> RewriteHandler {
    let text = format!(". {{\n{directives}\n}}\n");
    let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
    RewriteHandler::new(loaded.config.servers[0].all().cloned().collect())
}

/// The answer to a client.
fn ask(directives: &str, question: &str) -> String {
    let server = chain(vec![Arc::new(rewrite(directives))], vec![Arc::new(Tells)]);
    let mut request = request(question);
    let before = (request.name.clone(), request.qtype, request.edns.clone());
    let said = ask_request(&server, &mut request);
    let after = (request.name, request.qtype, request.edns);
    assert_eq!(after, before, "what was rewritten is put back");
    said
}

/// As CoreDNS 1.15: values are text, and without one of them the rule does not apply, even if it would stop.
#[test]
fn a_replacement_with_metadata_has_the_values_of_the_client() {
    let asked = |rules: &str, name: &str, values: &[(&str, &str)]| {
        let server = chain(vec![Arc::new(rewrite(rules))], vec![Arc::new(Tells)]);
        let mut request = request(name);
        let value =
            |(label, value): &(&str, &str)| ((*label).to_owned().into(), (*value).to_owned());
        request.metadata.extend(values.iter().map(value));
        ask_request(&server, &mut request)
    };
    let rule = "rewrite name regex ^([^.]+)\\.test\\.$ {1}.{kubernetes/Client}.svc.X metadata";
    let both = format!("{rule} answer auto\nrewrite name suffix .test .other");
    let said = asked(&both, "web.test. TXT", &[("kubernetes/Client", "Team-A")]);
    assert!(said.contains("web.team-a.svc.x. TXT"), "{said}");
    assert!(said.contains("| web.test. 60 IN TXT"), "{said}");
    // A value is no replacement of its own.
    let said = asked(rule, "web.test. TXT", &[("kubernetes/Client", "{1}")]);
    assert!(said.contains("web.{1}.svc.x. TXT"), "{said}");
    for values in [
        &[][..],
        &[("kubernetes/client", "x")],
        &[("kubernetes/Client", "")],
    ] {
        let said = asked(&both, "web.test. TXT", values);
        assert!(said.contains("web.other. TXT"), "{values:?}: {said}");
    }
    let said = asked(rule, "web.test. TXT", &[("kubernetes/Client", "a..b")]);
    assert!(said.contains("SERVFAIL"), "{said}");
}

#[test]
fn every_kind_of_rule_asks_another_name() {
    for (rule, question, owner, asked) in [
        ("name a.test b.test", "A.test. TXT", "a.test.", "b.test."),
        (
            "name exact a.test b.test",
            "a.test. TXT",
            "a.test.",
            "b.test.",
        ),
        ("name prefix a. b.", "a.test. TXT", "b.test.", "b.test."),
        ("name suffix .test .org", "a.test. TXT", "a.org.", "a.org."),
        (
            "name suffix est. est.org.",
            "a.test. TXT",
            "a.test.org.",
            "a.test.org.",
        ),
        (
            "name substring .x. .y.",
            "a.x.b.x.c. TXT",
            "a.y.b.y.c.",
            "a.y.b.y.c.",
        ),
        (
            "name regex ([a-z]+)-([a-z]+)\\.test {2}.{1}.org",
            "one-two.test. TXT",
            "two.one.org.",
            "two.one.org.",
        ),
        ("name regex te a.b", "x.test. TXT", "a.b.", "a.b."),
        (
            "name suffix .test .org answer auto",
            "a.test. TXT",
            "a.test.",
            "a.org.",
        ),
        (
            "name prefix a. b. answer auto",
            "A.test. TXT",
            "a.test.",
            "b.test.",
        ),
        (
            "name regex (.*)\\.test {1}.org answer name (.*)\\.org {1}.net",
            "a.test. TXT",
            "a.net.",
            "a.org.",
        ),
        ("name c.test b.test", "a.test. TXT", "a.test.", "a.test."),
    ] {
        let want = format!("NOERROR | {owner} 60 IN TXT \"{asked} TXT 1\"");
        assert_eq!(ask(&format!("rewrite {rule}"), question), want, "{rule}");
    }
}

#[test]
fn names_in_data_are_put_back_with_the_owners() {
    for (rule, want) in [
        ("name a.test b.test", "a.test. 60 IN SRV 0 1 2 srv.a.test."),
        (
            "name suffix .test .org answer auto",
            "a.test. 60 IN SRV 0 1 2 srv.a.test.",
        ),
        (
            "name suffix .test .org",
            "a.org. 60 IN SRV 0 1 2 srv.a.org.",
        ),
        (
            "name suffix .test .org answer value srv\\.(.*)\\. {1}",
            "a.org. 60 IN SRV 0 1 2 a.org.",
        ),
        (
            "name suffix .test .org answer name (.*)\\.org {1}.net value (.*)\\.org {1}.com",
            "a.net. 60 IN SRV 0 1 2 srv.a.com.",
        ),
        (
            "name exact a.test b.test answer value (.*)\\.b\\.test {1}.c",
            "a.test. 60 IN SRV 0 1 2 srv.c.",
        ),
    ] {
        let said = ask(&format!("rewrite {rule}"), "a.test. SRV");
        assert_eq!(said, format!("NOERROR | {want}"), "{rule}");
    }
}

#[test]
fn rules_stop_unless_they_go_on_and_are_undone_in_turn() {
    let first = "rewrite name a.test b.test\nrewrite name b.test c.test";
    assert!(ask(first, "a.test. TXT").ends_with("\"b.test. TXT 1\""));
    let on = "rewrite continue name a.test b.test\nrewrite {\n stop\n name exact\n b.test c.test\n}\n\
              rewrite name c.test d.test";
    assert_eq!(
        ask(on, "a.test. SRV"),
        "NOERROR | a.test. 60 IN SRV 0 1 2 srv.a.test."
    );
    assert!(ask(on, "a.test. TXT").ends_with("\"c.test. TXT 1\""));
}

#[test]
fn types_classes_ttls_and_codes_become_others() {
    let on = "rewrite continue type any TXT\nrewrite continue class CH IN\n\
              rewrite continue ttl suffix test 10-30\nrewrite continue rcode a.test NXDOMAIN 2\n\
              rewrite rcode regex (gone|fail) servfail refused";
    for (question, want) in [
        (
            "x.test. ANY",
            "NOERROR | x.test. 30 IN TXT \"x.test. TXT 1\"",
        ),
        ("x.org. ANY", "NOERROR | x.org. 60 IN TXT \"x.org. TXT 1\""),
        ("gone.test. A", "NXDOMAIN"),
        ("fail.test. A", "REFUSED: why"),
        ("a.test. A", "NOERROR | a.test. 30 IN TXT \"a.test. A 1\""),
    ] {
        assert_eq!(ask(on, question), want, "{question}");
    }
    assert!(ask(on, "x.test. TXT CH").contains("TXT \"x.test. TXT 1\""));
    for (range, ttl) in [("5", 5), ("100-", 100), ("-20", 20), ("10-100", 60)] {
        let said = ask(&format!("rewrite ttl x.test {range}"), "x.test. TXT");
        assert!(said.contains(&format!(" {ttl} IN TXT")), "{range}: {said}");
    }
}

#[test]
fn targets_of_aliases_are_looked_up_anew() {
    let on = "rewrite cname exact alias.test other.test";
    assert_eq!(
        ask(on, "x.test. A"),
        "NOERROR | x.test. 60 IN CNAME other.test. other.test. 60 IN TXT \"other.test. A 1\""
    );
    let by_part = "rewrite cname regex ^alias\\.(.*)$ b.{1}";
    assert!(ask(by_part, "x.test. A").contains("CNAME b.test. b.test. 60 IN TXT"));
    assert_eq!(
        ask("rewrite cname no.test other.test", "x.test. A"),
        "NOERROR | x.test. 60 IN CNAME alias.test."
    );
}

#[test]
fn an_alias_that_leads_back_to_what_was_rewritten_is_answered_once() {
    let back =
        || -> Vec<Arc<dyn Handler>> { vec![Arc::new(rewrite("rewrite name exact a.y b.z"))] };
    let zones = vec![zone("z.", 1, &["b CNAME a.y.", "c CNAME a.y."])];
    let server = chain_around(back(), zones, vec![Arc::new(Counting::default())]);
    let said = ask_request(&server, &mut request("A.y. A"));
    assert_eq!(said, "NOERROR | a.y. 60 IN CNAME a.y.");
    let said = ask_request(&server, &mut request("c.z. A"));
    let want = "NOERROR | c.z. 60 IN CNAME a.y. a.y. 60 IN CNAME a.y.";
    assert_eq!(said, want, "each once");
    let zones = vec![
        zone("z.", 1, &["b CNAME a.w."]),
        zone("w.", 1, &["a CNAME b.z."]),
    ];
    let server = chain_around(back(), zones, vec![Arc::new(Counting::default())]);
    let said = ask_request(&server, &mut request("a.y. A"));
    let want = "NOERROR | a.y. 60 IN CNAME a.w. a.w. 60 IN CNAME a.y.";
    assert_eq!(said, want, "over two zones");
}

#[test]
fn options_are_set_added_replaced_and_taken_out() {
    for (rules, want) in [
        ("local set 0xffee 0x0102", "4096 65518=[1, 2]"),
        ("local set 65518 ab revert", "4096 65518=[97, 98]"),
        ("local replace 65518 ab", "4096"),
        ("local append 65518 {qtype}", "4096 65518=[0, 16]"),
        ("local set 65518 {client_ip}", "4096 65518=[192, 0, 2, 1]"),
        ("local set 65518 {client_port}", "4096 65518=[15, 160]"),
        ("local set 65518 {server_ip}", "4096 65518=[192, 0, 2, 53]"),
        ("local set 65518 {server_port}", "4096 65518=[0, 53]"),
        ("local set 65518 {protocol}", "4096 65518=[117, 100, 112]"),
        ("nsid set", "4096 3=[]"),
        ("subnet set 20 56", "4096 8=[0, 1, 20, 0, 192, 0, 0]"),
        ("subnet set 0 56", "4096 8=[0, 1, 0, 0]"),
    ] {
        let said = ask(&format!("rewrite edns0 {rules}"), "a. TXT");
        assert_eq!(
            said,
            format!("NOERROR | a. 60 IN TXT \"a. TXT 1 {want}\""),
            "{rules}"
        );
    }
    let several = "rewrite continue edns0 local set 65518 a\nrewrite continue edns0 local append 65518 b\n\
                   rewrite continue edns0 subnet set 8 8\nrewrite edns0 subnet unset";
    assert!(ask(several, "a. TXT").contains("4096 65518=[97] 65518=[98]\""));
    // A variable without a value matches nothing, so the next rule is tried.
    let unknown = "rewrite edns0 local set 65518 {a/b}\nrewrite name a b";
    assert!(ask(unknown, "a. TXT").ends_with("\"b. TXT 1\""));
}

#[test]
fn a_name_that_is_none_fails() {
    let on = "rewrite name regex (.*)x {1}";
    assert_eq!(
        ask(on, "a..x. A".replace("..", ".").as_str()),
        "SERVFAIL: invalid name after rewrite: a.."
    );
}

#[test]
fn what_no_rule_fits_passes() {
    let on = rewrite(
        "rewrite name a.test b.test\nrewrite ttl suffix .org 5\nrewrite type MX A\nrewrite class CH IN\n\
         rewrite rcode regex ^w[0-9]+\\.net\\.$ 2 3",
    );
    for (question, passes) in [
        ("A.test. A", false),
        ("b.a.test. A", true),
        ("b.test. MX", false),
        ("b.test. A CH", false),
        ("x.org. A", false),
        ("x.org.test. A", true),
        ("w12.net. A", false),
        ("w.net. A", true),
    ] {
        let request = request(question);
        let lower = request.name.to_lower();
        assert_eq!(on.passes(&request.question(&lower)), passes, "{question}");
    }
    for always in ["cname a b", "edns0 nsid set"] {
        let on = rewrite(&format!("rewrite {always}"));
        let request = request("x.test. A");
        assert!(!on.passes(&request.question(&request.name)), "{always}");
    }
}

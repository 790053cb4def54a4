//! Tests of the replies that clients get from templates.

use std::sync::Arc;

use crate::config::handler_metrics;
use server::testing::{Counting, ask_request, chain, request};

use super::*;
use crate::config::{Overrides, parse_text};
use crate::handlers::testing::counts;

/// The handler of these directives.
fn templates(directives: &str) -> TemplateHandler {
    let text = format!(". {{\n{directives}\n}}\n");
    let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
    TemplateHandler::new(
        loaded.config.servers[0].all().cloned().collect(),
        counts(&handler_metrics()),
    )
}

/// The reply, with another handler after `template` that answers everything.
fn ask(directives: &str, question: &str) -> String {
    let server = chain(
        vec![Arc::new(templates(directives))],
        vec![Arc::new(Counting::default())],
    );
    let mut request = request(question);
    request.metadata.insert("a/b".into(), "meta".into());
    ask_request(&server, &mut request)
}

#[test]
fn records_are_made_of_the_question() {
    let on = "template IN A example {\n match ^ip-(?P<a>[0-9]+)-([0-9]+)\\.example\\.$\n \
              answer \"{{ .Name }} 60 IN A 10.0.{{ .Group.a }}.{{ index .Match 2 }}\"\n \
              additional \"{{ .Zone }} 5 IN TXT \\\"{{ .Type }} {{ .Class }} {{ .Remote }} {{ .Meta `a/b` }}\\\"\"\n \
              authority \"{{ .Zone }} IN SOA ns.{{ .Zone }} x. 1 2 3 4 5\"\n fallthrough\n}";
    assert_eq!(
        ask(on, "ip-1-2.example. A"),
        "NOERROR | ip-1-2.example. 60 IN A 10.0.1.2 ; example. 3600 IN SOA ns.example. x. 1 2 3 4 5 \
         + example. 5 IN TXT \"A IN 192.0.2.1 meta\""
    );
    let counted = "NOERROR | ip-x.example. 300 IN A 10.0.0.1";
    assert_eq!(ask(on, "ip-x.example. A"), counted);
}

#[test]
fn class_type_zone_and_pattern_choose_and_what_does_not_fit_fails_or_goes_on() {
    let on = "template ANY AAAA {\n rcode NXDOMAIN\n}\ntemplate IN A b.test {\n match ^x\n \
              answer \"{{ .Name }} 1 IN A 10.1.1.1\"\n}\ntemplate IN MX test {\n match ^x\n \
              fallthrough c.test\n}\ntemplate IN ANY d.test {\n rcode SERVFAIL\n}";
    let next = |name: &str| format!("NOERROR | {name} 300 IN A 10.0.0.1");
    for (question, want) in [
        ("any.org. AAAA", "NXDOMAIN".to_owned()),
        (
            "x.b.test. A",
            "NOERROR | x.b.test. 1 IN A 10.1.1.1".to_owned(),
        ),
        ("y.b.test. A", "SERVFAIL: -".to_owned()),
        ("y.c.test. MX", next("y.c.test.")),
        ("y.e.test. MX", "SERVFAIL: -".to_owned()),
        ("y.e.test. A", next("y.e.test.")),
        ("d.test. TXT", "SERVFAIL: -".to_owned()),
    ] {
        assert_eq!(ask(on, question), want, "{question}");
        let request = request(question);
        let passes = templates(on).passes(&request.question(&request.name));
        assert_eq!(passes, want.contains("10.0.0.1"), "{question}");
    }
}

#[test]
fn aliases_of_answers_are_followed_through_the_server() {
    let on = "template IN A a.test {\n answer \"{{ .Name }} 60 IN CNAME b.test.\"\n}";
    assert_eq!(
        ask(on, "a.test. A"),
        "NOERROR | a.test. 60 IN CNAME b.test. b.test. 300 IN A 10.0.0.1"
    );
}

#[test]
fn an_alias_to_itself_stands_there_once() {
    let on = "template IN A test {\n answer \"{{ .Name }} 60 IN CNAME {{ .Name }}\"\n}";
    assert_eq!(
        ask(on, "A.test. A"),
        "NOERROR | a.test. 60 IN CNAME a.test."
    );
}

#[test]
fn what_cannot_be_made_fails_and_is_counted() {
    for (answer, counted, why) in [
        ("{{ index .Match 7 }}", (1, 0), "there is no element 7"),
        ("{{ .Name }} 60 IN A 300.0.0.1", (0, 1), "300.0.0.1"),
        ("", (0, 1), "not a record"),
    ] {
        let on = Arc::new(templates(&format!(
            "template IN A {{\n answer \"{answer}\"\n}}"
        )));
        let server = chain(vec![on.clone()], vec![]);
        let said = ask_request(&server, &mut request("a.test. A"));
        assert!(
            said.starts_with("SERVFAIL: ") && said.contains(why),
            "{said}"
        );
        assert_eq!(on.matches.get(&[".", "", "IN", "A"]), 1);
        let labels = [".", "", "IN", "A", "answer", answer];
        let failures = (on.failures.get(&labels), on.record_failures.get(&labels));
        assert_eq!(failures, counted, "{answer}");
    }
}

#[test]
fn extended_errors_go_with_the_reply() {
    let on = templates("template IN A {\n rcode REFUSED\n ederror 15 \"not for you\"\n}");
    let server = chain(vec![Arc::new(on)], vec![]);
    let outcome = Arc::clone(&server)
        .answer(&mut request("a. A"))
        .now_or_never()
        .unwrap();
    let Outcome::Reply(reply) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(reply.extended, [(15, "not for you".to_owned())]);
    assert_eq!(reply.rcode, Rcode::REFUSED);
}

#[test]
fn types_and_classes_without_a_name_are_counted_as_other() {
    for (name, before, want) in [
        ("TYPE65000", "TYPE", "other"),
        ("A", "TYPE", "A"),
        ("TYPEX", "TYPE", "TYPEX"),
        ("CLASS7", "CLASS", "other"),
        ("IN", "CLASS", "IN"),
    ] {
        assert_eq!(label(name, before), want, "{name}");
    }
}

//! Tests of the directives that look at questions: `rewrite`, `autopath`, `acl`, `template`, `dns64`, `local`,
//! `metadata`.

use dns::{Rcode, Rtype};

use crate::config::tests::{block, faults, name, shown, warnings};
use crate::config::{
    Acl, AclAction, AnswerRule, Autopath, Dns64, EdnsAction, EdnsValue, Local, Metadata, NameMatch,
    RewriteField, RewriteRule, SearchPath, Template, Variable,
};

#[test]
fn acl_has_zones_types_and_nets() {
    let server = block(
        "acl a.test B.test {\n allow type A AAAA net 10.0.0.0/8 fd00::1\n BLOCK net 192.0.2.1 type *\n drop\n}\nacl",
    );
    let acls = &server.all::<Acl>().collect::<Vec<_>>();
    assert_eq!(shown(&acls[0].zones), ["a.test.", "b.test."]);
    assert_eq!(shown(&acls[1].zones), ["cluster.local."]);
    let [allow, block, drop] = acls[0].policies.as_slice() else {
        panic!("{acls:?}");
    };
    assert_eq!(allow.types, Some(vec![Rtype::A, Rtype::AAAA]));
    assert_eq!(allow.nets.as_ref().map(Vec::len), Some(2));
    assert_eq!((block.action, &block.types), (AclAction::Block, &None));
    assert_eq!((drop.types.as_ref(), drop.nets.as_ref()), (None, None));
    assert_eq!(
        faults(
            "acl {\n allow type\n block type a BOGUS\n filter net 10.0.0.0/33 x\n drop all\n deny\n}"
        ),
        [
            "2:8: 'type' has no values",
            "3:13: 'a' is not a type",
            "3:15: 'BOGUS' is not a type",
            "4:13: '10.0.0.0/33' is not a range of addresses",
            "4:25: 'x' is not a range of addresses",
            "5:7: 'all' is neither type nor net",
            "6:2: acl has no option 'deny'",
        ]
    );
}

#[test]
fn autopath_has_a_file_or_the_cluster() {
    let server =
        block("kubernetes {\n manifests m\n pods verified\n}\nautopath a.test @kubernetes");
    let autopath = server.get::<Autopath>().unwrap();
    assert_eq!(shown(&autopath.zones), ["a.test."]);
    assert_eq!(autopath.path, SearchPath::Cluster);
    let said = warnings(". {\n autopath @kubernetes\n}");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("autopath has no effect: this block has no kubernetes"));
    let said = faults("autopath\nautopath @etcd\nautopath no-such-file");
    assert!(
        said[0].starts_with("1:1: autopath has no search path"),
        "{said:?}"
    );
    assert!(
        said.iter()
            .any(|it| it == "2:10: autopath: etcd gives no search path"),
        "{said:?}"
    );
    assert!(
        said.iter()
            .any(|it| it.contains("'no-such-file' cannot be read")),
        "{said:?}"
    );
}

#[test]
fn a_search_path_is_that_of_the_last_line_that_gives_one() {
    let read = |text: &str| shown(&crate::config::search_names(text));
    assert_eq!(
        read("nameserver 1.2.3.4\nsearch A.test b.test.\n"),
        ["a.test.", "b.test."]
    );
    assert_eq!(read("search a b\ndomain c d\n"), ["c."]);
    assert_eq!(
        read("domain c\n search a\t b\noptions ndots:5"),
        ["a.", "b."]
    );
    assert_eq!(read("# search a\n;search b"), Vec::<String>::new());
}

#[test]
fn rewrite_has_fields_kinds_and_answers() {
    let server = block(
        "rewrite name A.test b.test\nrewrite continue name regex (.*)\\.a {1}.b answer name x y value z w\n\
         rewrite ttl suffix a 5-10\nrewrite rcode a 3 refused\nrewrite cname prefix A b\n\
         rewrite edns0 local set 0xffee {a/b} revert\nrewrite {\n type ANY HINFO\n}",
    );
    let rules = &server.all::<RewriteRule>().collect::<Vec<_>>();
    let stops: Vec<bool> = rules.iter().map(|rule| rule.stops).collect();
    assert_eq!(stops, [true, false, true, true, true, true, true]);
    let RewriteField::Name(first) = &rules[0].field else {
        panic!("{rules:?}");
    };
    assert_eq!(first.names, NameMatch::Exact("a.test.".to_owned()));
    let RewriteField::Name(second) = &rules[1].field else {
        panic!("{rules:?}");
    };
    assert_eq!(second.to, "{1}.b.");
    assert!(matches!(
        &second.answers[..],
        [AnswerRule::Name(..), AnswerRule::Value(..)]
    ));
    assert!(matches!(
        &rules[2].field,
        RewriteField::Ttl {
            least: 5,
            most: 10,
            ..
        }
    ));
    assert!(matches!(
        &rules[3].field,
        RewriteField::Rcode {
            from: Rcode(3),
            to: Rcode(5),
            ..
        }
    ));
    let RewriteField::Cname { targets, to } = &rules[4].field else {
        panic!("{rules:?}");
    };
    assert_eq!(
        (targets, to.as_str()),
        (&NameMatch::Prefix("a".to_owned()), "b")
    );
    let RewriteField::Edns(edns) = &rules[5].field else {
        panic!("{rules:?}");
    };
    assert_eq!((edns.action, edns.option.code()), (EdnsAction::Set, 0xffee));
    let metadata = Variable::Metadata("a/b".to_owned());
    assert_eq!(edns.value, EdnsValue::Variable(metadata));
    assert!(server.uses_metadata());
    let said = warnings(". {\n rewrite name prefix pre- post-\n}");
    assert!(said[0].contains("has become \"pre-.\""), "{said:?}");
}

#[test]
fn rules_that_cannot_be_are_refused_at_their_words() {
    let long = "a".repeat(10_001);
    for (rule, want) in [
        ("", "rewrite has no field"),
        ("stop", "rewrite has no field"),
        ("nonsense a b", "rewrite has no field 'nonsense'"),
        (
            "answer name a b",
            "only a rule for names can rewrite answers",
        ),
        ("name a", "a rule for names has two words at least"),
        ("name wild a b", "'wild' is not a way to compare names"),
        (
            "name regex ( b",
            "'(' is not a regular expression: unclosed group",
        ),
        (
            "name regex a {1}",
            "'{1}' has more groups than its regular expression",
        ),
        ("name exact a b auto", "'auto' does not complete the rule"),
        ("name exact a b x answer", "'x' follows the names"),
        (
            "name exact a b answer other",
            "'other' is not a kind of answer",
        ),
        ("name exact a b answer name x", "'name' needs two words"),
        (
            "name suffix a b answer auto answer name x y",
            "answer auto excludes answer name",
        ),
        ("type A", "a rule for a type has two words, not 1"),
        ("type A BOGUS", "'BOGUS' is not a type"),
        ("class XX IN", "'XX' is not a class"),
        ("ttl a", "a rule of 1 words"),
        ("ttl a -", "'-' is neither a TTL nor a range of TTLs"),
        ("ttl a 9-5", "'9-5' is neither a TTL nor a range of TTLs"),
        ("rcode a 24 3", "'24' is not a response code"),
        ("rcode a BOGUS 3", "'BOGUS' is not a response code"),
        ("cname a", "a rule of 1 words"),
        (
            "edns0 local",
            "a rule for EDNS options needs an option and an action",
        ),
        ("edns0 local put 1 2", "'put' is not an action"),
        (
            "edns0 local set 70000 2",
            "'70000' is not a number up to 65535",
        ),
        ("edns0 local set 1 0x123", "'0x123' is not hexadecimal text"),
        (
            "edns0 local set 1 {nonsense}",
            "'{nonsense}' is not a variable",
        ),
        ("edns0 subnet set 33 56", "'33' is not a number up to 32"),
        ("edns0 nsid set 1", "'nsid' cannot have 1 arguments"),
        (
            &format!("name regex {long} b"),
            "a regular expression of 10001 characters",
        ),
    ] {
        let said = faults(&format!("rewrite {rule}"));
        assert!(
            said.len() == 1 && said[0].ends_with(want),
            "{rule}: {said:?}"
        );
    }
}

#[test]
fn template_has_patterns_records_and_a_code() {
    let server = block(
        "template IN A test {\n match ^a ^b\n answer \"{{ .Name }} A 10.0.0.1\"\n authority \"a NS b\"\n \
         rcode NXDOMAIN\n ederror 15 text\n fallthrough x.test\n upstream\n}",
    );
    let template = &server.get::<Template>().unwrap();
    assert_eq!(
        (template.patterns.len(), template.rcode),
        (2, Rcode::NXDOMAIN)
    );
    assert_eq!(template.extended, Some((15, "text".to_owned())));
    assert_eq!(template.fallthrough, [name("x.test")]);
    assert_eq!(template.records.each_ref().map(Vec::len), [1, 1, 0]);
    assert_eq!(
        faults(
            "template IN\ntemplate in A {\n match\n match (\n answer \"{{ .Nope }}\"\n rcode nxdomain\n \
             ederror x\n var a 1\n bogus\n}"
        ),
        [
            "1:1: template has no class and type",
            "2:10: 'in' is not a class",
            "3:2: match needs an argument",
            "4:8: '(' is not a regular expression: unclosed group",
            "5:9: answer: there is no .Nope, but .Zone .Name .Class .Type .Match .Group .Message .Question .Remote \
             .Regex .Meta (character 4)",
            "6:8: 'nxdomain' is not a response code",
            "7:10: 'x' is not a number up to 65535",
            "8:2: template var: not supported: a template may use the question and the groups of match: write the form of the names into the pattern of match, or forward them to a CoreDNS with this template",
            "9:2: template has no option 'bogus'",
        ]
    );
}

#[test]
fn dns64_local_and_metadata_have_their_options() {
    let server = block(
        "dns64 2001:db8::/32 {\n translate_all\n allow_ipv4\n}\nlocal {\n localhost_prefix off\n}\nmetadata a.test\n\
         log . \"{/a/b}\"",
    );
    let on = &server;
    let dns64 = on.get::<Dns64>().unwrap();
    assert_eq!(
        (dns64.prefix_octets, dns64.translates_all, dns64.allows_ipv4),
        (4, true, true)
    );
    assert!(!on.get::<Local>().unwrap().has_prefix);
    assert_eq!(shown(&on.get::<Metadata>().unwrap().zones), ["a.test."]);
    assert!(server.uses_metadata() && !block("metadata").uses_metadata());
    let labels = |text: &str| block(text).client_labels().collect::<Vec<_>>();
    let start = "kubernetes/client-label";
    assert_eq!(
        labels(&format!(
            "metadata\nlog . \"{{/{start}/app}} {{/kubernetes/kind}}\"\n\
             rewrite edns0 local set 65001 {{{start}/a.example/b}}\n\
             template IN A {{\n answer \"{{{{ .Name }}}} 60 IN TXT {{{{ .Meta `{start}/team` }}}}\"\n}}"
        )),
        ["app", "a.example/b", "team"]
    );
    assert!(labels("metadata\nlog").is_empty());
    assert_eq!(
        faults(
            "dns64 64:ff9b::/97\nlocal {\n localhost_prefix maybe\n other\n}\nmetadata {\n x\n}"
        ),
        [
            "1:7: '64:ff9b::/97' is not a prefix for IPv4 addresses",
            "3:19: 'maybe' is neither on nor off",
            "4:2: local has no option 'other'",
            "7:2: metadata has no option 'x'",
        ]
    );
}

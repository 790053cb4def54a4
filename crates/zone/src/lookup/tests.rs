//! What a version says, as one line per question.

use dns::testing::name;

use super::*;
use crate::testing::zone;

/// A zone with every case.
const LINES: &[&str] = &[
    "@ NS ns",
    "ns A 10.0.0.10",
    "www A 10.0.0.1",
    "www A 10.0.0.2",
    "a.b.c A 10.0.0.3",
    "alias CNAME www",
    "Double CNAME ALIAS",
    "dangling CNAME missing",
    "out CNAME www.elsewhere.",
    "ent CNAME b.c",
    "loop CNAME pool",
    "pool CNAME loop",
    "self CNAME self",
    "c1 CNAME c2",
    "c2 CNAME c3",
    "c3 CNAME c4",
    "c4 CNAME c5",
    "c5 CNAME c6",
    "c6 CNAME c7",
    "c7 CNAME c8",
    "c8 CNAME c9",
    "c9 CNAME www",
    "srv SRV 0 1 80 www",
    "srv SRV 0 1 81 www",
    "srv SRV 0 1 81 host.elsewhere.",
];

/// What an answer of a zone with these lines says.
fn said(
    apex: &str,
    lines: &[&str],
    qname: &str,
    qtype: &str,
    words: impl Fn(&Answer<'_>, &[u8]) -> Vec<String>,
) -> String {
    let zone = zone(apex, 1, lines);
    let version = zone.current().unwrap();
    let lower = name(qname).to_lower();
    let mut key = Vec::new();
    let redirects = Redirects::default();
    let qtype = qtype.parse().unwrap();
    let answer = lookup(&version, lower.as_wire(), qtype, &redirects, &mut key);
    words(&answer, lower.as_wire()).join(", ")
}

fn end_of(answer: &Answer<'_>) -> String {
    match answer.end {
        End::Data => "end".to_owned(),
        End::Alias(target) => format!("to {}", dns::Name::from_wire(target).unwrap()),
        End::NoData { .. } => "nodata".to_owned(),
        End::NxDomain { .. } => "nxdomain".to_owned(),
        End::Synthesized { .. } => "beside".to_owned(),
        End::Referral(_) => "referral".to_owned(),
        End::TooLong { .. } => "too long".to_owned(),
    }
}

/// The answer as text: owners and types, then what the SOA says.
fn ask(qname: &str, qtype: &str) -> String {
    said("z.", LINES, qname, qtype, |answer, _| {
        let links = answer.links().map(|link| {
            let owner = link.name.map_or("?".to_owned(), |wire| {
                dns::Name::from_wire(wire).unwrap().to_string()
            });
            match link.set {
                LinkSet::Soa => format!("{owner} SOA"),
                LinkSet::Rrset(rrset) => format!("{owner} {}*{}", rrset.rtype, rrset.count),
            }
        });
        links.chain([end_of(answer)]).collect()
    })
}

#[test]
fn answers_are_those_of_a_secondary() {
    for (qname, qtype, expected) in [
        ("www.z.", "A", "? A*2, end"),
        ("WWW.Z.", "A", "? A*2, end"),
        ("www.z.", "AAAA", "nodata"),
        ("missing.z.", "A", "nxdomain"),
        ("missing.z.", "SOA", "nxdomain"),
        ("z.", "SOA", "? SOA, end"),
        ("z.", "NS", "? NS*1, end"),
        ("z.", "A", "nodata"),
        ("www.z.", "SOA", "nodata"),
        // RFC 8482 section 4.1: one RRset.
        ("www.z.", "ANY", "? A*2, end"),
        ("z.", "ANY", "? NS*1, end"),
    ] {
        assert_eq!(ask(qname, qtype), expected, "{qname} {qtype}");
    }
}

/// RFC 8020 section 2: a name below which names exist is no NXDOMAIN.
#[test]
fn empty_non_terminals_are_no_data() {
    assert_eq!(ask("b.c.z.", "A"), "nodata");
    assert_eq!(ask("c.z.", "A"), "nodata");
    assert_eq!(ask("x.c.z.", "A"), "nxdomain");
    assert_eq!(ask("x.www.z.", "A"), "nxdomain");
}

#[test]
fn aliases_are_followed_within_the_zone() {
    assert_eq!(ask("alias.z.", "A"), "? CNAME*1, www.z. A*2, end");
    assert_eq!(
        ask("double.z.", "A"),
        "? CNAME*1, ALIAS.z. CNAME*1, www.z. A*2, end"
    );
    assert_eq!(ask("alias.z.", "CNAME"), "? CNAME*1, end");
    assert_eq!(ask("alias.z.", "ANY"), "? CNAME*1, end");
    assert_eq!(ask("alias.z.", "TXT"), "? CNAME*1, nodata");
    assert_eq!(ask("ent.z.", "A"), "? CNAME*1, nodata");
}

/// RFC 6604 section 3: the response code is that of the last name.
#[test]
fn a_missing_target_is_nxdomain_with_the_alias() {
    assert_eq!(ask("dangling.z.", "A"), "? CNAME*1, nxdomain");
}

#[test]
fn a_target_elsewhere_gives_the_bare_alias() {
    assert_eq!(ask("out.z.", "A"), "? CNAME*1, to www.elsewhere.");
}

#[test]
fn alias_loops_and_long_chains_end() {
    assert_eq!(
        ask("loop.z.", "A"),
        "? CNAME*1, pool.z. CNAME*1, to loop.z."
    );
    assert_eq!(ask("self.z.", "A"), "? CNAME*1, to self.z.");
    let long = ask("c1.z.", "A");
    assert_eq!(long.matches("CNAME").count(), MAX_ALIASES, "{long}");
    assert_eq!(ask("c2.z.", "A").matches("CNAME").count(), 8);
    assert!(ask("c2.z.", "A").ends_with("www.z. A*2, end"));
}

#[test]
fn names_beside_a_version_come_before_its_wildcards() {
    let zone = zone(
        "z.",
        1,
        &[
            "* A 192.0.2.1",
            "own A 192.0.2.2",
            "to CNAME x.b",
            "b TXT b",
        ],
    );
    let version = zone.current().unwrap();
    let end_of = |qname: &str| {
        let is_synthesized = |name: &[u8]| name.ends_with(b"\x01b\x01z\0");
        let lower = name(qname);
        let mut key = Vec::new();
        let redirects = Redirects::default();
        let answer = lookup_with_synthesized(
            &version,
            lower.as_wire(),
            Rtype::A,
            &redirects,
            &mut key,
            is_synthesized,
        );
        (answer.links().count(), end_of(&answer))
    };
    assert_eq!(end_of("x.b.z."), (0, "beside".to_owned()));
    assert_eq!(end_of("to.z."), (1, "beside".to_owned()));
    assert_eq!(end_of("b.z."), (0, "nodata".to_owned()));
    assert_eq!(end_of("own.z."), (1, "end".to_owned()));
    assert_eq!(end_of("x.z."), (1, "end".to_owned()));
}

#[test]
fn addresses_of_targets_are_given_once() {
    let zone = zone("z.", 1, LINES);
    let version = zone.current().unwrap();
    let additionals = |qname: &str, rtype| {
        let key = name(qname).sort_key(&name("z.")).unwrap();
        let node = version.contents.get(key.as_bytes()).unwrap();
        let mut lines = Vec::new();
        let mut scratch = Additionals::default();
        each_additional(&version, &node.rrset(rtype).unwrap(), &mut scratch, |rr| {
            lines.push(dns::RecordText(rr).to_string());
            true
        });
        lines
    };
    assert_eq!(
        additionals("srv.z.", Rtype::SRV),
        ["www.z. 60 IN A 10.0.0.1", "www.z. 60 IN A 10.0.0.2"]
    );
    assert_eq!(additionals("z.", Rtype::NS), ["ns.z. 60 IN A 10.0.0.10"]);
    assert!(additionals("www.z.", Rtype::A).is_empty());
}

/// The zone of RFC 4592 section 2.2.1, with an alias, and a cut with a cut below it.
const WILD: &[&str] = &[
    "@ NS ns",
    "* TXT wild",
    "* MX 10 host1",
    "sub.* TXT below",
    "host1 A 192.0.2.1",
    "_ssh._tcp.host1 SRV 0 0 22 host1",
    "_ssh._tcp.host2 SRV 0 0 22 host1",
    "subdel NS ns.subdel",
    "subdel NS ns.elsewhere.",
    "subdel DS 1",
    "ns.subdel A 192.0.2.9",
    "deep.subdel NS ns.elsewhere.",
    "*.subdel A 192.0.2.8",
    "*.alias CNAME a.subdel",
    "*.self CNAME x.self",
    "d.*.ent A 192.0.2.7",
];

/// As [`ask`], of [`WILD`].
fn ask_wild(qname: &str, qtype: &str) -> String {
    let shown = |wire: &[u8]| dns::Name::from_wire(wire).unwrap().to_string();
    let words = |answer: &Answer<'_>, lower: &[u8]| {
        let mut words: Vec<String> = answer
            .links()
            .map(|link| match link.set {
                LinkSet::Soa => "SOA".to_owned(),
                LinkSet::Rrset(rrset) => {
                    let owner = link.name.map_or("?".to_owned(), shown);
                    format!("{owner} {}", rrset.rtype)
                }
            })
            .collect();
        words.push(match answer.end {
            End::Referral(referral) => {
                let cut = &referral.below.unwrap_or(lower)[referral.skip..];
                format!("referral {}*{}", shown(cut), referral.servers.count)
            }
            End::Data
            | End::Alias(_)
            | End::NoData { .. }
            | End::NxDomain { .. }
            | End::TooLong { .. }
            | End::Synthesized { .. } => end_of(answer),
        });
        words
    };
    said("example.", WILD, qname, qtype, words)
}

/// RFC 4592 section 2.2.1, answer by answer.
#[test]
fn wildcards_answer_as_the_standard_shows() {
    for (qname, qtype, expected) in [
        ("host3.example.", "MX", "? MX, end"),
        ("host3.example.", "A", "nodata"),
        ("foo.bar.example.", "TXT", "? TXT, end"),
        ("host1.example.", "MX", "nodata"),
        ("sub.*.example.", "MX", "nodata"),
        ("_telnet._tcp.host1.example.", "SRV", "nxdomain"),
        ("host.subdel.example.", "A", "referral subdel.example.*2"),
        ("ghost.*.example.", "MX", "nxdomain"),
        ("*.example.", "TXT", "? TXT, end"),
        // The closest encloser of this is host2, which exists by what is below it.
        ("x.host2.example.", "TXT", "nxdomain"),
        ("host2.example.", "TXT", "nodata"),
        // Section 2.2.2: the wildcard exists by what is below it.
        ("x.ent.example.", "A", "nodata"),
        ("example.", "TXT", "nodata"),
        ("x.self.example.", "A", "? CNAME, to x.self.example."),
    ] {
        assert_eq!(ask_wild(qname, qtype), expected, "{qname} {qtype}");
    }
}

#[test]
fn at_and_below_a_cut_the_answer_is_a_referral() {
    for (qname, qtype, expected) in [
        ("subdel.example.", "NS", "referral subdel.example.*2"),
        ("SUBDEL.example.", "A", "referral subdel.example.*2"),
        ("ns.subdel.example.", "A", "referral subdel.example.*2"),
        ("a.b.subdel.example.", "SOA", "referral subdel.example.*2"),
        ("x.deep.subdel.example.", "A", "referral subdel.example.*2"),
        // RFC 4035 section 3.1.4.1: the DS of a cut stands above it.
        ("subdel.example.", "DS", "? DS, end"),
        ("x.subdel.example.", "DS", "referral subdel.example.*2"),
        ("deep.subdel.example.", "DS", "referral subdel.example.*2"),
        (
            "x.alias.example.",
            "A",
            "? CNAME, referral subdel.example.*2",
        ),
        ("example.", "NS", "? NS, end"),
    ] {
        assert_eq!(ask_wild(qname, qtype), expected, "{qname} {qtype}");
    }
}

/// Checks questions to a zone of these lines: name, type, what is said.
fn check_redirected(lines: &[&str], cases: &[(&str, &str, &str)]) {
    for (qname, qtype, expected) in cases {
        let said = redirected("z.", lines, qname, qtype);
        assert_eq!(said, *expected, "{qname} {qtype}");
    }
}

/// A zone with every case of DNAME.
const REDIRECTED: &[&str] = &[
    "@ NS ns.elsewhere.",
    "a DNAME b",
    "a TXT own",
    "x.b A 192.0.2.1",
    "x.b A 192.0.2.2",
    "y.b CNAME x.a",
    "c CNAME x.a",
    "out DNAME elsewhere.",
    "l1 DNAME l2",
    "l2 DNAME l1",
    "self DNAME self",
    "down DNAME down.down",
    "to-cut DNAME cut",
    "cut NS ns.elsewhere.",
    "below.cut DNAME b",
    "*.wild DNAME b",
    "end DNAME .",
];

/// The answer as text, with the owner of each RRset and the data of aliases.
fn redirected(apex: &str, lines: &[&str], qname: &str, qtype: &str) -> String {
    said(apex, lines, qname, qtype, |answer, lower| {
        let links = answer.links().map(|link| {
            let LinkSet::Rrset(rrset) = link.set else {
                return "SOA".to_owned();
            };
            let owner = link.owner(lower);
            let mut records = rrset.records(owner, 0);
            let first = records.next().unwrap();
            match rrset.rtype {
                Rtype::CNAME | Rtype::DNAME => {
                    dns::RecordText(first).to_string().replace(" IN", "")
                }
                _ => format!("{} {}*{}", shown(owner), rrset.rtype, rrset.count),
            }
        });
        links.chain([end_of(answer)]).collect()
    })
}

fn shown(wire: &[u8]) -> String {
    dns::Name::from_wire(wire).unwrap().to_string()
}

/// RFC 6672 sections 2.2, 2.3 and 3.2.
#[test]
fn names_below_a_dname_are_redirected() {
    let cases = [
        (
            "x.a.z.",
            "A",
            "a.z. 60 DNAME b.z., x.a.z. 60 CNAME x.b.z., x.b.z. A*2, end",
        ),
        (
            "x.a.z.",
            "AAAA",
            "a.z. 60 DNAME b.z., x.a.z. 60 CNAME x.b.z., nodata",
        ),
        (
            "n.m.a.z.",
            "A",
            "a.z. 60 DNAME b.z., n.m.a.z. 60 CNAME n.m.b.z., nxdomain",
        ),
        // "not redirected itself"
        ("a.z.", "TXT", "a.z. TXT*1, end"),
        ("a.z.", "A", "nodata"),
        ("a.z.", "DNAME", "a.z. 60 DNAME b.z., end"),
        (
            "x.a.z.",
            "DNAME",
            "a.z. 60 DNAME b.z., x.a.z. 60 CNAME x.b.z., nodata",
        ),
        (
            "x.a.z.",
            "CNAME",
            "a.z. 60 DNAME b.z., x.a.z. 60 CNAME x.b.z., end",
        ),
        (
            "n.m.a.z.",
            "CNAME",
            "a.z. 60 DNAME b.z., n.m.a.z. 60 CNAME n.m.b.z., end",
        ),
        (
            "x.self.z.",
            "CNAME",
            "self.z. 60 DNAME self.z., x.self.z. 60 CNAME x.self.z., end",
        ),
        (
            "x.a.z.",
            "DS",
            "a.z. 60 DNAME b.z., x.a.z. 60 CNAME x.b.z., nodata",
        ),
    ];
    check_redirected(REDIRECTED, &cases);
}

#[test]
fn aliases_and_dnames_lead_to_each_other() {
    let cases = [
        (
            "y.a.z.",
            "A",
            "a.z. 60 DNAME b.z., y.a.z. 60 CNAME y.b.z., y.b.z. 60 CNAME x.a.z., a.z. 60 DNAME b.z., \
             x.a.z. 60 CNAME x.b.z., x.b.z. A*2, end",
        ),
        (
            "c.z.",
            "A",
            "c.z. 60 CNAME x.a.z., a.z. 60 DNAME b.z., x.a.z. 60 CNAME x.b.z., x.b.z. A*2, end",
        ),
        (
            "w.out.z.",
            "A",
            "out.z. 60 DNAME elsewhere., w.out.z. 60 CNAME w.elsewhere., to w.elsewhere.",
        ),
        (
            "w.end.z.",
            "A",
            "end.z. 60 DNAME ., w.end.z. 60 CNAME w., to w.",
        ),
        (
            "w.to-cut.z.",
            "A",
            "to-cut.z. 60 DNAME cut.z., w.to-cut.z. 60 CNAME w.cut.z., referral",
        ),
        ("x.below.cut.z.", "A", "referral"),
        // RFC 6672 section 3.3: a wildcard gives the record, it does not redirect.
        ("q.wild.z.", "DNAME", "q.wild.z. 60 DNAME b.z., end"),
        ("q.wild.z.", "A", "nodata"),
        ("x.q.wild.z.", "A", "nodata"),
        (
            "x.*.wild.z.",
            "A",
            "*.wild.z. 60 DNAME b.z., x.*.wild.z. 60 CNAME x.b.z., x.b.z. A*2, end",
        ),
    ];
    check_redirected(REDIRECTED, &cases);
}

#[test]
fn a_dname_at_the_apex_redirects_all_names_but_the_apex() {
    let lines = &["@ NS ns.y.", "@ DNAME y."];
    let cases = [
        ("a.z.", "A", "z. 60 DNAME y., a.z. 60 CNAME a.y., to a.y."),
        ("z.", "NS", "z. NS*1, end"),
        ("z.", "SOA", "SOA, end"),
        ("z.", "A", "nodata"),
    ];
    check_redirected(lines, &cases);
}

#[test]
fn loops_of_dnames_end() {
    assert_eq!(
        redirected("z.", REDIRECTED, "x.l1.z.", "A"),
        "l1.z. 60 DNAME l2.z., x.l1.z. 60 CNAME x.l2.z., l2.z. 60 DNAME l1.z., x.l2.z. 60 CNAME x.l1.z., to x.l1.z."
    );
    assert_eq!(
        redirected("z.", REDIRECTED, "x.self.z.", "A"),
        "self.z. 60 DNAME self.z., x.self.z. 60 CNAME x.self.z., to x.self.z."
    );
    let long = redirected("z.", REDIRECTED, "x.down.z.", "A");
    assert_eq!(long.matches("CNAME").count(), MAX_ALIASES, "{long}");
}

/// RFC 6672 section 2.2: "the result is a name of more than 255 octets: YXDOMAIN", with the DNAME.
#[test]
fn a_name_that_becomes_too_long_is_yxdomain() {
    let label = "l".repeat(63);
    let target = format!("a DNAME {label}.{label}.{label}");
    let lines = &["@ NS ns.y.", target.as_str()];
    // 3 * 64 octets, `z` and the root make 195: 60 are left.
    for (octets, is_long) in [(59, false), (60, true)] {
        let said = redirected("z.", lines, &format!("{}.a.z.", "q".repeat(octets)), "A");
        assert_eq!(said.ends_with("too long"), is_long, "{said}");
        assert_eq!(said.contains("CNAME"), !is_long, "{said}");
        assert!(said.starts_with("a.z. 60 DNAME"), "{said}");
    }
}

#[test]
fn a_zone_knows_whether_it_has_wildcards_cuts_and_dnames() {
    let version = zone("example.", 1, WILD).current().unwrap();
    let mut contents = version.contents.clone();
    assert!(contents.has_wildcards() && contents.has_cuts_or_dnames());
    let special: Vec<Vec<u8>> = contents
        .nodes()
        .filter(|node| node.is_wildcard() || node.is_cut())
        .map(|node| node.key().to_vec())
        .collect();
    assert_eq!(special.len(), 6);
    for key in &special {
        assert!(contents.has_wildcards() || contents.has_cuts_or_dnames());
        contents.remove(key);
    }
    assert!(!contents.has_wildcards() && !contents.has_cuts_or_dnames());
    let version = zone("z.", 1, &["@ DNAME y."]).current().unwrap();
    assert!(version.contents.has_cuts_or_dnames());
    let version = zone("z.", 1, LINES).current().unwrap();
    assert!(!version.contents.has_wildcards() && !version.contents.has_cuts_or_dnames());
}

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
    let answer = lookup(&version, lower.as_wire(), qtype.parse().unwrap(), &mut key);
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
    }
}

/// The answer as text: owners and types, then what the SOA says.
fn ask(qname: &str, qtype: &str) -> String {
    said("z.", LINES, qname, qtype, |answer, _| {
        let links = answer.links().map(|link| {
            let owner = link.owner.map_or("?".to_owned(), |wire| {
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
        let answer = lookup_with_synthesized(
            &version,
            lower.as_wire(),
            Rtype::A,
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
                    let owner = link.owner.map_or("?".to_owned(), shown);
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

#[test]
fn a_zone_knows_whether_it_has_wildcards_and_cuts() {
    let version = zone("example.", 1, WILD).current().unwrap();
    let mut contents = version.contents.clone();
    assert!(contents.has_wildcards() && contents.has_cuts());
    let special: Vec<Vec<u8>> = contents
        .nodes()
        .filter(|node| node.is_wildcard() || node.is_cut())
        .map(|node| node.key().to_vec())
        .collect();
    assert_eq!(special.len(), 6);
    for key in &special {
        assert!(contents.has_wildcards() || contents.has_cuts());
        contents.remove(key);
    }
    assert!(!contents.has_wildcards() && !contents.has_cuts());
    let version = zone("z.", 1, LINES).current().unwrap();
    assert!(!version.contents.has_wildcards() && !version.contents.has_cuts());
}

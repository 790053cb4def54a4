//! Tests that our printed form reads back, and that no text causes a panic.

use super::*;

/// A character string: its length and its octets.
fn string(octets: &[u8]) -> Vec<u8> {
    [&[u8::try_from(octets.len()).unwrap()][..], octets].concat()
}

/// Data of the types whose text is the library's.
fn any_library_rdata() -> impl Strategy<Value = (Rtype, Rdata)> {
    let text = proptest::collection::vec(any::<u8>(), 0..9);
    let of = |number: u16, octets: Vec<u8>| (Rtype(number), Rdata::from_octets(&octets).unwrap());
    let keys = proptest::sample::select(vec![43_u16, 44, 48, 52]);
    let key = (keys, proptest::collection::vec(any::<u8>(), 6..40));
    let hardware = (text.clone(), text.clone());
    let authority = (any::<u8>(), "[a-z0-9]{1,8}", text);
    prop_oneof![
        key.prop_map(move |(number, octets)| of(number, octets)),
        hardware.prop_map(move |(cpu, os)| of(13, [string(&cpu), string(&os)].concat())),
        authority.prop_map(move |(flags, tag, value)| {
            of(257, [vec![flags], string(tag.as_bytes()), value].concat())
        }),
    ]
}

/// Data of types with and without a text form of ours.
fn any_rdata() -> impl Strategy<Value = (Rtype, Rdata)> {
    let any_name = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..9), 0..4);
    let any_name = any_name.prop_map(|labels| {
        labels.iter().fold(Name::root(), |name, label| {
            name.child_octets(label).unwrap()
        })
    });
    let octets = proptest::collection::vec(any::<u8>(), 0..40);
    let strings = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 1..4);
    let strings = strings.prop_map(|strings| {
        let wire: Vec<u8> = strings
            .iter()
            .flat_map(|string| [&[u8::try_from(string.len()).unwrap()][..], string].concat())
            .collect();
        Rdata::from_octets(&wire).unwrap()
    });
    prop_oneof![
        any::<[u8; 4]>().prop_map(|octets| Rdata::address(octets.into())),
        any::<[u8; 16]>().prop_map(|octets| Rdata::address(octets.into())),
        (
            any_name.clone(),
            prop_oneof![Just(Rtype::PTR), Just(Rtype(1000))]
        )
            .prop_map(|(name, rtype)| (rtype, Rdata::name(&name))),
        (any::<(u16, u16, u16)>(), any_name)
            .prop_map(|((a, b, c), name)| (Rtype::SRV, Rdata::srv(a, b, c, &name))),
        strings.prop_map(|rdata| (Rtype::TXT, rdata)),
        any_library_rdata(),
        octets.prop_map(|octets| (Rtype(65280), Rdata::from_octets(&octets).unwrap())),
    ]
}

proptest! {
    /// Law: a printed record reads back as the same record.
    #[test]
    fn a_printed_record_reads_back(
        labels in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 1..4),
        ttl in 0u32..=0x7fff_ffff,
        (rtype, rdata) in any_rdata(),
    ) {
        let owner = labels.iter().fold(Name::parse("z.").unwrap(), |name, label| {
            name.child_octets(label).unwrap()
        });
        let record = Record { owner, rtype, ttl: Ttl::decode(ttl), rdata };
        let text = RecordText(record.view()).to_string();
        let content = read_files(&[("main", text.as_bytes())], Role::Overlay).content;
        let content = content.map_err(|bad| TestCaseError::fail(format!("{text}\n{bad}")))?;
        prop_assert_eq!(lines(&content), vec![text]);
        let apex: Name = "z.".parse().unwrap();
        let node = &content.nodes()[0];
        let owner = node.owner_wire(&apex);
        let again = node.records(&owner, 0).next().unwrap().to_record();
        prop_assert_eq!(again.owner.as_wire(), record.owner.as_wire());
        prop_assert_eq!(again, record);
    }

    /// Any text gives a result and never a panic, and every problem has a place.
    #[test]
    fn any_text_is_read_or_refused_with_places(text in "([a-z@$.()\";\\\\ \n\t0-9#*]|IN|TXT|SOA|\\$GENERATE 1-2|\\$TTL){0,60}") {
        let reading = read_files(&[("main", text.as_bytes())], Role::Overlay);
        if let Err(bad) = reading.content {
            prop_assert!(bad.problems.iter().all(|problem| problem.spot.line > 0), "{}", bad);
        }
    }
}

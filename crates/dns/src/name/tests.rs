//! Names and their keys: text, wire, order.

use proptest::prelude::*;

use super::*;
use crate::SortKey;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

#[test]
fn text_forms_read_back() {
    for text in [
        ".",
        "a.",
        "a.b.c.",
        "a\\.b.c.",
        "\\000x.y.",
        "\\\"q.",
        "_http._tcp.s.n.svc.z.",
    ] {
        assert_eq!(name(text).to_string(), text);
    }
    assert_eq!(name("\\097.b").to_string(), "a.b.");
}

#[test]
fn relative_names_take_the_origin() {
    let origin = name("example.org.");
    assert_eq!(
        Name::parse_in("www", &origin).unwrap(),
        name("www.example.org.")
    );
    assert_eq!(Name::parse_in("@", &origin).unwrap(), origin);
    assert_eq!(Name::parse_in("www.", &origin).unwrap(), name("www."));
}

#[test]
fn malformed_text_is_refused() {
    let long_label = "a".repeat(64);
    let long_name = format!("{}.", vec!["abcdefg"; 32].join("."));
    for (text, want) in [
        ("a..b", ParseError::EmptyLabel("a..b".into())),
        (".a", ParseError::EmptyLabel(".a".into())),
        (&long_label, ParseError::LongLabel(long_label.clone())),
        (&long_name, ParseError::LongName(long_name.clone())),
        ("a\\25", ParseError::BadEscape("a\\25".into())),
        ("a\\256", ParseError::BadEscape("a\\256".into())),
        ("a\\", ParseError::BadEscape("a\\".into())),
        ("", ParseError::Empty),
    ] {
        assert_eq!(Name::parse(text), Err(want));
    }
    assert!(Name::parse(&"a".repeat(63)).is_ok());
}

#[test]
fn equality_folds_case_and_text_keeps_it() {
    assert_eq!(name("MiXed.Case."), name("mixed.case."));
    assert_eq!(name("MiXed.Case.").to_string(), "MiXed.Case.");
}

/// RFC 4034 section 6.1 gives this order.
#[test]
fn order_is_canonical() {
    let sorted = [
        "example.",
        "a.example.",
        "yljkjljk.a.example.",
        "Z.a.example.",
        "zABC.a.EXAMPLE.",
        "z.example.",
        "\\001.z.example.",
        "*.z.example.",
        "\\200.z.example.",
    ];
    for pair in sorted.windows(2) {
        assert!(
            name(pair[0]) < name(pair[1]),
            "{} before {}",
            pair[0],
            pair[1]
        );
    }
}

#[test]
fn reverse_names_are_those_of_the_rfcs() {
    assert_eq!(
        Name::reverse_of("10.2.3.4".parse().unwrap()).to_string(),
        "4.3.2.10.in-addr.arpa."
    );
    assert_eq!(
        Name::reverse_of("2001:db8::1".parse().unwrap()).to_string(),
        "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa."
    );
}

#[test]
fn what_is_not_quite_a_reverse_name_has_no_address() {
    let address = |text: &str| name(text).reversed_address();
    let four = Some("10.0.0.1".parse().unwrap());
    assert_eq!(address("1.0.0.10.IN-addr.arpa."), four);
    for text in [
        ".",
        "arpa.",
        "0.0.10.in-addr.arpa.",
        "0.1.0.0.10.in-addr.arpa.",
        "256.0.0.10.in-addr.arpa.",
        "01.0.0.10.in-addr.arpa.",
        "+1.0.0.10.in-addr.arpa.",
        "1.0.0.10.in-addr.example.",
        "1.0.0.10.ip6.arpa.",
        "g.ip6.arpa.",
    ] {
        assert_eq!(address(text), None, "{text}");
    }
    let six = Name::reverse_of("2001:db8::1".parse().unwrap()).to_string();
    for (whole, other) in [("1.0", "g.0"), ("1.0", "10.0"), ("ip6", "in-addr")] {
        assert_eq!(address(&six.replacen(whole, other, 1)), None, "{other}");
    }
}

proptest! {
    #[test]
    fn a_reverse_name_gives_its_address_back(address in any::<IpAddr>(), upper in any::<bool>()) {
        let text = Name::reverse_of(address).to_string();
        let text = if upper { text.to_ascii_uppercase() } else { text };
        prop_assert_eq!(name(&text).reversed_address(), Some(address));
    }
}

#[test]
fn pointers_must_point_back() {
    assert_eq!(Name::decode(&[0xc0, 0], 0), Err(DecodeError::Pointer));
    assert_eq!(
        Name::decode(&[1, b'a', 0xc0, 0], 0),
        Err(DecodeError::Pointer)
    );
    assert_eq!(Name::decode(&[0x40, 0], 0), Err(DecodeError::LabelType));
    assert_eq!(Name::decode(&[3, b'a'], 0), Err(DecodeError::Short));
    let message = [1, b'z', 0, 1, b'a', 0xc0, 0, 9];
    assert_eq!(Name::decode(&message, 3), Ok((name("a.z."), 7)));
}

/// A message has room for 8 000 pointers that point back, and for thousands of names that begin at the last one.
#[test]
fn a_chain_of_pointers_is_followed_so_far_and_no_further() {
    let mut message = vec![1, b'z', 0, 0xc0, 0];
    for place in (3..16_000_u16).step_by(2) {
        message.extend_from_slice(&(0xc000 | place).to_be_bytes());
    }
    let behind = |pointers: usize| 3 + 2 * (pointers - 1);
    let decoded = Name::decode(&message, behind(126));
    assert_eq!(decoded, Ok((name("z."), behind(127))));
    for pointers in [127, 8000] {
        let decoded = Name::decode(&message, behind(pointers));
        assert_eq!(decoded, Err(DecodeError::Pointers), "{pointers}");
    }
}

/// Any name, as labels of any octets.
pub(super) fn any_name() -> impl Strategy<Value = Name> {
    let label = prop::collection::vec(any::<u8>(), 1..12);
    prop::collection::vec(label, 0..8).prop_map(|labels| {
        labels.iter().fold(Name::root(), |name, label| {
            name.child_octets(label).unwrap()
        })
    })
}

/// RFC 1035 section 4.1.4, and 126 pointers at most: the name's wire form, and where what is behind it begins. A pointer
/// leads to a place before the labels that it ends.
fn decode_plainly(octets: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let (mut wire, mut end, mut first, mut pointers) = (Vec::new(), None, at, 0);
    loop {
        let length = *octets.get(at)?;
        if length >= 0xc0 {
            let low = *octets.get(at + 1)?;
            end = end.or(Some(at + 2));
            at = usize::from(u16::from_be_bytes([length & 0x3f, low]));
            pointers += 1;
            if at >= first || pointers > 126 {
                return None;
            }
            first = at;
            continue;
        }
        if length > 63 {
            return None;
        }
        let behind = at + 1 + usize::from(length);
        wire.extend_from_slice(octets.get(at..behind)?);
        at = behind;
        if length == 0 {
            return (wire.len() <= 255).then_some((wire, end.unwrap_or(behind)));
        }
    }
}

proptest! {
    #[test]
    fn text_and_wire_read_back(name in any_name()) {
        let text = Name::parse(&name.to_string()).unwrap();
        prop_assert_eq!(text.as_wire(), name.as_wire());
        let wire = Name::decode(name.as_wire(), 0).unwrap().0;
        prop_assert_eq!(wire.as_wire(), name.as_wire());
    }

    #[test]
    fn keys_give_the_name_back_in_lower_case(name in any_name()) {
        let key = name.sort_key(&Name::root()).unwrap();
        let mut wire = Vec::new();
        SortKey::write_wire(key.as_bytes(), &mut wire);
        wire.push(0);
        let lower = name.to_lower();
        prop_assert_eq!(wire.as_slice(), lower.as_wire());
    }

    #[test]
    fn key_order_is_canonical_order(left in any_name(), right in any_name()) {
        // The definition itself: labels from the right, octet by octet in lower case, an absent octet first.
        let canonical = |name: &Name| -> Vec<Vec<u8>> {
            let mut labels: Vec<_> = name.labels().map(<[u8]>::to_ascii_lowercase).collect();
            labels.reverse();
            labels
        };
        prop_assert_eq!(left.cmp(&right), canonical(&left).cmp(&canonical(&right)));
    }

    #[test]
    fn any_octets_decode_as_rfc_1035_says_or_not_at_all(
        octets in prop::collection::vec(prop_oneof![0u8..5, 0xc0u8..0xc2, any::<u8>()], 0..80),
        at in 0usize..90,
    ) {
        let decoded = Name::decode(&octets, at).map(|(name, end)| (name.as_wire().to_vec(), end));
        prop_assert_eq!(decoded.ok(), decode_plainly(&octets, at));
    }
}

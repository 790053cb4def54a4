//! Which expressions are selectors, and what they select.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Whether a selector wants an object with these labels (`a=1,b=`).
fn wants(selector: &str, labels: &str) -> bool {
    let labels: BTreeMap<&str, &str> = labels
        .split(',')
        .filter_map(|label| label.split_once('='))
        .collect();
    let selector = Selector::parse(selector).unwrap_or_else(|error| panic!("{selector}: {error}"));
    selector.matches(|key| labels.get(key).copied())
}

#[test]
fn each_operator_means_what_the_api_means() {
    for (selector, wanted, unwanted) in [
        ("", &["", "a=1"][..], &[][..]),
        ("a", &["a=", "a=1"], &["", "b=1"]),
        ("!a", &["", "b=1"], &["a=", "a=1"]),
        ("a=1", &["a=1", "a=1,b=2"], &["", "a=2", "a=", "b=1"]),
        ("a==1", &["a=1"], &["a=2"]),
        ("a!=1", &["", "a=2", "b=1"], &["a=1"]),
        ("a in (1,2)", &["a=1", "a=2"], &["", "a=3", "a="]),
        ("a notin (1,2)", &["", "a=3", "a="], &["a=1", "a=2"]),
        ("a=", &["a="], &["", "a=1"]),
        ("a in ()", &["a="], &["", "a=1"]),
        ("a in (,1)", &["a=", "a=1"], &["", "a=2"]),
        ("a in (1,,2)", &["a=", "a=1", "a=2"], &["a=3"]),
        ("a=1,!b", &["a=1"], &["a=1,b=2", ""]),
        ("a=1,a=2", &[], &["a=1", "a=2", ""]),
        ("in in (in,notin)", &["in=in", "in=notin"], &["in=1"]),
        ("in", &["in=1"], &[""]),
        ("a=in", &["a=in"], &["a=1"]),
        ("! a", &[""], &["a=1"]),
        (" \ta\nin\r( 1 , 2 ) ", &["a=1"], &["a=3"]),
        (
            "example.org/a=B_c.d-E",
            &["example.org/a=B_c.d-E"],
            &["example.org/a=b_c.d-e"],
        ),
    ] {
        for labels in wanted {
            assert!(wants(selector, labels), "{selector:?} wants {labels:?}");
        }
        for labels in unwanted {
            assert!(!wants(selector, labels), "{selector:?} wants no {labels:?}");
        }
    }
}

#[test]
fn what_is_no_selector_is_refused_with_what_is_wrong() {
    for (text, want) in [
        ("=1", "'=' where a key is expected"),
        ("a,", "the end where a key is expected"),
        (",a", "',' where a key is expected"),
        (
            "a b",
            "'b' where =, ==, !=, in, notin, ',' or the end is expected",
        ),
        ("a=1 b", "'b' where ',' or the end is expected"),
        ("!a=1", "'=' where ',' or the end is expected"),
        ("!!a", "'!' where a key is expected"),
        ("a=!", "'!' where a value is expected"),
        ("a=(1)", "'(' where a value is expected"),
        ("a in 1", "'1' where '(' is expected"),
        ("a in (1", "the end where ',' or ')' is expected"),
        ("a in (1 2)", "'2' where ',' or ')' is expected"),
        ("a in", "the end where '(' is expected"),
        ("a notin (=)", "'=' where ',' or ')' is expected"),
        (
            "a IN (1)",
            "'IN' where =, ==, !=, in, notin, ',' or the end is expected",
        ),
    ] {
        assert_eq!(
            Selector::parse(text).unwrap_err().to_string(),
            want,
            "{text}"
        );
    }
    let long = "x".repeat(64);
    for key in [
        "-a", "a-", "a/b/c", "/a", "a/", "A.b/c", "a..b/c", "a_b/c", "a\"", &long,
    ] {
        let error = Selector::parse(key).unwrap_err();
        assert_eq!(error, SelectorError::Key(key.to_owned()));
    }
    let prefix = format!("{}/a", "x".repeat(254));
    assert!(matches!(
        Selector::parse(&prefix),
        Err(SelectorError::Key(_))
    ));
    for value in ["-1", "1-", "a/b", "ü", &long] {
        let error = Selector::parse(&format!("a={value}")).unwrap_err();
        assert_eq!(error, SelectorError::Value(value.to_owned()));
        let error = Selector::parse(&format!("a in (b,{value})")).unwrap_err();
        assert_eq!(error, SelectorError::Value(value.to_owned()));
    }
    for (text, sign) in [("a>1", '>'), ("a<1", '<')] {
        assert_eq!(
            Selector::parse(text).unwrap_err(),
            SelectorError::Order(sign)
        );
    }
    let longest = format!("{}/{}={}", "x".repeat(253), "y".repeat(63), "z".repeat(63));
    assert!(Selector::parse(&longest).is_ok());
}

#[test]
fn a_selector_is_written_the_same_however_it_was_read() {
    for (text, want) in [
        ("", ""),
        ("b == 2 , a", "a,b=2"),
        ("a in (2,1,2)", "a in (1,2)"),
        ("a in (1)", "a=1"),
        ("a notin (1)", "a!=1"),
        ("a notin ()", "a!="),
        ("!a,!a", "!a"),
        ("a in (,x)", "a in (,x)"),
    ] {
        assert_eq!(Selector::parse(text).unwrap().to_string(), want, "{text}");
    }
}

/// A requirement as it may be written, and what it says of the value of its key.
fn any_requirement() -> impl Strategy<Value = (String, String, Vec<String>, usize)> {
    let key = prop_oneof![Just("a"), Just("b.c/in"), Just("in"), Just("notin")];
    let value = prop_oneof![Just(""), Just("1"), Just("in"), Just("x-Y_z.0")];
    let values = prop::collection::vec(value.prop_map(str::to_owned), 1..4);
    (
        key,
        values,
        0..7usize,
        prop_oneof![Just(""), Just(" "), Just("\t ")],
    )
        .prop_map(|(key, values, form, space)| {
            let text = match form {
                0 => format!("{key}{space}"),
                1 => format!("!{space}{key}"),
                2 => format!("{key}{space}={space}{}", values[0]),
                3 => format!("{key}{space}=={space}{}", values[0]),
                4 => format!("{key}{space}!={space}{}", values[0]),
                5 => format!("{key} in{space}({})", values.join(&format!("{space},"))),
                _ => format!("{key} notin{space}({})", values.join(&format!(",{space}"))),
            };
            (text, key.to_owned(), values, form)
        })
}

proptest! {
    /// What is written means the same when it is read again, and what the requirements say one by one.
    #[test]
    fn what_is_read_is_what_was_meant(
        requirements in prop::collection::vec(any_requirement(), 1..4),
        labels in prop::collection::btree_map(
            prop_oneof![Just("a"), Just("b.c/in"), Just("in")],
            prop_oneof![Just(""), Just("1"), Just("in")],
            0..3,
        ),
    ) {
        let text: Vec<&str> = requirements.iter().map(|(text, ..)| text.as_str()).collect();
        let selector = Selector::parse(&text.join(",")).unwrap();
        let again = Selector::parse(&selector.to_string()).unwrap();
        prop_assert_eq!(&again, &selector);
        let met = requirements.iter().all(|(_, key, values, form)| {
            let found = labels.get(key.as_str());
            let among = |found: &&str| match form {
                2..=4 => *found == values[0],
                _ => values.iter().any(|value| value == found),
            };
            match form {
                0 => found.is_some(),
                1 => found.is_none(),
                2 | 3 | 5 => found.is_some_and(among),
                _ => found.is_none_or(|found| !among(found)),
            }
        });
        prop_assert_eq!(selector.matches(|key| labels.get(key).copied()), met);
    }

    /// Nothing makes the reader panic; what it reads it can write.
    #[test]
    fn any_text_is_read_or_refused(text in "[a-c!=,() <>\"in\n-]{0,12}") {
        if let Ok(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()).unwrap(), selector);
        }
    }
}

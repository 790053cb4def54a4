//! Tests of the directive `transfer`, and of the choice among several.

use crate::config::tests::{block, config, faults, name, shown, warnings};
use crate::config::{Apex, History, Peer, Transfer};

#[test]
fn transfer_names_secondaries_and_others() {
    let server = block(
        "kubernetes\ntsig {\n secret K MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n}\ntransfer {\n to 192.0.2.1 [2001:db8::1]:54 key k\n \
         to 192.0.2.2\n allow 10.0.0.1/8 ::1\n allow * key k.\n source 192.0.2.9\n source 2001:db8::9\n}",
    );
    let transfer = &server.get::<Transfer>().unwrap();
    let to = transfer
        .secondaries
        .iter()
        .map(|to| (to.address.to_string(), shown(&to.keys)));
    let key = || vec!["k.".to_owned()];
    let want = [
        ("192.0.2.1:53", key()),
        ("[2001:db8::1]:54", key()),
        ("192.0.2.2:53", vec![]),
    ];
    assert_eq!(
        to.collect::<Vec<_>>(),
        want.map(|(address, keys)| (address.to_owned(), keys))
    );
    let allowed = |text: &str| {
        let address = text.parse().unwrap();
        transfer
            .allow
            .iter()
            .filter(|allow| allow.keys.is_empty())
            .any(|a| a.peer.contains(address))
    };
    assert!(allowed("10.255.0.1") && allowed("::1") && allowed("::ffff:10.0.0.1"));
    assert!(!allowed("11.0.0.1") && !allowed("::2"));
    assert_eq!(transfer.allow[2].peer, Peer::Anyone);
    assert_eq!(shown(&transfer.allow[2].keys), ["k."]);
    let source = |text: &str| {
        transfer
            .source_for(text.parse().unwrap())
            .unwrap()
            .to_string()
    };
    assert_eq!(
        (source("1.2.3.4").as_str(), source("::1").as_str()),
        ("192.0.2.9", "2001:db8::9")
    );
}

#[test]
fn transfer_to_all_is_a_warning_unless_a_key_is_asked_for() {
    let text = "a {\n kubernetes\n transfer {\n to *\n }\n}\n";
    assert_eq!(
        warnings(text),
        [
            "Corefile:4:5: to * allows every peer to transfer, and notifies none; name the secondaries' \
         addresses, or add a key"
        ]
    );
    let transfer = config(text).servers[0].get::<Transfer>().unwrap().clone();
    assert!(transfer.secondaries.is_empty() && transfer.allow[0].peer == Peer::Anyone);
    let keyed = "a {\n kubernetes\n tsig {\n secret k MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n }\n transfer {\n to * key k\n }\n}\n";
    assert_eq!(warnings(keyed), [""; 0]);
}

#[test]
fn an_address_of_a_link_says_which() {
    let server = block("kubernetes\ntransfer {\n to fe80::1%7\n allow fe80::2%9 fe80::/10\n}");
    let transfer = &server.get::<Transfer>().unwrap();
    let to = transfer.secondaries[0].address.to_string();
    assert_eq!(to, "[fe80::1%7]:53");
    let links: Vec<u32> = transfer.allow.iter().map(|allow| allow.link).collect();
    assert_eq!(links, [9, 0]);
}

#[test]
fn a_line_that_lets_in_what_another_one_asks_a_key_for_is_a_warning() {
    let of = |lines: &str| {
        let tsig = "tsig {\n secret k MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n }\n";
        warnings(&format!(
            "a {{\n kubernetes\n {tsig} transfer {{\n {lines}\n }}\n}}\n"
        ))
    };
    assert_eq!(
        of("to 192.0.2.1 key k\n allow 192.0.2.0/24"),
        [
            "Corefile:8:8: a peer at 192.0.2.1 needs a key in line 7, but not in this line; write the same key and tls on both, or remove one line"
        ]
    );
    let within = of("allow 192.0.2.0/24 key k\n allow 192.0.2.128/25");
    assert!(
        within[0].contains("a peer at 192.0.2.128 needs a key"),
        "{within:?}"
    );
    let named = of("allow 192.0.2.1 tls ns.example\n allow 192.0.2.0/24 tls");
    let want = "needs a certificate with a name in line 7";
    // The block has other faults, as it has no TLS.
    assert!(named.iter().any(|it| it.contains(want)), "{named:?}");
    let two = of("to 192.0.2.1:54\n to 192.0.2.1:55 key k");
    assert_eq!(two.len(), 1, "two servers at one address: {two:?}");
    for of_link in [
        "to fe80::1%2:54 key k\n allow fe80::1%2",
        "to fe80::1%2 key k\n allow fe80::/10",
    ] {
        let of_link = of_link.replace("fe80::1%2:54", "[fe80::1%2]:54");
        assert_eq!(of(&of_link).len(), 1, "{of_link}");
    }
    for fine in [
        "to 192.0.2.1 key k\n to 192.0.2.2",
        "to 192.0.2.1 key k\n allow 10.0.0.0/8",
        "allow 192.0.2.0/24 key k\n allow 192.0.2.1 key k",
        "to fe80::1%2 key k\n to fe80::1%3",
        "to fe80::1%2 key k\n allow fe80::1%3",
    ] {
        assert_eq!(of(fine), [""; 0], "{fine}");
    }
}

#[test]
fn nobody_can_be_told_at_such_an_address() {
    for (line, want) in [
        (
            "to 0.0.0.0",
            "2:4: to: '0.0.0.0' is not the address of a server",
        ),
        (
            "to ff02::1",
            "2:4: to: 'ff02::1' is not the address of a server",
        ),
        (
            "to 224.0.0.1",
            "2:4: to: '224.0.0.1' is not the address of a server",
        ),
        (
            "to fe80::1",
            "2:4: to: 'fe80::1' is link-local, but names no interface",
        ),
        (
            "to fe80::1%no-such",
            "2:4: to: 'fe80::1%no-such' is not an address: there is no interface no-such here",
        ),
        (
            "allow fe80::1%no-such",
            "2:7: allow: 'fe80::1%no-such' is not an address: there is no interface no-such here",
        ),
        (
            "to 2001:db8::1%lo",
            "2:4: to: '2001:db8::1%lo' is not an address: only a link-local address (fe80::…) has a link",
        ),
        (
            "allow 2001:db8::1%lo",
            "2:7: allow: '2001:db8::1%lo' is not an address: only a link-local address (fe80::…) has a link",
        ),
    ] {
        let said = faults(&format!("transfer {{\n{line}\n}}"));
        assert_eq!(said, [want], "{line}");
    }
}

#[test]
fn transfer_is_checked() {
    for (line, want) in [
        ("to", "2:1: to needs an argument"),
        (
            "to ns1.example.org",
            "2:4: to: 'ns1.example.org' is not an address",
        ),
        ("to 10.0.0.0/8", "2:4: to: '10.0.0.0/8' is not an address"),
        (
            "to 192.0.2.1 192.0.2.1:53",
            "2:14: to 192.0.2.1:53 is already in line 3",
        ),
        (
            "to 192.0.2.1 tls a b",
            "2:20: 'b' is one name too many after tls",
        ),
        (
            "allow * tls a_b/c",
            "2:13: 'a_b/c' cannot be the name in a certificate",
        ),
        (
            "to 192.0.2.1\ntls x",
            "3:5: tls: 'x' is one argument too many",
        ),
        (
            "to tls://192.0.2.1",
            "2:4: tls://: not supported: NOTIFY goes over UDP and TCP; `tls` after an address is for its transfers",
        ),
        ("to 192.0.2.1 key", "2:14: key has no name"),
        ("to key k", "2:1: to has no address"),
        (
            "to 192.0.2.1 key k",
            "2:4: no tsig on this listener has the key k.",
        ),
        (
            "allow x",
            "2:7: allow: 'x' is neither an address nor a range",
        ),
        (
            "allow 10.0.0.0/33",
            "2:7: allow: '10.0.0.0/33' is neither an address nor a range",
        ),
        (
            "to 192.0.2.1\nsource x",
            "3:8: source 'x': not an IP address",
        ),
        (
            "to 192.0.2.1\nsource ::1\nsource ::2",
            "4:1: there is already a source of this family",
        ),
        ("to 192.0.2.1\nfrom x", "3:1: transfer has no option 'from'"),
    ] {
        assert_eq!(
            faults(&format!("transfer {{\n{line}\n}}")),
            [want],
            "{line}"
        );
    }
    assert_eq!(faults("transfer"), ["1:1: transfer names no peer"]);
}

#[test]
fn of_two_transfers_for_one_zone_the_first_counts() {
    let text = "a {\n kubernetes\n transfer {\n to ::1\n }\n transfer a {\n to ::2\n }\n}\n";
    let said = warnings(text);
    let want = "6:2: a. already has a transfer in line 3, which counts";
    assert!(said.iter().any(|line| line.contains(want)), "{said:?}");
    let server = config(text).servers.remove(0);
    let secondaries = &server.for_zone::<Transfer>(&name("a")).unwrap().secondaries;
    assert_eq!(secondaries[0].address.to_string(), "[::1]:53");
}

#[test]
fn the_closest_directive_counts() {
    let text = ". {\n kubernetes a.b c\n transfer {\n to 192.0.2.1\n }\n transfer b {\n to 192.0.2.2\n }\n \
                apex a.b {\n ttl 1\n }\n apex b {\n ttl 2\n }\n history c {\n versions 3\n }\n}\n";
    let server = config(text).servers.remove(0);
    let to = |zone: &str| {
        server
            .for_zone::<Transfer>(&name(zone))
            .unwrap()
            .secondaries[0]
            .address
            .ip()
            .to_string()
    };
    assert_eq!(
        [to("a.b"), to("B"), to("c"), to("ab")],
        ["192.0.2.2", "192.0.2.2", "192.0.2.1", "192.0.2.1"]
    );
    let ttl = |zone: &str| {
        server
            .for_zone::<Apex>(&name(zone))
            .map(|apex| apex.ttl.unwrap().seconds())
    };
    assert_eq!([ttl("x.a.b"), ttl("b"), ttl("c")], [Some(1), Some(2), None]);
    assert!(
        server.for_zone::<History>(&name("c")).is_some()
            && server.for_zone::<History>(&name("b")).is_none()
    );
}

#[test]
fn a_directive_for_no_zone_of_its_block_is_warned_about() {
    assert_eq!(
        warnings("a {\n kubernetes\n history b {\n versions 1\n }\n}\n"),
        [
            "Corefile:3:2: history names no zone of this block; name one of the zones of \
         kubernetes"
        ]
    );
}

#[test]
fn two_at_one_address_that_sign_alike_are_a_warning() {
    let of = |lines: &str| {
        let tsig = "tsig {\n secret k MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n secret l MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n }\n";
        warnings(&format!(
            "a {{\n kubernetes\n {tsig} transfer {{\n {lines}\n }}\n}}\n"
        ))
    };
    let said = |port: &str, place: &str| {
        format!(
            "Corefile:{place}: to 192.0.2.1:{port} and 192.0.2.1:53 of line 8 look the same when they transfer; give each its own key"
        )
    };
    assert_eq!(
        of("to 192.0.2.1 key k\n to 192.0.2.1:54 key l k"),
        [said("54", "9:5")]
    );
    assert_eq!(of("to 192.0.2.1 192.0.2.1:54"), [said("54", "8:15")]);
    for apart in [
        "to 192.0.2.1 key k\n to 192.0.2.1:54 key l",
        "to 192.0.2.1 192.0.2.2:54 key k",
        "to fe80::1%7\n to fe80::1%8",
    ] {
        assert_eq!(of(apart), [""; 0], "{apart}");
    }
}

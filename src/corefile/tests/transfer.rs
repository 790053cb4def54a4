//! The directives `transfer` and `tsig`, and which of several counts for a zone.

use std::fs;

use super::{block, config, faults, name, read, shown, warnings};
use crate::corefile::{Peer, read_keys_again};
use crate::dns::tsig::Algorithm;

#[test]
fn transfer_names_secondaries_and_others() {
    let server = block(
        "kubernetes\ntsig {\n secret K c2VjcmV0\n}\ntransfer {\n to 192.0.2.1 [2001:db8::1]:54 key k\n \
         to 192.0.2.2\n allow 10.0.0.1/8 ::1\n allow * key k.\n source 192.0.2.9\n source 2001:db8::9\n}",
    );
    let transfer = &server.transfers[0];
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
            "Corefile:4:5: to * gives the zones to anyone and notifies nobody; name the secondaries' \
         addresses, or add a key"
        ]
    );
    let transfer = &config(text).servers[0].transfers[0];
    assert!(transfer.secondaries.is_empty() && transfer.allow[0].peer == Peer::Anyone);
    let keyed =
        "a {\n kubernetes\n tsig {\n secret k c2VjcmV0\n }\n transfer {\n to * key k\n }\n}\n";
    assert_eq!(warnings(keyed), [""; 0]);
}

#[test]
fn an_address_of_a_link_says_which() {
    let server = block("kubernetes\ntransfer {\n to fe80::1%7\n allow fe80::2%9 fe80::/10\n}");
    let transfer = &server.transfers[0];
    let to = transfer.secondaries[0].address.to_string();
    assert_eq!(to, "[fe80::1%7]:53");
    let links: Vec<u32> = transfer.allow.iter().map(|allow| allow.link).collect();
    assert_eq!(links, [9, 0]);
}

#[test]
fn a_line_that_lets_in_what_another_one_asks_a_key_for_is_a_warning() {
    let of = |lines: &str| {
        let tsig = "tsig {\n secret k c2VjcmV0\n }\n";
        warnings(&format!(
            "a {{\n kubernetes\n {tsig} transfer {{\n {lines}\n }}\n}}\n"
        ))
    };
    assert_eq!(
        of("to 192.0.2.1 key k\n allow 192.0.2.0/24"),
        [
            "Corefile:8:8: whoever comes from 192.0.2.1 needs a key by line 7 and none by this; write the same key \
             and tls on both, or take one line out"
        ]
    );
    let two = of("to 192.0.2.1:54\n to 192.0.2.1:55 key k");
    assert_eq!(two.len(), 1, "two servers at one address: {two:?}");
    for fine in [
        "to 192.0.2.1 key k\n to 192.0.2.2",
        "to 192.0.2.1 key k\n allow 10.0.0.0/8",
        "allow 192.0.2.0/24 key k\n allow 192.0.2.1 key k",
    ] {
        assert_eq!(of(fine), [""; 0], "{fine}");
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
            "2:14: to 192.0.2.1:53 stands already in line 3",
        ),
        (
            "to 192.0.2.1 tls a b",
            "2:20: 'b' is one name too many behind tls",
        ),
        (
            "allow * tls a_b/c",
            "2:13: 'a_b/c' is no name of a certificate",
        ),
        (
            "to 192.0.2.1\ntls x",
            "3:5: tls: 'x' is one argument too many",
        ),
        ("to 0.0.0.0", "2:4: to: '0.0.0.0' is no server's address"),
        (
            "to ff02::1%lo",
            "2:4: to: 'ff02::1%lo' is no server's address",
        ),
        (
            "to 224.0.0.1",
            "2:4: to: '224.0.0.1' is no server's address",
        ),
        (
            "to fe80::1",
            "2:4: to: 'fe80::1' is of a link, and does not say of which",
        ),
        (
            "to fe80::1%no-such",
            "2:4: to: 'fe80::1%no-such' is not an address",
        ),
        ("to tls://192.0.2.1", "2:4: tls://: not supported yet"),
        ("to 192.0.2.1 key", "2:14: key names no key"),
        ("to key k", "2:1: to names no address"),
        (
            "to 192.0.2.1 key k",
            "2:4: no tsig on this listener has the key k.",
        ),
        ("allow x", "2:7: allow: 'x' is no address and no range"),
        (
            "allow 10.0.0.0/33",
            "2:7: allow: '10.0.0.0/33' is no address and no range",
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
    assert_eq!(faults("transfer"), ["1:1: transfer names nobody"]);
    let twice = "transfer {\n to ::1\n}\ntransfer a . {\n to ::2\n}";
    assert_eq!(
        faults(twice),
        ["4:1: there is a transfer for . in line 2 already"]
    );
}

#[test]
fn the_closest_directive_counts() {
    let text = ". {\n kubernetes a.b c\n transfer {\n to 192.0.2.1\n }\n transfer b {\n to 192.0.2.2\n }\n \
                apex a.b {\n ttl 1\n }\n apex b {\n ttl 2\n }\n history c {\n versions 3\n }\n}\n";
    let server = config(text).servers.remove(0);
    let to = |zone: &str| {
        server.transfer_for(&name(zone)).unwrap().secondaries[0]
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
            .apex_for(&name(zone))
            .map(|apex| apex.ttl.unwrap().seconds())
    };
    assert_eq!([ttl("x.a.b"), ttl("b"), ttl("c")], [Some(1), Some(2), None]);
    assert!(server.history_for(&name("c")).is_some() && server.history_for(&name("b")).is_none());
}

#[test]
fn a_directive_for_no_zone_of_its_block_is_warned_about() {
    assert_eq!(
        warnings("a {\n kubernetes\n history b {\n versions 1\n }\n}\n"),
        [
            "Corefile:3:2: history is for no zone that this block writes; name one of the zones of \
         kubernetes"
        ]
    );
}

#[test]
fn keys_have_algorithms_and_are_of_the_listener() {
    let text = "a {\n tsig {\n secret K1 c2VjcmV0\n secret k2. c2VjcmV0 HMAC-SHA512.\n }\n}\n\
                b {\n kubernetes\n transfer {\n to ::1 key k1\n }\n}\nc:54 {\n}\n";
    let servers = config(text).servers;
    let keys: Vec<_> = servers[1]
        .keys
        .iter()
        .map(|k| (k.name.to_string(), k.algorithm))
        .collect();
    assert_eq!(
        keys,
        [
            ("k1.".to_owned(), Algorithm::Sha256),
            ("k2.".to_owned(), Algorithm::Sha512)
        ]
    );
    assert_eq!(servers[0].keys, servers[1].keys);
    assert!(servers[2].keys.is_empty());
    assert_eq!(
        servers[0].key(&name("k1")).unwrap().secret.expose(),
        b"secret"
    );
}

#[test]
fn one_key_may_stand_twice_but_not_two_of_one_name() {
    let tsig = |secret: &str| format!("tsig {{\n secret k {secret}\n }}\n");
    let text = |port: u16, secret: &str| {
        format!(
            "a {{\n {} }}\nb:{port} {{\n {} }}\n",
            tsig("c2VjcmV0"),
            tsig(secret)
        )
    };
    assert_eq!(config(&text(53, "c2VjcmV0")).servers[1].keys.len(), 1);
    assert_eq!(config(&text(54, "c2VjcmV1")).servers[1].keys.len(), 1);
    let said = read(&text(53, "c2VjcmV1")).unwrap_err();
    assert!(
        said.to_string()
            .contains("another key k. stands at Corefile:3:9"),
        "{said}"
    );
}

/// What comes of a key file: its keys' names and algorithms, and what is said with `FILE` for its name.
fn key_file(text: &str) -> (Vec<(String, Algorithm)>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    match read(&format!(". {{\n tsig {{\n secrets {file}\n }}\n}}\n")) {
        Ok(loaded) => {
            let keys = loaded.config.servers[0].keys.iter();
            (
                keys.map(|key| (key.name.to_string(), key.algorithm))
                    .collect(),
                Vec::new(),
            )
        }
        Err(rejected) => {
            let said = rejected.problems.iter();
            let said = said.map(|p| format!("{}: {}", p.place, p.message).replace(&file, "FILE"));
            (Vec::new(), said.collect())
        }
    }
}

#[test]
fn key_files_are_read_again_and_checked_as_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let write = |text: &str| fs::write(&file, text).unwrap();
    let key = |name: &str, secret: &str| {
        format!("key {name} {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n")
    };
    write(&key("old", "c2VjcmV0"));
    let file_name = file.display().to_string();
    let text = format!(
        "z {{\n kubernetes\n tsig {{\n secret fixed c2VjcmV0\n secrets {file_name}\n }}\n transfer \
         {{\n to ::1 key old\n }}\n}}\n"
    );
    let config = config(&text);
    let again = || {
        let names = |keys: Vec<crate::corefile::TsigKey>| {
            let names = keys.iter().map(|key| key.name.to_string());
            names.collect::<Vec<_>>()
        };
        read_keys_again(&[&config.servers[0]])
            .map(names)
            .map_err(|problems| {
                let said = problems.iter().map(ToString::to_string);
                let said: Vec<_> = said.map(|line| line.replace(&file_name, "FILE")).collect();
                said.join("\n")
            })
    };
    assert_eq!(again(), Ok(vec!["fixed.".to_owned(), "old.".to_owned()]));
    write(&format!("{}{}", key("old", "AAAA"), key("new", "c2VjcmV0")));
    assert_eq!(
        again().unwrap(),
        ["fixed.".to_owned(), "old.".to_owned(), "new.".to_owned()]
    );
    // A key that is still in use may not go.
    write(&key("new", "c2VjcmV0"));
    let said = again().unwrap_err();
    assert!(
        said.starts_with("Corefile:8:5: no tsig on this listener has the key old."),
        "{said}"
    );
    write(&format!("{}{}", key("old", "AAAA"), key("fixed", "AAAA")));
    let said = again().unwrap_err();
    assert!(
        said.starts_with("FILE:2:5: another key fixed. stands at Corefile:4:9"),
        "{said}"
    );
    write("key old {\n algorithm hmac-sha256;\n secret \"c2Vj\n");
    let said = again().unwrap_err();
    assert!(
        said.contains("FILE:3:9: this quote is never closed"),
        "{said}"
    );
    assert!(!said.contains("c2Vj"), "{said}");
    fs::remove_file(&file).unwrap();
    let said = again().unwrap_err();
    assert!(said.contains("cannot read the key file"), "{said}");
}

#[test]
fn key_files_are_read_as_bind_writes_them() {
    let text = "// one\n# two\n/* three\n * \"/ four **/key \"A.b\" {\n  algorithm hmac-sha256;\n  secret \
                \"c2VjcmV0\";\n};\nkey c { secret c2VjcmV0; algorithm HMAC-SHA1; }; /**/\n";
    let (keys, said) = key_file(text);
    assert_eq!(said, [""; 0]);
    assert_eq!(
        keys,
        [
            ("a.b.".to_owned(), Algorithm::Sha256),
            ("c.".to_owned(), Algorithm::Sha1)
        ]
    );
}

#[test]
fn key_files_are_checked_with_their_own_places() {
    for (text, want) in [
        ("", vec!["FILE:1:1: no key in this file"]),
        (
            "key k { algorithm hmac-md5; secret c2VjcmV; };",
            vec![
                "FILE:1:19: no such algorithm for a key",
                "FILE:1:36: the secret is not base64",
            ],
        ),
        (
            "key k {\n};",
            vec![
                "FILE:1:5: this key has no algorithm",
                "FILE:1:5: this key has no secret",
            ],
        ),
        (
            "options { a b; };\nkey k { secret c2VjcmV0; };",
            vec![
                "FILE:1:1: a key file has only key statements",
                "FILE:2:5: this key has no algorithm",
            ],
        ),
        (
            "key k { algorithm hmac-sha1 secret c2VjcmV0; };",
            vec!["FILE:1:29: ';' is missing before this"],
        ),
        (
            "key k { algorithm hmac-sha1; secret c2VjcmV0; }",
            vec!["FILE:1:47: ';' is missing after this"],
        ),
        (
            "key { };",
            vec!["FILE:1:5: the key's name is missing before this"],
        ),
        (
            "key k { algorithm ; secret c2VjcmV0; };",
            vec![
                "FILE:1:5: this key has no algorithm",
                "FILE:1:9: a value is missing here",
            ],
        ),
        (
            "key k { algorithm hmac-sha1; secret \"c2Vj",
            vec![
                "FILE:1:37: ';' is missing after this",
                "FILE:1:37: '}' is missing after this",
                "FILE:1:37: this quote is never closed",
            ],
        ),
        (
            "/* key",
            vec![
                "FILE:1:1: no key in this file",
                "FILE:1:3: this comment is never closed",
            ],
        ),
    ] {
        assert_eq!(key_file(text).1, want, "{text}");
    }
    let missing = faults("tsig {\n secrets none/keys\n}");
    assert!(
        missing[0].starts_with("2:10: cannot read the key file 'none/keys': "),
        "{missing:?}"
    );
}

#[test]
fn tsig_is_checked_and_never_repeats_a_secret() {
    for (line, want) in [
        (
            "secret k",
            "2:1: secret takes two or three arguments, there are 1",
        ),
        (
            "secret k hmac-sha256 U0VDUkVU",
            "2:10: the secret is not base64",
        ),
        (
            "secret k U0VDUkVU hmac-md5",
            "2:19: no such algorithm for a key",
        ),
        ("secret k U0VDUkV", "2:10: the secret is not base64"),
        ("secret k \"\"", "2:10: the secret is empty"),
        (
            "secret a..U0VDUkVU U0VDUkVU",
            "2:8: this word is not a domain name",
        ),
        ("U0VDUkVU", "2:1: tsig has no such option"),
        ("require AXFR", "2:1: tsig require: not supported yet"),
        (
            "require_opcode all",
            "2:1: tsig require_opcode: not supported yet",
        ),
        ("secrets", "2:1: secrets needs an argument"),
    ] {
        let got = faults(&format!("tsig {{\n{line}\n}}"));
        assert!(got.contains(&want.to_owned()), "{line}: {got:?}");
        assert!(
            !got.iter().any(|said| said.contains("U0VDUkV")),
            "{line}: {got:?}"
        );
    }
    assert_eq!(faults("tsig"), ["1:1: tsig names no key"]);
    // A line that ends up elsewhere is not repeated either.
    for text in [
        "a {\n}\nsecret k U0VDUkVU/+..\n}\n",
        ". {\n log\n secret k U0VDUkVU { \n}\n",
    ] {
        let said = read(text).unwrap_err();
        assert!(!format!("{said} {said:?}").contains("U0VDUkVU"), "{said}");
    }
    let server = block("tsig {\n secret k U0VDUkVU\n}");
    assert!(
        !format!("{server:?}").contains("U0VDUkVU") && !format!("{server:?}").contains("SECRET")
    );
}

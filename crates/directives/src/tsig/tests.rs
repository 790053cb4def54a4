//! Tests of the directive `tsig` and of key files.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dns::tsig::Algorithm;

use crate::config::read_keys_again;
use crate::config::tests::{block, config, faults, name, read, warnings};

#[test]
fn keys_have_algorithms_and_are_of_the_listener() {
    let text = "a {\n tsig {\n secret K1 c2VjcmV0\n secret k2. c2VjcmV0 HMAC-SHA512.\n }\n}\n\
                b {\n kubernetes\n transfer {\n to ::1 key k1\n }\n}\nc:54 {\n}\n";
    let servers = config(text).servers;
    let keys: Vec<_> = servers[1]
        .keys()
        .map(|k| (k.name.to_string(), k.algorithm))
        .collect();
    assert_eq!(
        keys,
        [
            ("k1.".to_owned(), Algorithm::Sha256),
            ("k2.".to_owned(), Algorithm::Sha512)
        ]
    );
    assert_eq!(
        servers[0].keys().collect::<Vec<_>>(),
        servers[1].keys().collect::<Vec<_>>()
    );
    assert!(servers[2].keys().collect::<Vec<_>>().is_empty());
    assert_eq!(
        servers[0].key(&name("k1")).unwrap().secret.expose(),
        b"secret"
    );
}

#[test]
fn a_secret_shorter_than_its_hash_is_a_warning() {
    // security, further findings: five bytes passed without a word.
    let base64 = |octets: usize| STANDARD.encode(vec![7; octets]);
    for (octets, algorithm, is_short) in [
        (5, "hmac-sha256", true),
        (31, "hmac-sha256", true),
        (32, "hmac-sha256", false),
        (32, "hmac-sha512", true),
        (64, "hmac-sha512", false),
        (20, "hmac-sha1", false),
    ] {
        let secret = base64(octets);
        let text = format!("a {{\n tsig {{\n secret k {secret} {algorithm}\n }}\n}}\n");
        let said = warnings(&text);
        let is_said = said.iter().any(|line| line.contains("bytes, fewer than"));
        assert_eq!(is_said, is_short, "{octets} {algorithm}: {said:?}");
        assert!(!said.concat().contains(&secret), "{said:?}");
    }
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
    assert_eq!(config(&text(53, "c2VjcmV0")).servers[1].keys().count(), 1);
    assert_eq!(config(&text(54, "c2VjcmV1")).servers[1].keys().count(), 1);
    let said = read(&text(53, "c2VjcmV1")).unwrap_err();
    assert!(
        said.to_string()
            .contains("there is another key k. at Corefile:3:9"),
        "{said}"
    );
}

/// Reads a key file: the names and algorithms of its keys, and the problems, in which `FILE` is its name.
fn key_file(text: &str) -> (Vec<(String, Algorithm)>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    match read(&format!(". {{\n tsig {{\n secrets {file}\n }}\n}}\n")) {
        Ok(loaded) => {
            let keys = loaded.config.servers[0].keys();
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
        let names = |keys: Vec<crate::config::TsigKey>| {
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
    // A key that is still in use cannot be removed.
    write(&key("new", "c2VjcmV0"));
    let said = again().unwrap_err();
    assert_eq!(
        said,
        "Corefile:8:5: no tsig on this listener has the key old.; add to FILE: key \"old.\" { algorithm hmac-sha256; secret \"BASE64\"; };"
    );
    write(&format!("{}{}", key("old", "AAAA"), key("fixed", "AAAA")));
    let said = again().unwrap_err();
    assert!(
        said.starts_with("FILE:2:5: there is another key fixed. at Corefile:4:9"),
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
        ("", vec!["FILE:1:1: this file has no key"]),
        (
            "key k { algorithm hmac-md5; secret c2VjcmV; };",
            vec![
                "FILE:1:19: not an algorithm for a key",
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
                "FILE:1:1: a key file may have only key statements",
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
                "FILE:1:1: this file has no key",
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
            "2:19: not an algorithm for a key",
        ),
        ("secret k U0VDUkV", "2:10: the secret is not base64"),
        ("secret k \"\"", "2:10: the secret is empty"),
        (
            "secret a..U0VDUkVU U0VDUkVU",
            "2:8: this word is not a domain name",
        ),
        ("U0VDUkVU", "2:1: tsig has no such option"),
        (
            "require AXFR",
            "2:1: tsig require: not supported: the keys of transfers are named in transfer (`to ADDRESS key NAME`), and queries need no signature: limit them with acl, or by client certificates (`tls`)",
        ),
        (
            "require_opcode all",
            "2:1: tsig require_opcode: not supported: the keys of transfers are named in transfer (`to ADDRESS key NAME`), and queries need no signature: limit them with acl, or by client certificates (`tls`)",
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
    assert_eq!(faults("tsig"), ["1:1: tsig has no key"]);
    // A word on the wrong line is not repeated either.
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

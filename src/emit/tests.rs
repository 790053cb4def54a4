//! The text of each configuration. Tests with real servers show that they accept it.

use clap::ValueEnum;

use super::*;

/// A secondary with a key, a catalog and a zone beside it.
fn feed() -> Feed {
    Feed {
        listen: "192.0.2.53:53".parse().unwrap(),
        primaries: vec!["192.0.2.1:5300".parse().unwrap()],
        notifiers: vec!["192.0.2.2".parse().unwrap()],
        key: Some(FeedKey {
            name: "transfer.key.".parse().unwrap(),
            algorithm: "hmac-sha256",
            secret: PLACEHOLDER.to_owned(),
        }),
        tls: None,
        zones: vec!["example.org.".parse().unwrap()],
        catalogs: vec!["catalog.invalid.".parse().unwrap()],
        folder: None,
        zones_only: false,
    }
}

#[test]
fn zones_alone_have_no_setting_of_the_server() {
    let feed = Feed {
        zones_only: true,
        ..feed()
    };
    for software in Software::value_variants() {
        let text = feed.configuration(*software);
        for part in ["example.org", "192.0.2.1"] {
            assert!(text.contains(part), "{software:?} {part}\n{text}");
        }
        for setting in [
            "options {",
            "listen:",
            "database:",
            "zonesdir",
            "interface:",
            "local-address",
            "launch",
        ] {
            assert!(!text.contains(setting), "{software:?} {setting}\n{text}");
            // Each is one of some software.
            let whole = Feed {
                zones_only: false,
                ..feed.clone()
            };
            let mut all = Software::value_variants().iter();
            assert!(
                all.any(|it| whole.configuration(*it).contains(setting)),
                "{setting}"
            );
        }
    }
    let over_tls = Feed {
        tls: Some(FeedTls {
            name: "dns.example".to_owned(),
            own: None,
        }),
        ..feed
    };
    assert!(over_tls.why_not_alone(Software::Nsd).is_some());
    assert_eq!(over_tls.why_not_alone(Software::Bind), None);
}

#[test]
fn every_software_is_told_of_its_zones_and_of_us() {
    for software in Software::value_variants() {
        let text = feed().configuration(*software);
        for part in ["example.org", "catalog.invalid", "192.0.2.1", "5300"] {
            assert!(text.contains(part), "{software:?} {part}\n{text}");
        }
        assert_eq!(
            text.contains(PLACEHOLDER),
            software.signs(),
            "{software:?}\n{text}"
        );
    }
}

#[test]
fn without_a_key_nothing_is_signed() {
    let feed = Feed {
        key: None,
        ..feed()
    };
    for software in Software::value_variants() {
        let text = feed.configuration(*software).to_lowercase();
        let words = text.replace("nokey", "");

        assert!(
            !words.contains("tsig") && !words.contains("key"),
            "{software:?}\n{text}"
        );
    }
}

#[test]
fn folders_can_be_chosen_and_file_names_stay_in_them() {
    let feed = Feed {
        folder: Some("/srv/dns".into()),
        zones: vec!["0/25.2.0.192.in-addr.arpa.".parse().unwrap()],
        ..feed()
    };
    let text = feed.configuration(Software::Bind);
    assert!(text.contains("directory \"/srv/dns\""), "{text}");
    assert!(
        text.contains("file \"0_25.2.0.192.in-addr.arpa.zone\""),
        "{text}"
    );
}

/// Its database would stand in the folder of its package, which a server with another folder may not write to.
#[test]
fn nsd_keeps_nothing_outside_its_folder() {
    let feed = Feed {
        folder: Some("/srv/dns".into()),
        ..feed()
    };
    let text = feed.configuration(Software::Nsd);
    assert!(text.contains("    database: \"\"\n"), "{text}");
    assert!(!text.contains("/var"), "{text}");
}

#[test]
fn nsd_says_why_its_first_transfer_with_a_certificate_waits() {
    let text = |own: Option<&str>| {
        let tls = FeedTls {
            name: "ns.example".to_owned(),
            own: own.map(ToOwned::to_owned),
        };
        let feed = Feed {
            tls: Some(tls),
            ..feed()
        };
        feed.configuration(Software::Nsd)
    };
    assert!(text(Some("friend.example")).contains("# NSD 4.6 presents it only from its second"));
    assert!(!text(None).contains("NSD 4.6"));
}

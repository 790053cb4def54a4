//! What each directive becomes, and what is said about wrong ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::{block, config, faults, read, warnings};
use crate::corefile::{
    Algorithm, BindHost, ClientTls, LogClass, LogField, LogPiece, Monitor, Overrides, Peer, Source,
    load,
};
use crate::dns::{Name, Ttl};

/// A name that is one.
fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// Names as text.
fn shown<'a>(names: impl IntoIterator<Item = &'a Name>) -> Vec<String> {
    names.into_iter().map(ToString::to_string).collect()
}

#[test]
fn the_quickstart_corefile_is_good() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/zones/quickstart/Corefile");
    let loaded = load(path.as_ref(), &Overrides::default(), &|_| None).unwrap();
    assert_eq!(loaded.warnings, []);
    let server = &loaded.config.servers[0];
    let kubernetes = server.kubernetes.as_ref().unwrap();
    assert_eq!(
        kubernetes.source,
        Source::Manifests {
            dir: "zones/quickstart/cluster".into()
        }
    );
    assert_eq!(kubernetes.ttl, Ttl::decode(30));
    assert_eq!(shown(&kubernetes.forward_zones), ["cluster.local."]);
    assert_eq!(
        shown(&kubernetes.reverse_zones)[..2],
        ["96.10.in-addr.arpa.", "244.10.in-addr.arpa."]
    );
    assert!(server.zones.iter().all(|key| key.port == 5300));
    assert!(server.key(&name("Quickstart.Key")).is_some());
}

#[test]
fn kubernetes_has_the_defaults_of_coredns() {
    let kubernetes = block("kubernetes").kubernetes.unwrap();
    assert_eq!(shown(kubernetes.zones()), ["cluster.local."]);
    assert_eq!(kubernetes.source, Source::InCluster);
    assert_eq!(kubernetes.ttl, Ttl::decode(5));
    assert_eq!(
        (kubernetes.namespaces, kubernetes.fallthrough),
        (None, Vec::new())
    );
}

#[test]
fn kubernetes_takes_zones_ranges_and_options() {
    let text = ". {\n kubernetes Cluster.Local in-addr.arpa 10.0.0.0/15 cluster.local {\n ttl 0\n \
                namespaces b a\n namespaces c\n fallthrough in-addr.arpa 10.0.0.0/8\n pods disabled\n \
                kubeconfig k.conf ctx\n }\n}\n";
    let kubernetes = config(text).servers.remove(0).kubernetes.unwrap();
    assert_eq!(shown(&kubernetes.forward_zones), ["cluster.local."]);
    assert_eq!(
        shown(&kubernetes.reverse_zones),
        ["in-addr.arpa.", "0.10.in-addr.arpa.", "1.10.in-addr.arpa."]
    );
    assert_eq!(kubernetes.ttl, Ttl::ZERO);
    let namespaces = ["a", "b", "c"].map(str::to_owned);
    assert_eq!(kubernetes.namespaces, Some(BTreeSet::from(namespaces)));
    assert_eq!(
        shown(&kubernetes.fallthrough),
        ["in-addr.arpa.", "10.in-addr.arpa."]
    );
    let context = Some("ctx".to_owned());
    assert_eq!(
        kubernetes.source,
        Source::Kubeconfig {
            file: "k.conf".into(),
            context
        }
    );
    let all = block("kubernetes {\n fallthrough\n}")
        .kubernetes
        .unwrap()
        .fallthrough;
    assert_eq!(shown(&all), ["."]);
}

#[test]
fn the_api_server_may_be_named() {
    let text = "kubernetes {\n endpoint https://192.0.2.1:6443\n tls a b c\n}";
    let path = PathBuf::from;
    let tls = ClientTls {
        cert: path("a"),
        key: path("b"),
        ca: path("c"),
    };
    let url = "https://192.0.2.1:6443".to_owned();
    assert_eq!(
        block(text).kubernetes.unwrap().source,
        Source::Endpoint {
            url,
            tls: Some(tls)
        }
    );
}

#[test]
fn kubernetes_options_are_checked() {
    for (line, want) in [
        ("ttl", "2:1: ttl needs an argument"),
        ("ttl 3601", "2:5: ttl '3601': not in the range 0 to 3600"),
        ("ttl 5s", "2:5: ttl '5s': not a whole number of seconds"),
        ("ttl 5 6", "2:7: ttl: '6' is one argument too many"),
        ("tls a b", "2:1: tls takes three files, there are 2"),
        (
            "kubeconfig",
            "2:1: kubeconfig takes one or two arguments, there are 0",
        ),
        ("endpoint", "2:1: endpoint needs an argument"),
        (
            "endpoint 192.0.2.1",
            "2:10: the endpoint is no plain http or https URL",
        ),
        (
            "endpoint https://me:pw@x",
            "2:10: the endpoint is no plain http or https URL",
        ),
        ("namespaces", "2:1: namespaces needs an argument"),
        ("namespaces a,b", "2:12: no namespace can be called 'a,b'"),
        ("manifests", "2:1: manifests needs an argument"),
        ("pods", "2:1: pods needs an argument"),
        ("pods insecure", "2:6: pods insecure: not supported yet"),
        ("pods verified", "2:6: pods verified: not supported yet"),
        ("pods all", "2:6: wrong value for pods: 'all'"),
        ("apiserver_qps 1", "2:1: apiserver_qps: not supported yet"),
        (
            "apiserver_burst 1",
            "2:1: apiserver_burst: not supported yet",
        ),
        (
            "apiserver_max_inflight 1",
            "2:1: apiserver_max_inflight: not supported yet",
        ),
        (
            "namespace_labels a=b",
            "2:1: namespace_labels: not supported yet",
        ),
        ("labels a=b", "2:1: labels: not supported yet"),
        (
            "endpoint_pod_names",
            "2:1: endpoint_pod_names: not supported yet",
        ),
        ("noendpoints", "2:1: noendpoints: not supported yet"),
        ("ignore empty_service", "2:1: ignore: not supported yet"),
        ("multicluster", "2:1: multicluster: not supported yet"),
        ("zonal", "2:1: zonal: not supported yet"),
        (
            "startup_timeout 5s",
            "2:1: startup_timeout: not supported yet",
        ),
        (
            "upstream",
            "2:1: upstream: no longer an option of kubernetes",
        ),
        (
            "transfer to *",
            "2:1: transfer: no longer an option of kubernetes",
        ),
        ("nonsense", "2:1: kubernetes has no option 'nonsense'"),
    ] {
        assert_eq!(
            faults(&format!("kubernetes {{\n{line}\n}}")),
            [want],
            "{line}"
        );
    }
    assert_eq!(
        faults("kubernetes 10.0.0.0/8 ip6.arpa"),
        ["1:1: kubernetes has only reverse zones"]
    );
    assert_eq!(
        faults("kubernetes\nkubernetes"),
        ["2:1: kubernetes stands already in line 2 of this block"]
    );
}

#[test]
fn manifests_and_an_api_server_exclude_each_other() {
    let text = "kubernetes {\nmanifests d\nendpoint http://x\ntls a b c\nkubeconfig k\n}";
    assert_eq!(
        faults(text),
        [
            "3:1: manifests and endpoint exclude each other",
            "4:1: manifests and tls exclude each other",
            "5:1: manifests and kubeconfig exclude each other",
        ]
    );
}

#[test]
fn options_of_the_api_server_that_are_not_used_are_warned_about() {
    let text =
        ". {\n kubernetes {\n kubeconfig k\n endpoint http://x http://y\n tls a b c\n }\n}\n";
    assert_eq!(
        warnings(text),
        [
            "Corefile:3:2: kubeconfig goes before endpoint, which is not used; take one out",
            "Corefile:4:20: only the first endpoint is used; put the API servers behind one address",
            "Corefile:5:2: tls is used only with endpoint, and kubeconfig goes before both; take it out",
        ]
    );
    assert_eq!(
        warnings("a {\n kubernetes b\n}\n"),
        [
            "Corefile:2:2: no query for b. comes to this block; add the zone to the keys of the block"
        ]
    );
}

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
        ("to 192.0.2.1 tls", "2:14: to … tls: not supported yet"),
        ("to 192.0.2.1 tls name", "2:14: to … tls: not supported yet"),
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
            ("k1.".to_owned(), Algorithm::HmacSha256),
            ("k2.".to_owned(), Algorithm::HmacSha512)
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
fn key_files_are_read_as_bind_writes_them() {
    let text = "// one\n# two\n/* three\n * \"/ four **/key \"A.b\" {\n  algorithm hmac-sha256;\n  secret \
                \"c2VjcmV0\";\n};\nkey c { secret c2VjcmV0; algorithm HMAC-SHA1; }; /**/\n";
    let (keys, said) = key_file(text);
    assert_eq!(said, [""; 0]);
    assert_eq!(
        keys,
        [
            ("a.b.".to_owned(), Algorithm::HmacSha256),
            ("c.".to_owned(), Algorithm::HmacSha1)
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
fn apex_says_what_stands_at_the_top() {
    let server = block(
        "kubernetes\napex {\n ns ns1.dns.cluster.local 192.0.2.1 2001:db8::1\n ns NS2.example.org\n \
         ns ns1.dns.cluster.local 192.0.2.1 192.0.2.2\n mbox first.last@example.org\n refresh 5m\n \
         retry 30\n expire 24h\n minimum 0\n ttl 1h\n}",
    );
    let apex = server.apex_for(&name("cluster.local")).unwrap();
    let servers: Vec<_> = apex
        .name_servers
        .iter()
        .map(|ns| (ns.name.to_string(), ns.addresses.len()))
        .collect();
    assert_eq!(
        servers,
        [
            ("ns1.dns.cluster.local.".to_owned(), 3),
            ("ns2.example.org.".to_owned(), 0)
        ]
    );
    assert_eq!(
        apex.mbox.as_ref().unwrap().to_string(),
        "first\\.last.example.org."
    );
    let timers = [
        apex.refresh,
        apex.retry,
        apex.expire,
        apex.minimum,
        apex.ttl,
    ];
    assert_eq!(
        timers.map(|timer| timer.unwrap().seconds()),
        [300, 30, 86400, 0, 3600]
    );
}

#[test]
fn apex_is_checked() {
    for (line, want) in [
        ("ns", "2:1: ns needs an argument"),
        ("ns ns1", "2:4: 'ns1' is not a host's whole name"),
        ("ns a.b x", "2:8: 'x' is not an IP address"),
        (
            "mbox a..b",
            "2:6: not a domain name: \"a..b\" has an empty label",
        ),
        ("refresh 0", "2:9: refresh '0': less than 1 s"),
        ("retry 1500ms", "2:7: retry '1500ms': not whole seconds"),
        (
            "expire -1h",
            "2:8: expire '-1h': a duration must not be negative",
        ),
        (
            "ttl 2147483648",
            "2:5: ttl '2147483648': 2147483648 seconds are more than a TTL can hold (2147483647)",
        ),
        (
            "minimum 1d",
            "2:9: minimum '1d': not a duration such as 300ms, 30s or 1h5m",
        ),
        ("soa x", "2:1: apex has no option 'soa'"),
    ] {
        assert_eq!(faults(&format!("apex {{\n{line}\n}}")), [want], "{line}");
    }
    assert_eq!(faults("apex"), ["1:1: apex says nothing"]);
}

#[test]
fn history_has_bounds() {
    let server = block("kubernetes\nhistory {\n keep 36h\n versions 500\n size 2GiB\n}");
    let history = server.history_for(&name("cluster.local")).unwrap();
    assert_eq!(history.keep, Some(Duration::from_secs(36 * 3600)));
    assert_eq!(history.versions.unwrap().get(), 500);
    assert_eq!(history.size_bytes.unwrap().get(), 2 << 30);
    for (line, want) in [
        (
            "keep x",
            "2:6: keep 'x': not a duration such as 300ms, 30s or 1h5m",
        ),
        (
            "versions 0",
            "2:10: versions '0': not a whole number from 1",
        ),
        ("size 0", "2:6: size '0': nothing fits into that"),
        (
            "size 1X",
            "2:6: size '1X': not an amount of bytes such as 500M, 2G or 64MiB",
        ),
        ("age 1", "2:1: history has no option 'age'"),
    ] {
        assert_eq!(faults(&format!("history {{\n{line}\n}}")), [want], "{line}");
    }
}

#[test]
fn bind_takes_addresses_and_interfaces_several_times() {
    let server = block("bind 127.0.0.1 eth0 {\n except 127.0.0.2\n}\nbind ::1 127.0.0.1 127.0.0.2");
    let hosts: Vec<_> = server.bind.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["127.0.0.1", "eth0", "::1", "127.0.0.2"]);
    assert_eq!(
        server.bind.except,
        [BindHost::Address("127.0.0.2".parse().unwrap())]
    );
    assert_eq!(server.listeners().len(), 3);
    for (line, want) in [
        ("bind", "1:1: bind needs an argument"),
        (
            "bind 127.0.0",
            "1:6: '127.0.0' is no IP address and no interface's name",
        ),
        (
            "bind ns1.example.org.",
            "1:6: 'ns1.example.org.' is no IP address and no interface's name",
        ),
        ("bind ::1 {\n only x\n}", "2:2: bind has no option 'only'"),
        (
            "bind ::1 {\n except ::1\n}",
            "1:1: everything to listen on is excepted",
        ),
    ] {
        assert_eq!(faults(line), [want], "{line}");
    }
}

#[test]
fn http_servers_have_the_defaults_of_coredns() {
    let server = block("prometheus\nhealth\nready");
    let (health, ready) = (server.health.unwrap(), server.ready.unwrap());
    assert_eq!(
        server.prometheus.unwrap().address.to_string(),
        "localhost:9153"
    );
    assert_eq!(
        (health.address.to_string().as_str(), health.lameduck),
        (":8080", Duration::ZERO)
    );
    assert_eq!(
        (ready.address.to_string().as_str(), ready.monitor),
        (":8181", Monitor::UntilReady)
    );
    let server = block(
        "health 127.0.0.1:1 {\n lameduck 1500ms\n}\nready [::1]:2 {\n monitor continuously\n}",
    );
    assert_eq!(server.health.unwrap().lameduck, Duration::from_millis(1500));
    assert_eq!(server.ready.unwrap().monitor, Monitor::Continuously);
}

#[test]
fn health_may_stand_again_and_keeps_its_lameduck() {
    let health = block("health :1 {\n lameduck 5s\n}\nhealth :2")
        .health
        .unwrap();
    assert_eq!(
        (
            health.address.to_string().as_str(),
            health.lameduck.as_secs()
        ),
        (":2", 5)
    );
}

#[test]
fn http_servers_are_checked() {
    for (line, want) in [
        ("prometheus 9153", "1:12: '9153': the port is missing"),
        (
            "prometheus {\n runtime_metrics\n}",
            "2:2: prometheus runtime_metrics: not supported yet",
        ),
        (
            "prometheus {\n tls x\n}",
            "2:2: prometheus tls: not supported yet",
        ),
        (
            "health {\n lameduck 5\n}",
            "2:11: lameduck '5': not a duration such as 300ms, 30s or 1h5m",
        ),
        ("health {\n lameduck\n}", "2:2: lameduck needs an argument"),
        ("health {\n x\n}", "2:2: health has no option 'x'"),
        ("ready :1 :2", "1:10: ready: ':2' is one argument too many"),
        (
            "ready {\n monitor never\n}",
            "2:10: monitor 'never': no such way to monitor",
        ),
        (
            "health :8181\nready",
            "2:1: :8181 is already taken in line 2",
        ),
        (
            "ready\nready",
            "2:1: ready stands already in line 2 of this block",
        ),
    ] {
        assert_eq!(faults(line), [want], "{line}");
    }
}

#[test]
fn errors_go_to_stdout() {
    assert!(!block("errors stdout").errors.unwrap().stacktrace);
    assert!(block("errors {\n stacktrace\n}").errors.unwrap().stacktrace);
    for (line, want) in [
        ("errors file", "1:8: errors cannot be logged to 'file'"),
        (
            "errors {\n consolidate 5m x\n}",
            "2:2: errors consolidate: not supported yet",
        ),
        (
            "errors\nerrors",
            "2:1: errors stands already in line 2 of this block",
        ),
    ] {
        assert_eq!(faults(line), [want], "{line}");
    }
}

#[test]
fn log_has_names_a_format_and_classes() {
    let server = block(
        "log a b \"{name} {rcode}\" {\n class denial error\n}\nlog example.org\nlog . {combined}\nlog",
    );
    let logs = &server.logs;
    assert_eq!(shown(&logs[0].names), ["a.", "b."]);
    assert_eq!(
        logs[0].format,
        [
            LogPiece::Field(LogField::Name),
            LogPiece::Text(" ".into()),
            LogPiece::Field(LogField::Rcode)
        ]
    );
    assert_eq!(
        logs[0].classes,
        BTreeSet::from([LogClass::Denial, LogClass::Error])
    );
    assert_eq!(
        (shown(&logs[1].names), logs[1].classes.len()),
        (vec!["example.org.".to_owned()], 3)
    );
    assert!(logs[2].format.contains(&LogPiece::Field(LogField::Opcode)));
    assert_eq!(
        (shown(&logs[3].names), &logs[3].format),
        (vec![".".to_owned()], &logs[1].format)
    );
    assert_eq!(server.log_for(&name("x.B")).unwrap().place, logs[0].place);
    assert_eq!(server.log_for(&name("x")).unwrap().place, logs[2].place);
    for (line, want) in [
        ("log {combined}", "1:5: '{combined}' is not a name"),
        ("log {\n class foo\n}", "2:8: log has no class 'foo'"),
        ("log {\n class\n}", "2:2: class needs an argument"),
        ("log {\n x\n}", "2:2: log has no option 'x'"),
    ] {
        assert_eq!(faults(line), [want], "{line}");
    }
}

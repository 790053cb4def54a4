//! The directive `kubernetes`, and the example.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{block, config, faults, name, shown, warnings};
use crate::corefile::{ClientTls, Overrides, Source, load};
use crate::dns::Ttl;

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
fn the_other_options_of_coredns_are_refused_by_name() {
    for line in [
        "apiserver_qps 1",
        "apiserver_burst 1",
        "apiserver_max_inflight 1",
        "namespace_labels a=b",
        "labels a=b",
        "endpoint_pod_names",
        "noendpoints",
        "ignore empty_service",
        "multicluster",
        "zonal",
        "startup_timeout 5s",
    ] {
        let option = line.split(' ').next().unwrap();
        let want = format!("2:1: {option}: not supported yet");
        assert_eq!(
            faults(&format!("kubernetes {{\n{line}\n}}")),
            [want],
            "{line}"
        );
    }
}

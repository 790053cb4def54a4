//! Tests of the directive `kubernetes`, and of the example.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use dns::Ttl;
use kubernetes::facts::Selector;

use crate::config::tests::{block, config, faults, name, shown, warnings};
use crate::config::{ApiLimits, ClientTls, Kubernetes, Options, Overrides, Pods, Source, load};

#[test]
fn the_quickstart_corefile_is_good() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../zones/quickstart/Corefile"
    );
    let loaded = load(path.as_ref(), &Overrides::default(), &|_| None).unwrap();
    assert_eq!(loaded.warnings, []);
    let server = &loaded.config.servers[0];
    let kubernetes = server.get::<Kubernetes>().unwrap();
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
    let kubernetes = block("kubernetes").get::<Kubernetes>().unwrap().clone();
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
    let kubernetes = config(text).servers[0].get::<Kubernetes>().unwrap().clone();
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
        .get::<Kubernetes>()
        .unwrap()
        .fallthrough
        .clone();
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
        block(text).get::<Kubernetes>().unwrap().source,
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
            "2:10: the endpoint is not a plain http or https URL",
        ),
        (
            "endpoint https://me:pw@x",
            "2:10: the endpoint is not a plain http or https URL",
        ),
        ("namespaces", "2:1: namespaces needs an argument"),
        (
            "namespaces a,b",
            "2:12: 'a,b' cannot be the name of a namespace",
        ),
        ("manifests", "2:1: manifests needs an argument"),
        ("pods", "2:1: pods needs an argument"),
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
        ["2:1: kubernetes is already given in line 2 of this block"]
    );
}

/// The options of a directive with one line.
fn options_of(line: &str) -> Options {
    let text = format!("kubernetes {{\n{line}\n}}");
    block(&text).get::<Kubernetes>().unwrap().options.clone()
}

#[test]
fn s98_options_are_read_with_the_defaults_and_limits_of_coredns() {
    assert_eq!(options_of("ttl 5"), Options::default());
    let defaults = Options::default();
    assert_eq!(
        (defaults.pods, defaults.endpoints, defaults.startup_timeout),
        (Pods::Disabled, true, Duration::from_secs(5))
    );
    assert_eq!(options_of("pods insecure").pods, Pods::Insecure);
    assert_eq!(options_of("pods verified").pods, Pods::Verified);
    assert!(options_of("endpoint_pod_names").endpoint_pod_names);
    assert!(!options_of("noendpoints").endpoints);
    assert!(options_of("ignore empty_service").hides_empty_services);
    assert!(!options_of("ignore").hides_empty_services);
    let selector = |text: &str| Some(Selector::parse(text).unwrap());
    let environment = "environment in (production, qa), application notin (nginx)";
    let labels = options_of(&format!("labels {environment}")).labels;
    assert_eq!(labels, selector(environment));
    let labels = options_of("namespace_labels istio-injection=enabled").namespace_labels;
    assert_eq!(labels, selector("istio-injection=enabled"));
    let limits = options_of("apiserver_qps 2.5\napiserver_burst 7\napiserver_max_inflight 3").api;
    assert_eq!(limits.interval, Some(Duration::from_millis(400)));
    assert_eq!(
        (limits.burst, limits.in_flight),
        (NonZeroU32::new(7), NonZeroU32::new(3))
    );
    let none = options_of("apiserver_qps 0\napiserver_burst 0\napiserver_max_inflight 0").api;
    assert_eq!(none, ApiLimits::default());
    let timeout = options_of("startup_timeout 1m30s").startup_timeout;
    assert_eq!(timeout, Duration::from_secs(90));
}

#[test]
fn limits_are_read_and_wrong_ones_refused() {
    let limits = options_of("limits rrset 1000").limits;
    assert_eq!(
        (limits.rrset.map(NonZeroUsize::get), limits.service),
        (Some(1000), None)
    );
    let limits = options_of("limits namespace 9").limits;
    assert_eq!(limits.namespace.map(NonZeroUsize::get), Some(9));
    let limits = options_of("limits service 7 rrset 1").limits;
    assert_eq!(limits.service.map(NonZeroUsize::get), Some(7));
    for wrong in [
        "limits",
        "limits rrset",
        "limits rrset 0",
        "limits zone 5",
        "limits rrset 1 rrset 2",
    ] {
        let found = faults(&format!("kubernetes {{\n{wrong}\n}}"));
        assert_eq!(found.len(), 1, "{wrong}: {found:?}");
    }
}

#[test]
fn s98_options_that_are_wrong_are_refused_with_their_place() {
    for (line, want) in [
        ("apiserver_qps", "2:1: apiserver_qps needs an argument"),
        (
            "apiserver_qps x",
            "2:15: apiserver_qps 'x': not a number of requests a second such as 50 or 2.5",
        ),
        (
            "apiserver_qps -1",
            "2:15: apiserver_qps '-1': not a number of requests a second such as 50 or 2.5",
        ),
        (
            "apiserver_qps 1 2",
            "2:17: apiserver_qps: '2' is one argument too many",
        ),
        (
            "apiserver_burst 1.5",
            "2:17: apiserver_burst '1.5': not a whole number from 0",
        ),
        (
            "apiserver_max_inflight -1",
            "2:24: apiserver_max_inflight '-1': not a whole number from 0",
        ),
        ("labels", "2:1: labels needs an argument"),
        (
            "labels app in (a",
            "2:8: labels: not a label selector: the end where ',' or ')' is expected",
        ),
        (
            "namespace_labels a b",
            "2:18: namespace_labels: not a label selector: 'b' where =, ==, !=, in, notin, ',' or the \
             end is expected",
        ),
        ("pods maybe", "2:6: wrong value for pods: 'maybe'"),
        (
            "endpoint_pod_names x",
            "2:20: endpoint_pod_names: 'x' is one argument too many",
        ),
        (
            "noendpoints x",
            "2:13: noendpoints: 'x' is one argument too many",
        ),
        ("zonal x", "2:7: zonal: 'x' is one argument too many"),
        (
            "noendpoints\nzonal",
            "3:1: zonal and noendpoints cannot both be set",
        ),
        ("ignore endpoints", "2:8: ignore has no option 'endpoints'"),
        (
            "ignore empty_service more",
            "2:22: ignore: 'more' is one argument too many",
        ),
        ("startup_timeout", "2:1: startup_timeout needs an argument"),
        (
            "namespaces a\nnamespace_labels b=c",
            "3:1: namespaces and namespace_labels cannot both be set",
        ),
    ] {
        assert_eq!(
            faults(&format!("kubernetes {{\n{line}\n}}")),
            [want],
            "{line}"
        );
    }
    assert_eq!(faults("kubernetes {\nstartup_timeout 5\n}").len(), 1);
    assert_eq!(faults("kubernetes {\nstartup_timeout -5s\n}").len(), 1);
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
            "Corefile:3:2: kubeconfig takes precedence, so endpoint is not used; remove one",
            "Corefile:4:20: only the first endpoint is used; put the API servers behind one address",
            "Corefile:5:2: tls is used only with endpoint, and kubeconfig takes precedence over both; remove it",
        ]
    );
    assert_eq!(
        warnings("a {\n kubernetes b\n}\n"),
        [
            "Corefile:2:2: no query for b. comes to this block; add the zone to the keys of the block"
        ]
    );
}

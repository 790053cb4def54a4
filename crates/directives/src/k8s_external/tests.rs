//! Tests of `k8s_external` and `multicluster`.

use crate::config::tests::{block, config, faults, name, problems};
use crate::config::{External, Kubernetes, Multicluster};

#[test]
fn k8s_external_has_coredns_defaults() {
    let server = block("kubernetes\nk8s_external example.org 192.0.2.0/24");
    let external = server.get::<External>().unwrap();
    assert_eq!(external.forward_zones, [name("example.org")]);
    assert_eq!(external.reverse_zones, [name("2.0.192.in-addr.arpa")]);
    assert_eq!(
        (
            external.apex_label.as_str(),
            external.ttl.seconds(),
            external.headless,
            external.external_ips
        ),
        ("dns", 5, false, false)
    );
    assert!(external.fallthrough.is_empty());
    let written: Vec<String> = server.zones_written().map(ToString::to_string).collect();
    assert_eq!(
        written,
        ["cluster.local.", "example.org.", "2.0.192.in-addr.arpa."]
    );
}

#[test]
fn k8s_external_has_options() {
    let server = block(
        "kubernetes\nk8s_external example.org {\n apex Top\n ttl 3600\n headless\n external_ips\n fallthrough \
         a.example.org\n}",
    );
    let external = server.get::<External>().unwrap();
    assert_eq!(
        (
            external.apex_label.as_str(),
            external.ttl.seconds(),
            external.headless,
            external.external_ips
        ),
        ("top", 3600, true, true)
    );
    assert_eq!(external.fallthrough, [name("a.example.org")]);
}

#[test]
fn k8s_external_is_checked() {
    for (line, want) in [
        ("apex", "3:1: apex needs an argument"),
        ("apex a.b", "3:6: 'a.b' is not one label"),
        ("ttl 3601", "3:5: ttl '3601': not in the range 0 to 3600"),
        (
            "headless yes",
            "3:10: headless: 'yes' is one argument too many",
        ),
        (
            "external_ips 192.0.2.1",
            "3:14: external_ips: '192.0.2.1' is one argument too many",
        ),
        ("upstream", "3:1: k8s_external has no option 'upstream'"),
    ] {
        let text = format!("kubernetes cluster.local\nk8s_external example.org {{\n{line}\n}}");
        assert_eq!(faults(&text), [want], "{line}");
    }
    assert_eq!(
        faults("k8s_external example.org"),
        ["1:1: k8s_external without kubernetes in its block"]
    );
    assert_eq!(
        faults("kubernetes cluster.local\nk8s_external 192.0.2.0/24"),
        ["2:1: k8s_external has only reverse zones"]
    );
    assert_eq!(
        faults("kubernetes cluster.local\nk8s_external example.org\nk8s_external example.net"),
        ["3:1: k8s_external is already given in line 3 of this block"]
    );
}

#[test]
fn an_external_zone_has_one_content() {
    let clash = problems("cluster.local {\nkubernetes\nk8s_external\n}\n");
    assert_eq!(
        clash,
        [
            "Corefile:3:1: the kubernetes at Corefile:2:1 writes cluster.local. too; a zone has one content: name another zone after k8s_external"
        ]
    );
    let twice = |second: &str| {
        problems(&format!(
            "a. {{\nkubernetes cluster.local\nk8s_external example.org\n}}\nb. {{\nkubernetes \
             cluster.local\nk8s_external example.org {{\n{second}\n}}\n}}\n"
        ))
    };
    assert_eq!(twice("ttl 5"), [""; 0]);
    assert_eq!(twice("ttl 6").len(), 1, "{:?}", twice("ttl 6"));
}

#[test]
fn multicluster_zones_are_apart() {
    let servers = config(
        ". {\nkubernetes cluster.local clusterset.local 10.0.0.0/8 {\nmulticluster clusterset.local\n}\n}\n",
    )
    .servers;
    let kubernetes = servers[0].get::<Kubernetes>().unwrap();
    assert_eq!(kubernetes.forward_zones, [name("cluster.local")]);
    assert_eq!(kubernetes.clusterset_zones, [name("clusterset.local")]);
    assert!(!kubernetes.imports_only);
    // As in CoreDNS, `multicluster` without zones has no effect.
    let off = block("kubernetes {\nmulticluster\n}");
    assert!(off.get::<Kubernetes>().unwrap().clusterset_zones.is_empty());
    assert_eq!(
        faults("kubernetes cluster.local {\nmulticluster clusterset.local\n}"),
        ["2:14: kubernetes is not authoritative for the multicluster zone clusterset.local."]
    );
    assert_eq!(
        faults("kubernetes cluster.local 10.0.0.0/8 {\nmulticluster 10.0.0.0/8\n}"),
        ["2:14: kubernetes is not authoritative for the multicluster zone 10.in-addr.arpa."]
    );
}

#[test]
fn the_directive_multicluster_looks_at_imports_alone() {
    let server = block("multicluster {\nkubeconfig FILE context\nnoendpoints\nfallthrough\n}");
    let multicluster = &server.get::<Multicluster>().unwrap().0;
    assert_eq!(multicluster.clusterset_zones, [name("cluster.local")]);
    assert!(multicluster.forward_zones.is_empty() && multicluster.imports_only);
    assert_eq!(multicluster.ttl.seconds(), 5);
    assert!(!multicluster.options.endpoints);
    assert_eq!(multicluster.fallthrough, [name(".")]);
    for option in [
        "ttl 5",
        "endpoint http://x",
        "namespaces a",
        "multicluster a",
    ] {
        let word = option.split(' ').next().unwrap();
        assert_eq!(
            faults(&format!("multicluster a. {{\n{option}\n}}")),
            [format!("2:1: multicluster has no option '{word}'")]
        );
    }
    assert_eq!(
        faults("multicluster 10.0.0.0/8"),
        ["1:1: multicluster has only reverse zones"]
    );
    let both = problems(". {\nkubernetes a.\nmulticluster a.\n}\n");
    assert_eq!(both.len(), 1, "{both:?}");
}

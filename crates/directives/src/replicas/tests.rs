//! Tests of `replicas`.

use std::time::Duration;

use crate::config::tests::{block, faults, problems};
use crate::config::{OtherReplicas, ReplicaRole, Replicas};

fn read(options: &str) -> Replicas {
    let block = block(&format!("kubernetes\nreplicas {{\n{options}\n}}"));
    block.get::<Replicas>().unwrap().clone()
}

#[test]
fn a_replica_is_led_by_a_lease_or_by_its_corefile() {
    let lease = |namespace: Option<&str>| ReplicaRole::Lease {
        namespace: namespace.map(str::to_owned),
        name: "zonewright".to_owned(),
    };
    let follow = ReplicaRole::Follow("dns-0.example:5380".to_owned());
    for (options, want) in [
        ("lease zonewright", lease(None)),
        ("lease dns/zonewright", lease(Some("dns"))),
        ("role primary", ReplicaRole::Primary),
        ("follow dns-0.example:5380", follow),
    ] {
        let replicas = read(&format!("listen 0.0.0.0:5380\ntls c k ca\n{options}"));
        assert_eq!(replicas.role, want, "{options}");
        assert_eq!(replicas.listen.to_string(), "0.0.0.0:5380");
        assert_eq!(replicas.name, "zonewright-replicas");
        assert_eq!((replicas.min_in_sync, replicas.advertise), (1, None));
        assert_eq!(replicas.others, OtherReplicas::Listed(Vec::new()));
    }
}

#[test]
fn the_others_are_listed_or_the_endpoints_of_a_service() {
    let with = |options: &str| read(&format!("listen [::]:1\ntls c k ca\nlease z\n{options}"));
    let listed = with(
        "others 192.0.2.1:2 [2001:db8::1]:3\nadvertise a.example:1\nid pod-0_1\nmin_in_sync 2\norphan_wait 90s\nname a.example",
    );
    let others = ["192.0.2.1:2", "[2001:db8::1]:3"].map(str::to_owned);
    assert_eq!(listed.others, OtherReplicas::Listed(others.to_vec()));
    assert_eq!(listed.advertise.as_deref(), Some("a.example:1"));
    assert_eq!(listed.id.as_deref(), Some("pod-0_1"));
    assert_eq!((listed.min_in_sync, &*listed.name), (2, "a.example"));
    assert_eq!(listed.orphan_wait, Some(Duration::from_secs(90)));
    let service = OtherReplicas::Service {
        namespace: None,
        name: "zonewright-replicas".to_owned(),
    };
    assert_eq!(with("service zonewright-replicas").others, service);
}

#[test]
fn replicas_are_checked() {
    for (options, want) in [
        ("", "1:1: replicas has no `listen`"),
        (
            "listen :1",
            "2:8: listen ':1': not an address with a port such as 0.0.0.0:5380 or [::]:5380",
        ),
        ("tls c k", "2:1: tls takes three arguments, there are 2"),
        (
            "role leader",
            "2:6: role 'leader': the only role is primary; the others have `follow HOST:PORT`",
        ),
        (
            "follow a",
            "2:8: follow 'a': not a host with a port such as 192.0.2.1:5380",
        ),
        ("lease A", "2:7: lease 'A': not the name of an object"),
        ("lease a/", "2:7: lease 'a/': not the name of an object"),
        ("others", "2:1: others names nobody"),
        (
            "others a:0",
            "2:8: 'a:0': not a host with a port such as 192.0.2.1:5380",
        ),
        (
            "id a/b",
            "2:4: id 'a/b': not 1 to 400 letters, digits, `-`, `_` and `.`",
        ),
        ("min_in_sync 0", "2:13: min_in_sync '0': not from 1 to 5"),
        ("quorum 2", "2:1: replicas has no option 'quorum'"),
    ] {
        let faults = faults(&format!("replicas {{\n{options}\n}}"));
        assert!(faults.iter().any(|it| it == want), "{options}: {faults:?}");
    }
    let whole = "listen 127.0.0.1:1\ntls c k ca\n";
    for (options, want) in [
        ("", "1:1: replicas does not say which one leads"),
        (
            "role primary\nfollow a:1",
            "1:1: replicas says more than once which one leads",
        ),
        (
            "role primary\nothers a:1\nservice a",
            "1:1: the other replicas are named twice: by `others` and by `service`",
        ),
        (
            "lease a",
            "1:1: no API server has the Lease or the Service: this block has no `kubernetes` with one",
        ),
    ] {
        let faults = faults(&format!("replicas {{\n{whole}{options}\n}}"));
        assert_eq!(faults, [want], "{options}");
    }
    let two = "a {\nreplicas {\nlisten 127.0.0.1:1\ntls c k ca\nrole primary\n}\n}\n";
    let found = problems(&format!("{two}{}", two.replace("a {", "b {")));
    assert!(
        found[0].contains("replicas is already given in line 2"),
        "{found:?}"
    );
}

#[test]
fn an_archive_and_replicas_exclude_each_other() {
    let text = "cluster.local {\nkubernetes {\nmanifests m\n}\nhistory {\narchive file:///a\n}\nreplicas {\nlisten 127.0.0.1:1\ntls c k ca\nrole primary\n}\n}\n";
    let found = problems(text);
    assert!(
        found[0].contains("`archive` does not work together with `replicas` yet"),
        "{found:?}"
    );
}

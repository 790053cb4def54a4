//! `check --explain`: how each block of a Corefile treats queries and zones.

use std::fmt::Write;

use directives::config::{
    Bind, BindHost, Catalog, Config, Forward, Hosts, Kubernetes, Listener, Options, Pods,
    RecordLimits, Registered, Role, ServerBlock, Source, Transfer, directives, transfers_on,
};
use dns::Name;
use transfer::TlsDemand;

/// The text for all blocks.
pub(crate) fn explain(config: &Config) -> String {
    let mut text = String::new();
    for block in &config.servers {
        explain_block(config, block, &mut text);
    }
    text
}

/// A line of the text.
fn line(text: &mut String, what: &str, says: &str) {
    writeln!(text, "  {what:<12}{says}").expect("a String takes all that is written");
}

/// The treatment by one block.
fn explain_block(config: &Config, block: &ServerBlock, text: &mut String) {
    let keys: Vec<String> = block
        .zones
        .iter()
        .map(|key| format!("{}://{}:{}", key.scheme.as_str(), key.apex, key.port))
        .collect();
    writeln!(text, "{}: {}", block.place, keys.join(" ")).expect("a String takes all");
    line(text, "listens on", &hosts(block));
    let words: Vec<&str> = handlers_of(block).map(|it| it.word).collect();
    if !words.is_empty() {
        line(text, "handlers", &words.join(", "));
    }
    let first = before_zones(block);
    if !first.is_empty() && block.zones_written().next().is_some() {
        let says = format!(
            "before the zones: {}, for the names that they match",
            first.join(", then ")
        );
        line(text, "first", &says);
    }
    for zone in block.zones_written() {
        line(text, "zone", &zone_line(config, block, zone));
        if let Some(says) = missing(block, zone) {
            line(text, "", &says);
        }
        let is_given = !transferring(config, block, zone).is_empty();
        let transfer = block.for_zone::<Transfer>(zone).filter(|_| is_given);
        for secondary in transfer.iter().flat_map(|it| &it.secondaries) {
            line(text, "", &format!("notified: {}", secondary.address));
        }
    }
    for cluster in block.clusters() {
        if let Some(says) = objects(cluster) {
            line(text, "objects", &says);
        }
        for zone in &cluster.forward_zones {
            if cluster.options.pods == Pods::Insecure {
                let says = format!(
                    "A-B-C-D.NAMESPACE.pod.{zone} (pods insecure): in no zone, so no secondary has them"
                );
                line(text, "live", &says);
            }
            if cluster.options.zonal {
                let says =
                    format!("TOPOLOGY.pin._zone.SERVICE.NAMESPACE.svc.{zone} (zonal): in no zone");
                line(text, "live", &says);
            }
        }
    }
    for words in &block.written {
        if let [word, from, to @ ..] = words.as_slice()
            && word == "forward"
        {
            line(text, "forwarded", &format!("{from} to {}", to.join(" ")));
        }
    }
    line(text, "the rest", &rest(block));
}

/// The objects of a cluster that give names, and the names that they give, as far as options change them.
fn objects(cluster: &Kubernetes) -> Option<String> {
    let Options {
        namespace_labels,
        labels,
        pods,
        endpoint_pod_names,
        endpoints,
        // Names that are in no zone have lines of their own.
        zonal: _,
        hides_empty_services,
        limits,
        // They change no name.
        api: _,
        startup_timeout: _,
    } = &cluster.options;
    let RecordLimits {
        rrset,
        service,
        namespace,
    } = limits;
    let mut says = Vec::new();
    if let Some(namespaces) = &cluster.namespaces {
        let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
        says.push(format!("only of the namespaces {}", namespaces.join(", ")));
    }
    if let Some(labels) = namespace_labels {
        says.push(format!("only of namespaces with the labels {labels}"));
    }
    if let Some(labels) = labels {
        says.push(format!("only with the labels {labels}"));
    }
    if *hides_empty_services {
        says.push("no Service without a ready endpoint (ignore empty_service)".to_owned());
    }
    if !endpoints {
        says.push("no endpoints (noendpoints)".to_owned());
    }
    if *endpoint_pod_names {
        says.push("endpoints with the names of their pods (endpoint_pod_names)".to_owned());
    }
    match pods {
        Pods::Verified => says.push("pods by their addresses (pods verified)".to_owned()),
        Pods::Disabled | Pods::Insecure => {}
    }
    let limits = [
        ("an RRset", rrset),
        ("a Service", service),
        ("a namespace", namespace),
    ];
    for (of, limit) in limits {
        if let Some(limit) = limit {
            says.push(format!("at most {limit} records of {of}"));
        }
    }
    let home = cluster.home().filter(|_| !says.is_empty())?;
    Some(format!("for {home} {}", says.join("; ")))
}

/// Whether a directive is a handler.
const fn is_handler(directive: &Registered) -> bool {
    match directive.role {
        Role::Setting | Role::Zones => false,
        Role::Shapes | Role::Decides | Role::Answers => true,
    }
}

/// The handlers of a block, in the order of the chain.
fn handlers_of(block: &ServerBlock) -> impl Iterator<Item = &'static Registered> {
    directives().filter(move |it| is_handler(it) && it.is_in(block))
}

/// Where a block listens.
fn hosts(block: &ServerBlock) -> String {
    let host = |host: &BindHost| match host {
        BindHost::Address(address) => address.to_string(),
        BindHost::Interface(name) => format!("the addresses of {name}"),
    };
    let bind = block.get::<Bind>();
    let all: Vec<String> = bind.iter().flat_map(|it| &it.hosts).map(host).collect();
    let except = bind.iter().flat_map(|it| &it.except);
    let except: Vec<String> = except.map(host).collect();
    let mut says = match all.is_empty() {
        true => "all addresses".to_owned(),
        false => all.join(", "),
    };
    if !except.is_empty() {
        says.push_str(&format!(" but {}", except.join(", ")));
    }
    says
}

/// The source of a zone, and the peers that may transfer it.
fn zone_line(config: &Config, block: &ServerBlock, zone: &Name) -> String {
    let mut clusters = block.clusters();
    let from = if let Some(cluster) = clusters.find(|it| it.zones().any(|own| own == zone)) {
        let source = match &cluster.source {
            Source::InCluster => "the cluster of this pod".to_owned(),
            Source::Kubeconfig { file, .. } => format!("the cluster of {}", file.display()),
            Source::Endpoint { url, .. } => format!("the API server {url}"),
            Source::Manifests { dir } => format!("manifests in {}", dir.display()),
        };
        match block.overlay_of(zone) {
            None => source,
            Some((file, _)) => format!("{source}, then {}", file.path.display()),
        }
    } else if let Some((_, file)) = block.file_zones().find(|(own, _)| *own == zone) {
        format!("the file {}", file.path.display())
    } else if let Some((_, etcd)) = block.etcd_zones().find(|(own, _)| *own == zone) {
        format!("the etcd at {}", etcd.endpoints.join(", "))
    } else if block.all().any(|catalog: &Catalog| catalog.zone == *zone) {
        "a catalog".to_owned()
    } else {
        "external names of the cluster".to_owned()
    };
    let who = match block.for_zone::<Transfer>(zone) {
        None => "not transferred".to_owned(),
        Some(transfer) => {
            let to = transfer.secondaries.iter().map(|it| {
                let proof = proof(&it.keys, &it.tls);
                format!("{}{proof}", it.address)
            });
            let allow = transfer.allow.iter().map(|it| {
                let proof = proof(&it.keys, &it.tls);
                match it.peer {
                    directives::config::Peer::Anyone => format!("anyone{proof}"),
                    directives::config::Peer::Network(network) => {
                        let link = match it.link {
                            0 => String::new(),
                            link => format!("%{link}"),
                        };
                        let (address, bits) = (network.address(), network.prefix_bits());
                        format!("{address}{link}/{bits}{proof}")
                    }
                }
            });
            let all: Vec<String> = to.chain(allow).collect();
            match all.is_empty() {
                true => "not transferred".to_owned(),
                false => transferred(config, block, zone, &all.join(", ")),
            }
        }
    };
    format!("{zone} from {from}; {who}")
}

/// The listeners of a block on which it transfers a zone.
fn transferring(config: &Config, block: &ServerBlock, zone: &Name) -> Vec<Listener> {
    let all = config.listeners().into_iter();
    all.filter(|(listener, blocks)| {
        block.listeners().contains(listener) && transfers_on(blocks, listener, block, zone)
    })
    .map(|(listener, _)| listener)
    .collect()
}

/// Where a zone is transferred to these peers.
fn transferred(config: &Config, block: &ServerBlock, zone: &Name, peers: &str) -> String {
    let here = transferring(config, block, zone);
    if here.is_empty() {
        return "not transferred: no listener of this block has the questions for it".to_owned();
    }
    if here.len() == block.listeners().len() {
        return format!("transferred to {peers}");
    }
    let here = here.iter().map(|listener| {
        let host = listener.host.as_ref().map(ToString::to_string);
        let (scheme, host) = (listener.scheme.as_str(), host.unwrap_or_default());
        format!("{scheme}://{host}:{}", listener.port)
    });
    let here: Vec<String> = here.collect();
    format!("transferred on {} to {peers}", here.join(", "))
}

/// The proof that a secondary needs besides its address, with a space in front.
fn proof(keys: &[Name], tls: &TlsDemand) -> String {
    let keys: Vec<String> = keys.iter().map(Name::to_string).collect();
    let key = match keys.as_slice() {
        [] => String::new(),
        keys => format!(" with key {}", keys.join(" or ")),
    };
    let tls = match tls {
        TlsDemand::Free => String::new(),
        TlsDemand::Any => " over tls".to_owned(),
        TlsDemand::Named(name) => format!(" over tls as {}", name.to_str()),
    };
    format!("{key}{tls}")
}

/// The handlers of a block that may decide about a name before its zones do, in the order of the chain.
pub(crate) fn before_zones(block: &ServerBlock) -> Vec<&'static str> {
    let before = directives().take_while(|it| it.role != Role::Zones);
    before
        .filter(|it| matches!(it.role, Role::Decides | Role::Answers) && it.is_in(block))
        .map(|it| it.word)
        .collect()
}

/// The treatment of names that a zone lacks, unless the zone decides.
fn missing(block: &ServerBlock, zone: &Name) -> Option<String> {
    if !block.has::<Forward>() {
        return None;
    }
    let names = block.fallthrough_of(zone);
    if names.contains(zone) {
        return Some("missing names go on to forward".to_owned());
    }
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let says = format!("missing names below {} go on to forward", names.join(", "));
    (!names.is_empty()).then_some(says)
}

/// The treatment of names that no zone of the block has.
fn rest(block: &ServerBlock) -> String {
    let answering = handlers_of(block).filter(|it| it.role == Role::Answers);
    let answering: Vec<&str> = answering.map(|it| it.word).collect();
    if !answering.is_empty() {
        let ended = block.get().and_then(Hosts::ending);
        let ended = ended.map(|which| format!("; SERVFAIL for names that hosts lacks {which}"));
        return format!(
            "answered by {}, for the names that they match{}",
            answering.join(", then "),
            ended.unwrap_or_default()
        );
    }
    if handlers_of(block).next().is_none() {
        "REFUSED".to_owned()
    } else {
        "SERVFAIL: no handler answers them".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use directives::config::{Overrides, parse_text};

    #[test]
    fn each_block_says_what_is_transferred_live_and_refused() {
        let text = "cluster.local:53 10.96.0.0/16:53 {\n kubernetes {\n  manifests m\n  pods insecure\n }\n \
                    transfer cluster.local {\n  to 192.0.2.1 key old new\n  allow 10.0.0.0/8 tls\n }\n \
                    tsig {\n  secret old c2VjcmV0\n  secret new c2VjcmV0\n }\n}\n\
                    tls://z {\n bind 127.0.0.1\n file db\n any\n tls c k\n}\n";
        let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
        let want = "Corefile:1:1: dns://cluster.local.:53 dns://96.10.in-addr.arpa.:53\n  \
                    listens on  all addresses\n  \
                    zone        cluster.local. from manifests in m; transferred to 192.0.2.1:53 with key old. or new., 10.0.0.0/8 over tls\n  \
                    \x20           notified: 192.0.2.1:53\n  \
                    zone        96.10.in-addr.arpa. from manifests in m; not transferred\n  \
                    live        A-B-C-D.NAMESPACE.pod.cluster.local. (pods insecure): in no zone, so no secondary has them\n  \
                    the rest    REFUSED\n\
                    Corefile:15:1: tls://z.:853\n  \
                    listens on  127.0.0.1\n  \
                    handlers    any\n  \
                    first       before the zones: any, for the names that they match\n  \
                    zone        z. from the file db; not transferred\n  \
                    the rest    SERVFAIL: no handler answers them\n";
        assert_eq!(explain(&loaded.config), want);
    }

    /// It did not say that only some namespaces have names.
    #[test]
    fn a_block_says_which_objects_give_its_names() {
        let said = |options: &str| {
            let text = format!("z {{\n kubernetes {{\n  manifests m\n{options}\n }}\n}}\n");
            let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
            let said = explain(&loaded.config);
            let lines = said
                .lines()
                .filter_map(|line| line.strip_prefix("  objects     "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(said("ttl 30\npods insecure"), [""; 0]);
        assert_eq!(
            said("namespaces shop\nnamespaces db shop"),
            ["for z. only of the namespaces db, shop"]
        );
        assert_eq!(
            said(
                "namespace_labels team=a\nlabels app in (web,db)\npods verified\nendpoint_pod_names\nignore empty_service\nlimits rrset 9 namespace 99"
            ),
            [
                "for z. only of namespaces with the labels team=a; only with the labels app in (db,web); \
              no Service without a ready endpoint (ignore empty_service); \
              endpoints with the names of their pods (endpoint_pod_names); pods by their addresses (pods verified); \
              at most 9 records of an RRset; at most 99 records of a namespace"
            ]
        );
        assert_eq!(said("noendpoints"), ["for z. no endpoints (noendpoints)"]);
    }

    /// transfer D4: it said that a catalog is transferred where another block has its questions.
    #[test]
    fn a_zone_is_transferred_where_its_block_has_the_questions() {
        let own = "u:5301 v:5302 {\n file db\n catalog catalog.invalid\n transfer u v catalog.invalid {\n  allow 10.0.0.0/8\n }\n}\n";
        let said = |more: &str| {
            let text = format!("{own}{more}");
            let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
            explain(&loaded.config)
        };
        let alone = said("");
        let at_one = said(".:5301 {\n whoami\n}\n");
        let nowhere = said(".:5301 .:5302 {\n whoami\n}\n");
        let of_u = "zone        u. from the file db; transferred on dns://:5301 to 10.0.0.0/8\n";
        let catalog = "zone        catalog.invalid. from a catalog; ";
        for (said, want) in [
            (&alone, "transferred to 10.0.0.0/8"),
            (&at_one, "transferred on dns://:5302 to 10.0.0.0/8"),
            (
                &nowhere,
                "not transferred: no listener of this block has the questions for it",
            ),
        ] {
            assert!(said.contains(&format!("{catalog}{want}\n")), "{said}");
            assert!(said.contains(of_u), "{said}");
        }
    }

    #[test]
    fn who_may_transfer_by_one_link_alone_is_told_with_that() {
        let text = "a {\n kubernetes {\n  manifests m\n }\n transfer {\n  allow fe80::1%7 fe80::/10\n }\n}\n";
        let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
        let said = explain(&loaded.config);
        let want = "transferred to fe80::1%7/128, fe80::/10\n";
        assert!(said.contains(want), "{said}");
    }

    #[test]
    fn a_block_says_who_comes_before_its_zones_and_after_them() {
        let text = "cluster.local in-addr.arpa . {\n kubernetes cluster.local in-addr.arpa {\n  manifests m\n  \
                    fallthrough x.cluster.local in-addr.arpa\n }\n hosts {\n  10.0.0.1 a.test\n  fallthrough\n }\n \
                    template ANY AAAA {\n  rcode NXDOMAIN\n }\n rewrite name a.test b.test\n chaos\n dns64\n forward . 192.0.2.1\n}\n";
        let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
        let said = explain(&loaded.config);
        let of_zones = ["cluster.local.", "in-addr.arpa."];
        let [forward, reverse] = of_zones
            .map(|zone| format!("zone        {zone} from manifests in m; not transferred\n"));
        for want in [
            "  first       before the zones: dns64, then chaos, then rewrite, then template, then hosts, for the names that they match\n",
            &format!(
                "  {forward}              missing names below x.cluster.local. go on to forward\n"
            ),
            &format!("  {reverse}              missing names go on to forward\n"),
            "  the rest    answered by template, then hosts, then forward, for the names that they match\n",
        ] {
            assert!(said.contains(want), "{want}\n{said}");
        }
        let alone = text.replace(" forward . 192.0.2.1\n", "");
        let loaded = parse_text("Corefile", &alone, &Overrides::default(), &|_| None).unwrap();
        assert!(!explain(&loaded.config).contains("missing names"));
    }
}

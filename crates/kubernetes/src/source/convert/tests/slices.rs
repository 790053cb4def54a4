//! EndpointSlices: endpoints, families, Services they belong to.

use super::*;

/// A slice of `web` in `shop` with these members.
fn slice(members: &str) -> String {
    let yaml = format!(
        "metadata:\n  name: web-1\n  namespace: shop\n  labels: {{a: b, \
         kubernetes.io/service-name: web}}\n{members}\n"
    );
    told(&both(Kind::EndpointSlice, &yaml))
}

#[test]
fn endpoints_count_when_ready_is_true_or_not_said() {
    assert_eq!(
        slice(
            "addressType: IPv4\nendpoints:\n\
             - {addresses: [10.1.0.1], conditions: {ready: true}}\n\
             - {addresses: [10.1.0.2], conditions: {ready: false, serving: true}}\n\
             - {addresses: [10.1.0.3], conditions: {}}\n\
             - {addresses: [10.1.0.4], conditions: {ready: null}}\n\
             - {addresses: [10.1.0.5]}"
        ),
        "shop/web-1 of web Ipv4\n[10.1.0.1] - - - -\n[10.1.0.3] - - - -\n[10.1.0.4] - - - -\n\
         [10.1.0.5] - - - -"
    );
}

#[test]
fn hostname_pod_and_zone_of_an_endpoint_are_kept() {
    assert_eq!(
        slice(
            "addressType: IPv6\nports:\n- {name: http, port: 8080}\n- {}\nendpoints:\n\
             - {addresses: ['fd00::1', 'fd00::2'], hostname: web-0, zone: EU-1a, targetRef: {kind: \
             Pod, name: web-0}}\n\
             - {addresses: ['fd00::3'], hostname: '', targetRef: {kind: Node, name: node}}"
        ),
        "shop/web-1 of web Ipv6\nport \"http\" Tcp Some(8080)\nport \"\" Tcp None\n\
         [fd00::1 fd00::2] web-0 - web-0 eu-1a\n[fd00::3] - - node -"
    );
}

#[test]
fn s32_a_pod_name_that_is_no_label_is_not_kept_nor_any_that_is_not_asked_for() {
    let long = "p".repeat(64);
    let text = format!(
        "addressType: IPv4\nendpoints:\n- {{addresses: [10.1.0.1], targetRef: {{name: {long}}}}}\n\
         - {{addresses: [10.1.0.2], targetRef: {{name: web.0}}}}\n\
         - {{addresses: [10.1.0.3], targetRef: {{name: {}}}}}",
        &long[1..]
    );
    assert_eq!(
        slice(&text),
        format!(
            "shop/web-1 of web Ipv4\n[10.1.0.1] - - - -\n[10.1.0.2] - - - -\n[10.1.0.3] - - {} -",
            &long[1..]
        )
    );
    let value: Value = serde_saphyr::from_str(
        "metadata: {name: s, namespace: ns}\naddressType: IPv4\nendpoints:\n\
         - {addresses: [10.1.0.1], zone: z, targetRef: {kind: Pod, name: p}}",
    )
    .unwrap();
    let setting = Setting::api_server(Keep::default());
    let mut interner = Interner::default();
    let kind = Kind::EndpointSlice;
    let bare = read(kind, Object::Value(&value), &setting, &mut interner);
    assert_eq!(told(&bare), "ns/s of - Ipv4\n[10.1.0.1] - - - -");
}

#[test]
fn s99_a_slice_says_when_it_changed_and_its_fact_does_not() {
    let read = |kind: Kind, annotation: &str| {
        let text = format!(
            "metadata: {{name: web-1, namespace: shop, annotations: {annotation}}}\n\
             addressType: IPv4\nspec: {{clusterIP: 10.0.0.1}}"
        );
        both(kind, &text)
    };
    let slice = |annotation: &str| read(Kind::EndpointSlice, annotation);
    let key = "endpoints.kubernetes.io/last-change-trigger-time";
    let plain = slice("null");
    assert_eq!(plain.triggered, None);
    let dated = slice(&format!("{{a: b, {key}: '2026-01-02T03:04:05.25Z'}}"));
    let at = Duration::from_millis(1_767_323_045_250);
    assert_eq!(dated.triggered, Some(SystemTime::UNIX_EPOCH + at));
    assert_eq!(dated.fact, plain.fact);
    let wrong = slice(&format!("{{{key}: 'yesterday'}}"));
    assert_eq!((wrong.triggered, &wrong.fact), (None, &plain.fact));
    assert_eq!(
        wrong.problems[0].to_string(),
        format!(
            "EndpointSlice shop/web-1: annotation {key} left out: \"yesterday\" is not a time as in \
             RFC 3339"
        )
    );
    let service = read(Kind::Service, &format!("{{{key}: 'yesterday'}}"));
    assert!(service.triggered.is_none() && service.problems.is_empty());
}

#[test]
fn addresses_of_the_wrong_family_are_left_out() {
    assert_eq!(
        slice(
            "addressType: IPv4\nendpoints:\n- {addresses: ['fd00::1', 10.1.0.1]}\n- {addresses: [x]}"
        ),
        "shop/web-1 of web Ipv4\n[10.1.0.1] - - - -\n\
         ! EndpointSlice shop/web-1: address fd00::1 left out: not of the slice's family\n\
         ! EndpointSlice shop/web-1: address \"x\" left out: not an IP address"
    );
}

#[test]
fn an_fqdn_slice_has_host_names_for_addresses() {
    assert_eq!(
        slice("addressType: FQDN\nendpoints:\n- {addresses: [a.example, 10.1.0.1], hostname: h}"),
        "shop/web-1 of web Fqdn\n[] h a.example - -\n\
         ! EndpointSlice shop/web-1: address 10.1.0.1 left out: the slice has host names"
    );
}

#[test]
fn a_slice_without_the_service_label_belongs_to_none() {
    for labels in ["{}", "null", "{kubernetes.io/service-name: ''}"] {
        let yaml = format!(
            "metadata: {{name: s, namespace: shop, labels: {labels}}}\naddressType: IPv4\nports: \
             null\nendpoints: null"
        );
        assert_eq!(told(&both(Kind::EndpointSlice, &yaml)), "shop/s of - Ipv4");
    }
}

#[test]
fn an_unknown_address_type_leaves_the_slice_out() {
    assert_eq!(
        slice("addressType: DNS"),
        "nothing\n! EndpointSlice shop/web-1: left out: unknown addressType \"DNS\""
    );
    assert_eq!(
        slice("endpoints: []"),
        "nothing\n! EndpointSlice shop/web-1: left out: it has no addressType"
    );
}

#[test]
fn a_slice_names_its_import_and_cluster() {
    let slice = |labels: &str| {
        let yaml = format!(
            "metadata: {{name: web-1, namespace: shop, labels: {{{labels}}}}}\naddressType: IPv4\n"
        );
        told(&both(Kind::EndpointSlice, &yaml))
    };
    let name = "multicluster.kubernetes.io/service-name: Web";
    let cluster = "multicluster.kubernetes.io/source-cluster: East";
    assert_eq!(
        slice(&format!(
            "{name}, {cluster}, kubernetes.io/service-name: derived-1"
        )),
        "shop/web-1 of derived-1 Ipv4\nimport web of \"east\""
    );
    assert_eq!(slice(name), "shop/web-1 of - Ipv4\nimport web of \"\"");
    assert_eq!(slice(cluster), "shop/web-1 of - Ipv4");
}

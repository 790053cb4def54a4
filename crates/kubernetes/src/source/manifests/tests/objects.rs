//! What files say: dumps, lists, other kinds, and what is not asked for.

use super::*;

#[test]
fn namespaces_are_those_named_and_those_written_down() {
    let mut bench = Bench::new();
    bench.write("z.yaml", &service("a", "10.0.0.1"));
    bench.write("n.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: empty}\n");
    assert!(bench.told().starts_with(
        "all Namespace: 2\n  Namespace empty (n.yaml:5)\n  Namespace shop (n.yaml:1)\n"
    ));
    bench.remove("n.yaml");
    bench.reread();
    assert_eq!(bench.told(), "- Namespace empty (n.yaml:5)");
}

/// A list as kubectl dumps it, with a kind that is not looked at.
const DUMP: &str = "apiVersion: v1
items:
- apiVersion: v1
  kind: Service
  metadata:
    name: a
    namespace: shop
  spec:
    clusterIP: 10.0.0.1
    clusterIPs:
    - 10.0.0.1
- apiVersion: apps/v1
  kind: Deployment
  metadata:
    name: d
  spec:
    ports: [1]
- apiVersion: serving.knative.dev/v1
  kind: Service
  metadata:
    name: knative
- apiVersion: discovery.k8s.io/v1
  addressType: IPv4
  endpoints: null
  kind: EndpointSlice
  metadata:
    name: a-1
    namespace: shop
  ports: null
kind: List
metadata:
  resourceVersion: \"\"
";

#[test]
fn a_dump_gives_its_items_with_their_lines_and_counts_other_kinds() {
    let mut bench = Bench::new();
    bench.write("dump.yaml", DUMP);
    let expected = "all Namespace: 1\n  Namespace shop (dump.yaml:3, implied)\nall Service: 1\n  \
                    Service shop/a ClusterIp([10.0.0.1]) (dump.yaml:3)\nall EndpointSlice: 1\n  \
                    EndpointSlice shop/a-1 (dump.yaml:22)";
    assert_eq!(bench.told(), expected);
    assert_eq!(bench.stats.ignored(), 2);
}

#[test]
fn json_gives_the_same_as_yaml() {
    let mut bench = Bench::new();
    let value: serde_json::Value = serde_saphyr::from_str(DUMP).unwrap();
    bench.write("dump.json", &serde_json::to_string_pretty(&value).unwrap());
    let told = bench.told();
    assert!(
        told.contains("  Service shop/a ClusterIp([10.0.0.1]) (dump.json:4)"),
        "{told}"
    );
    assert!(
        told.contains("  EndpointSlice shop/a-1 (dump.json:"),
        "{told}"
    );
    assert_eq!(bench.stats.ignored(), 2);
    let two = "{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"one\"}}\n\
               {\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"two\"}}\n";
    bench.write("two.json", two);
    assert_eq!(
        bench.told(),
        "+ Namespace one (two.json:1)\n+ Namespace two (two.json:2)"
    );
}

#[test]
fn items_of_a_typed_list_need_not_say_their_kind() {
    let mut bench = Bench::new();
    bench.write(
        "a.yaml",
        "apiVersion: v1\nkind: ServiceList\nitems:\n- metadata: {name: a, namespace: shop}\n- \
         {apiVersion: v1, kind: Secret, metadata: {name: s}}\n",
    );
    assert!(bench.told().contains("Service shop/a Pending (a.yaml:4)"));
    assert_eq!(bench.stats.ignored(), 1);
}

#[test]
fn names_that_look_like_booleans_are_names() {
    let mut bench = Bench::new();
    bench.write("a.yaml", &service("no", "None"));
    assert!(bench.told().contains("Service shop/no Headless"));
}

#[test]
fn files_that_are_no_objects_are_counted() {
    let mut bench = Bench::new();
    bench.write(
        "values.yaml",
        "replicas: 3\nitems: {a: 1}\n---\n---\nkind: 3\n",
    );
    bench.write("empty.yaml", "");
    bench.write("comment.yaml", "# nothing\n");
    assert_eq!(
        bench.told(),
        "all Namespace: 0\nall Service: 0\nall EndpointSlice: 0"
    );
    assert_eq!(bench.stats.ignored(), 2);
}

#[test]
fn a_large_dump_is_not_too_large() {
    let mut bench = Bench::new();
    // more nodes than the YAML reader's own limit
    let numbers = "1,".repeat(300_000);
    bench.write(
        "a.yaml",
        &format!(
            "kind: Big\ndata: [{numbers}]\n---\n{}",
            service("a", "None")
        ),
    );
    assert!(bench.told().contains("all Service: 1"));
}

/// A bench whose source is asked for less.
fn bench_for(wanted: Wanted) -> Bench {
    let mut bench = Bench::new();
    let root = bench.dir.path().to_owned();
    bench.folder = Folder::new(root, wanted, Duration::ZERO, Arc::clone(&bench.stats));
    bench
}

/// A Service with a label.
fn labelled(name: &str, label: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop, labels: {{app: \
         {label}}}}}\n---\n"
    )
}

#[test]
fn who_is_relabelled_comes_and_goes() {
    let mut bench = bench_for(Wanted {
        labels: Some(Selector::parse("app in (web, db)").unwrap()),
        ..Wanted::default()
    });
    bench.write(
        "a.yaml",
        &(labelled("one", "web") + &labelled("two", "other")),
    );
    assert_eq!(
        bench.told(),
        "all Namespace: 1\n  Namespace shop (a.yaml:1, implied)\nall Service: 1\n  \
         Service shop/one Pending (a.yaml:1)\nall EndpointSlice: 0"
    );
    bench.write(
        "a.yaml",
        &(labelled("one", "none") + &labelled("two", "db ")),
    );
    assert_eq!(
        bench.told(),
        "- Service shop/one (a.yaml:1)\n+ Service shop/two Pending (a.yaml:5)"
    );
    // the last file by name counts, selected or not
    bench.write("b.yaml", &labelled("two", "none"));
    let told = bench.told();
    assert!(told.starts_with("- Service shop/two"), "{told}");
}

#[test]
fn a_namespace_that_is_not_selected_is_not_there_though_objects_name_it() {
    let mut bench = bench_for(Wanted {
        namespace_labels: Some(Selector::parse("!hidden").unwrap()),
        ..Wanted::default()
    });
    let namespace = |labels: &str| {
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop, labels: {{{labels}}}}}\n")
    };
    bench.write("a.yaml", &service("web", "10.0.0.1"));
    bench.write("b.yaml", &namespace("hidden: ''"));
    let told = bench.told();
    assert!(
        told.starts_with("all Namespace: 0\nall Service: 1\n"),
        "{told}"
    );
    bench.write("b.yaml", &namespace("other: ''"));
    assert_eq!(bench.told(), "+ Namespace shop (b.yaml:1)");
    bench.write("b.yaml", &namespace("hidden: 'yes'"));
    assert_eq!(bench.told(), "- Namespace shop (b.yaml:1)");
    bench.remove("b.yaml");
    assert_eq!(bench.told(), "+ Namespace shop (a.yaml:1, implied)");
}

#[test]
fn kinds_that_are_not_asked_for_are_passed_over() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\n";
    let mut bench = bench_for(Wanted::default());
    bench.write("a.yaml", pod);
    assert_eq!(
        bench.told(),
        "all Namespace: 0\nall Service: 0\nall EndpointSlice: 0"
    );
    assert_eq!(bench.stats.ignored(), 1);
    let kinds = Kinds::BASE.with(Kind::Pod).without(Kind::EndpointSlice);
    let mut bench = bench_for(Wanted {
        kinds,
        ..Wanted::default()
    });
    bench.write(
        "a.yaml",
        &pod.replace("Pod", "PodList\nitems:\n- kind: Pod\n  apiVersion: v1")
            .replace("metadata", "  metadata"),
    );
    assert_eq!(
        bench.told(),
        "all Namespace: 1\n  Namespace shop (a.yaml:4, implied)\nall Service: 0\nall Pod: 1\n  Pod shop/p (a.yaml:4)"
    );
}

//! A folder is written, read by hand, and what the reading tells is compared.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::cluster::{Change, Kind, Kinds, Selector};
use crate::ops::SystemClock;

/// A Service in YAML.
fn service(name: &str, address: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: \
         {{clusterIP: {address}}}\n"
    )
}

/// A folder under test and the time it is told.
struct Bench {
    /// The folder.
    dir: TempDir,
    /// What is tested.
    folder: Folder,
    /// The time.
    now: Instant,
    /// The counters.
    stats: Arc<SourceStats>,
}

impl Bench {
    /// An empty folder.
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let stats = Arc::new(SourceStats::default());
        let grace = Duration::from_millis(200);
        let folder = Folder::new(
            dir.path().to_owned(),
            Wanted::default(),
            grace,
            Arc::clone(&stats),
        );
        Self {
            dir,
            folder,
            now: SystemClock.now(),
            stats,
        }
    }

    /// Writes a file.
    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Removes a file.
    fn remove(&self, name: &str) {
        fs::remove_file(self.dir.path().join(name)).unwrap();
    }

    /// Reads the folder, a second later than before.
    fn reread(&mut self) -> Reread {
        self.now += Duration::from_secs(1);
        self.folder.reread(self.now, SystemClock.wall())
    }

    /// Reads the folder and gives what it tells as text.
    fn told(&mut self) -> String {
        told(&self.reread(), self.dir.path())
    }
}

/// What a reading tells, a line each.
fn told(read: &Reread, root: &Path) -> String {
    let fact = |fact: &crate::cluster::Fact| {
        let form = match fact {
            crate::cluster::Fact::Service(service) => format!(" {:?}", service.form),
            crate::cluster::Fact::Namespace(_)
            | crate::cluster::Fact::EndpointSlice(_)
            | crate::cluster::Fact::Pod(_)
            | crate::cluster::Fact::ServiceImport(_) => String::new(),
        };
        format!(
            "{} {}{form} ({})",
            fact.kind(),
            fact.key(),
            fact.origin().place
        )
    };
    let mut lines = Vec::new();
    for change in &read.changes {
        match change {
            Change::Listed(kind, facts) => {
                lines.push(format!("all {kind}: {}", facts.len()));
                lines.extend(facts.iter().map(|listed| format!("  {}", fact(listed))));
            }
            Change::Applied(applied) => lines.push(format!("+ {}", fact(applied))),
            Change::Deleted(key, origin) => {
                lines.push(format!("- {} {} ({})", key.kind, key.key, origin.place));
            }
        }
    }
    lines.extend(read.problems.iter().map(|problem| format!("! {problem}")));
    lines
        .join("\n")
        .replace(&root.display().to_string(), "ROOT")
}

#[test]
fn the_first_reading_lists_every_kind_with_places() {
    let mut bench = Bench::new();
    bench.write(
        "a.yaml",
        &format!(
            "# head\n---\n{}---\n{}",
            service("a", "10.0.0.1"),
            service("b", "None")
        ),
    );
    bench.write("sub/c.yml", &service("c", "10.0.0.3"));
    bench.write("notes.txt", "not: looked at");
    assert_eq!(
        bench.told(),
        "all Namespace: 1\n  Namespace shop (a.yaml:3)\nall Service: 3\n  \
         Service shop/a ClusterIp([10.0.0.1]) (a.yaml:3)\n  \
         Service shop/b Headless (a.yaml:8)\n  \
         Service shop/c ClusterIp([10.0.0.3]) (sub/c.yml:1)\nall EndpointSlice: 0"
    );
    assert_eq!(bench.told(), "");
}

#[test]
fn an_empty_folder_lists_nothing_three_times() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.told(),
        "all Namespace: 0\nall Service: 0\nall EndpointSlice: 0"
    );
    bench.write("a.yaml", &service("a", "10.0.0.1"));
    assert_eq!(
        bench.told(),
        "+ Namespace shop (a.yaml:1)\n+ Service shop/a ClusterIp([10.0.0.1]) (a.yaml:1)"
    );
}

#[test]
fn only_what_changed_is_told() {
    let mut bench = Bench::new();
    bench.write(
        "a.yaml",
        &format!(
            "{}---\n{}",
            service("a", "10.0.0.1"),
            service("b", "10.0.0.2")
        ),
    );
    bench.told();
    bench.write(
        "a.yaml",
        &format!(
            "# moves all lines\n{}---\n{}",
            service("a", "10.0.0.1"),
            service("b", "10.0.0.9")
        ),
    );
    assert_eq!(
        bench.told(),
        "+ Service shop/b ClusterIp([10.0.0.9]) (a.yaml:7)"
    );
    bench.write("a.yaml", &service("b", "10.0.0.9"));
    // the place is the last one at which it stood
    assert_eq!(bench.told(), "- Service shop/a (a.yaml:2)");
}

#[test]
fn a_change_of_the_same_size_within_one_tick_is_seen() {
    let mut bench = Bench::new();
    for round in 0..50 {
        let address = format!("10.0.0.{}", 10 + round);
        bench.write("a.yaml", &service("a", &address));
        let told = bench.told();
        assert!(told.contains(&address), "round {round}: {told}");
    }
}

#[test]
fn only_files_that_may_have_changed_are_read() {
    let mut bench = Bench::new();
    bench.write("a.yaml", &service("a", "10.0.0.1"));
    bench.write("b.yaml", &service("b", "10.0.0.1"));
    let soon = SystemClock.wall();
    let later = soon + Duration::from_secs(60);
    assert_eq!(bench.folder.reread(bench.now, soon).files_read, 2);
    // too fresh: another change might leave the stamp as it is
    assert_eq!(bench.folder.reread(bench.now, later).files_read, 2);
    assert_eq!(bench.folder.reread(bench.now, later).files_read, 0);
    bench.write("b.yaml", &service("b", "10.0.0.2"));
    assert_eq!(bench.folder.reread(bench.now, later).files_read, 1);
}

#[test]
fn a_file_that_does_not_parse_keeps_its_last_good_content() {
    let mut bench = Bench::new();
    bench.write("a.yaml", &service("a", "10.0.0.1"));
    bench.told();
    let broken = format!(
        "{}---\nkind: Service\nspec: [unclosed\n",
        service("a", "10.0.0.2")
    );
    bench.write("a.yaml", &broken);
    let told = bench.told();
    assert!(told.starts_with("! a.yaml:"), "{told}");
    assert!(told.ends_with("; its last good content stays"), "{told}");
    assert!(!told.contains('\n'), "one line: {told}");
    assert_eq!(bench.told(), "", "said once");
    bench.write("a.yaml", &service("a", "10.0.0.3"));
    assert_eq!(
        bench.told(),
        "+ Service shop/a ClusterIp([10.0.0.3]) (a.yaml:1)"
    );
}

#[test]
fn the_line_of_a_mistake_is_named() {
    let mut interner = super::super::Interner::default();
    let mut line = |file: &str, text: &str| {
        parse::parse(file, text, &Wanted::default(), &mut interner)
            .unwrap_err()
            .line
    };
    assert_eq!(
        line("a.yaml", "a: 1\n---\nkind: x\n  bad: indent\n"),
        Some(4)
    );
    assert_eq!(line("a.yaml", "kind: x\nkind: y\n"), Some(2));
    assert_eq!(line("a.json", "{\n\"kind\": \"x\",\n oops\n}"), Some(3));
}

#[test]
fn a_file_that_is_not_utf8_or_may_not_be_read_is_reported() {
    let mut bench = Bench::new();
    fs::write(bench.dir.path().join("a.yaml"), b"kind: \xff\n").unwrap();
    let told = bench.told();
    assert!(told.ends_with("! a.yaml: not UTF-8 at octet 6"), "{told}");
}

#[test]
fn a_removed_file_is_gone_after_the_grace_only() {
    let mut bench = Bench::new();
    bench.write("a.yaml", &service("a", "10.0.0.1"));
    bench.told();
    bench.remove("a.yaml");
    let read = bench.reread();
    assert!(read.changes.is_empty());
    assert_eq!(read.again, Some(Duration::from_millis(200)));
    assert_eq!(
        bench.told(),
        "- Namespace shop (a.yaml:1)\n- Service shop/a (a.yaml:1)"
    );
}

#[test]
fn an_editor_that_renames_or_empties_first_makes_no_gap() {
    let mut bench = Bench::new();
    bench.write("a.yaml", &service("a", "10.0.0.1"));
    bench.told();
    bench.remove("a.yaml");
    assert_eq!(bench.told(), "");
    bench.write("a.yaml", &service("a", "10.0.0.2"));
    assert_eq!(
        bench.told(),
        "+ Service shop/a ClusterIp([10.0.0.2]) (a.yaml:1)"
    );
    bench.write("a.yaml", "");
    assert_eq!(bench.told(), "");
    bench.write("a.yaml", &service("a", "10.0.0.2"));
    assert_eq!(bench.told(), "");
    bench.write("a.yaml", "");
    assert_eq!(bench.told(), "");
    assert_eq!(
        bench.told(),
        "- Namespace shop (a.yaml:1)\n- Service shop/a (a.yaml:1)"
    );
}

#[test]
fn an_object_that_moves_to_another_file_does_not_change() {
    let mut bench = Bench::new();
    bench.write("a.yaml", &service("a", "10.0.0.1"));
    bench.told();
    fs::rename(
        bench.dir.path().join("a.yaml"),
        bench.dir.path().join("b.yaml"),
    )
    .unwrap();
    let first = bench.told();
    assert!(
        first.starts_with("! b.yaml:1: Service shop/a: stands also at a.yaml:1"),
        "{first}"
    );
    assert_eq!(bench.told(), "");
    bench.remove("b.yaml");
    bench.reread();
    assert_eq!(
        bench.told(),
        "- Namespace shop (b.yaml:1)\n- Service shop/a (b.yaml:1)"
    );
}

#[test]
fn of_two_files_with_one_object_the_later_name_counts() {
    let mut bench = Bench::new();
    bench.write("b.yaml", &service("a", "10.0.0.2"));
    bench.told();
    bench.write("a.yaml", &service("a", "10.0.0.1"));
    assert_eq!(
        bench.told(),
        "! b.yaml:1: Service shop/a: stands also at a.yaml:1; the file that is last by name counts"
    );
    bench.remove("b.yaml");
    bench.reread();
    assert_eq!(
        bench.told(),
        "+ Service shop/a ClusterIp([10.0.0.1]) (a.yaml:1)"
    );
}

#[test]
fn of_one_object_twice_in_a_file_the_later_counts() {
    let mut bench = Bench::new();
    bench.write(
        "a.yaml",
        &format!(
            "{}---\n{}",
            service("a", "10.0.0.1"),
            service("a", "10.0.0.2")
        ),
    );
    let told = bench.told();
    assert!(
        told.contains("Service shop/a ClusterIp([10.0.0.2]) (a.yaml:6)"),
        "{told}"
    );
    assert!(
        told.contains("! a.yaml:6: Service shop/a: stands also at a.yaml:1"),
        "{told}"
    );
}

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
    let expected = "all Namespace: 1\n  Namespace shop (dump.yaml:3)\nall Service: 1\n  \
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

#[test]
fn a_mounted_config_map_is_read_once_and_swapped_whole() {
    let mut bench = Bench::new();
    bench.write("..v1/a.yaml", &service("a", "10.0.0.1"));
    bench.write("..v2/a.yaml", &service("a", "10.0.0.2"));
    let at = |name: &str| bench.dir.path().join(name);
    symlink("..v1", at("..data")).unwrap();
    symlink("..data/a.yaml", at("a.yaml")).unwrap();
    symlink("nowhere", at("dangling.yaml")).unwrap();
    symlink(".", at("loop")).unwrap();
    assert!(
        bench
            .told()
            .contains("all Service: 1\n  Service shop/a ClusterIp([10.0.0.1]) (a.yaml:1)")
    );
    let at = |name: &str| bench.dir.path().join(name);
    symlink("..v2", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    assert_eq!(
        bench.told(),
        "+ Service shop/a ClusterIp([10.0.0.2]) (a.yaml:1)"
    );
}

#[test]
fn a_folder_that_goes_away_keeps_its_content_and_says_so() {
    let mut bench = Bench::new();
    let root = bench.dir.path().join("root");
    bench.write("root/a.yaml", &service("a", "10.0.0.1"));
    bench.folder = Folder::new(
        root.clone(),
        Wanted::default(),
        Duration::ZERO,
        Arc::clone(&bench.stats),
    );
    bench.told();
    fs::rename(&root, bench.dir.path().join("away")).unwrap();
    let read = bench.reread();
    assert!(read.changes.is_empty());
    assert!(
        read.unreadable
            .is_some_and(|why| why.contains("cannot be read"))
    );
    assert_eq!(read.problems.len(), 1);
    assert_eq!(bench.told(), "", "said once");
    fs::rename(bench.dir.path().join("away"), &root).unwrap();
    let read = bench.reread();
    assert!(read.changes.is_empty() && read.unreadable.is_none());
}

#[test]
fn a_folder_that_cannot_be_read_at_first_lists_nothing() {
    let mut bench = Bench::new();
    let root = bench.dir.path().join("root");
    bench.folder = Folder::new(
        root,
        Wanted::default(),
        Duration::ZERO,
        Arc::clone(&bench.stats),
    );
    assert!(bench.reread().changes.is_empty());
    bench.write("root/a.yaml", &service("a", "10.0.0.1"));
    assert!(bench.told().contains("all Service: 1"));
}

#[test]
fn a_missing_folder_is_an_error_at_the_start() {
    let dir = TempDir::new().unwrap();
    let open = |path: &Path| {
        let stats = Arc::new(SourceStats::default());
        ManifestSource::open(
            path,
            Wanted::default(),
            Settings::default(),
            Arc::new(SystemClock),
            stats,
        )
    };
    assert!(open(dir.path()).is_ok());
    let missing = dir.path().join("missing");
    let error = open(&missing).unwrap_err().to_string();
    assert!(error.contains("missing: No such file"), "{error}");
    fs::write(&missing, "").unwrap();
    assert!(
        open(&missing)
            .unwrap_err()
            .to_string()
            .contains("Not a directory")
    );
}

#[tokio::test]
async fn a_change_is_told_by_the_system_within_the_deadline() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a.yaml"), service("a", "10.0.0.1")).unwrap();
    let settings = Settings {
        poll: Duration::from_secs(3600),
        ..Settings::default()
    };
    let stats = Arc::new(SourceStats::default());
    let source = ManifestSource::open(
        dir.path(),
        Wanted::default(),
        settings,
        Arc::new(SystemClock),
        stats,
    )
    .unwrap();
    let (tx, mut rx) = mpsc::channel(64);
    let cancel = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(source.run(tx, cancel.clone()));
    let mut next = async || {
        let next = tokio::time::timeout(Duration::from_secs(10), rx.recv());
        next.await
            .expect("an event in time")
            .expect("a running source")
    };
    for _ in Kinds::BASE.iter() {
        assert!(matches!(
            next().await,
            SourceEvent::Changed {
                change: Change::Listed(..),
                ..
            }
        ));
    }
    assert!(matches!(next().await, SourceEvent::Fresh(_)));
    // a folder that appears is watched too
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/b.yaml"), service("b", "10.0.0.2")).unwrap();
    let SourceEvent::Changed {
        change: Change::Applied(fact),
        ..
    } = next().await
    else {
        panic!("not applied")
    };
    assert_eq!(fact.key().to_string(), "shop/b");
    fs::write(dir.path().join("sub/b.yaml"), service("b", "10.0.0.3")).unwrap();
    assert!(matches!(
        next().await,
        SourceEvent::Changed {
            change: Change::Applied(_),
            ..
        }
    ));
    fs::remove_file(dir.path().join("sub/b.yaml")).unwrap();
    assert!(matches!(
        next().await,
        SourceEvent::Changed {
            change: Change::Deleted(..),
            ..
        }
    ));
    cancel.cancel();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
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
        "all Namespace: 1\n  Namespace shop (a.yaml:1)\nall Service: 1\n  \
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
    assert_eq!(bench.told(), "+ Namespace shop (a.yaml:1)");
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
        "all Namespace: 1\n  Namespace shop (a.yaml:4)\nall Service: 0\nall Pod: 1\n  Pod shop/p (a.yaml:4)"
    );
}

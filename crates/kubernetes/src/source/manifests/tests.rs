//! A folder is written, read by hand, and what the reading tells is compared.

mod folder;

mod objects;

use std::fs;
use std::os::unix::fs::symlink;

use ops::SystemClock;
use provenance::Kind;
use tempfile::TempDir;

use super::*;
use crate::facts::{Change, Kinds, Selector};

fn service(name: &str, address: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: \
         {{clusterIP: {address}}}\n"
    )
}

/// A folder under test and the time it is told.
struct Bench {
    dir: TempDir,
    folder: Folder,
    now: Instant,
    stats: Arc<SourceStats>,
}

impl Bench {
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

    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

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
    let fact = |fact: &crate::facts::Fact| {
        let form = match fact {
            crate::facts::Fact::Service(service) => format!(" {:?}", service.form),
            crate::facts::Fact::Namespace(_)
            | crate::facts::Fact::EndpointSlice(_)
            | crate::facts::Fact::Pod(_)
            | crate::facts::Fact::ServiceImport(_) => String::new(),
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
        "all Namespace: 1\n  Namespace shop (a.yaml:3, implied)\nall Service: 3\n  \
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
        "+ Namespace shop (a.yaml:1, implied)\n+ Service shop/a ClusterIp([10.0.0.1]) (a.yaml:1)"
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
    assert!(told.ends_with("; its last good content is kept"), "{told}");
    assert!(!told.contains('\n'), "one line: {told}");
    assert_eq!(bench.told(), "", "said once");
    bench.write("a.yaml", &service("a", "10.0.0.3"));
    assert_eq!(
        bench.told(),
        "+ Service shop/a ClusterIp([10.0.0.3]) (a.yaml:1)"
    );
}

#[test]
fn files_and_objects_that_cannot_be_read_are_counted_until_they_are_repaired() {
    let mut bench = Bench::new();
    bench.write("a.yaml", "kind: Service\nspec: [unclosed\n");
    bench.write("b.yaml", "kind: Service\nspec: [unclosed\n");
    bench.told();
    assert_eq!(bench.stats.problem_count(), 2);
    bench.write("a.yaml", &service("a", "10.0.0.1"));
    bench.told();
    assert_eq!(bench.stats.problem_count(), 1);
    bench.remove("b.yaml");
    bench.told();
    bench.told();
    assert_eq!(bench.stats.problem_count(), 0);
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
    assert!(told.ends_with("! a.yaml: not UTF-8 at byte 6"), "{told}");
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
        "- Namespace shop (a.yaml:1, implied)\n- Service shop/a (a.yaml:1)"
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
        "- Namespace shop (a.yaml:1, implied)\n- Service shop/a (a.yaml:1)"
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
        first.starts_with("! b.yaml:1: Service shop/a: is also in a.yaml:1"),
        "{first}"
    );
    assert_eq!(bench.told(), "");
    bench.remove("b.yaml");
    bench.reread();
    assert_eq!(
        bench.told(),
        "- Namespace shop (b.yaml:1, implied)\n- Service shop/a (b.yaml:1)"
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
        "! b.yaml:1: Service shop/a: is also in a.yaml:1; the last file by name counts"
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
        told.contains("! a.yaml:6: Service shop/a: is also in a.yaml:1"),
        "{told}"
    );
}

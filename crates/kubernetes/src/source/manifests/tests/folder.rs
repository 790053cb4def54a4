//! The folder itself: mounted, missing, gone, and watched.

use tokio::sync::mpsc;

use super::*;

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

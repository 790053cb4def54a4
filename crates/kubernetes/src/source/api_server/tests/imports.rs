//! ServiceImports: an API that a cluster has, has not, gets and loses.

use std::sync::atomic::AtomicU8;

use super::*;

/// The server has no ServiceImports.
const ABSENT: u8 = 0;
/// It has them in the older version.
const OLDER: u8 = 1;
/// It has them in both.
const BOTH: u8 = 2;

/// An import as the server writes it.
const WEB: &str = "{\"metadata\":{\"name\":\"web\",\"namespace\":\"shop\",\"resourceVersion\":\"5\"},\
                   \"spec\":{\"type\":\"ClusterSetIP\",\"ips\":[\"10.42.0.1\"],\"ports\":[]}}";

/// A server that is well, and has ServiceImports as the number says. A watch of them ends at once when
/// there are none any more.
async fn fake_with(api: &Arc<AtomicU8>) -> Fake {
    let api = Arc::clone(api);
    Fake::start(Arc::new(move |asked: &Asked, _| {
        let has = match api.load(Ordering::SeqCst) {
            ABSENT => false,
            OLDER => asked.path.contains("/v1alpha1/"),
            _ => true,
        };
        match (asked.plural.as_str(), asked.is_watch()) {
            ("serviceimports", _) if !has => Reply::status(404, "the server could not find it"),
            ("serviceimports", true) if asked.part("resourceVersion") == "7" => {
                Reply::lines(&[&bookmark(8)])
            }
            (_, true) => Reply::quiet(),
            ("serviceimports", false) => Reply::page("7", "", &[WEB]),
            (_, false) => Reply::page("1", "", &[]),
        }
    }))
    .await
}

/// The source that wants imports.
async fn bench(fake: &Fake) -> Bench {
    let wanted = Wanted {
        kinds: Kinds::BASE.with(Kind::ServiceImport),
        ..Wanted::default()
    };
    let auth = Auth::Endpoint {
        url: fake.url(),
        tls: None,
    };
    Bench::start_for(wanted, auth, quick()).await
}

/// Waits for the word about a part: `None` when it is seen, else why it is not.
async fn turn(bench: &mut Bench, part: Part) -> Option<String> {
    let wanted = part;
    bench
        .next("word about a part", |event| match event {
            SourceEvent::Stale { part, reason, .. } if *part == wanted => {
                Some(Some(reason.clone()))
            }
            SourceEvent::Fresh(part) if *part == wanted => Some(None),
            SourceEvent::Stale { .. }
            | SourceEvent::Fresh(_)
            | SourceEvent::Changed { .. }
            | SourceEvent::Problem(_) => None,
        })
        .await
}

/// Waits for the list of imports; how many there are.
async fn listed(bench: &mut Bench) -> usize {
    bench
        .next("list of imports", |event| match event {
            SourceEvent::Changed {
                change: Change::Listed(Kind::ServiceImport, facts),
                ..
            } => Some(facts.len()),
            SourceEvent::Changed { .. }
            | SourceEvent::Stale { .. }
            | SourceEvent::Fresh(_)
            | SourceEvent::Problem(_) => None,
        })
        .await
}

#[tokio::test]
async fn a_cluster_without_the_crd_is_seen_and_its_imports_when_they_come() {
    let api = Arc::new(AtomicU8::new(ABSENT));
    let fake = fake_with(&api).await;
    let mut bench = bench(&fake).await;
    assert_eq!(turn(&mut bench, Part::Cluster).await, None);
    let why = turn(&mut bench, Part::Imports).await;
    let text = "the cluster has no serviceimports in multicluster.x-k8s.io: the zones of multicluster wait for the CRD, all others work";
    assert_eq!(why.as_deref(), Some(text));
    assert_eq!(bench.stats.problems(), [text]);
    assert!(!bench.stats.is_stale());

    api.store(OLDER, Ordering::SeqCst);
    assert_eq!(listed(&mut bench).await, 1);
    assert_eq!(turn(&mut bench, Part::Imports).await, None);
    assert!(bench.stats.problems().is_empty());
}

#[tokio::test]
async fn a_crd_that_vanishes_leaves_what_was_seen_and_makes_nothing_else_stale() {
    let api = Arc::new(AtomicU8::new(BOTH));
    let fake = fake_with(&api).await;
    let mut bench = bench(&fake).await;
    assert_eq!(listed(&mut bench).await, 1);
    assert!(
        fake.asked("serviceimports", false)[0]
            .path
            .contains("/v1beta1/")
    );

    api.store(ABSENT, Ordering::SeqCst);
    let why = bench
        .next("staleness of imports", |event| match event {
            SourceEvent::Stale {
                part: Part::Imports,
                reason,
                ..
            } => Some(reason.clone()),
            SourceEvent::Changed {
                change: Change::Listed(Kind::ServiceImport, _),
                ..
            } => {
                panic!("an API that is gone was taken for an empty list")
            }
            SourceEvent::Stale {
                part: Part::Cluster,
                ..
            } => panic!("all of it is stale"),
            SourceEvent::Fresh(_) | SourceEvent::Changed { .. } | SourceEvent::Problem(_) => None,
        })
        .await;
    assert!(
        why.starts_with("the cluster has no serviceimports"),
        "{why}"
    );
    assert!(!bench.stats.is_stale());

    api.store(BOTH, Ordering::SeqCst);
    assert_eq!(listed(&mut bench).await, 1);
    assert_eq!(turn(&mut bench, Part::Imports).await, None);
}

//! What observers are told, and when.

use super::*;

/// Notes what the live layer knows of the namespace `a` when a version is shown.
struct Watching(Arc<SeenNamespaces>, Arc<Mutex<Vec<Option<bool>>>>);

impl Observer for Watching {
    fn published(&self, _: &Version, _: usize, _: usize) {
        self.1.lock().unwrap().push(self.0.contains("a"));
    }
    fn committed(&self, _: Duration, _: &[Duration]) {}
    fn failed(&self, _: &str) {}
    fn problems(&self, _: &mut dyn Iterator<Item = &Problem>, _: &[Problem]) {}
    fn synced(&self, _: usize) {}
}

#[test]
fn the_live_layer_knows_the_namespaces_before_the_first_version_is_shown() {
    let (seen, told) = (Arc::new(SeenNamespaces::default()), Arc::default());
    let plan = ClusterPlan {
        seen: Some(Arc::clone(&seen)),
        ..plan()
    };
    let observer = Box::new(Watching(seen, Arc::clone(&told)));
    let clock = HandClock::at(1_000);
    let mut pipeline = Pipeline::new(vec![plan], NoStore::default(), clock, observer);
    for kind in Kinds::BASE.iter() {
        let known = (kind == Kind::Namespace).then(|| namespace("a"));
        feed(
            &mut pipeline,
            Change::Listed(kind, known.into_iter().collect()),
        );
    }
    assert!(pipeline.commit());
    let told = told.lock().unwrap();
    assert!(!told.is_empty() && told.iter().all(|known| *known == Some(true)));
}

/// Notes how many latencies each commit tells.
struct Counting(Arc<Mutex<Vec<usize>>>);

impl Observer for Counting {
    fn published(&self, _: &Version, _: usize, _: usize) {}
    fn committed(&self, _: Duration, latencies: &[Duration]) {
        self.0.lock().unwrap().push(latencies.len());
    }
    fn failed(&self, _: &str) {}
    fn problems(&self, _: &mut dyn Iterator<Item = &Problem>, _: &[Problem]) {}
    fn synced(&self, _: usize) {}
}

#[test]
fn a_latency_is_told_of_what_changed_something_and_once() {
    let told = Arc::default();
    let observer = Box::new(Counting(Arc::clone(&told)));
    let clock = HandClock::at(1_000);
    let mut pipeline = Pipeline::new(vec![plan()], NoStore::default(), clock, observer);
    for kind in Kinds::BASE.iter() {
        feed(&mut pipeline, Change::Listed(kind, Vec::new()));
    }
    assert!(pipeline.commit());
    feed(&mut pipeline, Change::Applied(namespace("a")));
    assert!(pipeline.commit());
    told.lock().unwrap().clear();
    for _ in 0..5 {
        feed(&mut pipeline, Change::Applied(namespace("a")));
        assert!(pipeline.commit());
    }
    assert_eq!(pipeline.seen.len(), 0);
    feed(&mut pipeline, Change::Applied(namespace("a")));
    feed(
        &mut pipeline,
        Change::Applied(files::at_address("10.0.0.1")),
    );
    assert!(pipeline.commit());
    assert_eq!(*told.lock().unwrap(), [1]);
}

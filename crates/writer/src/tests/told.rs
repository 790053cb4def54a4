//! What observers are told, and when.

use super::*;
use crate::sources::SEEN_MOST;

/// Notes what the live layer knows of the namespace `a` when a version is shown.
struct Watching(Arc<SeenNamespaces>, Arc<Mutex<Vec<Option<bool>>>>);

impl Observer for Watching {
    fn published(&self, _: &Version, _: usize, _: usize) {
        self.1.lock().unwrap().push(self.0.contains("a"));
    }
    fn committed(&self, _: Duration, _: &[Duration]) {}
    fn failed(&self, _: &str) {}
    fn problems(&self, _: &mut dyn Iterator<Item = &Problem>, _: &[Problem]) {}
    fn synced(&self, _: &str) {}
}

#[test]
fn the_live_layer_knows_the_namespaces_before_the_first_version_is_shown() {
    let plan = World::new(ClusterPlan {
        publishes_namespaces: true,
        ..plan().plan
    });
    let (seen, told) = (plan.handles.live.seen.clone().unwrap(), Arc::default());
    let observer = Box::new(Watching(seen, Arc::clone(&told)));
    let clock = HandClock::at(1_000);
    let mut pipeline = writer(&[plan], NoStore::default(), clock, observer);
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
    fn synced(&self, _: &str) {}
}

#[test]
fn a_latency_is_told_of_what_changed_something_and_once() {
    let told = Arc::default();
    let observer = Box::new(Counting(Arc::clone(&told)));
    let clock = HandClock::at(1_000);
    let mut pipeline = writer(&[plan()], NoStore::default(), clock, observer);
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

#[test]
fn what_changes_while_the_store_refuses_is_kept_with_a_limit_and_names_its_last_causes() {
    let told = Arc::default();
    let observer = Box::new(Counting(Arc::clone(&told)));
    let clock = HandClock::at(1_000);
    let plan = plan();
    let mut pipeline = writer(
        std::slice::from_ref(&plan),
        NoStore::default(),
        clock,
        observer,
    );
    for kind in Kinds::BASE.iter() {
        feed(&mut pipeline, Change::Listed(kind, Vec::new()));
    }
    feed(&mut pipeline, Change::Applied(namespace("a")));
    assert!(pipeline.commit());
    pipeline.store.refusals = 2;
    let many = 2 * SEEN_MOST + 5;
    for number in 0..many {
        let Fact::Service(service) = files::at_address(&format!("10.0.0.{}", number % 200)) else {
            panic!("no Service");
        };
        let origin = Origin {
            resource_version: number.to_string().into(),
            ..Origin::default()
        };
        let fact = Fact::Service(Service { origin, ..service });
        feed(&mut pipeline, Change::Applied(fact));
        if number % SEEN_MOST == 0 && number > 0 {
            assert!(!pipeline.commit());
        }
    }
    let dirty = &pipeline.clusters[0].dirty;
    assert!(dirty.changes >= many as u64);
    assert!(
        dirty.causes.len() <= SEEN_MOST + 1,
        "{}",
        dirty.causes.len()
    );
    assert_eq!(pipeline.seen.len(), SEEN_MOST);
    assert!(pipeline.commit());
    assert_eq!(*told.lock().unwrap().last().unwrap(), SEEN_MOST);
    let version = plan.zone("cluster.local.").current().unwrap();
    let step = version.history.last().unwrap();
    let newest = (many - 1).to_string();
    let mut causes = step.causes.iter().flatten();
    assert!(causes.any(|cause| *cause.origin.resource_version == *newest));
    // With the next batch it begins anew.
    feed(
        &mut pipeline,
        Change::Applied(files::at_address("10.0.1.1")),
    );
    assert_eq!(pipeline.clusters[0].dirty.causes.len(), 1);
}

/// A store that says what is called of it, and for so many idle turns wants another.
struct Saying(std::sync::mpsc::Sender<&'static str>, usize);

impl Store for Saying {
    type Error = String;

    fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, String> {
        self.0.send("commit").unwrap();
        Ok(candidates.into_iter().map(Candidate::journaled).collect())
    }

    fn floor(&self, _: &Name) -> Option<Serial> {
        None
    }

    fn prepare(&mut self) {
        self.0.send("prepare").unwrap();
    }

    fn idle(&mut self) -> bool {
        self.1 = self.1.saturating_sub(1);
        self.0.send("idle").unwrap();
        false
    }

    fn again_after(&self) -> Option<Duration> {
        (self.1 > 0).then_some(Duration::from_millis(1))
    }
}

#[test]
fn a_store_is_told_before_a_commit_and_again_when_it_wants_to_be_while_nothing_changes() {
    let (said, heard) = std::sync::mpsc::channel();
    let clock = HandClock::at(1_000);
    let store = Saying(said, 3);
    let mut pipeline = writer(&[plan()], store, clock, Box::new(Deaf));
    assert!(pipeline.commit());
    assert!(heard.try_recv().is_err(), "there is nothing to commit");
    for kind in Kinds::BASE.iter() {
        feed(&mut pipeline, Change::Listed(kind, Vec::new()));
    }
    assert!(pipeline.commit());
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["prepare", "commit"]);
    let (inputs, mut waiting) = mpsc::channel(1);
    let writer = std::thread::spawn(move || pipeline.run(&mut waiting));
    for _ in 0..3 {
        let told = heard.recv_timeout(Duration::from_secs(30));
        assert_eq!(told, Ok("idle"));
    }
    drop(inputs);
    writer.join().unwrap();
}

/// Keeps the problems that it was told last.
#[derive(Clone, Default)]
struct Listing(Arc<Mutex<Vec<String>>>);

impl Observer for Listing {
    fn published(&self, _: &Version, _: usize, _: usize) {}
    fn committed(&self, _: Duration, _: &[Duration]) {}
    fn failed(&self, _: &str) {}
    fn problems(&self, all: &mut dyn Iterator<Item = &Problem>, _: &[Problem]) {
        *self.0.lock().unwrap() = all
            .map(|problem| format!("{} {}", problem.object.kind, problem.object.key))
            .collect();
    }
    fn synced(&self, _: &str) {}
}

#[test]
fn the_problems_of_one_cluster_do_not_hide_those_of_another() {
    let told = Listing::default();
    let mut zone = plan().forward[0].clone();
    zone.name = "other.example.".parse().unwrap();
    let other = ClusterPlan {
        forward: vec![zone],
        reverse: Vec::new(),
        external: Vec::new(),
        ..plan().plan
    };
    let clock = HandClock::at(1_000);
    let (plans, observer) = ([plan(), World::new(other)], Box::new(told.clone()));
    let mut pipeline = writer(&plans, NoStore::default(), clock, observer);
    let seen = pipeline.clock.now();
    let mut feed = |cluster, change| {
        let source = SourceId(cluster);
        let event = seen_at(change, seen);
        pipeline.take(Input::Source { source, event });
        assert!(pipeline.commit());
        told.0.lock().unwrap().clone()
    };
    let alias = |name: &str, host: &str| {
        Fact::Service(Service {
            key: ObjectKey::new("a", name),
            form: ServiceForm::ExternalName(host.into()),
            ports: [].into(),
            external: None,
            created_s: 0,
            origin: Origin::default(),
        })
    };
    for cluster in [0, 1] {
        for kind in Kinds::BASE.iter() {
            let known = (kind == Kind::Namespace).then(|| namespace("a"));
            feed(cluster, Change::Listed(kind, known.into_iter().collect()));
        }
    }
    let said = feed(0, Change::Applied(alias("first", "a..b")));
    assert_eq!(said, ["Service a/first"]);
    let said = feed(1, Change::Applied(alias("second", "a..b")));
    assert_eq!(said, ["Service a/first", "Service a/second"]);
    let said = feed(1, Change::Applied(alias("second", "good.example")));
    assert_eq!(said, ["Service a/first"]);
}

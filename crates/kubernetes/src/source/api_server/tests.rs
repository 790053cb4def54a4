//! The source against a server that does what servers do on bad days.

mod access;
mod past;
mod triggered;

mod imports;

use std::sync::atomic::{AtomicBool, Ordering};

use ops::SystemClock;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::fake::{Asked, Fake, Reply, Script};
use super::*;
use crate::facts::{Change, Fact, Kinds, Selector};
use crate::source::{About, ErrorClass, Problem};

/// How long a test waits for what must come.
const DEADLINE: Duration = Duration::from_secs(20);

fn quick() -> Settings {
    Settings {
        page_timeout: Duration::from_secs(5),
        backoff_first: Duration::from_millis(20),
        backoff_longest: Duration::from_millis(200),
        patience: Duration::from_millis(500),
        least_watch: Duration::from_millis(200),
        ..Settings::default()
    }
}

/// The source under test and what it says.
struct Bench {
    rx: mpsc::Receiver<SourceEvent>,
    stats: Arc<SourceStats>,
    _tasks: JoinSet<()>,
}

impl Bench {
    async fn start(auth: Auth, settings: Settings) -> Self {
        Self::start_for(Wanted::default(), auth, settings).await
    }

    /// Follows a server for what is wanted.
    async fn start_for(wanted: Wanted, auth: Auth, settings: Settings) -> Self {
        let stats = Arc::new(SourceStats::default());
        let clock = Arc::new(SystemClock);
        let source = KubernetesSource::connect(auth, wanted, settings, clock, Arc::clone(&stats));
        let source = source.await.unwrap();
        let (tx, rx) = mpsc::channel(16);
        let mut tasks = JoinSet::new();
        tasks.spawn(source.run(tx, CancellationToken::new()));
        Self {
            rx,
            stats,
            _tasks: tasks,
        }
    }

    async fn of(fake: &Fake) -> Self {
        Self::start(
            Auth::Endpoint {
                url: fake.url(),
                tls: None,
            },
            quick(),
        )
        .await
    }

    /// The next event for which `pick` gives something.
    async fn next<T>(&mut self, what: &str, pick: impl Fn(&SourceEvent) -> Option<T>) -> T {
        let mut passed = Vec::new();
        let found = timeout(DEADLINE, async {
            loop {
                let event = self.rx.recv().await.expect("a running source");
                if let Some(found) = pick(&event) {
                    return found;
                }
                passed.push(format!("{event:?}"));
            }
        });
        match found.await {
            Ok(found) => found,
            Err(_) => panic!("no {what} in time; passed by:\n{}", passed.join("\n")),
        }
    }

    /// The next list or single change of Services, as text.
    async fn change(&mut self) -> String {
        self.next("change of a Service", |event| match event {
            SourceEvent::Changed { change, .. } => said(change),
            SourceEvent::Stale { .. } | SourceEvent::Fresh(_) | SourceEvent::Problem(_) => None,
        })
        .await
    }

    async fn problem(&mut self) -> Problem {
        self.next("problem", |event| match event {
            SourceEvent::Problem(problem) => Some(problem.clone()),
            SourceEvent::Stale { .. } | SourceEvent::Fresh(_) | SourceEvent::Changed { .. } => None,
        })
        .await
    }

    /// Waits until every kind is watched.
    async fn fresh(&mut self) {
        self.next("freshness", |event| {
            matches!(event, SourceEvent::Fresh(_)).then_some(())
        })
        .await;
    }

    /// Waits until the source is stale; why.
    async fn stale(&mut self) -> String {
        self.next("staleness", |event| match event {
            SourceEvent::Stale { reason, .. } => Some(reason.clone()),
            SourceEvent::Problem(_) | SourceEvent::Fresh(_) | SourceEvent::Changed { .. } => None,
        })
        .await
    }

    /// Faults of Services of a class.
    fn errors(&self, class: ErrorClass) -> u64 {
        self.stats.kind(Kind::Service).errors(class)
    }
}

/// A change of Services as text, with the uid and version of a single one.
fn said(change: &Change) -> Option<String> {
    match change {
        Change::Listed(Kind::Service, facts) => {
            let names: Vec<&str> = facts.iter().map(|fact| &*fact.key().name).collect();
            Some(format!("all: {}", names.join(" ")))
        }
        Change::Applied(Fact::Service(service)) => Some(format!(
            "+{}@{}",
            service.key.name, service.origin.resource_version
        )),
        Change::Deleted(key, origin) if key.kind == Kind::Service => {
            Some(format!("-{}@{}", key.key.name, origin.resource_version))
        }
        Change::Listed(..) | Change::Applied(_) | Change::Deleted(..) => None,
    }
}

/// A Service as the server writes it.
fn service(name: &str, version: u32) -> String {
    format!(
        "{{\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"shop\",\"resourceVersion\":\"{version}\"}},\
         \"spec\":{{\"clusterIP\":\"10.0.0.1\",\"ports\":[{{\"port\":80}}]}}}}"
    )
}

/// An event of a watch.
fn event(word: &str, object: &str) -> String {
    format!("{{\"type\":\"{word}\",\"object\":{object}}}")
}

fn bookmark(version: u32) -> String {
    event(
        "BOOKMARK",
        &format!("{{\"kind\":\"Service\",\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}"),
    )
}

/// A server that is well but for what the script says about Services.
async fn fake(services: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Fake {
    Fake::start(script(services)).await
}

/// A script that is well but for Services.
fn script(services: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Arc<Script> {
    Arc::new(
        move |asked: &Asked, before: usize| match (asked.plural.as_str(), asked.is_watch()) {
            ("services", _) => services(asked, before),
            (_, true) => Reply::quiet(),
            (_, false) => Reply::page("1", "", &[]),
        },
    )
}

#[tokio::test]
async fn pages_are_put_together_and_the_watch_goes_on_from_the_list() {
    let fake = fake(
        |asked, before| match (asked.is_watch(), asked.part("continue")) {
            (true, _) if before == 0 => Reply::lines(&[
                &event("ADDED", &service("c", 11)),
                &event("DELETED", &service("a", 12)),
            ]),
            (true, _) => Reply::quiet(),
            (false, "") => Reply::page("10", "two", &[&service("a", 1)]),
            (false, _) => Reply::page("10", "", &[&service("b", 2)]),
        },
    )
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: a b");
    assert_eq!(bench.change().await, "+c@11");
    assert_eq!(bench.change().await, "-a@12");
    let lists = fake.asked("services", false);
    assert_eq!(lists[0].part("limit"), "500");
    assert_eq!(lists[1].part("continue"), "two");
    let watch = &fake.asked("services", true)[0];
    assert_eq!(
        (
            watch.part("resourceVersion"),
            watch.part("timeoutSeconds"),
            watch.part("allowWatchBookmarks")
        ),
        ("10", "60", "true")
    );
    assert_eq!(bench.stats.kind(Kind::Service).events(), 2);
    assert_eq!(bench.stats.kind(Kind::Service).lists(), 1);
    assert!(bench.stats.last_contact().is_some());
}

#[tokio::test]
async fn after_a_bookmark_the_watch_goes_on_from_it() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, 0) => Reply::lines(&[&event("ADDED", &service("a", 11)), &bookmark(99)]),
        (true, _) => Reply::lines(&[&event("ADDED", &service("b", 100))]),
        (false, _) => Reply::page("10", "", &[]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    for expected in ["all: ", "+a@11", "+b@100"] {
        assert_eq!(bench.change().await, expected);
    }
    assert_eq!(
        fake.asked("services", true)[1].part("resourceVersion"),
        "99"
    );
    assert_eq!(fake.asked("services", false).len(), 1, "no second list");
}

#[tokio::test]
async fn a_list_that_breaks_off_changes_nothing() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, _) => Reply::quiet(),
        (false, 0 | 2 | 4) => Reply::page("10", "two", &[&service("a", 1)]),
        (false, 1) => Reply::Broken,
        (false, 3) => Reply::status(410, "the continue token is too old"),
        (false, _) => Reply::page("10", "", &[&service("b", 2)]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: a b");
    assert_eq!(bench.errors(ErrorClass::Transport), 1);
    assert_eq!(bench.errors(ErrorClass::Gone), 1);
    assert_eq!(bench.stats.kind(Kind::Service).lists(), 1);
    for list in fake.asked("services", false).iter().step_by(2) {
        assert_eq!(
            list.part("continue"),
            "",
            "each try begins at the first page"
        );
    }
}

#[tokio::test]
async fn continue_tokens_that_always_expire_end_in_a_list_without_pages() {
    let fake = fake(|asked, _| {
        match (
            asked.is_watch(),
            asked.part("limit"),
            asked.part("continue"),
        ) {
            (true, _, _) => Reply::quiet(),
            (false, "", _) => Reply::page("10", "", &[&service("a", 1), &service("b", 2)]),
            (false, _, "") => Reply::page("10", "two", &[&service("a", 1)]),
            (false, _, _) => Reply::status(410, "the continue token is too old"),
        }
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: a b");
    assert_eq!(bench.errors(ErrorClass::Gone), 3);
}

#[tokio::test]
async fn a_bad_object_costs_no_other_object() {
    let bad = "{\"metadata\":{\"name\":\"bad\",\"namespace\":\"shop\",\"resourceVersion\":\"5\"},\"spec\":[]}";
    let fake = fake(move |asked, before| match (asked.is_watch(), before) {
        (true, 0) => Reply::lines(&[
            &event("MODIFIED", bad),
            &event("MODIFIED", "{\"metadata\":7}"),
            &event("ADDED", &service("c", 12)),
        ]),
        (true, _) => Reply::quiet(),
        (false, _) => Reply::page("10", "", &[&service("a", 1), bad, "17", &service("b", 2)]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: a b");
    let mut abouts = Vec::new();
    for _ in 0..2 {
        abouts.push(match bench.problem().await.about {
            About::Object(key) => key.key.to_string(),
            About::SomeObject(kind) => format!("a {kind}"),
            about @ (About::Source | About::Kind(_) | About::File) => format!("{about:?}"),
        });
    }
    abouts.sort();
    assert_eq!(abouts, ["a Service", "shop/bad"]);
    // by watch as by list: what does not read is not there; and it is not said again
    assert_eq!(bench.change().await, "-bad@5");
    assert_eq!(bench.change().await, "+c@12");
    assert_eq!(bench.stats.kind(Kind::Service).left_out(), 4);
}

#[tokio::test]
async fn a_slow_page_is_waited_for_and_a_silent_one_is_given_up() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, _) => Reply::quiet(),
        (false, 0) => Reply::Silence,
        (false, _) => Reply::page("10", "", &[&service("a", 1)]),
    })
    .await;
    let settings = Settings {
        page_timeout: Duration::from_millis(300),
        ..quick()
    };
    let auth = Auth::Endpoint {
        url: fake.url(),
        tls: None,
    };
    let mut bench = Bench::start(auth, settings).await;
    assert_eq!(bench.change().await, "all: a");
    assert_eq!(bench.errors(ErrorClass::Transport), 1);
}

#[tokio::test]
async fn an_event_that_is_no_json_lists_again() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, 0) => Reply::lines(&["{\"type\":\"ADDED\",\"object\":{oops}}"]),
        (true, _) => Reply::quiet(),
        (false, 0) => Reply::page("10", "", &[]),
        (false, 1) => Reply::Body(200, "<html>a proxy</html>".to_owned()),
        (false, _) => Reply::page("20", "", &[&service("a", 1)]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: ");
    assert_eq!(bench.change().await, "all: a");
    assert_eq!(bench.errors(ErrorClass::Malformed), 2);
}

#[tokio::test]
async fn the_source_ends_when_cancelled_and_when_nobody_listens() {
    let fake = fake(|asked, _| match asked.is_watch() {
        true => Reply::quiet(),
        false => Reply::page("10", "", &[]),
    })
    .await;
    for cancelled in [true, false] {
        let auth = Auth::Endpoint {
            url: fake.url(),
            tls: None,
        };
        let stats = Arc::new(SourceStats::default());
        let source = KubernetesSource::connect(
            auth,
            Wanted::default(),
            quick(),
            Arc::new(SystemClock),
            stats,
        );
        let (tx, rx) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let running = source.await.unwrap().run(tx, cancel.clone());
        if cancelled {
            cancel.cancel();
        } else {
            drop(rx);
        }
        timeout(DEADLINE, running).await.expect("the source ends");
    }
}

#[tokio::test]
async fn the_server_is_asked_for_what_is_wanted_and_for_nothing_else() {
    let fake = fake(|asked, _| match asked.is_watch() {
        true => Reply::quiet(),
        false => Reply::page("10", "", &[]),
    })
    .await;
    let wanted = Wanted {
        kinds: Kinds::BASE.with(Kind::Pod).without(Kind::EndpointSlice),
        labels: Some(Selector::parse("app=web").unwrap()),
        namespace_labels: Some(Selector::parse("!x").unwrap()),
        ..Wanted::default()
    };
    let auth = Auth::Endpoint {
        url: fake.url(),
        tls: None,
    };
    let mut bench = Bench::start_for(wanted, auth, quick()).await;
    bench.fresh().await;
    for is_watch in [false, true] {
        let asked = |plural| {
            let all = fake.asked(plural, is_watch);
            let one = all.first();
            one.map(|one| {
                (
                    one.part("labelSelector").to_owned(),
                    one.part("fieldSelector").to_owned(),
                )
            })
        };
        let some = |labels: &str, fields: &str| Some((labels.to_owned(), fields.to_owned()));
        assert_eq!(asked("services"), some("app%3Dweb", ""));
        assert_eq!(asked("namespaces"), some("%21x", ""));
        let running =
            "status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed%2Cstatus.phase%21%3DUnknown";
        assert_eq!(asked("pods"), some("app%3Dweb", running));
        assert_eq!(asked("endpointslices"), None);
    }
}

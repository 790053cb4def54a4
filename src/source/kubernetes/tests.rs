//! The source against a server that does what servers do on bad days.

mod imports;

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::fake::{Asked, Fake, Reply, Script};
use super::*;
use crate::cluster::{Change, Fact, Kinds, Selector};
use crate::ops::SystemClock;
use crate::source::{About, ErrorClass, Problem};

/// How long a test waits for what must come.
const DEADLINE: Duration = Duration::from_secs(20);

/// Settings with short waits.
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
    /// The events.
    rx: mpsc::Receiver<SourceEvent>,
    /// The counters.
    stats: Arc<SourceStats>,
    /// The source.
    _tasks: JoinSet<()>,
}

impl Bench {
    /// Follows a server.
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

    /// Follows a fake server.
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

    /// The next problem.
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

/// A bookmark.
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
async fn gone_as_an_event_lists_again() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, 0) => Reply::lines(&[&event("ERROR", "{\"code\":410,\"message\":\"too old\"}")]),
        (true, _) => Reply::quiet(),
        (false, 0) => Reply::page("10", "", &[&service("a", 1)]),
        (false, _) => Reply::page("20", "", &[&service("b", 2)]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: a");
    assert_eq!(bench.change().await, "all: b");
    bench.fresh().await;
    assert_eq!(bench.errors(ErrorClass::Gone), 1);
    assert_eq!(
        fake.asked("services", true)[1].part("resourceVersion"),
        "20"
    );
}

#[tokio::test]
async fn gone_as_a_status_lists_again() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, 0) => Reply::status(410, "too old resource version"),
        (true, _) => Reply::quiet(),
        (false, 0) => Reply::page("10", "", &[&service("a", 1)]),
        (false, _) => Reply::page("20", "", &[&service("b", 2)]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: a");
    assert_eq!(bench.change().await, "all: b");
    assert_eq!(bench.errors(ErrorClass::Gone), 1);
}

#[tokio::test]
async fn a_server_from_the_past_is_listed_again() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, 0) => Reply::status(504, "Timeout: Too large resource version: 10, current: 3"),
        (true, _) => Reply::quiet(),
        (false, 0) => Reply::page("10", "", &[&service("a", 1)]),
        (false, _) => Reply::page("3", "", &[&service("b", 2)]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: a");
    assert_eq!(bench.change().await, "all: b");
}

#[tokio::test]
async fn a_server_that_refuses_for_a_while_and_comes_back_from_the_past_is_listed_again() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, 0) => Reply::status(503, "starting"),
        (true, _) => Reply::quiet(),
        (false, 0) => Reply::page("10", "", &[&service("a", 1)]),
        (false, _) => Reply::page("3", "", &[&service("b", 2)]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: a");
    assert_eq!(bench.change().await, "all: b");
}

#[tokio::test]
async fn a_server_from_the_past_that_tells_nothing_is_listed_again() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, 0) => Reply::lines(&[]),
        (true, _) => Reply::quiet(),
        (false, 0) => Reply::page("10", "", &[&service("a", 1)]),
        (false, _) => Reply::page("3", "", &[&service("b", 2)]),
    })
    .await;
    let settings = Settings {
        // However short a watch was, it has lasted.
        least_watch: Duration::ZERO,
        ..quick()
    };
    let auth = Auth::Endpoint {
        url: fake.url(),
        tls: None,
    };
    let mut bench = Bench::start(auth, settings).await;
    assert_eq!(bench.change().await, "all: a");
    assert_eq!(bench.change().await, "all: b");
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
async fn watches_closed_at_once_do_not_spin_and_are_stale() {
    let fake = fake(|asked, _| match asked.is_watch() {
        true => Reply::lines(&[]),
        false => Reply::page("10", "", &[]),
    })
    .await;
    let settings = Settings {
        backoff_longest: Duration::from_millis(400),
        ..quick()
    };
    let auth = Auth::Endpoint {
        url: fake.url(),
        tls: None,
    };
    let mut bench = Bench::start(auth, settings).await;
    let reason = bench.stale().await;
    assert!(reason.contains("closes each watch at once"), "{reason}");
    let watches = fake.asked("services", true).len();
    // from 20 ms doubling, half of it at least: seven in 500 ms, and a slow machine's share; a spin
    // makes thousands
    assert!((1..=20).contains(&watches), "{watches} watches");
    // and is polled by list meanwhile
    bench.change().await;
    assert!(bench.errors(ErrorClass::Closed) >= 2);
}

#[tokio::test]
async fn bookmarks_with_an_instant_close_do_not_spin() {
    let fake = fake(|asked, _| match asked.is_watch() {
        true => Reply::lines(&[&bookmark(11)]),
        false => Reply::page("10", "", &[]),
    })
    .await;
    let bench = Bench::of(&fake).await;
    let begin = SystemClock.now();
    let six = fake.until(|fake| fake.asked("services", true).len() >= 6);
    timeout(DEADLINE, six).await.expect("six watches");
    // five waits of at least half of 20, 40, 80, 160, 200 ms
    let took = SystemClock.now().duration_since(begin);
    assert!(took >= Duration::from_millis(250), "{took:?}");
    drop(bench);
}

#[tokio::test]
async fn a_refusal_names_kind_and_verb_once_and_is_got_over() {
    let allowed = Arc::new(AtomicBool::new(false));
    let script_allowed = Arc::clone(&allowed);
    let fake = fake(move |asked, before| {
        match (asked.is_watch(), script_allowed.load(Ordering::SeqCst)) {
            (false, false) => Reply::status(
                403,
                "services is forbidden: User \"dns\" cannot list resource \"services\"",
            ),
            (false, true) => Reply::page("10", "", &[&service("a", 1)]),
            (true, _) if before < 2 => Reply::status(
                403,
                "services is forbidden: User \"dns\" cannot watch resource \"services\"",
            ),
            (true, _) => Reply::quiet(),
        }
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    let problem = bench.problem().await;
    assert_eq!(problem.about, About::Kind(Kind::Service));
    assert_eq!(
        problem.to_string(),
        "may not list services: services is forbidden: User \"dns\" cannot list resource \
         \"services\"; the ClusterRole needs list and watch on services"
    );
    let stale = bench.stale().await;
    assert!(stale.starts_with("may not list services"), "{stale}");
    assert!(bench.errors(ErrorClass::Forbidden) >= 2);
    allowed.store(true, Ordering::SeqCst);
    // also shows that the first problem was said once
    let problem = bench.problem().await.to_string();
    assert!(problem.starts_with("may not watch services: "), "{problem}");
    bench.fresh().await;
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
async fn a_connection_that_went_silent_is_given_up() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, 0) => Reply::quiet(),
        (true, _) => Reply::lines(&[&event("ADDED", &service("a", 11))]),
        (false, _) => Reply::page("10", "", &[]),
    })
    .await;
    let settings = Settings {
        watch_seconds: 0,
        watch_slack: Duration::from_millis(300),
        ..quick()
    };
    let auth = Auth::Endpoint {
        url: fake.url(),
        tls: None,
    };
    let mut bench = Bench::start(auth, settings).await;
    assert_eq!(bench.change().await, "all: ");
    assert_eq!(bench.change().await, "+a@11");
    assert_eq!(bench.errors(ErrorClass::Transport), 1);
}

#[tokio::test]
async fn a_server_that_is_away_makes_stale_and_back_again_resumes() {
    let serving = |position: &'static str| {
        script(move |asked, before| match (asked.is_watch(), before) {
            (true, 0) => Reply::lines(&[&event("ADDED", &service("a", 11))]),
            (true, _) => Reply::quiet(),
            (false, _) => Reply::page(position, "", &[]),
        })
    };
    let fake = Fake::start(serving("10")).await;
    let mut bench = Bench::of(&fake).await;
    for expected in ["all: ", "+a@11"] {
        assert_eq!(bench.change().await, expected);
    }
    let address = fake.address;
    fake.stop().await;
    let reason = bench.stale().await;
    assert!(reason.contains("cannot reach the API server"), "{reason}");
    assert!(bench.stats.is_stale());
    let fake = Fake::start_at(address, serving("11")).await;
    bench.fresh().await;
    assert!(!bench.stats.is_stale());
    assert_eq!(
        fake.asked("services", true)[0].part("resourceVersion"),
        "11"
    );
    let lists = fake.asked("services", false);
    assert_eq!(lists.len(), 1, "resumed, not listed");
    assert_eq!(lists[0].part("limit"), "1", "only asked where it is");
}

#[tokio::test]
async fn a_server_that_is_away_at_the_start_is_waited_for() {
    let serving = || script(|_, _| Reply::page("10", "", &[]));
    let fake = Fake::start(serving()).await;
    let (address, url) = (fake.address, fake.url());
    fake.stop().await;
    let mut bench = Bench::start(Auth::Endpoint { url, tls: None }, quick()).await;
    bench.stale().await;
    let fake = Fake::start_at(address, serving()).await;
    assert_eq!(bench.change().await, "all: ");
    drop(fake);
}

#[tokio::test]
async fn a_watch_that_breaks_off_goes_on_where_it_was() {
    let (tx, first) = Reply::open();
    let first = Mutex::new(Some(first));
    let fake = fake(move |asked, before| match (asked.is_watch(), before) {
        (true, 0) => first.lock().unwrap().take().unwrap(),
        (true, 1) => Reply::Broken,
        (true, _) => Reply::lines(&[&event("ADDED", &service("b", 12))]),
        (false, 0) => Reply::page("10", "", &[]),
        (false, _) => Reply::page("11", "", &[]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    bench.fresh().await;
    tx.send(event("ADDED", &service("a", 11))).unwrap();
    assert_eq!(bench.change().await, "+a@11");
    drop(tx);
    assert_eq!(bench.change().await, "+b@12");
    assert_eq!(
        fake.asked("services", true)[2].part("resourceVersion"),
        "11"
    );
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
async fn too_many_requests_are_not_hidden_by_the_clients_own_retries() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, _) => Reply::quiet(),
        (false, 0 | 1) => Reply::status(429, "slow down"),
        (false, 2) => Reply::status(503, "not yet"),
        (false, _) => Reply::page("10", "", &[]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: ");
    assert_eq!(bench.errors(ErrorClass::Status), 3);
}

/// A kubeconfig that names a token file.
fn kubeconfig(dir: &std::path::Path, url: &str) -> std::path::PathBuf {
    let file = dir.join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- {{name: c, cluster: {{server: \
         '{url}'}}}}\nusers:\n- {{name: u, user: {{tokenFile: token}}}}\ncontexts:\n- {{name: c, \
         context: {{cluster: c, user: u}}}}\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

#[tokio::test]
async fn a_replaced_token_is_taken_up_at_the_first_refusal() {
    let dir = tempfile::TempDir::new().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "old").unwrap();
    let accepted = Arc::new(Mutex::new("old".to_owned()));
    let script_accepted = Arc::clone(&accepted);
    let (tx, first) = Reply::open();
    let first = Mutex::new(Some(first));
    let script: Arc<Script> = Arc::new(move |asked: &Asked, before: usize| {
        if asked.token.as_deref() != Some(&**script_accepted.lock().unwrap()) {
            return Reply::status(401, "Unauthorized");
        }
        match (asked.plural.as_str(), asked.is_watch()) {
            ("services", true) if before == 0 => first.lock().unwrap().take().unwrap(),
            (_, true) => Reply::quiet(),
            (_, false) => Reply::page("10", "", &[]),
        }
    });
    let fake = Fake::start(script).await;
    let file = kubeconfig(dir.path(), &fake.url());
    let mut bench = Bench::start(
        Auth::Kubeconfig {
            file,
            context: None,
        },
        quick(),
    )
    .await;
    bench.fresh().await;
    std::fs::write(&token, "new").unwrap();
    "new".clone_into(&mut accepted.lock().unwrap());
    tx.send(event("ADDED", &service("a", 11))).unwrap();
    assert_eq!(bench.change().await, "+a@11");
    drop(tx);
    let renewed = fake.until(|fake| {
        fake.asked("services", true)
            .last()
            .unwrap()
            .token
            .as_deref()
            == Some("new")
    });
    timeout(DEADLINE, renewed).await.expect("the new token");
    assert_eq!(bench.errors(ErrorClass::Unauthorized), 1);
}

#[tokio::test]
async fn credentials_that_stay_refused_are_a_problem() {
    let fake = fake(|_, _| Reply::status(401, "Unauthorized")).await;
    let mut bench = Bench::of(&fake).await;
    let problem = bench.problem().await.to_string();
    assert!(
        problem.starts_with("credentials refused when asking for services"),
        "{problem}"
    );
}

/// Why there is no client.
async fn refused(auth: Auth) -> String {
    let stats = Arc::new(SourceStats::default());
    let clock = Arc::new(SystemClock);
    KubernetesSource::connect(auth, Wanted::default(), quick(), clock, stats)
        .await
        .unwrap_err()
        .to_string()
}

#[tokio::test]
async fn wrong_configuration_says_what_to_do_in_one_line() {
    let dir = tempfile::TempDir::new().unwrap();
    let missing = dir.path().join("missing");
    let told = refused(Auth::Kubeconfig {
        file: missing.clone(),
        context: None,
    })
    .await;
    assert_eq!(
        told,
        format!(
            "kubeconfig {}: No such file or directory (os error 2); name a kubeconfig file that can be read",
            missing.display()
        )
    );
    let file = kubeconfig(dir.path(), "http://127.0.0.1:1");
    let told = refused(Auth::Kubeconfig {
        file,
        context: Some("other".to_owned()),
    })
    .await;
    assert!(told.contains("other"), "{told}");
    for url in ["127.0.0.1:6443", "ftp://a", "http://", "::"] {
        let told = refused(Auth::Endpoint {
            url: url.to_owned(),
            tls: None,
        })
        .await;
        assert!(
            told.starts_with(&format!("endpoint {url:?} is not a URL")),
            "{told}"
        );
        assert!(!told.contains('\n'), "{told}");
    }
    let tls = Tls {
        cert: missing.clone(),
        key: missing.clone(),
        ca: missing,
    };
    let auth = Auth::Endpoint {
        url: "https://127.0.0.1:1".to_owned(),
        tls: Some(tls),
    };
    let told = refused(auth).await;
    assert!(told.starts_with("tls file "), "{told}");
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

//! A server that forgets, restarts or goes away: what is listed again, and what goes on.

use super::*;

/// A server that lists `a` at version 10, gives the first watch this reply, and then lists `b` at another
/// version: both lists were told.
async fn listed_again(
    first_watch: impl Fn() -> Reply + Send + Sync + 'static,
    second: &'static str,
) -> (Fake, Bench) {
    let fake = fake(move |asked, before| match (asked.is_watch(), before) {
        (true, 0) => first_watch(),
        (true, _) => Reply::quiet(),
        (false, 0) => Reply::page("10", "", &[&service("a", 1)]),
        (false, _) => Reply::page(second, "", &[&service("b", 2)]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    assert_eq!(bench.change().await, "all: a");
    assert_eq!(bench.change().await, "all: b");
    (fake, bench)
}

#[tokio::test]
async fn gone_as_an_event_lists_again() {
    let gone = "{\"code\":410,\"message\":\"too old\"}";
    let (fake, mut bench) = listed_again(|| Reply::lines(&[&event("ERROR", gone)]), "20").await;
    bench.fresh().await;
    assert_eq!(bench.errors(ErrorClass::Gone), 1);
    assert_eq!(
        fake.asked("services", true)[1].part("resourceVersion"),
        "20"
    );
}

#[tokio::test]
async fn gone_as_a_status_lists_again() {
    let (_, bench) = listed_again(|| Reply::status(410, "too old resource version"), "20").await;
    assert_eq!(bench.errors(ErrorClass::Gone), 1);
}

#[tokio::test]
async fn a_server_from_the_past_is_listed_again() {
    listed_again(
        || Reply::status(504, "Timeout: Too large resource version: 10, current: 3"),
        "3",
    )
    .await;
}

#[tokio::test]
async fn a_server_that_refuses_for_a_while_and_comes_back_from_the_past_is_listed_again() {
    listed_again(|| Reply::status(503, "starting"), "3").await;
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
    let problem = bench.problem().await.to_string();
    assert!(
        problem.contains("cannot reach the API server"),
        "also in `status`: {problem}"
    );
    let fake = Fake::start_at(address, serving("11")).await;
    bench.fresh().await;
    assert!(!bench.stats.is_stale());
    assert_eq!(bench.stats.problems(), Vec::<String>::new());
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

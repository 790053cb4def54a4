//! Accounts, tokens and settings: what is refused, and what is said of it.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;

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

#[tokio::test]
async fn the_first_fault_is_a_problem_while_nothing_is_listed() {
    let fake = fake(|_, _| Reply::status(503, "not ready")).await;
    let mut bench = Bench::of(&fake).await;
    let problem = bench.problem().await.to_string();
    assert_eq!(problem, "services: status 503: not ready");
}

/// The reason why there is no client.
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

/// What was counted of requests, as it is scraped.
fn scraped(stats: &SourceStats) -> String {
    let mut registry = Registry::default();
    stats.requests().register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

#[tokio::test]
async fn requests_are_counted_by_code_and_host() {
    let fake = fake(|asked, before| match (asked.is_watch(), before) {
        (true, _) => Reply::quiet(),
        (false, 0) => Reply::status(403, "services is forbidden"),
        (false, 1) => Reply::Broken,
        (false, _) => Reply::page("10", "", &[]),
    })
    .await;
    let mut bench = Bench::of(&fake).await;
    bench.fresh().await;
    let text = scraped(&bench.stats);
    let host = fake.address;
    // Five lists, two of them in vain, and three watches.
    for line in [
        format!("requests_total{{code=\"200\",method=\"GET\",host=\"{host}\"}} 6"),
        format!("requests_total{{code=\"403\",method=\"GET\",host=\"{host}\"}} 1"),
        format!("requests_total{{code=\"<error>\",method=\"GET\",host=\"{host}\"}} 1"),
        format!("request_duration_seconds_count{{verb=\"GET\",host=\"{host}\"}} 5"),
        format!("rate_limiter_duration_seconds_count{{verb=\"GET\",host=\"{host}\"}} 8"),
    ] {
        let line = format!("coredns_kubernetes_rest_client_{line}\n");
        assert!(text.contains(&line), "{line} in\n{text}");
    }
}

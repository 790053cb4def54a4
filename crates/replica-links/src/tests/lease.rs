//! Tests of calls about the Lease.

use kubernetes::source::api_server::lease::{LeaseClient, LeaseName};
use ops::SystemClock;
use replicas::chain::{Epoch, ReplicaId};
use replicas::lease::{Answer, Call};
use replicas::record::{Record, Seen};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use std::sync::Arc;
use std::time::Duration;

use super::api::Api;
use crate::lease_client::LeaseEdge;
use crate::testing::soon;

async fn edge(api: &Api) -> LeaseEdge {
    let name = LeaseName {
        namespace: "default".to_owned(),
        name: "zonewright".to_owned(),
    };
    let timeout = Duration::from_millis(300);
    let client = LeaseClient::open(api.auth(), name, timeout).await;
    let client = client.expect("the endpoint is a URL");
    LeaseEdge::new(client, Arc::new(SystemClock), Duration::from_secs(15))
}

fn record(holder: &str, epoch: u64) -> Record {
    Record {
        holder: Some(ReplicaId::from(holder)),
        epoch: Epoch(epoch),
        ..Record::default()
    }
}

fn put(version: &str, record: Record) -> Call {
    let version = version.to_owned();
    Call::Put { version, record }
}

/// The Lease of an answer to a write.
fn written(answer: Answer) -> Seen {
    let Answer::Written(seen) = answer else {
        panic!("it was not written: {answer:?}");
    };
    seen
}

#[tokio::test]
async fn a_write_with_an_old_version_is_a_conflict_and_changes_nothing() {
    let api = Api::start().await;
    let (a, b) = (edge(&api).await, edge(&api).await);
    assert_eq!(a.call(Call::Get).await, Answer::NotFound);
    let first = written(a.call(Call::Create(record("a", 1))).await);
    assert_eq!(first.record, record("a", 1));
    assert_eq!(b.call(Call::Create(record("b", 1))).await, Answer::Conflict);
    assert_eq!(b.call(Call::Get).await, Answer::Read(first.clone()));
    let second = written(a.call(put(&first.version, record("a", 1))).await);
    assert_ne!(first.version, second.version);
    let late = b.call(put(&first.version, record("b", 2))).await;
    assert_eq!(late, Answer::Conflict);
    assert_eq!(a.call(Call::Get).await, Answer::Read(second));
}

#[tokio::test]
async fn a_write_after_the_lease_was_deleted_does_not_create_it() {
    let api = Api::start().await;
    let a = edge(&api).await;
    let seen = written(a.call(Call::Create(record("a", 1))).await);
    api.delete();
    let answer = a.call(put(&seen.version, record("a", 1))).await;
    assert_eq!(answer, Answer::Conflict);
    assert_eq!(a.call(Call::Get).await, Answer::NotFound);
}

#[tokio::test]
async fn labels_of_others_survive_a_renewal_and_unreadable_annotations_are_a_failure() {
    let api = Api::start().await;
    let a = edge(&api).await;
    written(a.call(Call::Create(record("a", 1))).await);
    api.edit(|lease| lease["metadata"]["labels"]["team"] = json!("dns"));
    let Answer::Read(seen) = a.call(Call::Get).await else {
        panic!("the Lease is there");
    };
    written(a.call(put(&seen.version, record("a", 1))).await);
    let lease = api.current_lease().expect("it is there");
    assert_eq!(lease["metadata"]["labels"]["team"], "dns");
    assert_eq!(lease["spec"]["holderIdentity"], "a");

    api.edit(|lease| lease["metadata"]["annotations"]["zonewright.dev/epoch"] = json!("x"));
    assert_eq!(a.call(Call::Get).await, Answer::Failed);
}

#[tokio::test]
async fn a_call_that_has_no_answer_fails_in_time_and_is_not_repeated() {
    let api = Api::start().await;
    let a = edge(&api).await;
    written(a.call(Call::Create(record("a", 1))).await);
    let before = api.counts();
    api.set_away(true);
    let answer = soon("the call fails", a.call(Call::Get)).await;
    assert_eq!(answer, Answer::Failed);
    api.set_away(false);
    assert_eq!(api.counts(), before);
    assert!(matches!(a.call(Call::Get).await, Answer::Read(_)));
}

#[tokio::test]
async fn the_watch_gives_each_change_and_is_opened_again() {
    let api = Api::start().await;
    let a = Arc::new(edge(&api).await);
    let (sender, mut seen) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    let watching = Arc::clone(&a);
    tasks.spawn(async move {
        watching
            .follow(|it| sender.send(it).expect("the test waits"))
            .await;
    });
    let first = written(a.call(Call::Create(record("a", 1))).await);
    let mut version = first.version;
    for _ in 0..3 {
        // The watch may begin with the Lease as it was before.
        let news = async { while seen.recv().await.expect("it watches").version != version {} };
        soon("the watch gives the change", news).await;
        api.end_watches();
        version = written(a.call(put(&version, record("a", 1))).await).version;
    }
    assert!(api.counts()["WATCH 200"] >= 3);
}

#[tokio::test]
async fn a_watch_that_is_late_does_not_make_a_renewal_forget_labels() {
    let api = Api::start().await;
    let a = Arc::new(edge(&api).await);
    let first = written(a.call(Call::Create(record("a", 1))).await);
    let old = api.current_lease().expect("it is there");
    api.edit(|lease| lease["metadata"]["labels"]["team"] = json!("dns"));
    let (sender, mut seen) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    let watching = Arc::clone(&a);
    tasks.spawn(async move {
        watching
            .follow(|it| sender.send(it).expect("the test waits"))
            .await;
    });
    let now = soon("the watch begins", seen.recv()).await;
    let now = now.expect("it watches");
    assert_ne!(now.version, first.version);
    api.repeat(&old);
    let late = soon("the watch is late", seen.recv()).await;
    assert_eq!(late, Some(first));
    written(a.call(put(&now.version, record("a", 1))).await);
    let lease = api.current_lease().expect("it is there");
    assert_eq!(lease["metadata"]["labels"]["team"], "dns");
}

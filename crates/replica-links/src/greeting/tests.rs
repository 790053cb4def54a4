//! Tests of questions to all other replicas.

use replicas::knowledge::Vow;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use std::sync::Arc;

use super::*;
use crate::identity::Identity;
use crate::limits::LinkLimits;
use crate::links::{LinkEvent, Listener, accept};
use crate::roster::FixedRoster;
use crate::testing::Authority;

const NAME: &str = "replicas.example";

/// A replica that answers as the one with this name; gives its address.
async fn answering(authority: &Authority, id: &str, tasks: &mut JoinSet<()>) -> (String, Shared) {
    let (shared, mut events) = side(authority);
    let listener = Listener::bind("127.0.0.1:0".parse().expect("an address")).await;
    let listener = listener.expect("a port is free");
    let address = listener.address().expect("it is bound").to_string();
    let (accepting, own) = side(authority);
    drop(own);
    tasks.spawn(accept(listener, Arc::new(shared)));
    let knowledge = Knowledge {
        replica: id.into(),
        vow: Vow::default(),
        zones: std::collections::BTreeMap::new(),
        is_store_ok: true,
        is_leading: false,
    };
    tasks.spawn(async move {
        while let Some(event) = events.recv().await {
            if let LinkEvent::Question(_, _, reply) = event {
                reply.send(knowledge.clone()).ok();
            }
        }
    });
    (address, accepting)
}

fn side(authority: &Authority) -> (Shared, mpsc::Receiver<LinkEvent>) {
    let identity = Identity::new(&authority.material(NAME), NAME).expect("it is usable");
    let (sender, events) = mpsc::channel(64);
    let shared = Shared::new(Arc::new(identity), LinkLimits::default(), sender);
    (shared, events)
}

#[tokio::test]
async fn a_question_is_complete_when_each_other_replica_answered() {
    let authority = Authority::new();
    let mut tasks = JoinSet::new();
    let (me, shared) = answering(&authority, "a", &mut tasks).await;
    let (other, _) = answering(&authority, "b", &mut tasks).await;
    let asked = async |addresses: &[&String]| {
        let roster = FixedRoster(addresses.iter().map(|it| (*it).clone()).collect());
        let question = Question {
            me: &"a".into(),
            address: "elsewhere:1",
            token: 7,
            epoch: Epoch(2),
            ceiling: &Ceiling::default(),
            wait: Duration::from_millis(700),
        };
        let event = ask_all(&shared, &roster, question).await;
        let Event::Greeted {
            token: 7,
            answers,
            is_complete,
        } = event
        else {
            panic!("no answers came: {event:?}");
        };
        let names = answers.iter().map(|it| it.replica.to_string());
        (names.collect::<Vec<String>>(), is_complete)
    };
    let (none, b) = (Vec::<String>::new(), vec!["b".to_owned()]);
    assert_eq!(asked(&[]).await, (none.clone(), true));
    // Its own answer does not count.
    assert_eq!(asked(&[&me]).await, (none, true));
    assert_eq!(asked(&[&me, &other]).await, (b.clone(), true));
    // One that is gone, and one that says nothing.
    let gone = "127.0.0.1:1".to_owned();
    assert_eq!(asked(&[&other, &gone]).await, (b.clone(), false));
    let silent = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let address = silent.local_addr().expect("it is bound").to_string();
    let begin = Instant::now();
    assert_eq!(asked(&[&other, &address]).await, (b, false));
    assert!(begin.elapsed() >= Duration::from_millis(700));
}

//! How a replica takes a blank Lease.

use std::time::Duration;

use crate::ceiling::Ceiling;
use crate::chain::{Chains, Epoch, ReplicaId};
use crate::knowledge::Vow;
use crate::lease::{Answer, Call, CallId, LeaseEvent};
use crate::record::{Record, Seen};
use crate::replica::{Action, Event, Replica};
use crate::settings::{Now, Settings};

/// A replica at a moment.
struct One {
    replica: Replica,
    now: Now,
}

impl One {
    fn step(&mut self, event: Event) -> Vec<Action> {
        self.replica.step(event, self.now)
    }

    /// Whether it says that it leads when another replica asks.
    fn says_that_it_leads(&mut self) -> bool {
        let mut actions = self
            .step(Event::Greeting(9, Epoch(0), Ceiling::default()))
            .into_iter();
        let answer = actions.find_map(|action| {
            let Action::Answer(9, knowledge) = action else {
                return None;
            };
            Some(knowledge)
        });
        answer.expect("it answers").is_leading
    }
}

/// The call in these actions.
fn call_of(actions: Vec<Action>) -> (CallId, Call) {
    let mut actions = actions.into_iter();
    let call = actions.find_map(|action| {
        let Action::Lease(id, call) = action else {
            return None;
        };
        Some((id, call))
    });
    call.expect("it calls")
}

/// Its write may have arrived, and the Lease may be deleted since: whoever asks meanwhile has to wait.
#[test]
fn a_replica_whose_write_is_on_its_way_answers_that_it_leads() {
    let (me, chains) = (ReplicaId::from("a"), Chains::default());
    let settings = Settings::default();
    let mut one = One {
        replica: Replica::new(
            me,
            "192.0.2.1:1".to_owned(),
            chains,
            Vow::default(),
            settings,
        ),
        now: Now {
            boot: Duration::from_secs(1),
            wall: 7,
            random: 0,
        },
    };
    let (id, call) = call_of(one.step(Event::Tick));
    assert_eq!(call, Call::Get);
    let blank = Seen {
        uid: "uid".to_owned(),
        version: "1".to_owned(),
        record: Record::default(),
    };
    let read = LeaseEvent::Answered(id, Answer::Read(blank));
    let asked = one.step(Event::Lease(read));
    assert!(
        asked.contains(&Action::Greet(1, Epoch(0), Ceiling::default())),
        "{asked:?}"
    );
    assert!(!one.says_that_it_leads());
    let (_, call) = call_of(one.step(Event::Greeted {
        token: 1,
        answers: Vec::new(),
        is_complete: true,
    }));
    assert!(matches!(call, Call::Put { .. }), "{call:?}");
    assert!(one.says_that_it_leads());
}

//! Tests of the decisions, with moments set by hand.
//!
//! Test names begin with the case's number in the transfer list (`tests/transfer_list.rs`).

use super::*;

/// Moments, in seconds after a start.
fn moments() -> impl Fn(f64) -> Instant {
    let start = tokio::time::Instant::now().into_std();
    move |seconds| start + Duration::from_secs_f64(seconds)
}

fn settings() -> NotifySettings {
    NotifySettings::default()
}

/// The wait between slow tries.
const SLOW: Duration = Duration::from_secs(30);

#[test]
fn d5_the_first_change_goes_at_once_and_the_rest_by_interval() {
    let at = moments();
    let mut state = NotifyState::new(settings());
    assert_eq!(state.next(at(0.0)), Action::Wait);
    let mut sends = Vec::new();
    // 100 changes in one second, one every 10 ms.
    for step in 0..=120 {
        let now = f64::from(step) / 100.0;
        if step < 100 {
            state.changed();
        }
        if state.next(at(now)) == Action::Send {
            state.sent(at(now), SLOW);
            sends.push(step);
        }
    }
    assert_eq!(sends, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
    assert!(!state.is_due, "the last change was announced");
}

#[test]
fn d2_an_unanswered_telling_is_repeated_with_growing_waits_and_given_up() {
    let at = moments();
    let mut state = NotifyState::new(settings());
    state.changed();
    let mut log = Vec::new();
    let mut now = 0.0;
    while now < 200.0 && log.len() < 9 {
        match state.next(at(now)) {
            Action::Send => {
                state.sent(at(now), SLOW);
                log.push(format!("send {now}"));
            }
            Action::GiveUp => {
                state.given_up(at(now), SLOW);
                log.push(format!("give up {now}"));
            }
            Action::Wait => panic!("nothing ends it"),
            Action::WaitUntil(until) => {
                now = until.duration_since(at(0.0)).as_secs_f64();
            }
        }
    }
    // Waits of 1, 2, 4, 8 and 16 s, and then the SOA's retry.
    assert_eq!(
        log,
        [
            "send 0",
            "send 1",
            "send 3",
            "send 7",
            "send 15",
            "give up 31",
            "send 61",
            "send 91",
            "send 121",
        ]
    );
    state.settled();
    assert_eq!(state.next(at(500.0)), Action::Wait);
}

/// A secondary that is just starting refuses a NOTIFY and accepts it a moment later. It does not stay behind until its
/// refresh.
#[test]
fn d4_a_refused_telling_is_repeated_at_the_soa_s_retry_alone() {
    let at = moments();
    let mut state = NotifyState::new(settings());
    state.changed();
    state.sent(at(0.0), SLOW);
    state.given_up(at(0.5), SLOW);
    assert_eq!(state.next(at(0.6)), Action::WaitUntil(at(30.5)));
    assert_eq!(state.next(at(30.5)), Action::Send);
    state.sent(at(30.5), SLOW);
    assert_eq!(state.next(at(31.0)), Action::WaitUntil(at(60.5)));
    state.settled();
    assert_eq!(state.next(at(500.0)), Action::Wait);
}

/// During an exchange of keys the two ends change at different times.
#[test]
fn a_telling_refused_under_one_key_is_told_under_the_next_at_once_and_under_all_slowly() {
    let at = moments();
    let mut state = NotifyState::new(settings());
    state.changed();
    state.sent(at(0.0), SLOW);
    state.refused(at(0.1), SLOW, 2, false);
    assert_eq!((state.key(), state.next(at(0.1))), (1, Action::Send));
    state.sent(at(0.1), SLOW);
    state.refused(at(0.2), SLOW, 2, false);
    let slow = Action::WaitUntil(at(30.2));
    assert_eq!((state.key(), state.next(at(0.2))), (0, slow));
    // A slow try starts with one key, then takes the other. The accepted key stays.
    state.sent(at(30.2), SLOW);
    state.refused(at(30.3), SLOW, 2, false);
    assert_eq!((state.key(), state.next(at(30.3))), (1, Action::Send));
    state.sent(at(30.3), SLOW);
    state.settled();
    state.changed();
    assert_eq!((state.key(), state.next(at(60.0))), (1, Action::Send));
}

/// A target that knows only the new key and refuses the NOTIFY is tried with that key first.
#[test]
fn slow_tries_begin_with_the_key_whose_refusal_was_signed() {
    let at = moments();
    let mut state = NotifyState::new(settings());
    state.changed();
    state.sent(at(0.0), SLOW);
    state.refused(at(0.1), SLOW, 2, false);
    assert!(!state.has_signed_refusal());
    state.sent(at(0.1), SLOW);
    state.refused(at(0.2), SLOW, 2, true);
    let slow = Action::WaitUntil(at(30.2));
    assert_eq!((state.key(), state.next(at(0.2))), (1, slow));
    // The target may have both keys and permit the other one. That is tried too, without a further warning.
    state.sent(at(30.2), SLOW);
    state.refused(at(30.3), SLOW, 2, true);
    assert_eq!((state.key(), state.next(at(30.3))), (0, Action::Send));
    assert!(state.has_signed_refusal());
    state.sent(at(30.3), SLOW);
    state.refused(at(30.4), SLOW, 2, false);
    assert_eq!(state.key(), 1);
    assert_eq!(state.next(at(30.4)), Action::WaitUntil(at(60.4)));
}

#[test]
fn that_nothing_can_be_sent_is_news_once() {
    let mut state = NotifyState::new(settings());
    let news = [true, false, false, true, false].map(|has_left| state.left(has_left));
    assert_eq!(news, [false, true, false, false, true]);
}

#[test]
fn waits_grow_to_their_bound() {
    let at = moments();
    let mut state = NotifyState::new(NotifySettings {
        tries: 100,
        ..settings()
    });
    state.changed();
    for _ in 0..50 {
        state.sent(at(0.0), SLOW);
    }
    assert_eq!(state.next(at(0.0)), Action::WaitUntil(at(60.0)));
}

#[test]
fn d6_a_newer_version_takes_the_place_of_a_pending_repeat() {
    let at = moments();
    let mut state = NotifyState::new(settings());
    state.changed();
    state.sent(at(0.0), SLOW);
    assert_eq!(state.next(at(0.5)), Action::WaitUntil(at(1.0)));
    state.changed();
    assert_eq!(state.next(at(0.5)), Action::Send);
    state.sent(at(0.5), SLOW);
    assert_eq!(state.tries, 1);
    assert_eq!(state.next(at(0.6)), Action::WaitUntil(at(1.5)));
}

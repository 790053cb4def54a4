//! Waiting for what the writer is told, on its own thread.
//!
//! The runtime's timers count whole milliseconds, and a commit takes less than one: the writer parks its
//! thread instead and is woken by the channel, or by the time to the microsecond.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use ops::{Clock, SystemClock};
use tokio::sync::mpsc;

use super::Input;

/// What there is to do next.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, on the stack; a box would cost an allocation for each change"
)]
pub(super) enum Next {
    Input(Input),
    Nothing,
    /// No more inputs will come.
    Closed,
}

impl Next {
    pub(super) fn of(received: Option<Input>) -> Self {
        received.map_or(Self::Closed, Self::Input)
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The next input, if it comes within `most`.
pub(super) fn within(inputs: &mut mpsc::Receiver<Input>, most: Duration) -> Next {
    let clock = SystemClock;
    let end = clock.now() + most;
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut received = pin!(inputs.recv());
    loop {
        if let Poll::Ready(input) = received.as_mut().poll(&mut context) {
            return Next::of(input);
        }
        let left = end.saturating_duration_since(clock.now());
        if left.is_zero() {
            return Next::Nothing;
        }
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that does nothing.
    fn input() -> Input {
        Input::Secondaries {
            ask: crate::AskId(0),
            serials: Vec::new(),
        }
    }

    #[test]
    fn what_comes_while_the_thread_is_parked_wakes_it() {
        let (tx, mut inputs) = mpsc::channel(1);
        let sender = thread::spawn(move || tx.blocking_send(input()).is_ok());
        let next = within(&mut inputs, Duration::from_secs(60));
        assert!(matches!(next, Next::Input(_)));
        assert!(sender.join().unwrap());
        assert!(matches!(
            within(&mut inputs, Duration::from_secs(60)),
            Next::Closed
        ));
    }

    #[test]
    fn nothing_that_comes_ends_the_wait_in_time() {
        let (_tx, mut inputs) = mpsc::channel(1);
        let most = Duration::from_micros(300);
        let start = SystemClock.now();
        assert!(matches!(within(&mut inputs, most), Next::Nothing));
        assert!(SystemClock.now() - start >= most);
    }
}

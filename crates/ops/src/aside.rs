//! Work that nobody else waits for, on threads that give way to all others.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How much less such a thread gets of a busy processor than others: a tenth of what one of them does, as `nice`
/// counts. Not the least there is: it may hold for a moment what another waits for.
const GIVES_WAY: i32 = 10;

thread_local! {
    /// Whether the thread gives way.
    static IS_ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// Lets others that wait for the processor go first, where the calling thread gives way. A lower priority alone does not:
/// a thread that wakes up waits for the end of the other's time slice, milliseconds, and so a commit for whoever writes
/// to the disk for it.
pub fn others_first() {
    if IS_ASIDE.get() {
        std::thread::yield_now();
        #[cfg(any(test, feature = "testing"))]
        TIMES.set(TIMES.get() + 1);
    }
}

#[cfg(any(test, feature = "testing"))]
thread_local! {
    /// How often the thread let others go first.
    static TIMES: Cell<usize> = const { Cell::new(0) };
}

/// How often a thread that gives way lets others go first while it does this.
#[cfg(any(test, feature = "testing"))]
pub fn times_others_first(work: impl FnOnce() + Send) -> usize {
    std::thread::scope(|scope| {
        let run = || {
            IS_ASIDE.set(true);
            work();
            TIMES.get()
        };
        scope.spawn(run).join().expect("the work does not panic")
    })
}

/// Makes the calling thread give way to all others of the process, for good.
pub fn give_way() {
    IS_ASIDE.set(true);
    // Elsewhere this is said of the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(GIVES_WAY) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
}

/// Does work on a thread of its own that gives way; its end can be waited for.
///
/// # Errors
/// In words, when there is no thread to be had, or it panicked.
pub async fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (done, end) = oneshot::channel();
    let runtime = Handle::current();
    let run = move || {
        give_way();
        // Work may wait for what the runtime does.
        let _entered = runtime.enter();
        let made = catch_unwind(AssertUnwindSafe(work));
        // Who asked may be gone.
        drop(done.send(made));
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| format!("no thread to be had: {error}"))?;
    match end.await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(panic)) => Err(format!("it panicked: {}", super::panic_text(&*panic))),
        Err(_) => Err("its thread ended".to_owned()),
    }
}

/// Does two things at once; the first on a thread of its own, which gives way as the caller's does.
pub fn at_once<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    let is_aside = IS_ASIDE.get();
    std::thread::scope(|scope| {
        let one = scope.spawn(move || {
            IS_ASIDE.set(is_aside);
            one()
        });
        let other = other();
        let one = one.join().unwrap_or_else(|panic| resume_unwind(panic));
        (one, other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the calling thread.
    #[cfg(target_os = "linux")]
    fn priority() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn work_aside_gives_way_and_who_waits_for_it_does_not() {
        let before = priority();
        let (name, there) = aside("aside", || {
            let name = std::thread::current().name().map(str::to_owned);
            (name, priority())
        })
        .await
        .unwrap();
        assert_eq!(name.as_deref(), Some("aside"));
        assert_eq!(there, (before + GIVES_WAY).min(19));
        assert_eq!(priority(), before);
    }

    #[tokio::test]
    async fn what_is_done_at_once_aside_gives_way_too() {
        let both = || at_once(|| IS_ASIDE.get(), || IS_ASIDE.get());
        assert_eq!(both(), (false, false));
        assert_eq!(aside("aside", both).await.unwrap(), (true, true));
        assert_eq!(both(), (false, false));
    }

    #[tokio::test]
    async fn a_panic_aside_is_told() {
        let ended = aside("aside", || -> u8 { panic!("on purpose") }).await;
        assert_eq!(ended.unwrap_err(), "it panicked: on purpose");
    }
}

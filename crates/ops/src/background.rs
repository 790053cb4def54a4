//! Work on threads of low priority.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::panics::panic_text;

/// The nice value of a background thread: on a busy processor it gets a tenth of another thread's time. It is not the
/// lowest priority, as the thread may briefly hold a lock that others need.
const NICENESS: i32 = 10;

thread_local! {
    /// Whether the thread runs at low priority.
    static IS_BACKGROUND: Cell<bool> = const { Cell::new(false) };
    /// When the thread let others run the last time, nanoseconds of `CLOCK_MONOTONIC`.
    static YIELDED_AT: Cell<i64> = const { Cell::new(0) };
}

/// A thread works for so many nanoseconds before it lets others run: on a busy machine it gets the processor back only after all of
/// them.
const TURN_NS: i64 = 300_000;

/// Lets waiting threads run first if the calling thread is a background thread. The low priority alone is not enough: a
/// thread that wakes up waits for the end of the other thread's time slice, which delays a commit by milliseconds.
pub fn yield_to_others() {
    if IS_BACKGROUND.get() {
        let now = clock_gettime(ClockId::Monotonic);
        let now_ns = now.tv_sec * 1_000_000_000 + now.tv_nsec;
        if now_ns - YIELDED_AT.get() >= TURN_NS {
            std::thread::yield_now();
            YIELDED_AT.set(now_ns);
        }
        #[cfg(any(test, feature = "testing"))]
        YIELDS.set(YIELDS.get() + 1);
    }
}

#[cfg(any(test, feature = "testing"))]
thread_local! {
    static YIELDS: Cell<usize> = const { Cell::new(0) };
}

/// Does work on a background thread and counts its calls of [`yield_to_others`].
#[cfg(any(test, feature = "testing"))]
pub fn times_yielded(work: impl FnOnce() + Send) -> usize {
    std::thread::scope(|scope| {
        let run = || {
            IS_BACKGROUND.set(true);
            work();
            YIELDS.get()
        };
        scope.spawn(run).join().expect("the work does not panic")
    })
}

/// Makes the calling thread a background thread for the rest of its life.
pub fn lower_priority() {
    IS_BACKGROUND.set(true);
    // Only on Linux is this the priority of the thread, and not of the process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "cannot lower the priority of a thread");
    }
}

/// The threads of a [`BackgroundRuntime`].
const RUNTIME_THREADS: usize = 2;

/// A runtime with few background threads, for what must not delay others. Its tasks end with it.
#[derive(Debug)]
pub struct BackgroundRuntime(Option<Runtime>);

impl BackgroundRuntime {
    /// Starts it. Its threads have this name.
    ///
    /// # Errors
    /// When its threads cannot be started.
    pub fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name(name)
            .on_thread_start(lower_priority)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// The way to it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        let runtime = self.0.as_ref();
        runtime
            .expect("it is there until it is dropped")
            .handle()
            .clone()
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        // Its owner may be a task, which may not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Does work on a background thread of its own.
///
/// # Errors
/// A text, when the thread cannot be started or panics.
pub async fn in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (sender, result) = oneshot::channel();
    begin_in_background(name, move || {
        // The caller may have given up.
        drop(sender.send(catch_unwind(AssertUnwindSafe(work))));
    })?;
    match result.await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(panic)) => Err(format!("panicked: {}", panic_text(&*panic))),
        Err(_) => Err("its thread ended".to_owned()),
    }
}

/// Starts work on a background thread of its own, and does not wait for it. The work may wait for the runtime of the
/// caller.
///
/// # Errors
/// A text, when the thread cannot be started.
pub fn begin_in_background(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let runtime = Handle::current();
    let run = move || {
        lower_priority();
        let _entered = runtime.enter();
        work();
    };
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(())
}

/// Does two things at once: the first on another thread, with the priority of the calling thread.
pub fn in_parallel<A: Send, B>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    let is_background = IS_BACKGROUND.get();
    std::thread::scope(|scope| {
        let one = scope.spawn(move || {
            IS_BACKGROUND.set(is_background);
            one()
        });
        let other = other();
        let one = one.join().unwrap_or_else(|panic| resume_unwind(panic));
        (one, other)
    })
}

/// Does the same with some items at once, each on a thread of its own, in the order of the items.
pub fn side_by_side<T: Sync, R: Send>(items: &[T], work: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    if let [] | [_] = items {
        return items.iter().map(work).collect();
    }
    let (first, second) = items.split_at(items.len() / 2);
    let (mut all, more) = in_parallel(|| side_by_side(first, work), || side_by_side(second, work));
    all.extend(more);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    fn priority() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn background_work_has_a_low_priority_and_its_caller_keeps_its_own() {
        let before = priority();
        let (name, there) = in_background("background", || {
            let name = std::thread::current().name().map(str::to_owned);
            (name, priority())
        })
        .await
        .unwrap();
        assert_eq!(name.as_deref(), Some("background"));
        assert_eq!(there, (before + NICENESS).min(19));
        assert_eq!(priority(), before);
    }

    #[tokio::test]
    async fn tasks_of_a_background_runtime_have_a_low_priority_and_end_with_it() {
        let runtime = BackgroundRuntime::start("background").unwrap();
        let ran = runtime.handle().spawn(async { IS_BACKGROUND.get() });
        assert!(ran.await.unwrap());
        let endless = runtime.handle().spawn(std::future::pending::<()>());
        drop(runtime);
        assert!(endless.await.unwrap_err().is_cancelled());
    }

    #[tokio::test]
    async fn parallel_work_of_a_background_thread_is_background_work() {
        let both = || in_parallel(|| IS_BACKGROUND.get(), || IS_BACKGROUND.get());
        assert_eq!(both(), (false, false));
        assert_eq!(
            in_background("background", both).await.unwrap(),
            (true, true)
        );
        assert_eq!(both(), (false, false));
    }

    #[test]
    fn what_is_done_side_by_side_is_done_at_once_and_keeps_its_order() {
        let items: Vec<usize> = (0..9).collect();
        let all_are_there = std::sync::Barrier::new(items.len());
        let done = side_by_side(&items, &|item| {
            all_are_there.wait();
            item * 2
        });
        assert_eq!(done, [0, 2, 4, 6, 8, 10, 12, 14, 16]);
        let none: [usize; 0] = [];
        assert_eq!(side_by_side(&none, &|item| *item), none);
    }

    #[tokio::test]
    async fn a_panic_in_the_background_is_reported() {
        let ended = in_background("background", || -> u8 { panic!("on purpose") }).await;
        assert_eq!(ended.unwrap_err(), "panicked: on purpose");
    }
}

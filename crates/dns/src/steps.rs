//! For tests: counts the labels and pointers of names that are read, as a measure of work that no busy machine changes.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a label or a pointer that is read.
pub(crate) fn count_step() {
    STEPS.set(STEPS.get() + 1);
}

/// Does some work; gives its result and how many labels and pointers of compressed names it read.
pub fn count_steps<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = STEPS.get();
    let result = work();
    (result, STEPS.get() - before)
}

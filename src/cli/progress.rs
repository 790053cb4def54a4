//! A progress bar on standard error for what takes longer than a second; nothing where that is no terminal.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// When the bar appears.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is drawn while nothing else happens.
const TICK: Duration = Duration::from_millis(200);
const TEMPLATE: &str = "{msg} {wide_bar} {human_pos} of {human_len}, {elapsed}";

/// A progress bar. Dropping it takes it off the screen.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Closed at the end, so that the bar does not appear any more.
    _running: Sender<()>,
}

impl Progress {
    /// Begins something of so many steps.
    pub(crate) fn begin(what: String, steps: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_message(what);
        let (running, ended) = mpsc::channel();
        if io::stderr().is_terminal() {
            let shown = bar.clone();
            let show = move || {
                if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                    shown.enable_steady_tick(TICK);
                }
            };
            // Without a thread there is no bar.
            let _shown = thread::Builder::new().spawn(show);
        }
        Self {
            bar,
            _running: running,
        }
    }

    /// So many more steps are done.
    pub(crate) fn add(&self, steps: u64) {
        self.bar.inc(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

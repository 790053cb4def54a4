//! Children of a test: started with a log file, waited for with a deadline, ended by their id.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long to wait between two looks at a condition.
const POLL: Duration = Duration::from_millis(10);

/// Looks at `condition` until it gives a value.
///
/// # Panics
/// When `limit` is over: with `what` was awaited and the text `state` gives.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    state: impl FnOnce() -> String,
    condition: impl FnMut() -> Option<T>,
) -> T {
    let found = poll_for(now() + limit, POLL, condition);
    found.unwrap_or_else(|| panic!("not within {limit:?}: {what}\n{}", state()))
}

/// Looks at `condition` this often until it gives a value; none when it has not by `deadline`.
pub fn poll_for<T>(
    deadline: Instant,
    poll: Duration,
    mut condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if now() >= deadline {
            return None;
        }
        pause(poll);
    }
}

/// The real time: children live in it, so the tests' clock cannot be an argument here.
#[allow(
    clippy::disallowed_methods,
    reason = "a deadline for a real process needs the real clock"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Rests between two looks at a condition.
#[allow(
    clippy::disallowed_methods,
    reason = "part of waiting on a condition with a deadline"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Lets a time pass where nothing is awaited: the moment itself, or the slowness, is what a test is about.
pub fn let_pass(time: Duration) {
    pause(time);
}

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`; what it prints is appended to the file `log`.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> Self {
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .expect("the log opens");
        let errors = file.try_clone().expect("a file handle can be cloned");
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error} ({command:?})"));
        Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
            ended: None,
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// All it (and its predecessors with the same log file) printed so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of [`log`](Self::log), under a headline.
    pub fn log_tail(&self) -> String {
        tail(&self.name, &self.log)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self
                .child
                .try_wait()
                .expect("our own child can be waited for");
        }
        self.ended
    }

    /// Looks at `condition` until it gives a value.
    ///
    /// # Panics
    /// When `limit` is over or the child ends before: with the tail of its log.
    pub fn wait_for<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut condition: impl FnMut() -> Option<T>,
    ) -> T {
        let (name, log) = (self.name.clone(), self.log.clone());
        wait_for(
            what,
            limit,
            || tail(&name, &log),
            || {
                let value = condition();
                if value.is_none()
                    && let Some(status) = self.ended()
                {
                    panic!(
                        "{name} ended ({status}) before: {what}\n{}",
                        tail(&name, &log)
                    );
                }
                value
            },
        )
    }

    /// Sends a signal; a child that has ended gets none.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let id = i32::try_from(self.id())
                .ok()
                .and_then(Pid::from_raw)
                .expect("ids fit");
            kill_process(id, signal).expect("our own child can be signalled");
        }
    }

    /// SIGTERM, then waits for the end.
    ///
    /// # Panics
    /// When it has not ended within `limit`.
    pub fn terminate(&mut self, limit: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_for_end(limit)
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it has not ended within `limit`.
    pub fn wait_for_end(&mut self, limit: Duration) -> ExitStatus {
        let (name, log) = (self.name.clone(), self.log.clone());
        wait_for("the end", limit, || tail(&name, &log), || self.ended())
    }

    /// SIGKILL to it and to the children it made (NSD answers from them), then waits for the end of all.
    pub fn kill(&mut self) -> ExitStatus {
        // Stopped first, so that it makes no new ones while we look.
        self.signal(Signal::STOP);
        let children = match self.ended() {
            Some(_) => Vec::new(),
            None => descendants(self.id()),
        };
        for child in &children {
            // One that ended just now is what we want.
            let _is_gone = kill_process(*child, Signal::KILL).is_err();
        }
        self.signal(Signal::KILL);
        let status = self.child.wait().expect("our own child can be waited for");
        let log = self.log.clone();
        wait_for(
            "the end of its children",
            KILL_LIMIT,
            || tail(&self.name, &log),
            || children.iter().all(|child| has_ended(*child)).then_some(()),
        );
        *self.ended.insert(status)
    }
}

/// How long the kernel may take to end what was killed.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// The process's children and theirs.
fn descendants(id: u32) -> Vec<Pid> {
    let mut found = Vec::new();
    let tasks = fs::read_dir(format!("/proc/{id}/task"))
        .into_iter()
        .flatten()
        .flatten();
    for task in tasks {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children
            .split_whitespace()
            .filter_map(|text| text.parse::<u32>().ok())
        {
            found.extend(i32::try_from(child).ok().and_then(Pid::from_raw));
            found.extend(descendants(child));
        }
    }
    found
}

/// Whether a process that is not our child is gone, or waits for its parent to notice (state Z).
fn has_ended(id: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
    // The name, in parentheses, may contain anything: the state follows the last one.
    stat.map_or(true, |text| {
        text.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('Z'))
    })
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
    }
}

/// The last 40 lines of a log, under a headline.
fn tail(name: &str, log: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(40);
    format!(
        "--- {name}, end of {} ---\n{}",
        log.display(),
        lines[from..].join("\n")
    )
}

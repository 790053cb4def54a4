//! Why the program ends with an error, and with which exit code.

use std::io::{self, Write};
use std::process::ExitCode;

/// Why the program ends with an error, and with which code.
#[derive(Debug)]
pub struct Failure {
    /// What to say.
    message: String,
    /// 1: it failed while running; 2: what it was given is not usable.
    code: u8,
}

impl Failure {
    /// What it was given is not usable.
    #[must_use]
    pub fn unusable(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: 2,
        }
    }

    /// It failed while running.
    #[must_use]
    pub fn running(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: 1,
        }
    }

    /// Says it on standard error; gives the exit code.
    #[must_use]
    pub fn report(self) -> ExitCode {
        // Nobody may be left to read it; the exit code says it as well.
        let _unread = writeln!(io::stderr(), "{}", self.message);
        ExitCode::from(self.code)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::unusable(one_line(&error))
    }
}

/// An error with its causes on one line; a cause whose text stands there already is not repeated.
pub(super) fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    line
}

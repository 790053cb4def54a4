//! Why the program ends with an error, and with which exit code.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Why the program ends with an error, and with which code.
#[derive(Debug)]
pub struct Failure {
    /// For standard error.
    message: String,
    /// 1: it failed while running; 2: its input cannot be used; 3: the history does not tell.
    code: u8,
}

impl Failure {
    /// The input cannot be used.
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

    /// The history does not tell what was asked.
    #[must_use]
    pub fn not_known(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: 3,
        }
    }

    /// The same about another folder than the one that was read for it.
    pub(crate) fn about(self, read: &Path, asked: &Path) -> Self {
        let asked = asked.display().to_string();
        Self {
            message: self.message.replace(&read.display().to_string(), &asked),
            ..self
        }
    }

    /// The same of an order that was right, and could be carried out in part alone.
    pub(crate) fn while_running(self) -> Self {
        Self { code: 1, ..self }
    }

    /// Whether the history does not tell what was asked.
    pub(crate) const fn is_not_known(&self) -> bool {
        self.code == 3
    }

    /// Prints it to standard error; gives the exit code.
    #[must_use]
    pub fn report(self) -> ExitCode {
        // Standard error may be closed; the exit code remains.
        let _unread = writeln!(io::stderr(), "{self}");
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::unusable(one_line(&error))
    }
}

/// Why a handler ends the process: a whole sentence, in CoreDNS's words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HandlerFault(pub(crate) String);

/// The writer ended by itself. Closing its store may give the reason.
#[derive(Debug, thiserror::Error)]
#[error("the writer ended")]
pub(crate) struct WriterEnded;

/// An error with its causes on one line. A cause that the line contains already is left out.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
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

//! Where something stands in a configuration, and what is wrong with it there.

use std::fmt;
use std::sync::Arc;

/// A place in a file: what an editor jumps to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, as it was named to us; an imported file relative to the one that imports it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1; a tab is one.
    pub column: u32,
}

impl Place {
    /// The first character of a file: for what concerns the file as a whole.
    #[must_use]
    pub fn start_of(file: &str) -> Self {
        Self {
            file: file.into(),
            line: 1,
            column: 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One thing that is wrong, or worth knowing, at one place. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What is wrong, lower case, without full stop.
    pub message: String,
    /// What to do about it.
    pub mend: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.message, self.mend)
    }
}

/// Collects problems while reading goes on, so that all come out at once.
#[derive(Debug, Default)]
pub struct Report {
    /// What stops the configuration from being used.
    errors: Vec<Problem>,
    /// What does not.
    warnings: Vec<Problem>,
}

impl Report {
    /// Notes something that makes the configuration unusable.
    pub fn error(&mut self, place: &Place, message: impl Into<String>, mend: impl Into<String>) {
        let (message, mend) = (message.into(), mend.into());
        self.errors.push(Problem {
            place: place.clone(),
            message,
            mend,
        });
    }

    /// Notes something that works, but maybe not as meant.
    pub fn warn(&mut self, place: &Place, message: impl Into<String>, mend: impl Into<String>) {
        let (message, mend) = (message.into(), mend.into());
        self.warnings.push(Problem {
            place: place.clone(),
            message,
            mend,
        });
    }

    /// Refuses a word that CoreDNS knows and we do not have, with the reason.
    pub fn not_supported(&mut self, place: &Place, what: &str, why: &str) {
        self.error(
            place,
            format!("{what}: not supported: {why}"),
            "take it out",
        );
    }

    /// Errors and warnings, each in the order of their places. What a snippet's several uses say
    /// several times stands once.
    pub fn finish(self) -> (Vec<Problem>, Vec<Problem>) {
        let Self {
            mut errors,
            mut warnings,
        } = self;
        for problems in [&mut errors, &mut warnings] {
            problems.sort();
            problems.dedup();
        }
        (errors, warnings)
    }
}

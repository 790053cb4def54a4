//! Places in a configuration, and problems at them.

use std::fmt;
use std::sync::Arc;

/// A place in a file, in the form that editors understand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, as its importer or the command line names it. An imported file is relative to the importing one.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1; a tab is one.
    pub column: u32,
}

impl Place {
    /// The first character of a file, for problems of the whole file.
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

/// A problem at a place. It never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The place.
    pub place: Place,
    /// The problem, lower case, without full stop.
    pub message: String,
    /// The fix.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.message, self.fix)
    }
}

/// Collects problems, so that all are reported at once.
#[derive(Debug, Default)]
pub struct Report {
    /// Braces and quotes without their other half. Other errors may be their consequences.
    unpaired: Vec<Problem>,
    /// The other problems that make the configuration unusable.
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Report {
    /// Adds a problem that makes the configuration unusable.
    pub fn error(&mut self, place: &Place, message: impl Into<String>, fix: impl Into<String>) {
        let (message, fix) = (message.into(), fix.into());
        self.errors.push(Problem {
            place: place.clone(),
            message,
            fix,
        });
    }

    /// Adds a brace or a quote without its other half. It comes before all other errors, because it may cause them.
    pub fn unpaired(&mut self, place: &Place, message: impl Into<String>, fix: impl Into<String>) {
        let (message, fix) = (message.into(), fix.into());
        self.unpaired.push(Problem {
            place: place.clone(),
            message,
            fix,
        });
    }

    /// Whether a brace or a quote is without its other half so far.
    #[must_use]
    pub fn has_unpaired(&self) -> bool {
        !self.unpaired.is_empty()
    }

    /// Adds a problem of a configuration that works, but maybe not as intended.
    pub fn warn(&mut self, place: &Place, message: impl Into<String>, fix: impl Into<String>) {
        let (message, fix) = (message.into(), fix.into());
        self.warnings.push(Problem {
            place: place.clone(),
            message,
            fix,
        });
    }

    /// Refuses a word of CoreDNS that is not supported, with the reason.
    pub fn not_supported(&mut self, place: &Place, what: &str, why: &str) {
        self.error(place, format!("{what}: not supported: {why}"), "remove it");
    }

    /// Errors and warnings, each in the order of their places, without duplicates from several uses of a snippet. Braces and
    /// quotes without their other half are the first errors.
    pub fn finish(self) -> (Vec<Problem>, Vec<Problem>) {
        let Self {
            mut unpaired,
            mut errors,
            mut warnings,
        } = self;
        for problems in [&mut unpaired, &mut errors, &mut warnings] {
            problems.sort();
            problems.dedup();
        }
        unpaired.extend(errors);
        (unpaired, warnings)
    }
}

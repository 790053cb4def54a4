//! Regular expressions in directives.
//!
//! CoreDNS uses Go's, whose syntax is RE2's. The `regex` crate has the same syntax with three exceptions: it refuses
//! `\Q…\E`, `\C`, and a `{` that is no repetition. Write `\{` for that one.

use corefile::lexer::Token;
use corefile::place::Report;
use regex::Regex;

/// The most bytes of an expression; CoreDNS's limit.
const MAX_OCTETS: usize = 10_000;

/// A regular expression. Two are equal if their texts are.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Reads an expression. A problem is reported at the token.
    pub(crate) fn parse(token: &Token, text: &str, report: &mut Report) -> Option<Self> {
        if text.len() > MAX_OCTETS {
            let message = format!("a regular expression of {} characters", text.len());
            let fix = format!("write at most {MAX_OCTETS}");
            report.error(&token.place, message, fix);
            return None;
        }
        match Regex::new(text) {
            Ok(regex) => Some(Self(regex)),
            Err(error) => {
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default();
                let why = why.strip_prefix("error: ").unwrap_or(why);
                let message = format!("{} is not a regular expression: {why}", token.shown());
                report.error(&token.place, message, "write one in RE2's syntax");
                None
            }
        }
    }

    /// The expression.
    #[must_use]
    pub const fn regex(&self) -> &Regex {
        &self.0
    }

    /// The number of its groups, without the whole match.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.0.captures_len() - 1
    }
}

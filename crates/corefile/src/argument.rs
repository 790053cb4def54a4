//! The arguments of directives and options, and errors about wrong ones.

use std::path::PathBuf;

use crate::address::HttpAddress;
use crate::lexer::Token;
use crate::parser::{Line, Statement};
use crate::place::Report;
use crate::slip::nearest;

impl Statement {
    /// The one argument, if there is one; more are reported.
    pub fn at_most_one(&self, report: &mut Report) -> Option<&Token> {
        let (first, more) = self.arguments.split_first()?;
        refuse(&self.name.text, more, report);
        Some(first)
    }

    /// The one argument as the address of an HTTP server; `None` when there is none or it is wrong.
    pub fn http_address(&self, report: &mut Report) -> Option<HttpAddress> {
        let token = self.at_most_one(report)?;
        match token.text.parse() {
            Ok(address) => Some(address),
            Err(error) => {
                let message = format!("{}: {error}", token.shown());
                let fix = "write HOST:PORT, such as 127.0.0.1:8080, or :8080 for all addresses";
                report.error(&token.place, message, fix);
                None
            }
        }
    }

    /// The name and the arguments.
    pub fn words(&self) -> Vec<String> {
        let all = [&self.name].into_iter().chain(&self.arguments);
        all.map(|token| token.text.clone()).collect()
    }

    /// A word as a path, relative to the block's `root`.
    pub fn path(&self, text: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join(text),
            None => PathBuf::from(text),
        }
    }

    /// Reports arguments where none are allowed.
    pub fn refuse_arguments(&self, report: &mut Report) {
        refuse(&self.name.text, &self.arguments, report);
    }

    /// Reports everything after a word that takes neither arguments nor options.
    pub fn refuse_all(&self, report: &mut Report) {
        self.refuse_arguments(report);
        self.refuse_options(report);
    }

    /// Reports options of a directive that has none.
    pub fn refuse_options(&self, report: &mut Report) {
        for line in &self.lines {
            let message = format!("{} has no option {}", self.name.text, line.name.shown());
            report.error(&line.name.place, message, "it has no options: remove it");
        }
    }

    /// Reports an unknown option; `options` lists the known ones.
    pub fn unknown_option(&self, line: &Line, options: &str, report: &mut Report) {
        let message = format!("{} has no option {}", self.name.text, line.name.shown());
        let fix = option_fix(&line.name.text, options);
        report.error(&line.name.place, message, fix);
    }
}

impl Line {
    /// The one argument; none or more are reported.
    pub fn exactly_one(&self, what: &str, report: &mut Report) -> Option<&Token> {
        let (first, more) = self.at_least_one(what, report)?.split_first()?;
        refuse(&self.name.text, more, report);
        Some(first)
    }

    /// The arguments; none is reported.
    pub fn at_least_one(&self, what: &str, report: &mut Report) -> Option<&[Token]> {
        if self.arguments.is_empty() {
            let option = &self.name.text;
            let message = format!("{option} needs an argument");
            report.error(&self.name.place, message, format!("write: {option} {what}"));
            return None;
        }
        Some(&self.arguments)
    }

    /// Reports arguments where none are allowed.
    pub fn refuse_arguments(&self, report: &mut Report) {
        refuse(&self.name.text, &self.arguments, report);
    }

    /// Parses the one argument; an error is reported.
    pub fn value<T, E: std::fmt::Display>(
        &self,
        what: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
        report: &mut Report,
    ) -> Option<T> {
        let token = self.exactly_one(what, report)?;
        match parse(&token.text) {
            Ok(value) => Some(value),
            Err(error) => {
                let option = &self.name.text;
                let message = format!("{option} {}: {error}", token.shown());
                report.error(&token.place, message, format!("write: {option} {what}"));
                None
            }
        }
    }

    /// Sets an option. If it was set before, it is replaced with a warning.
    pub fn set<T>(&self, slot: &mut Option<T>, value: Option<T>, report: &mut Report) {
        if slot.is_some() && value.is_some() {
            let message = format!("{} is given twice, and the last one counts", self.name.text);
            report.warn(&self.name.place, message, "remove one");
        }
        if value.is_some() {
            *slot = value;
        }
    }
}

/// The fix of an option that is not in this list: the one that was probably meant, or the list.
#[must_use]
pub fn option_fix(word: &str, options: &str) -> String {
    match nearest(word, option_words(options)) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("its options are {options}"),
    }
}

/// The words of a list such as "shrink, at_least and hold".
pub fn option_words(options: &str) -> impl Iterator<Item = &str> {
    options.split(", ").flat_map(|part| part.split(" and "))
}

/// Reports superfluous words.
fn refuse(owner: &str, words: &[Token], report: &mut Report) {
    if let Some(first) = words.first() {
        let message = format!("{owner}: {} is one argument too many", first.shown());
        report.error(&first.place, message, "remove it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_option_is_answered_with_the_one_that_was_meant() {
        let options = "shrink, at_least and hold";
        assert_eq!(option_fix("shrinks", options), "did you mean 'shrink'?");
        assert_eq!(option_fix("at_laest", options), "did you mean 'at_least'?");
        assert_eq!(option_fix("Hold", options), "did you mean 'hold'?");
        assert_eq!(
            option_fix("limit", options),
            "its options are shrink, at_least and hold"
        );
    }
}

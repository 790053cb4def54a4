//! Go's text/template, the part of it that Corefiles use.
//!
//! Text with actions in `{{` and `}}`: fields, variables, pipelines, `if`, `with`, and the functions of
//! `FUNCTIONS` in parse.rs. Anything else is an error when the template is read, with its place in the text.
//!
//! # Not implemented
//! `range`, `define`, `template`, `block`, `break`, `continue`, the functions for other languages (`html`, `js`,
//! `urlquery`), `call`, `slice`, numbers that are not whole, and verbs of `printf` other than `%s %d %v %x %X %q %%`.

mod eval;
mod lex;
mod parse;

pub use eval::{ExecError, Value};
pub use lex::ParseError;

use parse::Node;

/// A template.
#[derive(Debug, Clone)]
pub struct Template {
    source: String,
    nodes: Vec<Node>,
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Template {}

impl Template {
    /// Parses a template for data with these fields.
    ///
    /// # Errors
    /// The first [`ParseError`].
    pub fn parse(source: &str, fields: &[&str]) -> Result<Self, ParseError> {
        Ok(Self {
            source: source.to_owned(),
            nodes: parse::parse(source, fields)?,
        })
    }

    /// The text of the template.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the template may use this field of the data.
    #[must_use]
    pub fn names(&self, field: &str) -> bool {
        self.source.contains(field)
    }

    /// The rests of words that begin with `start`; a word ends at a quote or a space.
    pub fn words_after<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let ends = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '`' | '\'');
        let rest = self.source.split(start).skip(1);
        rest.filter_map(move |rest| rest.split(ends).next())
    }

    /// Fills the template in with the data; `meta` is the method `Meta` of the data.
    ///
    /// # Errors
    /// [`ExecError`] when the data does not fit the template.
    pub fn fill(&self, data: &Value, meta: &dyn Fn(&str) -> String) -> Result<String, ExecError> {
        eval::fill(&self.nodes, data, meta)
    }
}

#[cfg(test)]
mod tests;

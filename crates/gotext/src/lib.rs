//! Go's text/template, the part of it that Corefiles use.
//!
//! Text with actions in `{{` and `}}`: fields, variables, pipelines, `if`, `with`, and the functions of
//! [`Function`]. What is not understood is refused when the template is read, with its place in the text.
//!
//! # Not implemented
//! `range`, `define`, `template`, `block`, `break`, `continue`, the functions for other languages (`html`, `js`,
//! `urlquery`), `call`, `slice`, numbers that are not whole, and verbs of `printf` other than `%s %d %v %x %X %q %%`.

mod eval;
mod lex;
mod parse;

pub use eval::{ExecError, Value};
pub use parse::ParseError;

use parse::Node;

/// A template.
#[derive(Debug, Clone)]
pub struct Template {
    /// As it was written.
    source: String,
    /// What it says.
    nodes: Vec<Node>,
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Template {}

impl Template {
    /// Reads a template; `fields` are those that the data has.
    ///
    /// # Errors
    /// [`ParseError`] with what is not understood and where.
    pub fn parse(source: &str, fields: &[&str]) -> Result<Self, ParseError> {
        Ok(Self {
            source: source.to_owned(),
            nodes: parse::parse(source, fields)?,
        })
    }

    /// The template as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it names this field of the data.
    #[must_use]
    pub fn names(&self, field: &str) -> bool {
        self.source.contains(field)
    }

    /// The words in it that begin with this, without it: up to a quote or a space.
    pub fn words_after<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let ends = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '`' | '\'');
        let rest = self.source.split(start).skip(1);
        rest.filter_map(move |rest| rest.split(ends).next())
    }

    /// Fills the template in with the data; `meta` is what its method `Meta` gives.
    ///
    /// # Errors
    /// [`ExecError`] when the data is not what the template takes it for.
    pub fn fill(&self, data: &Value, meta: &dyn Fn(&str) -> String) -> Result<String, ExecError> {
        eval::fill(&self.nodes, data, meta)
    }
}

/// The functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// The first empty argument, or the last.
    And,
    /// The first that is not empty, or the last.
    Or,
    /// Whether it is empty.
    Not,
    /// Whether the first is one of the others.
    Eq,
    /// Whether the two differ.
    Ne,
    /// Whether the first is less.
    Lt,
    /// Whether the first is not more.
    Le,
    /// Whether the first is more.
    Gt,
    /// Whether the first is not less.
    Ge,
    /// An element of a list or map.
    Index,
    /// How many elements or octets.
    Len,
    /// The arguments as text, with spaces where neither of two is text.
    Print,
    /// The arguments as text, with spaces between them and a line end.
    Println,
    /// The arguments as the format says.
    Printf,
    /// A text as a whole number of a base and so many bits.
    ParseInt,
}

/// The functions by their names.
pub(crate) const FUNCTIONS: &[(&str, Function)] = &[
    ("and", Function::And),
    ("or", Function::Or),
    ("not", Function::Not),
    ("eq", Function::Eq),
    ("ne", Function::Ne),
    ("lt", Function::Lt),
    ("le", Function::Le),
    ("gt", Function::Gt),
    ("ge", Function::Ge),
    ("index", Function::Index),
    ("len", Function::Len),
    ("print", Function::Print),
    ("println", Function::Println),
    ("printf", Function::Printf),
    ("parseInt", Function::ParseInt),
];

#[cfg(test)]
mod tests;

//! Label selectors: which labels an expression asks for, as the Kubernetes API reads it.
//!
//! ```text
//! selector    = [ requirement *( "," requirement ) ]
//! requirement = KEY | "!" KEY | KEY ( "=" | "==" | "!=" ) [ VALUE ] | KEY ( "in" | "notin" ) "(" values ")"
//! values      = [ VALUE ] *( "," [ VALUE ] )
//! ```
//!
//! All requirements have to be met. What is missing (`a=`, `a in ()`) is the empty value, and `!=` and
//! `notin` are met also by an object that does not have the key. Keys and values are checked as the API
//! checks them. The words `in` and `notin` are operators only behind a key. `<` and `>`, which belong
//! to node affinity, are refused, as CoreDNS refuses them.
//!
//! Source: Kubernetes documentation, "Labels and Selectors", and what an API server says to the cases
//! of the tests.

use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

/// The longest value, and the longest key without its prefix, in bytes.
const MAX_NAME: usize = 63;
/// The longest prefix of a key, in bytes.
const MAX_PREFIX: usize = 253;

/// Selects objects by their labels. An empty selector selects all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Selector {
    /// All of these must be met. Sorted, each once.
    requirements: BTreeSet<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Requirement {
    key: String,
    test: Test,
}

/// The condition for the value of a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Test {
    Exists,
    /// The key is missing.
    Missing,
    /// The value is one of these.
    In(BTreeSet<String>),
    /// The value is none of these, or the key is missing.
    NotIn(BTreeSet<String>),
}

/// The reason why an expression is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// An unexpected word or symbol.
    #[error("{found} where {wanted} is expected")]
    Unexpected {
        /// The word or symbol.
        found: String,
        /// What is allowed there.
        wanted: &'static str,
    },
    /// The key is not a valid label key.
    #[error(
        "\"{0}\" is not a label key: [PREFIX/]NAME, a name of at most 63 letters, digits, - _ . that begins and ends with a letter or digit, a prefix that is a DNS name in lower case"
    )]
    Key(String),
    /// The value is not a valid label value.
    #[error(
        "\"{0}\" is not a label value: at most 63 letters, digits, - _ . that begin and end with a letter or digit"
    )]
    Value(String),
    /// `<` or `>`.
    #[error(
        "{0} is not allowed in label selectors: write key=value, key!=value, key in (…), key notin (…), key or !key"
    )]
    Order(char),
}

impl Selector {
    /// Parses an expression.
    ///
    /// # Errors
    /// [`SelectorError`] when it is malformed, or names an impossible key or value.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
        };
        let mut requirements = BTreeSet::new();
        if parser.peek() == Token::End {
            return Ok(Self { requirements });
        }
        loop {
            requirements.insert(parser.requirement()?);
            match parser.next() {
                Token::End => return Ok(Self { requirements }),
                Token::Symbol(",") => {}
                other @ (Token::Word(_) | Token::Symbol(_)) => {
                    return Err(other.instead_of("',' or the end"));
                }
            }
        }
    }

    /// Whether an object with these labels is selected. `value` returns the value of a key.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|Requirement { key, test }| match (test, value(key)) {
                (Test::Exists, found) => found.is_some(),
                (Test::Missing, found) => found.is_none(),
                (Test::In(values), found) => found.is_some_and(|found| values.contains(found)),
                (Test::NotIn(values), found) => found.is_none_or(|found| !values.contains(found)),
            })
    }

    /// Whether every object is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl fmt::Display for Selector {
    /// In the form of the API; the same for all spellings of the same requirements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Requirement { key, test }) in self.requirements.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            let one = |values: &BTreeSet<String>| match (values.len(), values.first()) {
                (1, Some(value)) => Some(value.clone()),
                (_, _) => None,
            };
            let list = |values: &BTreeSet<String>| {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                values.join(",")
            };
            match test {
                Test::Exists => write!(f, "{key}")?,
                Test::Missing => write!(f, "!{key}")?,
                Test::In(values) => match one(values) {
                    Some(value) => write!(f, "{key}={value}")?,
                    None => write!(f, "{key} in ({})", list(values))?,
                },
                Test::NotIn(values) => match one(values) {
                    Some(value) => write!(f, "{key}!={value}")?,
                    None => write!(f, "{key} notin ({})", list(values))?,
                },
            }
        }
        Ok(())
    }
}

/// A word or symbol of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, `in` or `notin`.
    Word(&'a str),
    /// One of [`SYMBOLS`].
    Symbol(&'a str),
    End,
}

impl Token<'_> {
    /// The error for finding this token when something else is expected.
    fn instead_of(self, wanted: &'static str) -> SelectorError {
        let found = match self {
            Self::Symbol(symbol @ ("<" | ">")) => {
                return SelectorError::Order(if symbol == "<" { '<' } else { '>' });
            }
            Self::Word(text) | Self::Symbol(text) => format!("'{text}'"),
            Self::End => "the end".to_owned(),
        };
        SelectorError::Unexpected { found, wanted }
    }
}

/// The symbols, longer ones before their prefixes.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ",", "(", ")", "<", ">"];

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let ends_word = |c: char| is_space(c) || "=!,()<>".contains(c);
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        let length = match symbol {
            Some(symbol) => symbol.len(),
            None => rest.find(ends_word).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(match symbol {
            Some(_) => Token::Symbol(token),
            None => Token::Word(token),
        });
        rest = after.trim_start_matches(is_space);
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let is_denied = self.peek() == Token::Symbol("!");
        if is_denied {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => checked_key(word)?,
            other @ (Token::Symbol(_) | Token::End) => return Err(other.instead_of("a key")),
        };
        if is_denied {
            let test = Test::Missing;
            return Ok(Requirement { key, test });
        }
        let test = match self.peek() {
            Token::End | Token::Symbol(",") => Test::Exists,
            Token::Symbol("=" | "==") => {
                self.next();
                Test::In(BTreeSet::from([self.value()?]))
            }
            Token::Symbol("!=") => {
                self.next();
                Test::NotIn(BTreeSet::from([self.value()?]))
            }
            Token::Word("in") => {
                self.next();
                Test::In(self.values()?)
            }
            Token::Word("notin") => {
                self.next();
                Test::NotIn(self.values()?)
            }
            other @ (Token::Word(_) | Token::Symbol(_)) => {
                return Err(other.instead_of("=, ==, !=, in, notin, ',' or the end"));
            }
        };
        Ok(Requirement { key, test })
    }

    /// The value after `=`, which may be missing.
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(word) => {
                self.next();
                checked_value(word)
            }
            other @ Token::Symbol(_) => Err(other.instead_of("a value")),
        }
    }

    /// The values in parentheses, each of which may be missing.
    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        match self.next() {
            Token::Symbol("(") => {}
            other @ (Token::Word(_) | Token::Symbol(_) | Token::End) => {
                return Err(other.instead_of("'('"));
            }
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Token::Word(word) => {
                    self.next();
                    checked_value(word)?
                }
                Token::Symbol(_) | Token::End => String::new(),
            };
            values.insert(value);
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other @ (Token::Word(_) | Token::Symbol(_) | Token::End) => {
                    return Err(other.instead_of("',' or ')'"));
                }
            }
        }
    }
}

/// Whether a non-empty text is valid as a value or as a key without its prefix.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    bytes.len() <= MAX_NAME && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
}

/// Whether a text is valid as the prefix of a key (RFC 1123, in lower case).
fn is_prefix(text: &str) -> bool {
    let edge = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
    };
    text.len() <= MAX_PREFIX && text.split('.').all(is_label)
}

/// Checks a key.
fn checked_key(text: &str) -> Result<String, SelectorError> {
    let good = match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => is_prefix(prefix) && is_name(name),
    };
    if good {
        Ok(text.to_owned())
    } else {
        Err(SelectorError::Key(text.to_owned()))
    }
}

/// Checks a value.
fn checked_value(text: &str) -> Result<String, SelectorError> {
    if text.is_empty() || is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(SelectorError::Value(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;

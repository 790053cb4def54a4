//! The words within the actions of a template.

use super::parse::ParseError;

/// A word of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// `.A.B`, the names without dots; empty for `.` alone. Whether it stands directly behind what is
    /// before it, as in `$x.A`, is the number's: the word begins where the one before ended.
    Field(Vec<String>),
    /// `$x`; `$` alone is empty.
    Variable(String),
    /// A name: of a function, or a keyword.
    Name(String),
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `|`.
    Pipe,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `:=`.
    Declare,
    /// `=`.
    Assign,
}

/// A word with where it begins and ends in the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    /// The word.
    pub(super) word: Word,
    /// Its first octet.
    pub(super) start: usize,
    /// The octet behind it.
    pub(super) end: usize,
}

/// A part of a template.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// What stands outside of actions.
    Text(String),
    /// An action, and where it begins.
    Action(usize, Vec<Placed>),
}

/// Cuts a template into text and actions.
pub(super) fn parts(source: &str) -> Result<Vec<Part>, ParseError> {
    let mut parts = Vec::new();
    let mut at = 0;
    let mut trims_next = false;
    while at < source.len() {
        let open = source[at..].find("{{").map(|found| at + found);
        let end = open.unwrap_or(source.len());
        let mut text = &source[at..end];
        if trims_next {
            text = text.trim_start();
        }
        let Some(open) = open else {
            parts.push(Part::Text(text.to_owned()));
            break;
        };
        let mut inner = open + 2;
        let rest = &source[inner..];
        if rest.starts_with('-') && rest[1..].starts_with(char::is_whitespace) {
            text = text.trim_end();
            inner += 1;
        }
        if !text.is_empty() {
            parts.push(Part::Text(text.to_owned()));
        }
        let (words, close, trims) = action(source, inner)?;
        trims_next = trims;
        if let Some(words) = words {
            parts.push(Part::Action(open, words));
        }
        at = close;
    }
    Ok(parts)
}

/// What an action gives: its words, `None` for a comment; where it ends; whether it trims what follows.
type Action = (Option<Vec<Placed>>, usize, bool);

/// Reads an action from behind its `{{` to its `}}`.
fn action(source: &str, start: usize) -> Result<Action, ParseError> {
    let unclosed = || ParseError::new(start, "an action has no }}");
    let trimmed = source[start..].trim_start();
    if trimmed.starts_with("/*") {
        let begin = source.len() - trimmed.len();
        let end = trimmed.find("*/").ok_or_else(unclosed)? + begin + 2;
        let rest = source[end..].trim_start();
        let trims = rest.starts_with("-}}");
        let close = source.len() - rest.len() + if trims { 3 } else { 2 };
        return match rest.strip_prefix('-').unwrap_or(rest).starts_with("}}") {
            true => Ok((None, close, trims)),
            false => Err(ParseError::new(end, "a comment stands alone in its action")),
        };
    }
    let mut words = Vec::new();
    let mut at = start;
    loop {
        let rest = source.get(at..).ok_or_else(unclosed)?;
        let first = rest.chars().next().ok_or_else(unclosed)?;
        if rest.starts_with("}}") {
            return Ok((Some(words), at + 2, false));
        }
        if first.is_whitespace() {
            let rest = rest.trim_start();
            at = source.len() - rest.len();
            if rest.starts_with("-}}") {
                return Ok((Some(words), at + 3, true));
            }
            continue;
        }
        let (word, length) = word(rest, at)?;
        let end = at + length;
        words.push(Placed {
            word,
            start: at,
            end,
        });
        at = end;
    }
}

/// How many octets of a text belong to a name.
fn name_length(text: &str) -> usize {
    let is_part = |symbol: char| symbol.is_alphanumeric() || symbol == '_';
    text.find(|symbol| !is_part(symbol)).unwrap_or(text.len())
}

/// Reads one word at the start of `rest`, which is at `at`; gives its length.
fn word(rest: &str, at: usize) -> Result<(Word, usize), ParseError> {
    let octet = rest.as_bytes()[0];
    Ok(match octet {
        b'|' => (Word::Pipe, 1),
        b'(' => (Word::Open, 1),
        b')' => (Word::Close, 1),
        b':' if rest.starts_with(":=") => (Word::Declare, 2),
        b'=' => (Word::Assign, 1),
        b'"' => text(rest, at)?,
        b'`' => {
            let end = rest[1..].find('`');
            let end = end.ok_or_else(|| ParseError::new(at, "a text has no ` at its end"))?;
            (Word::Text(rest[1..=end].to_owned()), end + 2)
        }
        b'$' => {
            let length = name_length(&rest[1..]);
            (Word::Variable(rest[1..=length].to_owned()), length + 1)
        }
        b'.' => {
            let mut names = Vec::new();
            let mut length = 0;
            while rest[length..].starts_with('.') {
                let name = name_length(&rest[length + 1..]);
                if name == 0 {
                    break;
                }
                names.push(rest[length + 1..=length + name].to_owned());
                length += name + 1;
            }
            (Word::Field(names), length.max(1))
        }
        b'0'..=b'9' | b'-' | b'+' => {
            let length = 1 + name_length(&rest[1..]);
            let digits = rest[..length].replace('_', "");
            let (sign, digits) = match digits.strip_prefix('-') {
                Some(digits) => (-1, digits.to_owned()),
                None => (1, digits.trim_start_matches('+').to_owned()),
            };
            let value = match digits.strip_prefix("0x") {
                Some(hex) => i64::from_str_radix(hex, 16),
                None => digits.parse::<i64>(),
            };
            match value {
                Ok(value) if !rest[length..].starts_with('.') => {
                    (Word::Number(sign * value), length)
                }
                _ => return Err(ParseError::new(at, "a number that is not whole")),
            }
        }
        _ => {
            let length = name_length(rest);
            if length == 0 {
                let symbol = rest.chars().next().unwrap_or_default();
                let message = format!("{symbol:?} means nothing here");
                return Err(ParseError::new(at, message));
            }
            (Word::Name(rest[..length].to_owned()), length)
        }
    })
}

/// Reads a text in quotes, with Go's escapes of single characters.
fn text(rest: &str, at: usize) -> Result<(Word, usize), ParseError> {
    let mut out = String::new();
    let mut symbols = rest.char_indices().skip(1);
    while let Some((place, symbol)) = symbols.next() {
        match symbol {
            '"' => return Ok((Word::Text(out), place + 1)),
            '\\' => match symbols.next().map(|(_, symbol)| symbol) {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(symbol @ ('"' | '\\' | '\'')) => out.push(symbol),
                _ => return Err(ParseError::new(at + place, "an escape that is not known")),
            },
            symbol => out.push(symbol),
        }
    }
    Err(ParseError::new(at, "a text has no \" at its end"))
}

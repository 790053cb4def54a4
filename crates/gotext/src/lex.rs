//! The words in the actions of a template.

/// An error in a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (character {})", .at + 1)]
pub struct ParseError {
    /// The place, in bytes from the start.
    pub at: usize,
    /// The message.
    pub message: String,
}

impl ParseError {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { at, message }
    }
}

/// A word of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// `.A.B`, as names without dots; empty for `.` alone. In `$x.A` it begins where the word before it ends.
    Field(Vec<String>),
    /// `$x`; empty for `$` alone.
    Variable(String),
    /// The name of a function, or a keyword.
    Name(String),
    Text(String),
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

/// A word and its place in the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) word: Word,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Text outside of actions.
    Text(String),
    /// An action: its start and its words.
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

/// The words of an action (`None` for a comment), its end, and whether it trims the text after it.
type Action = (Option<Vec<Placed>>, usize, bool);

/// Reads an action. `start` is the place after its `{{`.
fn action(source: &str, start: usize) -> Result<Action, ParseError> {
    let unclosed = || ParseError::new(start, "this action has no }}");
    let trimmed = source[start..].trim_start();
    if trimmed.starts_with("/*") {
        let begin = source.len() - trimmed.len();
        let end = trimmed.find("*/").ok_or_else(unclosed)? + begin + 2;
        let rest = source[end..].trim_start();
        let trims = rest.starts_with("-}}");
        let close = source.len() - rest.len() + if trims { 3 } else { 2 };
        return match rest.strip_prefix('-').unwrap_or(rest).starts_with("}}") {
            true => Ok((None, close, trims)),
            false => Err(ParseError::new(
                end,
                "an action with a comment holds nothing else",
            )),
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

/// The length of the name at the start of a text.
fn name_length(text: &str) -> usize {
    let is_part = |symbol: char| symbol.is_alphanumeric() || symbol == '_';
    text.find(|symbol| !is_part(symbol)).unwrap_or(text.len())
}

/// Reads the word at the start of `rest`, which is at `at`. Returns its length too.
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
            let end = end.ok_or_else(|| ParseError::new(at, "this text has no closing `"))?;
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
                _ => return Err(ParseError::new(at, "only whole numbers are supported")),
            }
        }
        _ => {
            let length = name_length(rest);
            if length == 0 {
                let symbol = rest.chars().next().unwrap_or_default();
                let message = format!("unexpected {symbol:?}");
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
                _ => return Err(ParseError::new(at + place, "unknown escape")),
            },
            symbol => out.push(symbol),
        }
    }
    Err(ParseError::new(at, "this text has no closing \""))
}

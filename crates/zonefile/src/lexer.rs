//! Splits a master file into entries of words (RFC 1035 section 5.1): comments, quotes, parentheses.
//!
//! An entry is one line, or several within parentheses. Escapes stay in the words, because their meaning depends on the
//! kind of word. After an error the next line is the next entry, so that one mistake does not hide another.

use std::borrow::Cow;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// With escapes, without quotes.
    pub(super) raw: Cow<'a, [u8]>,
    pub(super) quoted: bool,
    /// Whether it follows the word before without space, as in `key="value"`.
    pub(super) joined: bool,
    /// From 1.
    pub(super) line: u32,
    /// In bytes, from 1.
    pub(super) column: u32,
}

impl Word<'_> {
    /// The word as text, for messages.
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }

    /// Whether this is exactly the unquoted text, without case.
    pub(super) fn is(&self, text: &str) -> bool {
        !self.quoted && self.raw.eq_ignore_ascii_case(text.as_bytes())
    }
}

/// A logical line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// At least one.
    pub(super) words: Vec<Word<'a>>,
    /// Whether the line begins with space, and so has the owner of the record before.
    pub(super) indented: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LexError {
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) message: &'static str,
}

#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
}

/// Whether a byte is space within a line.
const fn is_space(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t' | b'\r')
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of a text, after its byte order mark.
    pub(super) fn new(text: &'a [u8]) -> Self {
        let at = text.len() - text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).len();
        Self {
            text,
            at,
            line: 1,
            line_start: at,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn error_here(&self, message: &'static str) -> LexError {
        LexError {
            line: self.line,
            column: self.column(),
            message,
        }
    }

    fn column(&self) -> u32 {
        u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX)
    }

    /// Skips a line feed.
    fn next_line(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
    }

    /// Skips the rest of the line with its line feed.
    fn skip_line(&mut self) {
        self.skip_to_line_end();
        if self.peek().is_some() {
            self.next_line();
        }
    }

    fn skip_to_line_end(&mut self) {
        while self.peek().is_some_and(|octet| octet != b'\n') {
            self.at += 1;
        }
    }

    /// The next entry that has words.
    pub(super) fn next_entry(&mut self) -> Option<Result<Entry<'a>, LexError>> {
        loop {
            self.peek()?;
            match self.entry() {
                Ok(entry) if entry.words.is_empty() => {}
                Ok(entry) => return Some(Ok(entry)),
                Err(error) => {
                    self.skip_line();
                    return Some(Err(error));
                }
            }
        }
    }

    /// Reads a logical line.
    fn entry(&mut self) -> Result<Entry<'a>, LexError> {
        let indented = self.peek().is_some_and(is_space);
        let mut words = Vec::new();
        let mut opened: Vec<LexError> = Vec::new();
        let mut joined = false;
        while let Some(octet) = self.peek() {
            match octet {
                b'\n' => {
                    self.next_line();
                    if opened.is_empty() {
                        return Ok(Entry { words, indented });
                    }
                    joined = false;
                }
                b';' => self.skip_to_line_end(),
                b'(' => {
                    opened.push(self.error_here("this '(' is never closed"));
                    self.at += 1;
                    joined = false;
                }
                b')' => {
                    if opened.pop().is_none() {
                        return Err(self.error_here("this ')' closes no '('"));
                    }
                    self.at += 1;
                    joined = false;
                }
                octet if is_space(octet) => {
                    self.at += 1;
                    joined = false;
                }
                _ => {
                    words.push(self.word(joined)?);
                    joined = true;
                }
            }
        }
        match opened.pop() {
            Some(error) => Err(error),
            None => Ok(Entry { words, indented }),
        }
    }

    fn word(&mut self, joined: bool) -> Result<Word<'a>, LexError> {
        let (line, column) = (self.line, self.column());
        let quoted = self.peek() == Some(b'"');
        if quoted {
            self.at += 1;
        }
        let start = self.at;
        let mut end = None;
        while let Some(octet) = self.peek() {
            match octet {
                b'\\' => {
                    self.at += 1;
                    if self.peek().is_none_or(|next| next == b'\n') {
                        return Err(self.error_here("a '\\' at the end of a line escapes nothing"));
                    }
                    self.at += 1;
                }
                b'\n' => break,
                b'"' if quoted => {
                    end = Some(self.at);
                    self.at += 1;
                    break;
                }
                _ if quoted => self.at += 1,
                b'"' | b';' | b'(' | b')' => break,
                octet if is_space(octet) => break,
                _ => self.at += 1,
            }
        }
        let end = match (quoted, end) {
            (true, None) => {
                return Err(LexError {
                    line,
                    column,
                    message: "this quote is not closed on its line",
                });
            }
            (true, Some(end)) => end,
            (false, _) => self.at,
        };
        Ok(Word {
            raw: Cow::Borrowed(&self.text[start..end]),
            quoted,
            joined,
            line,
            column,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries of a text: its words with their places, or the problem.
    fn cut(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text.as_bytes());
        std::iter::from_fn(|| lexer.next_entry())
            .map(|entry| match entry {
                Err(error) => format!("{}:{} {}", error.line, error.column, error.message),
                Ok(entry) => {
                    let words = entry.words.iter().map(|word| {
                        let quote = if word.quoted { "\"" } else { "" };
                        let join = if word.joined { "+" } else { "" };
                        let (line, column) = (word.line, word.column);
                        format!("{join}{line}:{column}={quote}{}{quote}", word.shown())
                    });
                    let indent = if entry.indented { "_ " } else { "" };
                    format!("{indent}{}", words.collect::<Vec<_>>().join(" "))
                }
            })
            .collect()
    }

    #[test]
    fn lines_become_entries_of_words() {
        for (text, want) in [
            ("a  b\n", vec!["1:1=a 1:4=b"]),
            ("\u{feff}a\r\n\n ; c\n\tb", vec!["1:1=a", "_ 4:2=b"]),
            (
                "a ( b ; (c\n\n d )e\nf",
                vec!["1:1=a 1:5=b 3:2=d 3:5=e", "4:1=f"],
            ),
            (
                "a \"b ; ( c\" d\"e\"",
                vec!["1:1=a 1:3=\"b ; ( c\" 1:13=d +1:14=\"e\""],
            ),
            (
                r#"a\;b "c\"d" \# e\ f"#,
                vec![r#"1:1=a\;b 1:6="c\"d" 1:13=\# 1:16=e\ f"#],
            ),
            ("a\"\"", vec!["1:1=a +1:2=\"\""]),
        ] {
            assert_eq!(cut(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_cut_does_not_hide_the_next() {
        for (text, want) in [
            ("a ) b\nc", vec!["1:3 this ')' closes no '('", "2:1=c"]),
            (
                "a \"b\nc",
                vec!["1:3 this quote is not closed on its line", "2:1=c"],
            ),
            ("a (\nb", vec!["1:3 this '(' is never closed"]),
            (
                "a\\\nb",
                vec!["1:3 a '\\' at the end of a line escapes nothing", "2:1=b"],
            ),
        ] {
            assert_eq!(cut(text), want, "{text:?}");
        }
    }
}

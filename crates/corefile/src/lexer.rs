//! Splits a Corefile into words exactly as CoreDNS does, and notes the place of each.
//!
//! Words are separated by white space. A `"` opens a quoted word only as the first character of a word. The only escape
//! in it is `\"`, and it may have line ends. `#` outside quotes begins a comment anywhere. A word does not remember its
//! quotes: `"{"` is a brace.
//!
//! One oddity of CoreDNS gives a warning: a `#` inside a word hides only the rest of that word. In `a b#c d` the `d` is
//! read.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::place::{Place, Report};

/// One word of a Corefile.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The place of its first character, which may be the opening quote.
    pub place: Place,
    /// The text, without quotes.
    pub text: String,
    /// Whether it is the first of its line. A word after a quoted word of several lines is on the line where the quoted
    /// word began.
    pub(super) starts_line: bool,
    /// Whether it follows the word `secret` on its line. Messages must not repeat it.
    confidential: bool,
}

impl Token {
    /// Whether this opens a block.
    pub fn is_open(&self) -> bool {
        self.text == "{"
    }

    /// Whether this closes a block.
    pub(super) fn is_close(&self) -> bool {
        self.text == "}"
    }

    /// The text in quotes for messages, unless it may be a secret.
    pub fn shown(&self) -> Cow<'static, str> {
        /// The longest part of a word that a message repeats.
        const SHOWN_CHARS: usize = 80;
        if self.confidential {
            return Cow::Borrowed("this word");
        }
        let mut text: String = self.text.chars().take(SHOWN_CHARS).collect();
        if text.len() < self.text.len() {
            text.push('…');
        }
        Cow::Owned(format!("'{}'", text.escape_debug()))
    }

    /// A copy of the word with another text.
    pub fn with_text(&self, text: String) -> Self {
        Self {
            text,
            ..self.clone()
        }
    }

    /// Whether the text must not be repeated in messages.
    pub fn is_confidential(&self) -> bool {
        self.confidential
    }
}

/// Shows the place alone: the text may be a secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.place)
    }
}

enum State {
    Between,
    /// A comment that runs to the end of its line.
    Comment,
    Word,
    /// A comment without space before it, begun at this column.
    GluedComment(u32),
    /// A quoted word, with a flag for a preceding backslash.
    Quoted {
        /// Whether the previous character was an escaping backslash.
        escaped: bool,
    },
}

struct Lexer<'a> {
    file: Arc<str>,
    /// The line of the next character.
    line: u32,
    /// The column of the next character.
    column: u32,
    /// The text of the word that is being read.
    text: String,
    start: Place,
    /// The line on which the last finished word ended.
    last_end: Option<u32>,
    /// Whether the line so far has the word `secret`.
    secret_line: bool,
    /// The place of a `#` that hid only the rest of its word.
    leak: Option<Place>,
    tokens: Vec<Token>,
    report: &'a mut Report,
}

/// Splits `text` into words. Problems go to the report.
pub fn lex(file: &Arc<str>, text: &str, report: &mut Report) -> Vec<Token> {
    let mut lexer = Lexer {
        file: Arc::clone(file),
        line: 1,
        column: 1,
        text: String::new(),
        start: Place::start_of(file),
        last_end: None,
        secret_line: false,
        leak: None,
        tokens: Vec::new(),
        report,
    };
    let mut state = State::Between;
    for c in text.strip_prefix('\u{feff}').unwrap_or(text).chars() {
        state = lexer.step(state, c);
        if c == '\n' {
            lexer.line = lexer.line.saturating_add(1);
            lexer.column = 1;
        } else {
            lexer.column = lexer.column.saturating_add(1);
        }
    }
    lexer.end(&state);
    lexer.tokens
}

impl Lexer<'_> {
    fn step(&mut self, state: State, c: char) -> State {
        match state {
            State::Quoted { escaped } => return self.quoted(escaped, c),
            State::Comment if c == '\n' => return State::Between,
            State::Comment => return State::Comment,
            // Outside quotes a carriage return is ignored: it does not even split a word.
            State::Between | State::Word | State::GluedComment(_) if c == '\r' => return state,
            State::Between | State::Word | State::GluedComment(_) => {}
        }
        match state {
            State::Between if c.is_whitespace() => State::Between,
            State::Between if c == '#' => State::Comment,
            State::Between => {
                self.start = self.here();
                if c == '"' {
                    return State::Quoted { escaped: false };
                }
                self.text.push(c);
                State::Word
            }
            State::Word if c.is_whitespace() => {
                self.finish(self.line);
                State::Between
            }
            State::Word if c == '#' => State::GluedComment(self.column),
            State::Word => {
                self.text.push(c);
                State::Word
            }
            State::GluedComment(column) if c.is_whitespace() => {
                self.finish(self.line);
                if c != '\n' {
                    self.leak = Some(Place {
                        column,
                        ..self.here()
                    });
                }
                State::Between
            }
            State::GluedComment(_) | State::Comment | State::Quoted { .. } => state,
        }
    }

    /// Takes one character of a quoted word.
    fn quoted(&mut self, escaped: bool, c: char) -> State {
        match (escaped, c) {
            (false, '\\') => return State::Quoted { escaped: true },
            (false, '"') => {
                self.finish(self.line);
                return State::Between;
            }
            (true, '"') | (false, _) => self.text.push(c),
            (true, _) => {
                self.text.push('\\');
                self.text.push(c);
            }
        }
        State::Quoted { escaped: false }
    }

    /// Handles the end of the file.
    fn end(&mut self, state: &State) {
        match state {
            State::Between | State::Comment => {}
            State::Word | State::GluedComment(_) => self.finish(self.line),
            State::Quoted { .. } => {
                let start = self.start.clone();
                let fix = "close it, or write a backslash before a quote within a word";
                self.report
                    .unpaired(&start, "the quote that opens here is never closed", fix);
                if !self.text.is_empty() {
                    self.finish(self.line);
                }
            }
        }
    }

    /// The place of the next character.
    fn here(&self) -> Place {
        Place {
            file: Arc::clone(&self.file),
            line: self.line,
            column: self.column,
        }
    }

    /// Ends the word that is being read, on line `end`.
    fn finish(&mut self, end: u32) {
        let place = self.start.clone();
        let text = std::mem::take(&mut self.text);
        let starts_line = self.last_end.is_none_or(|last| last < place.line);
        self.last_end = Some(end);
        if starts_line {
            self.secret_line = false;
            self.leak = None;
        }
        if let Some(leak) = self.leak.take() {
            self.report.warn(
                &leak,
                "a '#' inside a word hides only the rest of that word, not the rest of the line",
                "put a space before the '#'",
            );
        }
        let confidential = self.secret_line;
        self.secret_line |= text == "secret";
        self.tokens.push(Token {
            place,
            text,
            starts_line,
            confidential,
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The words of `text`, each with its line and column.
    fn placed(text: &str) -> Vec<(String, u32, u32)> {
        let mut report = Report::default();
        let tokens = lex(&"Corefile".into(), text, &mut report);
        tokens
            .into_iter()
            .map(|t| (t.text, t.place.line, t.place.column))
            .collect()
    }

    fn words(text: &str) -> Vec<String> {
        placed(text).into_iter().map(|(word, _, _)| word).collect()
    }

    #[test]
    fn words_are_those_of_coredns() {
        for (text, want) in [
            ("a b#c d e", vec!["a", "b", "d", "e"]),
            ("f #g h", vec!["f"]),
            ("a#b\nc", vec!["a", "c"]),
            ("x\"y z\"", vec!["x\"y", "z\""]),
            ("\"p\"q", vec!["p", "q"]),
            ("\"p\"#q r", vec!["p"]),
            ("\"d\\\"e\"", vec!["d\"e"]),
            ("\"f\\ng\"", vec!["f\\ng"]),
            ("x \"\" y", vec!["x", "", "y"]),
            ("a \\", vec!["a", "\\"]),
            (".{", vec![".{"]),
            ("\"{\" \"#\" \"import\"", vec!["{", "#", "import"]),
            ("a,b c, d", vec!["a,b", "c,", "d"]),
            ("\u{feff}a\r\nb\rc\r\n", vec!["a", "bc"]),
            ("a\u{feff}b", vec!["a\u{feff}b"]),
            ("a\u{a0}b\u{2028}c", vec!["a", "b", "c"]),
            ("\"a\nb\" c", vec!["a\nb", "c"]),
            ("\"open to the end", vec!["open to the end"]),
            ("\"", vec![]),
            ("# \"not\" opened\nx", vec!["x"]),
        ] {
            assert_eq!(words(text), want, "{text:?}");
        }
    }

    #[test]
    fn places_count_characters_from_one() {
        let got = placed("ü a\n\t\"b\nc\" d\n");
        let want = [("ü", 1, 1), ("a", 1, 3), ("b\nc", 2, 2), ("d", 3, 4)];
        let want: Vec<_> = want
            .map(|(word, line, column)| (word.to_owned(), line, column))
            .into();
        assert_eq!(got, want);
    }

    #[test]
    fn arguments_may_follow_a_quoted_word_of_several_lines() {
        let mut report = Report::default();
        let tokens = lex(&"Corefile".into(), "a \"b\nc\" d\ne", &mut report);
        let starts: Vec<_> = tokens.iter().map(|token| token.starts_line).collect();
        assert_eq!(starts, [true, false, false, true]);
    }

    #[test]
    fn a_glued_comment_is_warned_about_only_when_words_follow() {
        let warned = |text: &str| {
            let mut report = Report::default();
            lex(&"Corefile".into(), text, &mut report);
            report
                .finish()
                .1
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(warned("a b#c\nd"), [""; 0]);
        assert_eq!(warned("a b#c \nd"), [""; 0]);
        assert_eq!(
            warned("a b#c d"),
            [
                "Corefile:1:4: a '#' inside a word hides only the rest of that word, not the rest of the line; \
              put a space before the '#'"
            ]
        );
    }

    #[test]
    fn words_behind_secret_are_not_repeated() {
        let mut report = Report::default();
        let tokens = lex(&"Corefile".into(), "secret k aGk= x\nlog aGk=", &mut report);
        let shown: Vec<_> = tokens.iter().map(Token::shown).collect();
        assert_eq!(
            shown,
            [
                "'secret'",
                "this word",
                "this word",
                "this word",
                "'log'",
                "'aGk='"
            ]
        );
        assert_eq!(format!("{:?}", tokens[2]), "Token(Corefile:1:10)");
    }

    proptest! {
        #[test]
        fn the_lexer_never_panics_and_invents_nothing(text in "[ \t\r\n\"#\\\\{}a-c\u{feff}é]{0,60}") {
            let mut report = Report::default();
            let tokens = lex(&"Corefile".into(), &text, &mut report);
            let octets: usize = tokens.iter().map(|token| token.text.len()).sum();
            prop_assert!(octets <= text.len());
            for pair in tokens.windows(2) {
                prop_assert!(pair[0].place < pair[1].place);
                prop_assert!(pair[1].starts_line || pair[0].place.line <= pair[1].place.line);
            }
        }

        #[test]
        fn any_text_is_read(text in any::<String>()) {
            let mut report = Report::default();
            let tokens = lex(&"Corefile".into(), &text, &mut report);
            prop_assert!(tokens.len() <= text.chars().count());
        }
    }
}

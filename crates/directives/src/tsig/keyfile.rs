//! Key files as BIND writes them: `key "name" { algorithm hmac-sha256; secret "base64"; };`.
//!
//! Comments are those of `named.conf`: `//` and `#` to the end of the line, `/* … */`. Only `key` statements are
//! allowed. Messages repeat no word of the file except names of keys.

use std::sync::Arc;

use corefile::place::{Place, Report};
use dns::Name;
use dns::tsig::Algorithm;

use crate::tsig::secret::Secret;
use crate::tsig::{ALGORITHMS, SECRET_MEND, TsigKey};

struct Word {
    /// The place of its first character.
    place: Place,
    text: String,
    /// Whether it was quoted. A quoted word is never punctuation.
    quoted: bool,
}

impl Word {
    /// Whether this is the punctuation or keyword `text`.
    fn is(&self, text: &str) -> bool {
        !self.quoted && self.text == text
    }
}

/// The syntax, for messages.
const MEND: &str = "write: key \"NAME\" { algorithm hmac-sha256; secret \"BASE64\"; };";

/// Reads a key file. Problems are reported with places in that file.
pub(crate) fn parse(file: &Arc<str>, text: &str, report: &mut Report) -> Vec<TsigKey> {
    let words = words(file, text, report);
    let end = words
        .last()
        .map_or_else(|| Place::start_of(file), |word| word.place.clone());
    let mut reader = Reader {
        words: words.into_iter().peekable(),
        end,
        report,
    };
    let mut keys = Vec::new();
    let mut empty = true;
    while let Some(word) = reader.words.next() {
        empty = false;
        if !word.is("key") {
            let message = "a key file may have only key statements";
            reader.report.error(&word.place, message, MEND);
            reader.skip();
            continue;
        }
        keys.extend(reader.key());
    }
    if empty {
        report.error(&Place::start_of(file), "this file has no key", MEND);
    }
    keys
}

struct Reader<'a> {
    /// The words not yet read.
    words: std::iter::Peekable<std::vec::IntoIter<Word>>,
    /// The place of the last word.
    end: Place,
    report: &'a mut Report,
}

impl Reader<'_> {
    /// Reads a key after the word `key`.
    fn key(&mut self) -> Option<TsigKey> {
        let name = self
            .words
            .next_if(|word| word.quoted || !is_punctuation(&word.text));
        let Some(name) = name else {
            self.expected("the key's name");
            self.skip();
            return None;
        };
        let place = name.place;
        let parsed = Name::parse(&name.text).map(|name| name.to_lower());
        if let Err(error) = &parsed {
            self.report
                .error(&place, format!("not a key's name: {error}"), MEND);
        }
        if !self.expect("{") {
            return None;
        }
        let (algorithm, secret) = self.clauses(&place);
        let closed = self.expect("}") && self.expect(";");
        let key = TsigKey {
            place,
            name: parsed.ok()?,
            algorithm: algorithm?,
            secret: secret?,
        };
        closed.then_some(key)
    }

    /// Reads `algorithm` and `secret` up to the `}`.
    fn clauses(&mut self, place: &Place) -> (Option<Algorithm>, Option<Secret>) {
        let (mut algorithm, mut secret) = (None, None);
        let (mut has_algorithm, mut has_secret) = (false, false);
        while let Some(clause) = self.words.next_if(|word| !word.is("}")) {
            let value = self
                .words
                .next_if(|word| word.quoted || !is_punctuation(&word.text));
            match (clause.text.as_str(), value) {
                ("algorithm", Some(value)) => {
                    has_algorithm = true;
                    algorithm = value.text.parse().ok();
                    if algorithm.is_none() {
                        self.report
                            .error(&value.place, "not an algorithm for a key", ALGORITHMS);
                    }
                }
                ("secret", Some(value)) => {
                    has_secret = true;
                    match Secret::parse(&value.text) {
                        Ok(read) => secret = Some(read),
                        Err(error) => {
                            self.report
                                .error(&value.place, error.to_string(), SECRET_MEND);
                        }
                    }
                }
                ("algorithm" | "secret", None) => {
                    self.report
                        .error(&clause.place, "a value is missing here", MEND);
                }
                _ => {
                    let message = "a key has only algorithm and secret";
                    self.report.error(&clause.place, message, MEND);
                }
            }
            if self.words.next_if(|word| word.is(";")).is_none() {
                self.expected("';'");
            }
        }
        for (has, what) in [(has_algorithm, "algorithm"), (has_secret, "secret")] {
            if !has {
                self.report
                    .error(place, format!("this key has no {what}"), MEND);
            }
        }
        (algorithm, secret)
    }

    /// Reads a punctuation mark. Anything else is reported, and the statement is skipped.
    fn expect(&mut self, text: &str) -> bool {
        let found = self.words.next_if(|word| word.is(text)).is_some();
        if !found {
            self.expected(&format!("'{text}'"));
            self.skip();
        }
        found
    }

    /// Reports that another word is expected here.
    fn expected(&mut self, what: &str) {
        let message = format!("{what} is missing before this");
        match self.words.peek() {
            Some(word) => self.report.error(&word.place, message, MEND),
            None => self
                .report
                .error(&self.end, format!("{what} is missing after this"), MEND),
        }
    }

    fn skip(&mut self) {
        let mut depth = 0_usize;
        for word in self.words.by_ref() {
            if word.is("{") {
                depth += 1;
            } else if word.is("}") {
                depth = depth.saturating_sub(1);
            } else if word.is(";") && depth == 0 {
                return;
            }
        }
    }
}

/// Whether a text is punctuation.
fn is_punctuation(text: &str) -> bool {
    matches!(text, "{" | "}" | ";")
}

/// The scanner's position in the grammar of words.
enum State {
    /// White space.
    Between,
    /// A bare word.
    Bare,
    /// A quoted word.
    Quoted,
    /// A comment to the end of the line.
    Line,
    /// A comment to `*/`.
    Star,
}

/// Splits a key file into words.
struct Scanner {
    /// The place of the next character.
    place: Place,
    /// The start of the quoted word or comment.
    start: Place,
    /// The previous character.
    previous: char,
    /// The words so far. The last one may be incomplete.
    words: Vec<Word>,
}

fn words(file: &Arc<str>, text: &str, report: &mut Report) -> Vec<Word> {
    let place = Place::start_of(file);
    let start = place.clone();
    let mut scanner = Scanner {
        place,
        start,
        previous: '\0',
        words: Vec::new(),
    };
    let mut state = State::Between;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        state = scanner.step(&state, c, characters.peek().copied());
        scanner.previous = c;
        if c == '\n' {
            scanner.place.line = scanner.place.line.saturating_add(1);
            scanner.place.column = 1;
        } else {
            scanner.place.column = scanner.place.column.saturating_add(1);
        }
    }
    let start = &scanner.start;
    match state {
        State::Between | State::Bare | State::Line => {}
        State::Quoted => report.error(start, "this quote is never closed", "close it"),
        State::Star => report.error(start, "this comment is never closed", "close it with */"),
    }
    scanner.words
}

impl Scanner {
    /// Takes one character; `next` is the one after it.
    fn step(&mut self, state: &State, c: char, next: Option<char>) -> State {
        match state {
            State::Line if c == '\n' => State::Between,
            State::Line => State::Line,
            State::Star if c == '/' && self.previous == '*' && self.place > self.start => {
                State::Between
            }
            State::Star => State::Star,
            State::Quoted if c == '"' => State::Between,
            State::Quoted => {
                self.grow(c);
                State::Quoted
            }
            State::Between | State::Bare => self.bare(matches!(state, State::Bare), c, next),
        }
    }

    /// Reads one character outside of quotes and comments; `within` says whether it continues a word.
    fn bare(&mut self, within: bool, c: char, next: Option<char>) -> State {
        match (c, next) {
            ('#', _) | ('/', Some('/')) => State::Line,
            ('/', Some('*')) => {
                // The '*' that opens a comment does not close it too.
                let column = self.place.column.saturating_add(2);
                self.start = Place {
                    column,
                    ..self.place.clone()
                };
                State::Star
            }
            ('{' | '}' | ';', _) => {
                self.open(false, c.to_string());
                State::Between
            }
            ('"', _) => {
                self.start = self.place.clone();
                self.open(true, String::new());
                State::Quoted
            }
            (c, _) if c.is_whitespace() => State::Between,
            (c, _) => {
                if within {
                    self.grow(c);
                } else {
                    self.open(false, c.to_string());
                }
                State::Bare
            }
        }
    }

    /// Begins a word.
    fn open(&mut self, quoted: bool, text: String) {
        self.words.push(Word {
            place: self.place.clone(),
            text,
            quoted,
        });
    }

    /// Adds to the last word.
    fn grow(&mut self, c: char) {
        if let Some(word) = self.words.last_mut() {
            word.text.push(c);
        }
    }
}

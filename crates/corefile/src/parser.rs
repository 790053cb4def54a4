//! Builds blocks, directives and their lines from words, with snippets and imports inserted.
//!
//! ```text
//! corefile   := item*
//! item       := import-line | snippet | server-block
//! snippet    := "(" name ")" as one word, then "{" words with balanced braces "}"
//! server     := keys [ "{" directives "}" | directives to the end of the file ]
//! keys       := key ( (space | ",") key )*        a comma at the end of a line: more on the next
//! directives := ( import-line | name argument* [ "{" lines "}" ] )*
//! ```
//!
//! Some texts that CoreDNS accepts are errors here: a stray `}`, a missing one, a `{` on a line of its own, words
//! after a block's `}`. After an error reading continues where it is likely to make sense.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::vec;

use crate::environment::{self, Environment};
use crate::lexer::Token;
use crate::place::{Place, Report};

/// A server block as written.
#[derive(Debug)]
pub struct Block {
    /// The place of its first key.
    pub place: Place,
    /// The keys.
    pub keys: Vec<Token>,
    /// The directives, in the order of the file.
    pub directives: Vec<Statement>,
}

/// A directive as written.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The name.
    pub name: Token,
    /// The other words of its line.
    pub arguments: Vec<Token>,
    /// The place of its `{`, if it has one.
    pub open: Option<Place>,
    /// The lines of its block.
    pub lines: Vec<Line>,
    /// The folder of its relative paths, if not the working folder.
    pub root: Option<Arc<PathBuf>>,
}

/// One line of a directive's block.
#[derive(Debug, Clone)]
pub struct Line {
    /// The first word.
    pub name: Token,
    /// The others.
    pub arguments: Vec<Token>,
}

/// What the grammar has to know of directives, to see where a `}` is missing.
#[derive(Debug, Clone, Copy)]
pub struct Vocabulary {
    /// Whether a word is the name of a directive, supported or not.
    pub is_directive: fn(&str) -> bool,
    /// Whether the directive of the first word has the second one as an option.
    pub is_option: fn(&str, &str) -> bool,
}

/// The state of the parser.
pub struct Parser<'a> {
    /// The words not yet read: the file's, with those of imports on top.
    frames: Vec<vec::IntoIter<Token>>,
    /// The snippets so far.
    pub snippets: BTreeMap<String, Vec<Token>>,
    /// The number of imports so far.
    pub imports: usize,
    vocabulary: Vocabulary,
    /// Whether a quote that is never closed has taken the rest of the file, with the `}`.
    is_cut_off: bool,
    env: Environment<'a>,
    /// Collects the problems.
    pub report: &'a mut Report,
}

/// Parses the words of a file. Problems go to the report.
pub fn parse(
    tokens: Vec<Token>,
    vocabulary: Vocabulary,
    env: Environment<'_>,
    report: &mut Report,
) -> Vec<Block> {
    let frames = vec![tokens.into_iter()];
    Parser {
        frames,
        snippets: BTreeMap::new(),
        imports: 0,
        vocabulary,
        is_cut_off: report.has_unpaired(),
        env,
        report,
    }
    .items()
}

impl Parser<'_> {
    /// The next word, which stays.
    pub fn peek(&mut self) -> Option<&Token> {
        while self.frames.last()?.as_slice().is_empty() {
            self.frames.pop();
        }
        self.frames.last()?.as_slice().first()
    }

    /// Takes the next word.
    pub fn take(&mut self) -> Option<Token> {
        self.peek()?;
        self.frames.last_mut()?.next()
    }

    /// Takes the next word if it is on the same line.
    pub(super) fn next_on_line(&mut self) -> Option<Token> {
        if self.peek()?.starts_line {
            None
        } else {
            self.take()
        }
    }

    /// Inserts words before those not yet read.
    pub(super) fn put_in(&mut self, mut tokens: Vec<Token>) {
        if let Some(first) = tokens.first_mut() {
            first.starts_line = true;
        }
        self.frames.push(tokens.into_iter());
    }

    /// The word with its environment variables replaced.
    pub(super) fn expand(&mut self, mut token: Token) -> Token {
        match environment::expand(&token.text, self.env) {
            Ok(text) => token.text = text,
            Err(error) => {
                self.report
                    .error(&token.place, error.to_string(), "set it to a plain value");
            }
        }
        token
    }

    fn items(mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        while let Some(token) = self.take() {
            if token.is_close() {
                let message = "'}' without a '{' before it";
                self.report
                    .error(&token.place, message, "remove it, or open the block");
            } else if token.is_open() {
                let message = "a block without a zone before its '{'";
                self.report
                    .error(&token.place, message, "write the zone it is for, or '.'");
                self.directives(Some(&token.place));
            } else if token.text == "import" {
                self.import(&token);
            } else {
                blocks.extend(self.block(token));
            }
        }
        blocks
    }

    /// Reads a server block that begins with `first`. `None` for a snippet.
    fn block(&mut self, first: Token) -> Option<Block> {
        let place = first.place.clone();
        let keys = self.keys(first);
        if let [only] = keys.as_slice()
            && let Some(name) = only
                .text
                .strip_prefix('(')
                .and_then(|text| text.strip_suffix(')'))
        {
            let name = name.to_owned();
            self.snippet(&name, &place);
            return None;
        }
        let open = match self.peek() {
            Some(token) if token.is_open() => self.take().map(|token| token.place),
            Some(_) | None => None,
        };
        let directives = self.directives(open.as_ref());
        Some(Block {
            place,
            keys,
            directives,
        })
    }

    /// Reads the keys of a block.
    fn keys(&mut self, first: Token) -> Vec<Token> {
        let mut keys = Vec::new();
        let mut token = first;
        let mut more = false;
        loop {
            let mut key = self.expand(token);
            let place = key.place.clone();
            // An empty word, such as an unset variable, is not a key.
            if !key.text.is_empty() {
                more = key.text.ends_with(',');
                if more {
                    key.text.pop();
                }
                if key.text.is_empty() {
                    self.report
                        .error(&place, "a comma without a zone", "remove the comma");
                } else {
                    keys.push(key);
                }
            }
            let fix = "remove the comma, or write another zone";
            if more
                && self
                    .peek()
                    .is_some_and(|next| next.starts_line && next.text == "import")
                && let Some(keyword) = self.take()
            {
                self.import(&keyword);
            }
            token = match self.peek() {
                None if more => {
                    self.report
                        .error(&place, "the file ends after a comma", fix);
                    return keys;
                }
                Some(next) if next.is_open() && more => {
                    self.report
                        .error(&place, "a comma with no zone after it", fix);
                    return keys;
                }
                None => return keys,
                Some(next) if next.is_open() || next.is_close() => return keys,
                Some(next) if next.starts_line && !more => return keys,
                Some(_) => match self.take() {
                    Some(next) => next,
                    None => return keys,
                },
            };
        }
    }

    /// Takes all words up to the `}` that closes the block opened at `open`. Returns those before it.
    pub fn balanced(&mut self, open: &Place) -> Vec<Token> {
        let mut body = Vec::new();
        let mut depth = 1_usize;
        while let Some(token) = self.take() {
            if token.is_open() {
                depth += 1;
            } else if token.is_close() {
                depth -= 1;
                if depth == 0 {
                    return body;
                }
            }
            body.push(token);
        }
        self.never_closed(open);
        body
    }

    /// Reports a `{` without a `}`.
    fn never_closed(&mut self, open: &Place) {
        self.close_missing(open, "where the block ends");
    }

    /// Reports a `{` whose `}` is missing `here`.
    fn close_missing(&mut self, open: &Place, here: &str) {
        if self.is_cut_off {
            return;
        }
        let fix = format!("write the '}}' on a line of its own {here}");
        self.report
            .unpaired(open, "the '{' here is never closed", fix);
    }

    /// The first line in the block of a directive that is a directive itself, and no option.
    fn first_directive(&self, owner: &str, lines: &[Line]) -> Option<usize> {
        let Vocabulary {
            is_directive,
            is_option,
        } = self.vocabulary;
        lines.iter().position(|line| {
            let word = line.name.text.as_str();
            is_directive(word) && !is_option(owner, word)
        })
    }

    /// Reports that the block of a directive, opened at `open`, lacks its `}`. Lines that are directives themselves are
    /// taken out of it and read next.
    fn lines_never_closed(&mut self, owner: &str, open: &Place, mut lines: Vec<Line>) -> Vec<Line> {
        let Some(first) = self.first_directive(owner, &lines) else {
            self.never_closed(open);
            return lines;
        };
        let after = lines.split_off(first);
        self.close_missing(open, &before(&after[0]));
        let words = after
            .into_iter()
            .flat_map(|line| [vec![line.name], line.arguments].concat());
        let words: Vec<Token> = words.collect();
        self.frames.push(words.into_iter());
        lines
    }

    /// Whether the block around these directives ends too late because one of them took its `}`: the last one has lines that
    /// are directives. This is reported, and these lines are put after it.
    fn took_close(&mut self, directives: &mut Vec<Statement>) -> bool {
        let is_directive = self.vocabulary.is_directive;
        // What follows the block of a server, such as the next server, may have been read as unknown directives.
        let last = directives
            .iter()
            .rposition(|it| is_directive(&it.name.text));
        let Some(at) = last else {
            return false;
        };
        let statement = &mut directives[at];
        let first = self.first_directive(&statement.name.text, &statement.lines);
        let (Some(first), Some(open)) = (first, statement.open.clone()) else {
            return false;
        };
        let after = statement.lines.split_off(first);
        self.close_missing(&open, &before(&after[0]));
        let after = after.into_iter().map(|line| Statement {
            name: line.name,
            arguments: line.arguments,
            open: None,
            lines: Vec::new(),
            root: None,
        });
        directives.splice(at + 1..at + 1, after);
        true
    }

    /// Reads directives to the `}` of the block opened at `open`, or to the end of the file.
    fn directives(&mut self, open: Option<&Place>) -> Vec<Statement> {
        let mut directives: Vec<Statement> = Vec::new();
        let mut first = true;
        while let Some(token) = self.take() {
            if token.is_close() {
                if open.is_none() {
                    let fix = "remove it, or write '{' after the zones above";
                    self.report
                        .error(&token.place, "'}' without a '{' before it", fix);
                } else if !token.starts_line && !first {
                    self.close_not_alone(&token);
                }
                return directives;
            }
            first = false;
            if token.text == "import" {
                self.import(&token);
            } else if token.is_open() {
                let fix = "write it after the directive it belongs to";
                self.report
                    .error(&token.place, "'{' at the start of a line", fix);
                self.balanced(&token.place);
            } else if self.begins_server(&token) {
                if !self.took_close(&mut directives) {
                    self.block_within(&token, open);
                }
                self.frames.push(vec![token].into_iter());
                return directives;
            } else {
                let name = self.expand(token);
                directives.push(self.directive(name));
            }
        }
        if let Some(open) = open
            && !self.took_close(&mut directives)
        {
            self.never_closed(open);
        }
        directives
    }

    /// Whether a line looks like the start of the next server block: its first word is not a known directive and has a
    /// dot or a colon, and its last word is `{`.
    fn begins_server(&mut self, token: &Token) -> bool {
        let zone_like = token.text.contains(['.', ':', '/']);
        if !zone_like || !token.starts_line || (self.vocabulary.is_directive)(&token.text) {
            return false;
        }
        self.opens_block()
    }

    /// Whether a line in the block of a directive is the start of the next directive: it begins with its name and ends with `{`.
    fn begins_directive(&mut self, owner: &str, token: &Token) -> bool {
        let Vocabulary {
            is_directive,
            is_option,
        } = self.vocabulary;
        token.starts_line
            && is_directive(&token.text)
            && !is_option(owner, &token.text)
            && self.opens_block()
    }

    /// Whether the last word of the current line is `{`.
    fn opens_block(&self) -> bool {
        let rest = self.frames.last().map_or(&[][..], vec::IntoIter::as_slice);
        rest.iter()
            .take_while(|next| !next.starts_line)
            .last()
            .is_some_and(Token::is_open)
    }

    /// Reports a server block that begins inside another.
    fn block_within(&mut self, token: &Token, open: Option<&Place>) {
        let shown = token.shown();
        match open {
            Some(open) => self.report.unpaired(
                &token.place,
                format!(
                    "the block of {shown} begins before the block opened in line {} ends",
                    open.line
                ),
                "write the missing '}' on a line before it",
            ),
            None => self.report.unpaired(
                &token.place,
                format!("the block of {shown} begins inside a block without braces"),
                "give the block before it braces",
            ),
        }
    }

    /// Reports a `}` after another word.
    fn close_not_alone(&mut self, token: &Token) {
        let fix = "write it on the next line";
        self.report
            .error(&token.place, "'}' must be on a line of its own", fix);
    }

    /// Reads a directive after its name.
    fn directive(&mut self, name: Token) -> Statement {
        let mut directive = Statement {
            name,
            arguments: Vec::new(),
            open: None,
            lines: Vec::new(),
            root: None,
        };
        loop {
            match self.peek() {
                Some(token) if token.is_close() => return directive,
                Some(token) if token.is_open() && token.starts_line => {
                    let place = token.place.clone();
                    let message =
                        format!("the '{{' of {} is on another line", directive.name.shown());
                    self.report
                        .error(&place, message, "write it on the directive's line");
                }
                Some(token) if token.starts_line => return directive,
                None => return directive,
                Some(_) => {}
            }
            let Some(token) = self.take() else {
                return directive;
            };
            if token.is_open() {
                directive.lines = self.lines(&directive.name.text, &token.place);
                directive.open = Some(token.place);
                self.nothing_more();
                return directive;
            }
            let argument = self.expand(token);
            directive.arguments.push(argument);
        }
    }

    /// Reports words after a `}`, except another `}`.
    fn nothing_more(&mut self) {
        while self.peek().is_some_and(|token| !token.is_close()) {
            let Some(token) = self.next_on_line() else {
                return;
            };
            let message = format!("{} follows a '}}'", token.shown());
            self.report
                .error(&token.place, message, "write it on the next line");
        }
    }

    /// Reads the lines of the block of the directive `owner` to its `}`.
    fn lines(&mut self, owner: &str, open: &Place) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut first = true;
        while let Some(token) = self.take() {
            if token.is_close() {
                if !token.starts_line && !first {
                    self.close_not_alone(&token);
                }
                return lines;
            }
            let starts_line = token.starts_line || first;
            first = false;
            if token.text == "import" && starts_line {
                self.import(&token);
            } else if token.is_open() {
                self.block_in_block(&token);
            } else if self.begins_server(&token) {
                self.frames.push(vec![token].into_iter());
                return self.lines_never_closed(owner, open, lines);
            } else if self.begins_directive(owner, &token) {
                self.frames.push(vec![token.clone()].into_iter());
                let name = token;
                let arguments = Vec::new();
                if self.first_directive(owner, &lines).is_some() {
                    return self.lines_never_closed(owner, open, lines);
                }
                self.close_missing(open, &before(&Line { name, arguments }));
                return lines;
            } else {
                let name = self.expand(token);
                let arguments = self.arguments();
                lines.push(Line { name, arguments });
            }
        }
        self.lines_never_closed(owner, open, lines)
    }

    /// The rest of a line in a directive's block.
    fn arguments(&mut self) -> Vec<Token> {
        let mut arguments = Vec::new();
        while self.peek().is_some_and(|token| !token.is_close()) {
            let Some(token) = self.next_on_line() else {
                break;
            };
            if token.is_open() {
                self.block_in_block(&token);
            } else {
                let argument = self.expand(token);
                arguments.push(argument);
            }
        }
        arguments
    }

    /// Reports and skips a block inside a directive's block.
    fn block_in_block(&mut self, open: &Token) {
        let fix = "remove it: the block of a directive has only plain lines";
        self.report
            .error(&open.place, "a block inside a directive's block", fix);
        self.balanced(&open.place);
    }
}

/// The place of a missing `}`.
fn before(line: &Line) -> String {
    format!(
        "before {} in line {}",
        line.name.shown(),
        line.name.place.line
    )
}

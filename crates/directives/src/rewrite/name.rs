//! `rewrite name`: replaces names in questions, and changes replies.

use corefile::lexer::Token;

use crate::config::pattern::Pattern;
use crate::rewrite::Reading;
use crate::rewrite::edns::is_label;

/// The syntax of the rule, for messages.
const USAGE: &str = "write: rewrite name [exact|prefix|suffix|substring|regex] FROM TO [metadata] [answer auto|name RE TO|value RE TO]";
/// The highest group number of a replacement, as in CoreDNS.
const MAX_GROUP: usize = 100;

/// The names that a rule matches, as text in lower case with the last dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameMatch {
    /// This name.
    Exact(String),
    /// Names that begin with this.
    Prefix(String),
    /// Names that end with this, which may be a part of a label.
    Suffix(String),
    /// Names that contain this.
    Substring(String),
    /// Names in which this is found.
    Regex(Pattern),
}

/// A change of the reply, besides undoing the rewriting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerRule {
    /// Replaces owners in which this is found.
    Name(Pattern, String),
    /// Replaces names in the data in which this is found.
    Value(Pattern, String),
}

/// A rule for names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRule {
    /// The names to replace.
    pub names: NameMatch,
    /// The replacement for the name, or for the part that matches.
    pub to: String,
    /// With `metadata`, the parts of the replacement. Their values are text, in which nothing is replaced again.
    pub parts: Option<Vec<Part>>,
    /// Whether names in the reply are restored.
    pub auto: bool,
    /// Further changes of the reply.
    pub answers: Vec<AnswerRule>,
}

impl NameRule {
    /// The labels of metadata in its replacement.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flatten().filter_map(|part| match part {
            Part::Label(label) => Some(label.as_str()),
            Part::Text(_) | Part::Group(_) => None,
        })
    }
}

/// A part of a replacement with `metadata`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// This text.
    Text(String),
    /// The text of a group of the regular expression.
    Group(usize),
    /// The value of a label of metadata.
    Label(String),
}

impl Part {
    /// Reads a replacement for an expression with this number of groups, without the whole match.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(to: &str, groups: usize) -> Result<Vec<Self>, String> {
        let mut parts = Vec::new();
        let mut rest = to;
        loop {
            let (text, marked) = match rest.split_once('{') {
                Some((text, marked)) => (text, Some(marked)),
                None => (rest, None),
            };
            if text.contains('}') {
                return Err("has a '}' without a '{'".to_owned());
            }
            if !text.is_empty() {
                parts.push(Self::Text(text.to_ascii_lowercase()));
            }
            let Some(marked) = marked else {
                return Ok(parts);
            };
            let Some((mark, after)) = marked.split_once('}') else {
                return Err("has a '{' without a '}'".to_owned());
            };
            parts.push(match mark.parse() {
                Ok(group) if group <= groups => Self::Group(group),
                Ok(_) => return Err("has more groups than its regular expression".to_owned()),
                Err(_) if is_label(mark) && !mark.contains('{') => Self::Label(mark.to_owned()),
                Err(_) => return Err(format!("has no label of metadata in {{{mark}}}")),
            });
            rest = after;
        }
    }
}

/// A name in lower case with its last dot.
pub(super) fn normal(text: &str) -> String {
    let mut text = text.to_ascii_lowercase();
    let escapes = text
        .trim_end_matches('.')
        .bytes()
        .rev()
        .take_while(|octet| *octet == b'\\')
        .count();
    if !text.ends_with('.') || escapes % 2 == 1 {
        text.push('.');
    }
    text
}

impl NameMatch {
    /// Reads the names of a kind. Texts get a last dot.
    pub(super) fn parse(kind: &Token, from: &Token, reading: &mut Reading<'_>) -> Option<Self> {
        Self::read(kind, from, normal(&from.text), &from.text, reading)
    }

    /// As [`Self::parse`], but only a whole name gets a last dot, and the expression is in lower case.
    pub(super) fn parse_lower(
        kind: &Token,
        from: &Token,
        reading: &mut Reading<'_>,
    ) -> Option<Self> {
        let lower = from.text.to_ascii_lowercase();
        match Self::read(kind, from, lower.clone(), &lower, reading)? {
            Self::Exact(text) => Some(Self::Exact(normal(&text))),
            other @ (Self::Prefix(_) | Self::Suffix(_) | Self::Substring(_) | Self::Regex(_)) => {
                Some(other)
            }
        }
    }

    /// Makes the matcher of a kind.
    fn read(
        kind: &Token,
        from: &Token,
        text: String,
        expression: &str,
        reading: &mut Reading<'_>,
    ) -> Option<Self> {
        match kind.text.to_ascii_lowercase().as_str() {
            "exact" => Some(Self::Exact(text)),
            "prefix" => {
                warn_of_dot(from, &text, reading);
                Some(Self::Prefix(text))
            }
            "suffix" => Some(Self::Suffix(text)),
            "substring" => Some(Self::Substring(text)),
            "regex" => Pattern::parse(from, expression, reading.report).map(Self::Regex),
            _ => {
                let message = format!("{} is not a way to compare names", kind.shown());
                let fix = "write exact, prefix, suffix, substring or regex";
                reading.wrong_at(kind, message, fix);
                None
            }
        }
    }

    /// Whether it matches a name, which must be in lower case.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(text) => name == text,
            Self::Prefix(text) => name.starts_with(text.as_str()),
            Self::Suffix(text) => name.ends_with(text.as_str()),
            Self::Substring(text) => name.contains(text.as_str()),
            Self::Regex(pattern) => pattern.regex().is_match(name),
        }
    }

    /// The name with `to` in place of itself or of the part that matches; `None` when it does not match.
    #[must_use]
    pub fn replaced(&self, name: &str, to: &str) -> Option<String> {
        match self {
            Self::Exact(text) => (name == text).then(|| to.to_owned()),
            Self::Prefix(text) => name
                .strip_prefix(text.as_str())
                .map(|rest| [to, rest].concat()),
            Self::Suffix(text) => name
                .strip_suffix(text.as_str())
                .map(|rest| [rest, to].concat()),
            Self::Substring(text) => name
                .contains(text.as_str())
                .then(|| name.replace(text.as_str(), to)),
            Self::Regex(pattern) => filled(pattern, name, to),
        }
    }
}

/// `to` with `{0}`, `{1}`, … replaced by the text of the groups; `None` when the pattern is not found.
#[must_use]
pub fn filled(pattern: &Pattern, text: &str, to: &str) -> Option<String> {
    let groups = pattern.regex().captures(text)?;
    let mut filled = to.to_owned();
    for (number, group) in groups.iter().enumerate() {
        let mark = format!("{{{number}}}");
        if filled.contains(&mark) {
            filled = filled.replace(&mark, group.map_or("", |group| group.as_str()));
        }
    }
    Some(filled)
}

/// Warns about a prefix that got a last dot.
fn warn_of_dot(from: &Token, text: &str, reading: &mut Reading<'_>) {
    if from.text.to_ascii_lowercase() != text {
        let message = format!(
            "{} has become \"{text}\": it matches only names that begin with exactly these labels",
            from.shown()
        );
        let fix = "write whole labels with a dot at the end, or a regex";
        reading.report.warn(&from.place, message, fix);
    }
}

/// Reads the words after `name`.
pub(super) fn parse(words: &[&Token], reading: &mut Reading<'_>) -> Option<NameRule> {
    let (names, to, rest) = match words {
        [] | [_] => {
            reading.wrong("a rule for names has two words at least", USAGE);
            return None;
        }
        [from, to] => (NameMatch::Exact(normal(&from.text)), to, &[][..]),
        [kind, from, to, rest @ ..] => (NameMatch::parse(kind, from, reading)?, to, rest),
    };
    let (rest, parts) = match (rest, &names) {
        ([word, rest @ ..], NameMatch::Regex(pattern)) if word.text == "metadata" => {
            (rest, Some(parts(pattern, to, reading)?))
        }
        ([word, ..], _) if word.text == "metadata" => {
            let fix = "write: rewrite name regex FROM TO metadata";
            reading.wrong_at(word, "metadata is for regular expressions alone", fix);
            return None;
        }
        (_, NameMatch::Regex(pattern)) => {
            check_groups(pattern, to, reading)?;
            (rest, None)
        }
        _ => (rest, None),
    };
    let mut rule = NameRule {
        names,
        to: normal(&to.text),
        parts,
        auto: false,
        answers: Vec::new(),
    };
    answers(rest, &mut rule, reading)?;
    Some(rule)
}

/// Reads a replacement with `metadata`.
fn parts(pattern: &Pattern, to: &Token, reading: &mut Reading<'_>) -> Option<Vec<Part>> {
    let dot = if to.text.ends_with('.') { "" } else { "." };
    match Part::read(&[&to.text, dot].concat(), pattern.groups()) {
        Ok(parts) => Some(parts),
        Err(message) => {
            let fix =
                "write {1} for a group of the regular expression, {plugin/label} for metadata";
            reading.wrong_at(to, format!("{} {message}", to.shown()), fix);
            None
        }
    }
}

/// Reports a replacement with more groups than its expression.
fn check_groups(pattern: &Pattern, to: &Token, reading: &mut Reading<'_>) -> Option<()> {
    let used = (0..=MAX_GROUP).filter(|number| to.text.contains(&format!("{{{number}}}")));
    if used.count() <= pattern.groups() {
        return Some(());
    }
    let message = format!("{} has more groups than its regular expression", to.shown());
    let fix = format!("the expression has {}", pattern.groups());
    reading.wrong_at(to, message, fix);
    None
}

/// Reads the changes of the reply: `answer auto`, `answer name RE TO`, `answer value RE TO`. The word `answer` is
/// needed once only.
fn answers(words: &[&Token], rule: &mut NameRule, reading: &mut Reading<'_>) -> Option<()> {
    let mut words = words;
    let mut is_first = true;
    if let [only] = words {
        reading.wrong_at(
            only,
            format!("{} does not complete the rule", only.shown()),
            USAGE,
        );
        return None;
    }
    while let Some((word, rest)) = words.split_first() {
        let is_answer = word.text == "answer";
        if is_first && !is_answer {
            let message = format!("{} follows the names", word.shown());
            reading.wrong_at(word, message, USAGE);
            return None;
        }
        is_first = false;
        let rest = if is_answer { rest } else { words };
        let Some((kind, rest)) = rest.split_first() else {
            reading.wrong_at(word, "answer needs a kind", USAGE);
            return None;
        };
        words = match (kind.text.as_str(), rest) {
            ("auto", rest) => {
                rule.auto = true;
                rest
            }
            ("name" | "value", [from, to, rest @ ..]) => {
                let pattern = Pattern::parse(from, &from.text, reading.report)?;
                check_groups(&pattern, to, reading)?;
                let to = normal(&to.text);
                rule.answers.push(if kind.text == "name" {
                    AnswerRule::Name(pattern, to)
                } else {
                    AnswerRule::Value(pattern, to)
                });
                rest
            }
            ("name" | "value", _) => {
                reading.wrong_at(kind, format!("{} needs two words", kind.shown()), USAGE);
                return None;
            }
            _ => {
                let message = format!("{} is not a kind of answer", kind.shown());
                reading.wrong_at(kind, message, USAGE);
                return None;
            }
        };
    }
    let renames = |answer: &AnswerRule| match answer {
        AnswerRule::Name(..) => true,
        AnswerRule::Value(..) => false,
    };
    if rule.auto && rule.answers.iter().any(renames) {
        let fix = "remove one of the two";
        reading.wrong("answer auto excludes answer name", fix);
        return None;
    }
    Some(())
}

//! `rewrite name`: which names become which, and what is done to the reply.

use corefile::lexer::Token;

use crate::config::pattern::Pattern;
use crate::rewrite::Reading;

/// How the rule is written, for messages.
const USAGE: &str = "write: rewrite name [exact|prefix|suffix|substring|regex] FROM TO [answer auto|name RE TO|value RE TO]";
/// The highest number of a group that a replacement may have; CoreDNS's.
const MAX_GROUP: usize = 100;

/// Which names a rule is for: their text in lower case, with the dot at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameMatch {
    /// This one.
    Exact(String),
    /// Those that begin so.
    Prefix(String),
    /// Those that end so, within a label too.
    Suffix(String),
    /// Those that hold this.
    Substring(String),
    /// Those in which this is found.
    Regex(Pattern),
}

/// What is done to the reply of a rewritten question besides what undoes the rewriting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerRule {
    /// Owners in which this is found become that.
    Name(Pattern, String),
    /// Names in the data in which this is found become that.
    Value(Pattern, String),
}

/// `name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRule {
    /// Which names.
    pub names: NameMatch,
    /// What they, or the part of them, become.
    pub to: String,
    /// Whether names in the reply are put back.
    pub auto: bool,
    /// What else is done to the reply.
    pub answers: Vec<AnswerRule>,
}

/// A name in lower case with the dot at its end.
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
    /// Reads which names by its kind; texts are completed with a dot.
    pub(super) fn parse(kind: &Token, from: &Token, reading: &mut Reading<'_>) -> Option<Self> {
        Self::read(kind, from, normal(&from.text), &from.text, reading)
    }

    /// The same, but only a whole name is completed, and the expression is in lower case.
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

    /// Makes a matcher of a kind.
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
                let message = format!("{} is no way to compare names", kind.shown());
                let fix = "write exact, prefix, suffix, substring or regex";
                reading.wrong_at(kind, message, fix);
                None
            }
        }
    }

    /// Whether a name, in lower case, is one of them.
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

    /// What a name becomes when it, or the part that fits, becomes `to`; `None` when it is none of them.
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

/// `to` with `{0}`, `{1}`, … replaced by what the groups found, in their order; `None` when nothing is found.
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

/// Warns about a beginning of names that was completed with a dot.
fn warn_of_dot(from: &Token, text: &str, reading: &mut Reading<'_>) {
    if from.text.to_ascii_lowercase() != text {
        let message = format!(
            "{} has become \"{text}\": only names whose first labels are these begin so",
            from.shown()
        );
        let fix = "write whole labels with a dot at the end, or a regex";
        reading.report.warn(&from.place, message, fix);
    }
}

/// Reads the words behind `name`.
pub(super) fn parse(words: &[&Token], reading: &mut Reading<'_>) -> Option<NameRule> {
    let (names, to, rest) = match words {
        [] | [_] => {
            reading.wrong("a rule for names has two words at least", USAGE);
            return None;
        }
        [from, to] => (NameMatch::Exact(normal(&from.text)), to, &[][..]),
        [kind, from, to, rest @ ..] => (NameMatch::parse(kind, from, reading)?, to, rest),
    };
    if let NameMatch::Regex(pattern) = &names {
        check_groups(pattern, to, reading)?;
    }
    let mut rule = NameRule {
        names,
        to: normal(&to.text),
        auto: false,
        answers: Vec::new(),
    };
    answers(rest, &mut rule, reading)?;
    Some(rule)
}

/// Reports a replacement that has more groups than its expression.
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

/// Reads what is done to the reply: `answer auto`, `answer name RE TO`, `answer value RE TO`, the word
/// `answer` once at least.
fn answers(words: &[&Token], rule: &mut NameRule, reading: &mut Reading<'_>) -> Option<()> {
    let mut words = words;
    let mut is_first = true;
    if let [only] = words {
        reading.wrong_at(
            only,
            format!("{} is not all of a rule", only.shown()),
            USAGE,
        );
        return None;
    }
    while let Some((word, rest)) = words.split_first() {
        let is_answer = word.text == "answer";
        if is_first && !is_answer {
            let message = format!("{} stands behind the names", word.shown());
            reading.wrong_at(word, message, USAGE);
            return None;
        }
        is_first = false;
        let rest = if is_answer { rest } else { words };
        let Some((kind, rest)) = rest.split_first() else {
            reading.wrong_at(word, "answer of what kind?", USAGE);
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
                let message = format!("{} is no kind of answer", kind.shown());
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
        let fix = "take out one of the two";
        reading.wrong("answer auto goes with no answer name", fix);
        return None;
    }
    Some(())
}

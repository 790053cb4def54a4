//! The text of a Corefile with its imports and environment, without comments: what it says, in one form.

use std::borrow::Cow;

use crate::lexer::Token;
use crate::parser::Block;

/// What stands in place of the word at this place of a line, if it must not be shown: the directive, the line's own first
/// word (empty on the directive's line), the word's place among the arguments, the word.
pub type Hide = fn(&str, &str, usize, &str) -> Option<String>;

/// The text of all blocks.
pub fn of(blocks: &[Block], hide: Hide) -> String {
    let mut text = String::new();
    for block in blocks {
        let keys: Vec<_> = block.keys.iter().map(|key| word(&key.text)).collect();
        text.push_str(&keys.join(" "));
        text.push_str(" {\n");
        for directive in &block.directives {
            let name = &directive.name.text;
            add_line(&mut text, 1, name, &directive.arguments, |place, word| {
                hide(name, "", place, word)
            });
            if directive.open.is_some() {
                text.truncate(text.len() - 1);
                text.push_str(" {\n");
                for line in &directive.lines {
                    let own = &line.name.text;
                    add_line(&mut text, 2, own, &line.arguments, |place, word| {
                        hide(name, own, place, word)
                    });
                }
                text.push_str("    }\n");
            }
        }
        text.push_str("}\n");
    }
    text
}

/// Adds a line: its first word and its arguments.
fn add_line(
    text: &mut String,
    depth: usize,
    first: &str,
    arguments: &[Token],
    hidden: impl Fn(usize, &str) -> Option<String>,
) {
    for _ in 0..depth {
        text.push_str("    ");
    }
    text.push_str(&word(first));
    for (place, argument) in arguments.iter().enumerate() {
        text.push(' ');
        match hidden(place, &argument.text) {
            Some(instead) => text.push_str(&instead),
            None => text.push_str(&word(&argument.text)),
        }
    }
    text.push('\n');
}

/// A word as it is written, in quotes where it needs them.
fn word(text: &str) -> Cow<'_, str> {
    let needs_quotes = text.is_empty()
        || text.starts_with('"')
        || text.contains(|c: char| c.is_whitespace() || c == '#');
    match needs_quotes {
        true => format!("\"{}\"", text.replace('"', "\\\"")).into(),
        false => text.into(),
    }
}

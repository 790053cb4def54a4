//! The digest of a Corefile: of its words with imports and environment, without their places.

use std::fmt::Write;

use ring::digest::{Context, SHA512};

use crate::lexer::Token;
use crate::parser::{Block, Statement};

/// The digest of all blocks, in hexadecimal digits.
pub fn of(blocks: &[Block]) -> String {
    let mut context = Context::new(&SHA512);
    let mut add = |depth: u8, words: &mut dyn Iterator<Item = &Token>| {
        context.update(&[depth]);
        for word in words {
            context.update(word.text.as_bytes());
            context.update(&[0]);
        }
    };
    for block in blocks {
        add(1, &mut block.keys.iter());
        for directive in &block.directives {
            let Statement {
                name,
                arguments,
                open: _,
                lines,
                root: _,
            } = directive;
            add(2, &mut [name].into_iter().chain(arguments));
            for line in lines {
                add(3, &mut [&line.name].into_iter().chain(&line.arguments));
            }
        }
    }
    let mut text = String::new();
    for octet in context.finish().as_ref() {
        write!(text, "{octet:02x}").expect("a String takes all that is written");
    }
    text
}

//! Makes foreign text safe for a terminal: control characters are escaped.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character is invisible or changes the order of the characters around it.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

/// Escapes line breaks, control characters and invisible characters.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_hidden(character) {
            write!(shown, "{}", character.escape_default()).expect("a String takes all");
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_shown_instead() {
        for (text, shown) in [
            ("Service shop/web", "Service shop/web"),
            ("Grüße, 世界…", "Grüße, 世界…"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\x1b[31mred\u{9b}m", "\\u{1b}[31mred\\u{9b}m"),
            ("user\u{202e}txt\u{2028}", "user\\u{202e}txt\\u{2028}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}

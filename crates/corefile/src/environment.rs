//! Puts environment variables into words: `{$NAME}` and `{%NAME%}`.
//!
//! As in CoreDNS, `{%…%}` comes before `{$…}`, and an unset variable is empty. The result stays one word. It is
//! searched again, so a value may name another variable. `{$}` ends the replacement in its word.

/// The environment, given as an argument.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The most replacements in one word. More can only be a variable that refers to itself, for which CoreDNS loops
/// forever.
const MAX_SUBSTITUTIONS: usize = 100;

/// The longest word, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// A variable that refers to itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable '{0}' refers to itself")]
pub(super) struct Endless(String);

/// The text with its variables replaced.
///
/// # Errors
/// [`Endless`] when a variable refers to itself.
pub(super) fn expand(text: &str, env: Environment<'_>) -> Result<String, Endless> {
    let text = replace(text.to_owned(), "{%", "%}", env)?;
    replace(text, "{$", "}", env)
}

/// Replaces the variables of one notation.
fn replace(
    mut text: String,
    open: &str,
    close: &str,
    env: Environment<'_>,
) -> Result<String, Endless> {
    let mut substitutions = 0;
    while let Some(start) = text.find(open) {
        let Some(length) = text[start..].find(close) else {
            break;
        };
        if length <= open.len() {
            break;
        }
        let name = text[start + open.len()..start + length].to_owned();
        substitutions += 1;
        if substitutions > MAX_SUBSTITUTIONS || text.len() > MAX_BYTES {
            return Err(Endless(name));
        }
        let value = env(&name).unwrap_or_default();
        text = text.replace(&format!("{open}{name}{close}"), &value);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        let value = match name {
            "X" => "p q",
            "Y" => "<{$X}>",
            "SELF" => "a{$SELF}",
            "GROW" => "{$GROW}{$GROW}",
            _ => return None,
        };
        Some(value.to_owned())
    }

    #[test]
    fn variables_are_those_of_coredns() {
        for (text, want) in [
            ("{$X}:53", "p q:53"),
            ("{$NOPE}", ""),
            ("z{%X%}z", "zp qz"),
            ("{%X%}{$X}{$NOPE}", "p qp q"),
            ("{$}", "{$}"),
            ("{$}{$X}", "{$}{$X}"),
            ("{$X", "{$X"),
            ("{%X", "{%X"),
            ("{$Y}", "<p q>"),
            ("{{$X}}", "{p q}"),
            ("{X}", "{X}"),
        ] {
            assert_eq!(expand(text, &env).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn a_variable_that_refers_to_itself_is_an_error() {
        assert_eq!(expand("{$SELF}", &env), Err(Endless("SELF".into())));
        assert_eq!(expand("{$GROW}", &env), Err(Endless("GROW".into())));
    }
}

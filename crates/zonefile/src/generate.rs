//! `$GENERATE START-STOP[/STEP] OWNER [TTL] [CLASS] TYPE DATA`: one line for many records, as in BIND.
//!
//! In owner and data `$` is the number, `$$` and `\$` are a dollar, and `${OFFSET[,WIDTH[,BASE]]}` is the number plus an
//! offset, padded with zeros, in base `d`, `o`, `x`, `X`, or as nibbles from the right with dots between them (`n`,
//! `N`).

use std::borrow::Cow;

use super::lexer::{Entry, Lexer, Word};

/// The most records of one directive.
pub(super) const MOST: u32 = 65_536;

/// The numbers of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    start: u32,
    /// The last number is at most this.
    stop: u32,
    step: u32,
}

impl Range {
    /// Reads `START-STOP[/STEP]`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("\"{text}\" is not a range: write START-STOP or START-STOP/STEP");
        let (numbers, step) = match text.split_once('/') {
            Some((numbers, step)) => (numbers, step.parse().map_err(|_| form())?),
            None => (text, 1),
        };
        let (start, stop) = numbers.split_once('-').ok_or_else(form)?;
        let start = start.parse().map_err(|_| form())?;
        let stop = stop.parse().map_err(|_| form())?;
        if step == 0 || start > stop || stop > u32::try_from(i32::MAX).unwrap_or(u32::MAX) {
            return Err(format!(
                "\"{text}\" is not a range: START is at most STOP, STOP at most 2147483647, STEP at least 1"
            ));
        }
        if (stop - start) / step >= MOST {
            return Err(format!("\"{text}\" makes more than {MOST} records"));
        }
        Ok(Self { start, stop, step })
    }

    pub(super) fn numbers(self) -> impl Iterator<Item = u32> {
        (self.start..=self.stop).step_by(usize::try_from(self.step).unwrap_or(usize::MAX))
    }
}

/// Puts a number into a word.
pub(super) fn filled<'a>(word: &'a Word<'a>, number: u32) -> Result<Word<'a>, String> {
    if !word.raw.contains(&b'$') {
        return Ok(word.clone());
    }
    let mut out = Vec::with_capacity(word.raw.len() + 8);
    let mut rest: &[u8] = &word.raw;
    while let Some((octet, after)) = rest.split_first() {
        rest = after;
        match octet {
            b'\\' => {
                out.push(b'\\');
                if let Some((escaped, after)) = rest.split_first() {
                    out.push(*escaped);
                    rest = after;
                }
            }
            b'$' => match rest.first() {
                Some(b'$') => {
                    out.extend_from_slice(b"\\$");
                    rest = &rest[1..];
                }
                Some(b'{') => {
                    let end = rest.iter().position(|octet| *octet == b'}');
                    let end = end.ok_or_else(|| "a '${' has no '}'".to_owned())?;
                    out.extend_from_slice(modified(&rest[1..end], number)?.as_bytes());
                    rest = &rest[end + 1..];
                }
                Some(_) | None => out.extend_from_slice(number.to_string().as_bytes()),
            },
            other => out.push(*other),
        }
    }
    Ok(Word {
        raw: Cow::Owned(out),
        ..word.clone()
    })
}

/// Formats the number by a modifier.
fn modified(modifier: &[u8], number: u32) -> Result<String, String> {
    let text = String::from_utf8_lossy(modifier);
    let form = || {
        format!(
            "\"${{{text}}}\" is not a modifier: write ${{OFFSET}}, ${{OFFSET,WIDTH}} or ${{OFFSET,WIDTH,BASE}}"
        )
    };
    let mut parts = text.split(',');
    let offset: i64 = parts
        .next()
        .unwrap_or_default()
        .parse()
        .map_err(|_| form())?;
    let width: usize = parts.next().unwrap_or("0").parse().map_err(|_| form())?;
    let base = parts.next().unwrap_or("d");
    if parts.next().is_some() || width > 255 {
        return Err(form());
    }
    let value = i64::from(number).checked_add(offset);
    let value = value
        .and_then(|value| u32::try_from(value).ok())
        .ok_or_else(|| format!("\"${{{text}}}\" of {number} is not between 0 and 4294967295"))?;
    match base {
        "d" => Ok(format!("{value:0width$}")),
        "o" => Ok(format!("{value:0width$o}")),
        "x" => Ok(format!("{value:0width$x}")),
        "X" => Ok(format!("{value:0width$X}")),
        "n" => Ok(nibbles(&format!("{value:x}"), width)),
        "N" => Ok(nibbles(&format!("{value:X}"), width)),
        _ => Err(form()),
    }
}

/// Hexadecimal digits from the right, with dots between them; the width counts digits and dots.
fn nibbles(digits: &str, width: usize) -> String {
    let mut out = String::new();
    let mut digits = digits.bytes().rev();
    loop {
        let digit = digits.next();
        if digit.is_none() && out.len() >= width {
            return out;
        }
        if !out.is_empty() {
            out.push('.');
            // If the width ends at a dot, nothing follows the dot.
            if digit.is_none() && out.len() >= width {
                return out;
            }
        }
        out.push(char::from(digit.unwrap_or(b'0')));
    }
}

/// Splits a quoted word into words: BIND wants quotes around data of several fields.
pub(super) fn cut_quoted<'a>(word: &'a Word<'a>) -> Vec<Word<'a>> {
    let Some(Ok(Entry { words, .. })) = Lexer::new(&word.raw).next_entry() else {
        return vec![word.clone()];
    };
    let placed = |inner: Word<'a>| Word {
        line: word.line,
        column: word.column,
        ..inner
    };
    words.into_iter().map(placed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word with a number put in.
    fn fill(text: &str, number: u32) -> Result<String, String> {
        let word = Word {
            raw: Cow::Borrowed(text.as_bytes()),
            quoted: false,
            joined: false,
            line: 1,
            column: 1,
        };
        filled(&word, number).map(|word| word.shown())
    }

    #[test]
    fn dollars_become_numbers() {
        for (text, number, want) in [
            ("h$", 7, "h7"),
            ("$.a.$", 7, "7.a.7"),
            ("h${3}", 7, "h10"),
            ("h${-3}", 7, "h4"),
            ("h${0,3}", 7, "h007"),
            ("h${0,3,d}x", 7, "h007x"),
            ("h${0,4,x}", 255, "h00ff"),
            ("h${0,0,X}", 255, "hFF"),
            ("h${0,0,o}", 8, "h10"),
            ("${0,7,n}.z", 0x2f, "f.2.0.0.z"),
            ("${0,1,N}.z", 0xab, "B.A.z"),
            ("a$$b", 7, "a\\$b"),
            ("a\\$b", 7, "a\\$b"),
            ("plain", 7, "plain"),
        ] {
            assert_eq!(fill(text, number).as_deref(), Ok(want), "{text}");
        }
        for text in ["h${", "h${x}", "h${0,3,q}", "h${-8}", "h${0,1,d,1}"] {
            assert!(fill(text, 7).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_have_a_step_and_a_limit() {
        let numbers =
            |text: &str| Range::parse(text).map(|range| range.numbers().collect::<Vec<_>>());
        assert_eq!(numbers("1-3"), Ok(vec![1, 2, 3]));
        assert_eq!(numbers("0-10/5"), Ok(vec![0, 5, 10]));
        assert_eq!(numbers("4-4"), Ok(vec![4]));
        for text in ["3-1", "1-2/0", "1", "a-b", "0-65536", "1-99999999999"] {
            assert!(numbers(text).is_err(), "{text}");
        }
        assert!(numbers("0-65535").is_ok());
    }
}

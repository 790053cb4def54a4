//! Durations in Go's notation, and amounts of bytes.

use std::fmt;
use std::time::Duration;

/// A duration as Go writes it: `1h5m0s`, `1.5s`, `300ms`.
#[derive(Debug, Clone, Copy)]
pub struct GoDuration(pub Duration);

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds == 0 && !self.0.is_zero() {
            return write!(f, "{:?}", self.0);
        }
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if seconds >= 60 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}", seconds % 60)?;
        let nanos = format!("{:09}", self.0.subsec_nanos());
        match nanos.trim_end_matches('0') {
            "" => f.write_str("s"),
            fraction => write!(f, ".{fraction}s"),
        }
    }
}

/// The text is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It is not in Go's notation.
    #[error("not a duration such as 300ms, 30s or 1h5m")]
    Notation,
    /// It is negative.
    #[error("a duration must not be negative")]
    Negative,
    /// It is more than Go can hold: 2^63-1 nanoseconds, about 292 years.
    #[error("the duration is too long")]
    TooLong,
}

/// Reads a duration in Go's notation: numbers, with a fraction or not, each with its unit.
///
/// # Errors
/// [`DurationError`].
pub fn go_duration(text: &str) -> Result<Duration, DurationError> {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) | None => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::Notation);
    }
    let mut nanos = 0_u128;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::Notation);
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let unit = unit_nanos(&after[..end]).ok_or(DurationError::Notation)?;
        rest = &after[end..];
        nanos += scaled(whole, fraction, unit).ok_or(DurationError::TooLong)?;
        if nanos > GO_LONGEST_NANOS {
            return Err(DurationError::TooLong);
        }
    }
    if negative && nanos > 0 {
        return Err(DurationError::Negative);
    }
    u64::try_from(nanos)
        .map(Duration::from_nanos)
        .map_err(|_| DurationError::TooLong)
}

/// Reads a duration in Go's notation, or plain seconds.
///
/// # Errors
/// [`DurationError`].
pub fn duration_or_seconds(text: &str) -> Result<Duration, DurationError> {
    let (whole, rest) = digits(text);
    if rest.is_empty() && !whole.is_empty() {
        let seconds: u64 = whole.parse().map_err(|_| DurationError::TooLong)?;
        if u128::from(seconds) * 1_000_000_000 > GO_LONGEST_NANOS {
            return Err(DurationError::TooLong);
        }
        return Ok(Duration::from_secs(seconds));
    }
    go_duration(text)
}

/// The longest duration of Go, in nanoseconds.
const GO_LONGEST_NANOS: u128 = (1 << 63) - 1;

/// The leading digits of a text, and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    )
}

/// The nanoseconds of a unit.
fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `whole.fraction` times `unit`, rounded down; `None` when it is too large.
fn scaled(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let number = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u128>().ok(),
    };
    // The sixteenth digit of an hour is less than a nanosecond.
    let fraction = &fraction[..fraction.len().min(16)];
    let power = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = number(fraction)? * unit / power;
    number(whole)?.checked_mul(unit)?.checked_add(part)
}

/// The text is not an amount of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an amount of bytes such as 500M, 2G or 64MiB")]
pub struct SizeError;

/// Reads an amount of bytes: a whole number with a unit or none. `K`, `M`, `G`, `T` and `KiB` to
/// `TiB` are powers of 1024, `KB` to `TB` powers of 1000.
///
/// # Errors
/// [`SizeError`], also when it does not fit 64 bits.
pub fn size(text: &str) -> Result<u64, SizeError> {
    let (number, unit) = digits(text);
    let scale: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(SizeError),
    };
    let number: u64 = number.parse().map_err(|_| SizeError)?;
    number.checked_mul(scale).ok_or(SizeError)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, want) in [
            ("0", Ok(0)),
            ("5s", Ok(5_000_000_000)),
            ("300ms", Ok(300_000_000)),
            ("1h5m", Ok(3_900_000_000_000)),
            ("1.5h", Ok(5_400_000_000_000)),
            (".5s", Ok(500_000_000)),
            ("1.s", Ok(1_000_000_000)),
            ("+2us", Ok(2_000)),
            ("3µs4ns", Ok(3_004)),
            ("0.3333333333333333333h", Ok(1_199_999_999_999)),
            ("9223372036854775807ns", Ok(9_223_372_036_854_775_807)),
            ("9223372036854775808ns", Err(DurationError::TooLong)),
            (
                "99999999999999999999999999999999999999999h",
                Err(DurationError::TooLong),
            ),
            ("-0s", Ok(0)),
            ("-1s", Err(DurationError::Negative)),
            ("", Err(DurationError::Notation)),
            ("-", Err(DurationError::Notation)),
            ("5", Err(DurationError::Notation)),
            ("s", Err(DurationError::Notation)),
            (".s", Err(DurationError::Notation)),
            ("1d", Err(DurationError::Notation)),
            ("1 s", Err(DurationError::Notation)),
        ] {
            assert_eq!(go_duration(text), want.map(Duration::from_nanos), "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_go_does() {
        for (nanos, want) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (300_000_000, "300ms"),
            (1_000_000_000, "1s"),
            (1_050_000_000, "1.05s"),
            (600_000_000_000, "10m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (90_061_250_000_000, "25h1m1.25s"),
        ] {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(GoDuration(duration).to_string(), want);
            assert_eq!(go_duration(want), Ok(duration));
        }
    }

    #[test]
    fn plain_numbers_are_seconds_where_that_is_allowed() {
        assert_eq!(duration_or_seconds("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration_or_seconds("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(
            duration_or_seconds("18446744073709551615"),
            Err(DurationError::TooLong)
        );
        assert_eq!(duration_or_seconds(""), Err(DurationError::Notation));
    }

    #[test]
    fn sizes_have_units() {
        for (text, want) in [
            ("0", Ok(0)),
            ("17", Ok(17)),
            ("2K", Ok(2048)),
            ("2kib", Ok(2048)),
            ("3M", Ok(3 << 20)),
            ("3MB", Ok(3_000_000)),
            ("1GiB", Ok(1 << 30)),
            ("1T", Ok(1 << 40)),
            ("16777216T", Err(SizeError)),
            ("1.5G", Err(SizeError)),
            ("-1", Err(SizeError)),
            ("G", Err(SizeError)),
            ("1X", Err(SizeError)),
        ] {
            assert_eq!(size(text), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn reading_quantities_never_panics(text in "[0-9a-zµ.+-]{0,50}") {
            let duration = go_duration(&text);
            prop_assert!(duration.is_err() || !text.is_empty());
            prop_assert!(size(&text).is_err() || text.as_bytes()[0].is_ascii_digit());
        }
    }
}

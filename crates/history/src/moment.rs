//! Parses the version that a user means: a serial, a time or an age.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};

pub(super) use ops::TimeText;

/// A version as users name it, after `@` or in `--since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The version with this serial.
    Serial(u32),
    /// The version that was current at this time, milliseconds since 1970 UTC.
    Time(u64),
}

/// The text is not a serial or time as needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MomentError {
    /// Neither a serial nor a time.
    #[error(
        "\"{0}\" is neither a serial nor a time; write 1795286401, 2026-11-21T14:03:00Z, 2026-11-21 or \"2h ago\""
    )]
    Neither(String),
    /// A serial instead of a time.
    #[error(
        "\"{0}\" is a serial, but a time is needed; write 2026-11-21T14:03:00Z, 2026-11-21 or \"2h ago\""
    )]
    Serial(String),
}

impl Moment {
    /// Parses a serial (only digits), an RFC 3339 time, a date (midnight UTC) or an age such as `2h ago`.
    ///
    /// # Errors
    /// [`MomentError`] with the text.
    pub fn parse(text: &str, now_ms: u64) -> Result<Self, MomentError> {
        let wrong = || MomentError::Neither(text.to_owned());
        if let Ok(serial) = text.parse() {
            return Ok(Self::Serial(serial));
        }
        if let Some(age) = text.strip_suffix("ago") {
            let age = parse_age(age.trim()).ok_or_else(wrong)?;
            let age_ms = u64::try_from(age.as_millis()).map_err(|_| wrong())?;
            return Ok(Self::Time(now_ms.saturating_sub(age_ms)));
        }
        let at = text
            .parse::<Timestamp>()
            .ok()
            .or_else(|| {
                let date: civil::Date = text.parse().ok()?;
                date.to_zoned(TimeZone::UTC)
                    .ok()
                    .map(|zoned| zoned.timestamp())
            })
            .ok_or_else(wrong)?;
        u64::try_from(at.as_millisecond())
            .map(Self::Time)
            .map_err(|_| wrong())
    }

    /// Parses a time, a date or an age, in milliseconds since 1970 UTC.
    ///
    /// # Errors
    /// [`MomentError`] when the text is a serial or malformed.
    pub fn parse_time(text: &str, now_ms: u64) -> Result<u64, MomentError> {
        match Self::parse(text, now_ms)? {
            Self::Time(ms) => Ok(ms),
            Self::Serial(_) => Err(MomentError::Serial(text.to_owned())),
        }
    }
}

/// Parses `90s`, `15m`, `2h`, `3d`, `1w`, also several in a row.
pub(super) fn parse_age(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].chars().next()?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(Duration::from_secs(number.checked_mul(seconds)?))?;
        rest = rest[digits + 1..].trim_start();
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_people_write_them() {
        let now = 1_795_286_400_000;
        for (text, want) in [
            ("1795286401", Moment::Serial(1_795_286_401)),
            ("2h ago", Moment::Time(now - 7_200_000)),
            ("1d 30m ago", Moment::Time(now - 88_200_000)),
            ("1970-01-02", Moment::Time(86_400_000)),
            ("1970-01-01T00:00:01Z", Moment::Time(1_000)),
        ] {
            assert_eq!(Moment::parse(text, now), Ok(want), "{text}");
        }
        for text in ["yesterday", "2 ago", "", "-1", "99999999999"] {
            assert!(Moment::parse(text, now).is_err(), "{text}");
        }
        let serial = Moment::parse_time("1795286401", now)
            .unwrap_err()
            .to_string();
        assert!(serial.starts_with("\"1795286401\" is a serial"), "{serial}");
        assert_eq!(TimeText(1_000).to_string(), "1970-01-01T00:00:01.000Z");
    }
}

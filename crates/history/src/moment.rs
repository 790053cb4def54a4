//! Parses the version that a user means: a serial, a time or an age.

use std::time::Duration;

use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp, civil};

pub(super) use ops::TimeText;

/// The seconds of a day: an offset from UTC is smaller (RFC 3339 section 5.6, `time-hour`). jiff takes larger ones.
const DAY_SECONDS: u32 = 86_400;

/// A version as users name it, after `@` or in `--since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The version with this serial.
    Serial(u32),
    /// The version that was current at this time, milliseconds since 1970 UTC.
    Time(u64),
}

/// The present of a zone: after the clock was set back, its newest versions have times that are ahead of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// The clock's time, milliseconds since 1970 UTC. Ages count from it.
    pub clock_ms: u64,
    /// The time of the newest version, milliseconds since 1970 UTC; 0 where there is none.
    pub newest_ms: u64,
}

impl Present {
    /// `now`, and the latest time that can be asked for: the newest version is current then.
    const fn latest_ms(self) -> u64 {
        if self.newest_ms > self.clock_ms {
            self.newest_ms
        } else {
            self.clock_ms
        }
    }
}

/// The text is not a serial or time as needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MomentError {
    /// Neither a serial nor a time.
    #[error(
        "\"{0}\" is neither a serial nor a time; write 1795286401, 2026-11-21T14:03:00Z, 2026-11-21, \"2 hours ago\", yesterday or now"
    )]
    Neither(String),
    /// A serial instead of a time.
    #[error(
        "\"{0}\" is a serial, but a time is needed; write 2026-11-21T14:03:00Z, 2026-11-21, \"2 hours ago\", yesterday or now"
    )]
    Serial(String),
    /// A time of day without an offset from UTC: it may be that of any time zone.
    #[error(
        "\"{text}\" has no offset from UTC; write {time}Z for UTC, or an offset, such as {time}+01:00"
    )]
    NoOffset {
        /// The text.
        text: String,
        /// The date and the time of day in it.
        time: civil::DateTime,
    },
    /// An offset from UTC that no clock has.
    #[error("\"{0}\" is a day or more from UTC; an offset is at most 23:59")]
    LongOffset(String),
    /// A time that has not come.
    #[error("\"{text}\" is in the future: it is {now} now", now = TimeText(*.now_ms))]
    Future {
        /// The text.
        text: String,
        /// The current time, milliseconds since 1970 UTC.
        now_ms: u64,
    },
}

impl Moment {
    /// The text of the newest version's time.
    pub(super) const NOW: &str = "now";

    /// Parses a serial (only digits), an RFC 3339 time, a date (midnight UTC), `now`, `yesterday` (24 hours ago), or an
    /// age such as `2h ago`, `2 hours ago` or `1 month ago`.
    ///
    /// # Errors
    /// [`MomentError`] with the text; a time after both the clock's and that of the newest version is one, too.
    pub fn parse(text: &str, present: Present) -> Result<Self, MomentError> {
        let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
        if let (true, Ok(serial)) = (is_number, text.parse()) {
            return Ok(Self::Serial(serial));
        }
        if text == Self::NOW {
            return Ok(Self::Time(present.latest_ms()));
        }
        let now_ms = present.clock_ms;
        let at = parse_timestamp(text, now_ms);
        if let (None, Ok(time)) = (at, text.parse()) {
            let text = text.to_owned();
            return Err(MomentError::NoOffset { text, time });
        }
        let offset = Pieces::parse(text)
            .ok()
            .and_then(|pieces| pieces.to_numeric_offset());
        if offset.is_some_and(|offset| offset.seconds().unsigned_abs() >= DAY_SECONDS) {
            return Err(MomentError::LongOffset(text.to_owned()));
        }
        let time_ms = at.and_then(|at| u64::try_from(at.as_millisecond()).ok());
        match time_ms.ok_or_else(|| MomentError::Neither(text.to_owned()))? {
            time_ms if time_ms > present.latest_ms() => Err(MomentError::Future {
                text: text.to_owned(),
                now_ms,
            }),
            time_ms => Ok(Self::Time(time_ms)),
        }
    }

    /// Parses the beginning or the end of a range, such as that of `--since`. Here an age needs no `ago`: `1h`, `90m`, `2d`, as
    /// git and kubectl take them.
    ///
    /// # Errors
    /// [`MomentError`], as of [`Self::parse`].
    pub(super) fn parse_bound(text: &str, present: Present) -> Result<Self, MomentError> {
        let is_age = text.starts_with(|first: char| first.is_ascii_digit())
            && !text.ends_with("ago")
            && text.parse::<Span>().is_ok();
        match is_age {
            true => Self::parse(&format!("{text} ago"), present),
            false => Self::parse(text, present),
        }
    }

    /// Parses a bound that is a time, a date or an age, in milliseconds since 1970 UTC.
    ///
    /// # Errors
    /// [`MomentError`] when the text is a serial or malformed, or the time has not come.
    pub fn parse_time(text: &str, present: Present) -> Result<u64, MomentError> {
        match Self::parse_bound(text, present)? {
            Self::Time(ms) => Ok(ms),
            Self::Serial(_) => Err(MomentError::Serial(text.to_owned())),
        }
    }
}

/// Parses a time as [`Moment::parse`] does, except `now`.
fn parse_timestamp(text: &str, now_ms: u64) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    // A date of jiff is also a time of which it takes the date alone.
    let is_date = |date: &civil::Date| date.to_string() == text;
    if let Some(date) = text.parse().ok().filter(is_date) {
        return Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp());
    }
    let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
    // An age parses as a negative span.
    let age: Span = match text {
        "yesterday" => Span::new().hours(-24),
        _ if text.ends_with("ago") => text.parse().ok()?,
        _ => return None,
    };
    let then = now.to_zoned(TimeZone::UTC).checked_add(age).ok()?;
    Some(then.timestamp())
}

/// Parses a duration such as `90s`, `2h 30m` or `3 days`. A day has 24 hours; months and years are no durations.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let span: Span = text.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(duration).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The present where the clock was never set back.
    const fn at(clock_ms: u64) -> Present {
        Present {
            clock_ms,
            newest_ms: 0,
        }
    }

    #[test]
    fn after_the_clock_was_set_back_times_up_to_the_newest_version_can_be_asked_for() {
        let present = Present {
            clock_ms: 10_000_000,
            newest_ms: 13_600_000,
        };
        let time = |text: &str| Moment::parse_time(text, present).ok();
        assert_eq!(time("now"), Some(13_600_000));
        assert_eq!(time("1970-01-01T03:46:40.000Z"), Some(13_600_000));
        assert_eq!(time("1970-01-01T03:46:40.001Z"), None);
        assert_eq!(time("1s ago"), Some(9_999_000));
    }

    #[test]
    fn a_time_without_an_offset_is_refused_with_the_fix() {
        let now = 1_795_286_400_000;
        for text in [
            "2026-11-20T14:03:00",
            "2026-11-20 14:03",
            "2026-11-20T14",
            "20261120T140300",
            "2026-11-20[Europe/Berlin]",
            "2026-11-20T14:03:00[Europe/Berlin]",
        ] {
            let time: civil::DateTime = text.parse().unwrap();
            let want = format!(
                "\"{text}\" has no offset from UTC; write {time}Z for UTC, or an offset, such as {time}+01:00"
            );
            let refusal = Moment::parse(text, at(now)).unwrap_err().to_string();
            assert_eq!(refusal, want);
            for offset in ["Z", "+01:00"] {
                let fixed = format!("{time}{offset}");
                assert!(Moment::parse_time(&fixed, at(now)).is_ok(), "{fixed}");
            }
        }
    }

    #[test]
    fn bounds_of_a_range_take_ages_as_git_and_kubectl_do() {
        let now = 1_795_286_400_000;
        for (text, minutes) in [
            ("1h", 60),
            ("90m", 90),
            ("2d", 2880),
            ("1h30m", 90),
            ("2 hours", 120),
            ("2h ago", 120),
        ] {
            let time = Moment::parse_bound(text, at(now));
            assert_eq!(time, Ok(Moment::Time(now - minutes * 60_000)), "{text}");
        }
        let serial = Moment::parse_bound("1795286401", at(now));
        assert_eq!(serial, Ok(Moment::Serial(1_795_286_401)));
        for text in ["h", "-1h", "P1D", "1x", "2 ago", "1h from now"] {
            let wrong = Err(MomentError::Neither(text.to_owned()));
            assert_eq!(Moment::parse_bound(text, at(now)), wrong, "{text}");
        }
    }

    #[test]
    fn an_offset_of_a_day_or_more_is_refused() {
        let now = 1_795_286_400_000;
        for offset in ["+24:00", "-24:00", "+25:59"] {
            let text = format!("2026-11-20T14:03:00{offset}");
            let refusal = Moment::parse(&text, at(now)).unwrap_err().to_string();
            let want = format!("\"{text}\" is a day or more from UTC; an offset is at most 23:59");
            assert_eq!(refusal, want);
        }
        let most = Moment::parse_time("1970-01-02T23:59:01+23:59", at(now));
        assert_eq!(most, Ok(86_401_000));
    }

    #[test]
    fn moments_read_as_people_write_them() {
        let now = 1_795_286_400_000;
        for (text, want) in [
            ("1795286401", Moment::Serial(1_795_286_401)),
            ("2h ago", Moment::Time(now - 7_200_000)),
            ("1d 30m ago", Moment::Time(now - 88_200_000)),
            ("1970-01-02", Moment::Time(86_400_000)),
            ("1970-01-01T00:00:01Z", Moment::Time(1_000)),
            ("2 hours ago", Moment::Time(now - 7_200_000)),
            ("1 week 2 days ago", Moment::Time(now - 9 * 86_400_000)),
            ("1 month ago", Moment::Time(now - 31 * 86_400_000)),
            ("yesterday", Moment::Time(now - 86_400_000)),
            ("now", Moment::Time(now)),
        ] {
            assert_eq!(Moment::parse(text, at(now)), Ok(want), "{text}");
        }
        for text in [
            "tomorrow",
            "2 ago",
            "ago",
            "",
            "-1",
            "+1795286401",
            "99999999999",
            "2h",
            "1969-01-01",
            "2026-11-20 ",
            " 2026-11-20",
            "2026-11",
            "2026-W47-5",
            "14:03:00Z",
        ] {
            let wrong = Err(MomentError::Neither(text.to_owned()));
            assert_eq!(Moment::parse(text, at(now)), wrong, "{text}");
        }
        for text in ["2026-11-22", "2026-11-21T18:40:00.001Z", "9999-12-30"] {
            let future = Moment::parse(text, at(now)).unwrap_err().to_string();
            let want = format!("\"{text}\" is in the future: it is 2026-11-21T18:40:00.000Z now");
            assert_eq!(future, want);
        }
        let serial = Moment::parse_time("1795286401", at(now))
            .unwrap_err()
            .to_string();
        assert!(serial.starts_with("\"1795286401\" is a serial"), "{serial}");
        assert_eq!(TimeText(1_000).to_string(), "1970-01-01T00:00:01.000Z");
        for (text, seconds) in [
            ("90s", 90),
            ("2h 30m", 9000),
            ("3 days", 259_200),
            ("1w", 604_800),
        ] {
            assert_eq!(
                parse_duration(text),
                Some(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for text in ["", "90", "soon", "2h ago", "1 month", "-1h"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}

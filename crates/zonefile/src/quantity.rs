//! TTLs and times as BIND writes them: seconds, or numbers with units, `1h30m`.

use dns::Ttl;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TtlError {
    #[error("\"{0}\" is not a time: write seconds, or numbers with w, d, h, m and s such as 1h30m")]
    Form(String),
    /// More than a TTL can hold (RFC 2181 section 8).
    #[error("\"{0}\" is longer than a TTL can be (2147483647 seconds)")]
    Long(String),
}

/// Whether a word must be a TTL: no type and no class begins with a digit.
pub(super) fn looks_like_ttl(raw: &[u8]) -> bool {
    raw.first().is_some_and(u8::is_ascii_digit)
}

/// Reads a TTL: numbers with units in any order and case, then optionally a number of seconds without a unit.
pub(super) fn ttl(text: &str) -> Result<Ttl, TtlError> {
    let form = || TtlError::Form(text.to_owned());
    let long = || TtlError::Long(text.to_owned());
    let mut total: u64 = 0;
    let mut number: Option<u64> = None;
    for octet in text.bytes() {
        if octet.is_ascii_digit() {
            let digit = u64::from(octet - b'0');
            let grown = number.unwrap_or(0).checked_mul(10).ok_or_else(long)?;
            number = Some(grown.checked_add(digit).ok_or_else(long)?);
            continue;
        }
        let unit: u64 = match octet.to_ascii_lowercase() {
            b'w' => 604_800,
            b'd' => 86_400,
            b'h' => 3_600,
            b'm' => 60,
            b's' => 1,
            _ => return Err(form()),
        };
        let part = number.take().ok_or_else(form)?.checked_mul(unit);
        total = part
            .and_then(|part| total.checked_add(part))
            .ok_or_else(long)?;
    }
    total = total.checked_add(number.unwrap_or(0)).ok_or_else(long)?;
    if text.is_empty() {
        return Err(form());
    }
    let seconds = u32::try_from(total).map_err(|_| long())?;
    if seconds > Ttl::MAX.seconds() {
        return Err(long());
    }
    Ok(Ttl::decode(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_or_are_seconds() {
        for (text, want) in [
            ("0", Some(0)),
            ("300", Some(300)),
            ("1h30m", Some(5400)),
            ("1W2D3H4M5S", Some(788_645)),
            ("1m30", Some(90)),
            ("2147483647", Some(2_147_483_647)),
            ("2147483648", None),
            ("99999999999999999999w", None),
            ("h", None),
            ("1x", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(ttl(text).ok().map(Ttl::seconds), want, "{text}");
        }
    }
}

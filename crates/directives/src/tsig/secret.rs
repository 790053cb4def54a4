//! Bytes that no log, message or dump may show.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A shared secret. Its `Debug` form does not contain it, and it has no `Display`. Its `==` is for comparing
/// configurations only: the time that it takes depends on the secret, so it must not check signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

/// The text is not a valid secret. The message does not contain the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretError {
    /// It is not base64 (RFC 4648 section 4) with padding.
    #[error("the secret is not base64")]
    Base64,
    /// It is empty.
    #[error("the secret is empty")]
    Empty,
}

impl Secret {
    /// Reads base64 of RFC 4648 section 4.
    ///
    /// # Errors
    /// [`SecretError`].
    pub(crate) fn parse(base64: &str) -> Result<Self, SecretError> {
        let octets = STANDARD.decode(base64).map_err(|_| SecretError::Base64)?;
        if octets.is_empty() {
            return Err(SecretError::Empty);
        }
        Ok(Self(octets.into_boxed_slice()))
    }

    /// The bytes, for signing and checking only.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_base64_and_never_shown() {
        let secret = Secret::parse("c2VjcmV0").unwrap();
        assert_eq!(secret.expose(), b"secret");
        assert_eq!(format!("{secret:?}"), "Secret(not shown)");
        assert_eq!(Secret::parse("c2VjcmV"), Err(SecretError::Base64));
        assert_eq!(Secret::parse("c2Vj cmV0"), Err(SecretError::Base64));
        assert_eq!(Secret::parse(""), Err(SecretError::Empty));
    }
}

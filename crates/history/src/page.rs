//! A page of versions, limited in versions and bytes, so that neither side holds a whole history.

use std::io;

use crate::error::AuditError;

/// The space left in a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// The number of versions that may be read.
    pub(super) versions: usize,
    /// The bytes that may be written. The page ends with the version that reaches the limit.
    pub(super) octets: usize,
}

impl Room {
    pub(super) const PAGE: Self = Self {
        versions: 1000,
        octets: 4 << 20,
    };

    pub(super) const fn is_left(self) -> bool {
        self.versions > 0 && self.octets > 0
    }

    /// Writes versions with `each` while there is room. Returns the first one that did not fit.
    pub(super) fn fill(
        &mut self,
        seqs: impl IntoIterator<Item = u64>,
        each: &dyn Fn(u64, &mut dyn io::Write) -> Result<(), AuditError>,
        out: &mut dyn io::Write,
    ) -> Result<Option<u64>, AuditError> {
        let mut text = Vec::new();
        for seq in seqs {
            if !self.is_left() {
                return Ok(Some(seq));
            }
            text.clear();
            each(seq, &mut text)?;
            out.write_all(&text)?;
            self.versions -= 1;
            self.octets = self.octets.saturating_sub(text.len());
        }
        Ok(None)
    }
}

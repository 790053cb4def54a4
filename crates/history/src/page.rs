//! A page of versions: bounded in versions and in octets, so that neither side holds a whole history.

use std::io;

use crate::error::AuditError;

/// What still fits into a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Versions that may be looked at.
    pub(super) versions: usize,
    /// Octets that may be written; the page ends with the version that makes it so long.
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

    /// Writes versions, which `each` puts into words, as long as they fit; gives the first that did not.
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

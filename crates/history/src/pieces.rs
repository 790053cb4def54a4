//! Text of any length in pieces, so that written text is not moved while it grows.

use std::io;

/// The bytes of a piece.
const PIECE: usize = 64 << 10;

/// Text in pieces.
#[derive(Debug, Default)]
pub struct Pieces(Vec<Vec<u8>>);

impl Pieces {
    /// The total size in bytes.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Writes the pieces and frees each one after it is written.
    pub(super) fn write_to(self, out: &mut dyn io::Write) -> io::Result<()> {
        self.into_iter().try_for_each(|piece| out.write_all(&piece))
    }
}

impl IntoIterator for Pieces {
    type Item = Vec<u8>;
    type IntoIter = std::vec::IntoIter<Vec<u8>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl io::Write for Pieces {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let is_full = |piece: &Vec<u8>| piece.len() == PIECE;
        if self.0.last().is_none_or(is_full) {
            self.0.push(Vec::with_capacity(PIECE));
        }
        let Some(piece) = self.0.last_mut() else {
            return Ok(0);
        };
        let taken = octets.len().min(PIECE - piece.len());
        piece.extend_from_slice(&octets[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_is_written_comes_back_in_full_pieces_but_the_last() {
        let text: Vec<u8> = (0..PIECE * 2 + 7).map(|at| at.to_le_bytes()[0]).collect();
        let mut pieces = Pieces::default();
        for part in text.chunks(1001) {
            pieces.write_all(part).unwrap();
        }
        pieces.write_all(&[]).unwrap();
        assert_eq!(pieces.octets(), text.len());
        let mut again = Vec::new();
        let lengths: Vec<_> = pieces.0.iter().map(Vec::len).collect();
        pieces.write_to(&mut again).unwrap();
        assert_eq!(lengths, [PIECE, PIECE, 7]);
        assert!(again == text);
    }
}

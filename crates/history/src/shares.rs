//! Places that readers share, of which one reader cannot have all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places that readers share.
#[derive(Debug, Clone)]
pub struct Shares {
    most: usize,
    most_of_reader: usize,
    taken: Arc<Mutex<Taken>>,
}

/// Locked for one look and one change.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of_reader: HashMap<Arc<str>, usize>,
}

/// A place. Dropping it frees the place.
#[derive(Debug)]
pub struct Share {
    shares: Shares,
    reader: Arc<str>,
}

/// There is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// The reader has too many.
    OfReader,
    /// All readers together have too many.
    AtAll,
}

impl Shares {
    /// So many places, and no more than some of them for one reader.
    #[must_use]
    pub fn new(most: usize, most_of_reader: usize) -> Self {
        Self {
            most,
            most_of_reader,
            taken: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a reader.
    ///
    /// # Errors
    /// [`NoPlace`] when the reader, or all together, have as many as they may have.
    pub fn take(&self, reader: &str) -> Result<Share, NoPlace> {
        let mut taken = self.lock();
        let own = taken.of_reader.get(reader).copied().unwrap_or_default();
        if own >= self.most_of_reader {
            return Err(NoPlace::OfReader);
        }
        if taken.all >= self.most {
            return Err(NoPlace::AtAll);
        }
        let reader: Arc<str> = reader.into();
        taken.of_reader.insert(Arc::clone(&reader), own + 1);
        taken.all += 1;
        let shares = self.clone();
        Ok(Share { shares, reader })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.lock();
        taken.all -= 1;
        if let Some(own) = taken.of_reader.get_mut(&self.reader) {
            *own -= 1;
            if *own == 0 {
                taken.of_reader.remove(&self.reader);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_has_so_many_places_at_once_and_so_have_all() {
        let shares = Shares::new(8, 2);
        let take = |reader: usize| shares.take(&reader.to_string());
        let mut taken: Vec<_> = (0..2).map(|_| take(0).unwrap()).collect();
        assert_eq!(take(0).unwrap_err(), NoPlace::OfReader);
        for reader in 1..4 {
            taken.extend((0..2).map(|_| take(reader).unwrap()));
        }
        assert_eq!(take(1000).unwrap_err(), NoPlace::AtAll);
        drop(taken.pop());
        drop(take(1000).unwrap());
        drop(taken);
        let taken = shares.lock();
        assert!(taken.all == 0 && taken.of_reader.is_empty());
    }
}

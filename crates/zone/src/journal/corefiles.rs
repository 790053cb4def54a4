//! The texts of the Corefiles that were in use, each since a time: the configuration behind a version.
//!
//! A text is an entry as those beside the versions are ([`beside`]), of the kind `t` and the root's name; its key is its
//! number (8), its value the time (8), the length of the digest (2), the digest, and the text. It is synced when it is written.
//! The oldest go when there are too many.

use std::collections::BTreeMap;

use dns::Name;

use crate::journal::beside::{self, Place};
use crate::journal::codec::COREFILE;
use crate::journal::reader::{ReadError, Reader};
use crate::journal::store::{Entries, StoreError};
use crate::journal::{Batch, Journal};

/// So many texts are kept.
pub(super) const MOST: u64 = 1000;

/// A Corefile that was in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptCorefile {
    /// Since when, milliseconds since 1970 UTC.
    pub since_ms: u64,
    /// The digest of its words, with imports and environment.
    pub digest: String,
    /// What it says, with imports and environment, without comments and secrets.
    pub text: String,
}

impl Journal {
    /// Adds a Corefile that is in use from now on to a batch, unless it is the one written last. Its time is not before that
    /// one's. So many are kept.
    pub(super) fn put_corefile(
        &self,
        batch: &mut Batch,
        corefile: &KeptCorefile,
        most: u64,
    ) -> Result<(), StoreError> {
        let all = read(&self.store)?;
        let last = all.last_key_value().and_then(|(_, last)| last.as_ref());
        if last.is_some_and(|last| last.digest == corefile.digest) {
            return Ok(());
        }
        let number = all.last_key_value().map_or(1, |(number, _)| number + 1);
        let times = all.values().flatten().map(|it| it.since_ms);
        let since_ms = times.fold(corefile.since_ms, u64::max);
        let corefile = KeptCorefile {
            since_ms,
            ..corefile.clone()
        };
        let mut entries = vec![(number.to_be_bytes().to_vec(), Some(value_of(&corefile)))];
        if let Some(old) = number.checked_sub(most) {
            entries.push((old.to_be_bytes().to_vec(), None));
        }
        beside::put(&self.store, batch, &place(), &entries)
    }
}

impl Reader {
    /// The Corefiles that are known, oldest first; `None` for those that are damaged or missing between them.
    ///
    /// # Errors
    /// [`ReadError::Store`] when the database cannot be read.
    pub fn corefiles(&self) -> Result<Vec<Option<KeptCorefile>>, ReadError> {
        let all = read(&*self.store)?;
        let Some((first, _)) = all.first_key_value() else {
            return Ok(Vec::new());
        };
        let (mut next, mut found) = (*first, Vec::new());
        for (number, corefile) in all {
            if number != next {
                found.push(None);
            }
            found.push(corefile);
            next = number + 1;
        }
        Ok(found)
    }

    /// What is wrong with the Corefiles that are kept.
    pub(super) fn corefile_faults(&self) -> Result<Option<String>, ReadError> {
        let damaged = self.corefiles()?.iter().filter(|it| it.is_none()).count();
        Ok((damaged > 0).then(|| {
            format!("{damaged} of the Corefiles that were in use cannot be read: the configuration behind a version may not be known")
        }))
    }
}

/// The Corefile with a digest, if it is known.
pub(super) fn with_digest(
    store: &dyn Entries,
    digest: &str,
) -> Result<Option<KeptCorefile>, StoreError> {
    let mut all = read(store)?.into_values().rev().flatten();
    Ok(all.find(|corefile| corefile.digest == digest))
}

fn place() -> Place {
    Place::of(COREFILE, &Name::root())
}

/// The Corefiles by their numbers; `None` for a damaged one.
fn read(store: &dyn Entries) -> Result<BTreeMap<u64, Option<KeptCorefile>>, StoreError> {
    let mut all = BTreeMap::new();
    beside::read_all(store, &place(), &mut |key, value| {
        if let Ok(number) = key.try_into().map(u64::from_be_bytes) {
            all.insert(number, value.and_then(corefile_of));
        }
        Some(())
    })?;
    Ok(all)
}

pub(super) fn value_of(corefile: &KeptCorefile) -> Vec<u8> {
    let KeptCorefile {
        since_ms,
        digest,
        text,
    } = corefile;
    let length = u16::try_from(digest.len()).unwrap_or(u16::MAX);
    let mut value = since_ms.to_be_bytes().to_vec();
    value.extend(length.to_be_bytes());
    value.extend(digest.as_bytes());
    value.extend(text.as_bytes());
    value
}

pub(super) fn corefile_of(value: &[u8]) -> Option<KeptCorefile> {
    let (since_ms, rest) = value.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (digest, text) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    let text_of = |octets: &[u8]| String::from_utf8(octets.to_vec()).ok();
    Some(KeptCorefile {
        since_ms: u64::from_be_bytes(*since_ms),
        digest: text_of(digest)?,
        text: text_of(text)?,
    })
}

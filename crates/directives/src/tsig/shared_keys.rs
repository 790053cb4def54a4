//! The keys of blocks that share a listener: each block gets the keys of all.

use corefile::place::Report;
use dns::Name;

use crate::config::block::ServerBlock;
use crate::transfer::Transfer;
use crate::tsig::{Tsig, TsigKey};

impl ServerBlock {
    /// The keys of all blocks on its listeners.
    pub fn keys(&self) -> impl Iterator<Item = &TsigKey> {
        self.all::<Tsig>().flat_map(|tsig| &tsig.keys)
    }

    /// The key of this name.
    #[must_use]
    pub fn key(&self, name: &Name) -> Option<&TsigKey> {
        self.keys().find(|key| key.name == *name)
    }
}

/// Gives each block the keys and key files of all blocks on its listeners. Reports two different keys of one name.
pub(crate) fn share(blocks: &mut [ServerBlock], report: &mut Report) {
    let listeners: Vec<_> = blocks.iter().map(ServerBlock::listeners).collect();
    let own: Vec<Tsig> = blocks
        .iter_mut()
        .map(|block| block.take().unwrap_or_default())
        .collect();
    for (index, block) in blocks.iter_mut().enumerate() {
        let mut shared = Tsig::default();
        for (other, theirs) in own.iter().enumerate() {
            let mut there = listeners[other].iter();
            if other != index && !there.any(|listener| listeners[index].contains(listener)) {
                continue;
            }
            for key in &theirs.keys {
                add_key(&mut shared.keys, key, report);
            }
            shared.files.extend(theirs.files.iter().cloned());
        }
        if shared != Tsig::default() {
            block.add(shared);
        }
    }
}

/// Adds a key unless it is in the list. Reports a different key of the same name.
pub(super) fn add_key(keys: &mut Vec<TsigKey>, key: &TsigKey, report: &mut Report) {
    match keys.iter().find(|there| there.name == key.name) {
        None => keys.push(key.clone()),
        Some(there) if there.same_key(key) => {}
        Some(there) => {
            let message = format!("there is another key {} at {}", key.name, there.place);
            report.error(&key.place, message, "give one of the two another name");
        }
    }
}

/// Reports keys that a block's `transfer` names and that are not in `keys`.
pub(super) fn check_names(block: &ServerBlock, keys: &[TsigKey], report: &mut Report) {
    let mut files = block.all::<Tsig>().flat_map(|tsig| &tsig.files);
    let file = files.next().map(|file| file.path.escape_debug());
    let named = block.all::<Transfer>().flat_map(Transfer::key_names);
    for (place, name) in named {
        if !keys.iter().any(|key| key.name == *name) {
            let message = format!("no tsig on this listener has the key {name}");
            let fix = match &file {
                Some(file) => format!(
                    "add to {file}: key \"{name}\" {{ algorithm hmac-sha256; secret \"BASE64\"; }};"
                ),
                None => format!("write in this block's tsig: secret {name} BASE64"),
            };
            report.error(place, message, fix);
        }
    }
}

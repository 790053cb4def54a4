//! The signed notes of a configuration: which zones they are about, and where they go.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::Address;
use directives::config::{Config, History, NoteTarget, ServerBlock, Source, server_of};
use dns::Name;

/// Notes with one key, one rhythm and the same places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedNotes {
    /// The file of the key.
    pub(crate) sign: PathBuf,
    /// How often.
    pub(crate) every: Duration,
    /// The places.
    pub(crate) places: Vec<PlannedPlace>,
    /// The zones, in the order of the file.
    pub(crate) zones: Vec<Name>,
}

/// A place that gets notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedPlace {
    /// The place.
    pub(crate) target: NoteTarget,
    /// The API server that has the ConfigMap, if it is one.
    pub(crate) server: Option<Source>,
}

/// Plans the notes. Directives with the same key, rhythm and places share them.
pub(crate) fn plan_notes(config: &Config) -> Vec<PlannedNotes> {
    let mut planned: Vec<(&History, PlannedNotes)> = Vec::new();
    for (block, history) in histories(config) {
        let Some(sign) = history.sign.as_ref().filter(|_| !history.notes.is_empty()) else {
            continue;
        };
        let zones = block.zones_written().filter(|zone| {
            let closest = block.for_zone::<History>(zone);
            closest.is_some_and(|closest| std::ptr::eq(closest, history))
        });
        let zones: Vec<Name> = zones.map(Name::to_lower).collect();
        let known = planned.iter_mut().find(|(it, _)| it.shares_notes(history));
        if let Some((_, notes)) = known {
            // Blocks may write the same zone.
            let new = zones.into_iter().filter(|it| !notes.zones.contains(it));
            let new: Vec<Name> = new.collect();
            notes.zones.extend(new);
            continue;
        }
        let places = history.notes.iter().map(|line| PlannedPlace {
            target: line.target.clone(),
            server: match line.target {
                NoteTarget::ConfigMap { .. } => server_of(block, &config.servers).cloned(),
                NoteTarget::File(_) | NoteTarget::Log => None,
            },
        });
        let notes = PlannedNotes {
            sign: sign.clone(),
            every: history.every(),
            places: places.collect(),
            zones,
        };
        planned.push((history, notes));
    }
    planned.into_iter().map(|(_, notes)| notes).collect()
}

/// The folders of the files that get notes.
pub(crate) fn note_folders(config: &Config) -> BTreeSet<PathBuf> {
    let lines = histories(config).flat_map(|(_, history)| &history.notes);
    let files = lines.filter_map(|line| match &line.target {
        NoteTarget::File(path) => Some(path),
        NoteTarget::Log | NoteTarget::ConfigMap { .. } => None,
    });
    files.map(|path| folder_of(path)).collect()
}

/// The folders of this machine that are archives.
pub(crate) fn archive_folders(config: &Config) -> BTreeSet<PathBuf> {
    let urls = histories(config).filter_map(|(_, history)| history.archive.as_deref());
    // An address was checked when it was read.
    let addresses = urls.filter_map(|url| Address::parse(url).ok());
    addresses
        .filter_map(|it| it.folder().map(Path::to_owned))
        .collect()
}

/// The folder of a file.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// All directives with their blocks.
fn histories(config: &Config) -> impl Iterator<Item = (&ServerBlock, &History)> {
    let blocks = config.servers.iter();
    blocks.flat_map(|block| block.all::<History>().map(move |it| (block, it)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use directives::config::{Overrides, parse_text};

    /// A key, and the notes that a text plans with it in place of `KEY`.
    fn planned(text: &str) -> Vec<String> {
        let key = tempfile::NamedTempFile::new().unwrap();
        let pem = "-----BEGIN PRIVATE KEY-----\n\
            MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
            -----END PRIVATE KEY-----\n";
        std::fs::write(key.path(), pem).unwrap();
        let text = text.replace("KEY", &key.path().display().to_string());
        let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None);
        let loaded = loaded.unwrap_or_else(|rejected| panic!("{rejected}"));
        let line = |notes: &PlannedNotes| {
            let zones: Vec<String> = notes.zones.iter().map(ToString::to_string).collect();
            let places: Vec<String> = notes
                .places
                .iter()
                .map(|it| it.target.to_string())
                .collect();
            let (every, zones) = (notes.every.as_secs(), zones.join(" "));
            format!("{zones} every {every} to {}", places.join(", "))
        };
        plan_notes(&loaded.config).iter().map(line).collect()
    }

    #[test]
    fn directives_that_say_the_same_share_a_note_and_others_have_one_of_their_own() {
        let block = |zone: &str, history: &str| {
            format!("{zone} {{\n kubernetes {zone} {{\n manifests .\n }}\n {history}\n}}\n")
        };
        let same = "history {\n sign KEY\n note log\n note file n/notes\n}";
        let other = "history {\n sign KEY\n note log\n note_every 1m\n}";
        let text = [
            block("a.example", same),
            block("b.example", "history {\n sign KEY\n}"),
            block("c.example", same),
            block("d.example", other),
        ];
        assert_eq!(
            planned(&text.concat()),
            [
                "a.example. c.example. every 600 to log, file n/notes",
                "d.example. every 60 to log",
            ]
        );
    }

    #[test]
    fn a_note_is_about_the_zones_of_its_own_history() {
        let text = "cluster.local 10.in-addr.arpa {\n kubernetes {\n manifests .\n }\n \
             history 10.in-addr.arpa {\n keep 1h\n }\n history cluster.local {\n sign KEY\n note log\n }\n}\n";
        assert_eq!(planned(text), ["cluster.local. every 600 to log"]);
    }
}

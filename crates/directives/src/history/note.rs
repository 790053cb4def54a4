//! `note file PATH|log|configmap NAMESPACE/NAME` of `history`: the places that get signed notes of the newest hashes.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use corefile::lexer::Token;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use provenance::{is_label, is_subdomain};

use crate::config::block::ServerBlock;
use crate::history::History;
use crate::kubernetes::Source;

/// How often a note is written, unless configured.
pub const NOTE_EVERY: Duration = Duration::from_secs(600);
/// The shortest interval: each note costs the API server a write.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest interval.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The syntax.
const WRITE: &str = "write: note file PATH, note log, or note configmap NAMESPACE/NAME";
/// The longest name of a namespace (a label of RFC 1123).
const NAMESPACE_OCTETS: usize = 63;

/// A place that gets notes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteTarget {
    /// A file, to which each note is appended.
    File(PathBuf),
    /// The log.
    Log,
    /// A ConfigMap, which has the newest note.
    ConfigMap {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for NoteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Log => f.write_str("log"),
            Self::ConfigMap { namespace, name } => write!(f, "configmap {namespace}/{name}"),
        }
    }
}

/// A line `note`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteOption {
    /// Its place in the Corefile.
    pub place: Place,
    /// The target.
    pub target: NoteTarget,
}

/// Reads `note …`.
pub(super) fn read(directive: &Statement, line: &Line, report: &mut Report) -> Option<NoteOption> {
    let target = match line.arguments.as_slice() {
        [word] if word.text == "log" => Some(NoteTarget::Log),
        [word, path] if word.text == "file" => Some(NoteTarget::File(directive.path(&path.text))),
        [word, object] if word.text == "configmap" => config_map(object, report),
        _ => {
            let message = "note names no place for notes";
            report.error(&line.name.place, message, WRITE);
            None
        }
    };
    Some(NoteOption {
        place: line.name.place.clone(),
        target: target?,
    })
}

/// Reads `NAMESPACE/NAME`.
fn config_map(object: &Token, report: &mut Report) -> Option<NoteTarget> {
    let named = object.text.split_once('/');
    let named = named.filter(|(namespace, name)| is_namespace(namespace) && is_subdomain(name));
    let Some((namespace, name)) = named else {
        let message = format!("{} is no name of a ConfigMap", object.shown());
        report.error(
            &object.place,
            message,
            "write: note configmap NAMESPACE/NAME",
        );
        return None;
    };
    Some(NoteTarget::ConfigMap {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// Whether a text can be the name of a namespace.
pub(crate) fn is_namespace(text: &str) -> bool {
    is_label(text) && text.len() <= NAMESPACE_OCTETS
}

/// Checks the interval of `note_every`.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let every = corefile::quantity::duration_or_seconds(text).map_err(|error| error.to_string())?;
    match (SHORTEST..=LONGEST).contains(&every) {
        true => Ok(every),
        false => Err("less than 1s or more than 24h".to_owned()),
    }
}

impl History {
    /// How often notes are written.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.note_every.unwrap_or(NOTE_EVERY)
    }

    /// Whether both write the same notes to the same places, so that one note has the zones of both.
    #[must_use]
    pub fn shares_notes(&self, other: &Self) -> bool {
        let targets = |history: &Self| -> Vec<NoteTarget> {
            history.notes.iter().map(|it| it.target.clone()).collect()
        };
        self.sign == other.sign && self.every() == other.every() && targets(self) == targets(other)
    }
}

/// The API server that has the ConfigMaps of a block: that of its first cluster, else of the first one of all blocks.
#[must_use]
pub fn server_of<'a>(block: &'a ServerBlock, blocks: &'a [ServerBlock]) -> Option<&'a Source> {
    let own = block.clusters();
    let mut all = own.chain(blocks.iter().flat_map(ServerBlock::clusters));
    let found = all.find(|cluster| match cluster.source {
        Source::InCluster | Source::Kubeconfig { .. } | Source::Endpoint { .. } => true,
        Source::Manifests { .. } => false,
    });
    found.map(|cluster| &cluster.source)
}

/// Reports notes without a key, without an API server, and two that would overwrite each other.
pub(super) fn check(blocks: &[ServerBlock], report: &mut Report) {
    let all = || {
        let of_block = |block| ServerBlock::all::<History>(block).map(move |it| (block, it));
        blocks.iter().flat_map(of_block)
    };
    for (index, (block, history)) in all().enumerate() {
        if let (None, Some(first)) = (&history.sign, history.notes.first()) {
            let message = "a note without a signature proves nothing";
            report.error(&first.place, message, "write in this block: sign KEYFILE");
        }
        if history.notes.is_empty() && history.note_every.is_some() {
            let message = "note_every has no effect without a note";
            report.warn(&history.place, message, WRITE);
        }
        for line in &history.notes {
            let is_config_map = matches!(line.target, NoteTarget::ConfigMap { .. });
            if is_config_map && server_of(block, blocks).is_none() {
                let message = "no kubernetes here has an API server that could have a ConfigMap";
                report.error(&line.place, message, "write: note file PATH, or note log");
            }
            if line.target == NoteTarget::Log {
                continue;
            }
            let mut earlier = all().take(index).map(|(_, it)| it);
            let clash = earlier.find(|it| {
                it.notes.iter().any(|its| its.target == line.target) && !history.shares_notes(it)
            });
            if let Some(other) = clash {
                let message = format!(
                    "the history at {} writes other notes to {}",
                    other.place, line.target
                );
                let fix = "write the same sign, note and note_every in both, or name another place";
                report.error(&line.place, message, fix);
            }
        }
    }
}

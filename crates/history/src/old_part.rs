//! Entries of the old part of the history in answers: several versions as one, or a version without its records.

use serde_json::{Value, json};
use zone::gate::Share;
use zone::journal::Archived;

use crate::moment::TimeText;

/// The entry that ends with a version, unless it is that version as it was published.
pub(super) fn condensed_at(archived: &[Archived], seq: u64) -> Option<&Archived> {
    let place = archived
        .binary_search_by(|entry| entry.seq.cmp(&seq))
        .ok()?;
    archived.get(place).filter(|entry| !entry.is_whole())
}

/// Says when a history begins whose oldest entry this is. A serial comes with the time of its own version.
pub(super) fn begin_text(entry: &Archived) -> String {
    let (serial, time) = (entry.serial, TimeText(entry.time_ms));
    match entry.versions() {
        1 => format!("serial {serial}, {time}"),
        versions => format!(
            "{}, with {versions} condensed versions up to serial {serial}, {time}",
            TimeText(entry.first_ms)
        ),
    }
}

/// Says among which versions a change was made: the first place where it can have been is long before the last.
pub(super) fn within_text(entry: &Archived) -> String {
    format!(
        "within {} condensed versions, {} to {}, the last with serial {}",
        entry.versions(),
        TimeText(entry.first_ms),
        TimeText(entry.time_ms),
        entry.serial
    )
}

/// The field `condensed` of a version that is an entry.
pub(super) fn condensed_json(entry: &Archived) -> Value {
    json!({
        "versions": entry.versions(),
        "namespace": entry.share.as_ref().map(Share::as_str),
        "firstTime": TimeText(entry.first_ms).to_string(),
        "firstTimeMs": entry.first_ms,
        "hasRecords": entry.has_records,
    })
}

//! Lists and watches as they come over the wire, down to what the protocol needs. The objects in them
//! stay text: they are read one by one, so that a bad one costs no other.

use std::borrow::Cow;
use std::pin::Pin;

use futures_util::io::{AsyncBufRead, AsyncBufReadExt};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::Fault;

/// The longest line of a watch; an object of the API has at most a few MiB.
const LONGEST_LINE: usize = 64 << 20;

/// `metadata` of a list, a bookmark or any object, down to what the protocol needs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Position {
    /// `resourceVersion`.
    pub(super) resource_version: Option<String>,
    /// `continue`: where the next page begins.
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

/// A page of a list; its items are looked at one by one.
#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    /// `metadata`.
    #[serde(default)]
    pub(super) metadata: Position,
    /// `items`.
    #[serde(borrow)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

/// A line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    /// `type`.
    #[serde(rename = "type", borrow)]
    pub(super) word: Cow<'a, str>,
    /// `object`.
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// An object down to its position.
#[derive(Debug, Deserialize)]
pub(super) struct Positioned {
    /// `metadata`.
    #[serde(default)]
    pub(super) metadata: Position,
}

/// Reads up to the end of a line, appending to `line`. `false` when the body ended; an unfinished
/// last line is dropped, the next watch tells it again. May be cancelled and called again.
pub(super) async fn read_line(
    mut body: Pin<&mut impl AsyncBufRead>,
    line: &mut Vec<u8>,
) -> Result<bool, Fault> {
    loop {
        let broken = |error: std::io::Error| Fault::Transport(error.to_string());
        let bytes = body.fill_buf().await.map_err(broken)?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let take = end.map_or(bytes.len(), |end| end + 1);
        line.extend_from_slice(&bytes[..take]);
        body.as_mut().consume(take);
        if end.is_some() {
            return Ok(true);
        }
        if line.len() > LONGEST_LINE {
            return Err(Fault::Malformed(
                "a watch: a line of more than 64 MiB".to_owned(),
            ));
        }
    }
}

//! The wire form of lists and watches, reduced to what the protocol needs. Objects stay text. They are read one by
//! one, so that a bad one affects no other.

use std::borrow::Cow;
use std::pin::Pin;

use futures_util::io::{AsyncBufRead, AsyncBufReadExt};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::Fault;

/// The longest line of a watch; an object of the API has at most a few MiB.
const LONGEST_LINE: usize = 64 << 20;

/// `metadata` of a list, a bookmark or any object, reduced to what the protocol needs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Position {
    pub(super) resource_version: Option<String>,
    /// `continue`: the start of the next page.
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

/// A page of a list. Its items are read one by one.
#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: Position,
    #[serde(borrow)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

/// A line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) word: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// The position of an object.
#[derive(Debug, Deserialize)]
pub(super) struct Positioned {
    #[serde(default)]
    pub(super) metadata: Position,
}

/// Reads up to the end of a line, appending to `line`. Returns `false` when the body ended; an unfinished last line
/// is dropped, because the next watch sends it again. Can be cancelled and called again.
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

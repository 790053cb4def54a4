//! Messages on a stream: whole ones, each wait with a limit, and memory only for what has arrived.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::format::{Encoded, FormatError, PREFIX_BYTES, Prefix};

/// Bytes that are read or written at a time: a few records of TLS.
const CHUNK_BYTES: usize = 64 << 10;

/// The reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The network or TLS.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Bytes that are no message.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Nothing happened for too long.
    #[error("nothing for {} ms", .0.as_millis())]
    Silent(Duration),
    /// The peer's certificate has another name.
    #[error("the certificate of the peer has not the name of a replica")]
    Name,
    /// The peer does not read what is sent to it.
    #[error("the peer does not read")]
    Unread,
    /// There are too many of them.
    #[error("too many connections")]
    Full,
}

/// A message as it was received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) head: Vec<u8>,
    pub(crate) payload: Arc<[u8]>,
}

/// Does something that has to be over in time.
pub(crate) async fn within<T, E: Into<LinkError>>(
    patience: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, LinkError> {
    let done = timeout(patience, work).await;
    done.map_err(|_| LinkError::Silent(patience))?
        .map_err(Into::into)
}

/// Writes a message. The caller flushes.
pub(crate) async fn write_message(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &Encoded,
    patience: Duration,
) -> Result<(), LinkError> {
    let parts = [&message.start[..], &message.payload];
    for chunk in parts.into_iter().flat_map(|part| part.chunks(CHUNK_BYTES)) {
        within(patience, stream.write_all(chunk)).await?;
    }
    Ok(())
}

/// Reads a message; `None` when the stream ended before it began. `progress` is called with the head each time when a part of the
/// payload has arrived.
pub(crate) async fn read_message(
    stream: &mut (impl AsyncRead + Unpin),
    patience: Duration,
    mut progress: impl FnMut(&[u8]),
) -> Result<Option<Received>, LinkError> {
    let mut prefix = [0; PREFIX_BYTES];
    let (first, rest) = prefix.split_at_mut(1);
    if within(patience, stream.read(first)).await? == 0 {
        return Ok(None);
    }
    within(patience, stream.read_exact(rest)).await?;
    let Prefix {
        head_bytes,
        payload_bytes,
    } = Prefix::decode(prefix)?;
    let head = read_bytes(stream, head_bytes, patience, || ()).await?;
    let payload = read_bytes(stream, payload_bytes, patience, || progress(&head));
    let payload = payload.await?.into();
    Ok(Some(Received { head, payload }))
}

/// Reads so many bytes. The buffer grows with what arrives, not with what the peer claims.
async fn read_bytes(
    stream: &mut (impl AsyncRead + Unpin),
    count: usize,
    patience: Duration,
    mut progress: impl FnMut(),
) -> Result<Vec<u8>, LinkError> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let room = (count - bytes.len()).min(CHUNK_BYTES);
        bytes.reserve(room);
        let mut part = AsyncReadExt::take(&mut *stream, u64::try_from(room).unwrap_or(u64::MAX));
        if within(patience, part.read_buf(&mut bytes)).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        progress();
    }
    Ok(bytes)
}

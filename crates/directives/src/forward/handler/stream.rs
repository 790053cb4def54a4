//! Messages of a stream, each with its length before it (RFC 1035 section 4.2.2).

use std::io;

use dns::{BadReply, Response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Writes a message.
pub(super) async fn write<S: AsyncWrite + Unpin>(stream: &mut S, octets: &[u8]) -> io::Result<()> {
    let length = u16::try_from(octets.len()).map_err(io::Error::other)?;
    let framed = [&length.to_be_bytes(), octets].concat();
    stream.write_all(&framed).await?;
    stream.flush().await
}

/// Reads messages until the one with this ID.
pub(super) async fn read<S: AsyncRead + Unpin>(stream: &mut S, id: u16) -> io::Result<Response> {
    loop {
        let mut octets = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut octets).await?;
        let response = Response::decode(&octets).map_err(bad)?;
        if response.id == id {
            return Ok(response);
        }
    }
}

/// The I/O error for a reply that cannot be read.
pub(super) fn bad(error: BadReply) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

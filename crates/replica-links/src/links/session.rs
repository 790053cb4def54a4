//! One link: frames in both directions until one side ends it.

use replicas::frame::{Body, Frame, LinkId};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use std::io;
use std::time::Duration;

use super::{LinkEvent, LinkHandle, Shared};
use crate::format::{decode_frame, encode_frame, epoch_of};
use crate::messages::{LinkError, Received, read_message, within, write_message};

/// While a large frame arrives, the loop is told so often that the peer is alive.
const PROGRESS: Duration = Duration::from_millis(250);

/// The queue of a link, and what it is sent from.
pub(super) struct Queue {
    frames: mpsc::Receiver<Frame>,
    stop: CancellationToken,
}

/// A queue with its handle.
pub(super) fn queue(shared: &Shared) -> (LinkHandle, Queue) {
    let (sender, frames) = mpsc::channel(shared.limits.queued_frames);
    let stop = CancellationToken::new();
    let handle = LinkHandle {
        frames: sender,
        stop: stop.clone(),
    };
    (handle, Queue { frames, stop })
}

/// Runs a link until it ends, and says that it did.
pub(super) async fn run<S>(shared: &Shared, link: LinkId, stream: S, queue: Queue)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (reader, writer) = tokio::io::split(stream);
    let Queue { frames, stop } = queue;
    let end = tokio::select! {
        end = read_frames(shared, link, reader) => end,
        end = write_frames(shared, writer, frames) => end,
        () = stop.cancelled() => Err(LinkError::Unread),
    };
    match end {
        Ok(()) => tracing::debug!(link, "a link of replicas was closed"),
        Err(error @ LinkError::Format(_)) => {
            tracing::warn!(link, %error, "a link of replicas was closed");
        }
        Err(error) => tracing::debug!(link, %error, "a link of replicas broke"),
    }
    // The loop may have ended.
    shared.events.send(LinkEvent::Closed(link)).await.ok();
}

/// Gives each frame that arrives.
async fn read_frames(
    shared: &Shared,
    link: LinkId,
    reader: impl AsyncRead + Unpin,
) -> Result<(), LinkError> {
    let mut reader = BufReader::new(reader);
    let patience = shared.limits.idle_timeout;
    let mut told = Instant::now();
    loop {
        // The frames of a leader come one after the other: behind a large one no ping arrives.
        let progress = |head: &[u8]| {
            if let Ok(epoch) = epoch_of(head)
                && told.elapsed() >= PROGRESS
            {
                told = Instant::now();
                let body = Body::Ping;
                let ping = LinkEvent::Frame(link, Frame { epoch, body });
                // Without room the loop is busy, and does not look at its clock either.
                shared.events.try_send(ping).ok();
            }
        };
        let message = read_message(&mut reader, patience, progress).await?;
        let Some(Received { head, payload }) = message else {
            return Ok(());
        };
        told = Instant::now();
        let frame = LinkEvent::Frame(link, decode_frame(&head, payload)?);
        // The loop may have ended, and with it everything else.
        let given = shared.events.send(frame).await;
        given.map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted))?;
    }
}

/// Sends what is in the queue, until its other end is dropped.
async fn write_frames(
    shared: &Shared,
    writer: impl AsyncWrite + Unpin,
    mut frames: mpsc::Receiver<Frame>,
) -> Result<(), LinkError> {
    let mut writer = BufWriter::new(writer);
    let patience = shared.limits.idle_timeout;
    while let Some(frame) = frames.recv().await {
        write_message(&mut writer, &encode_frame(&frame)?, patience).await?;
        if frames.is_empty() {
            within(patience, writer.flush()).await?;
        }
    }
    within(patience, writer.shutdown()).await
}

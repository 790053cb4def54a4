//! DNS over QUIC (RFC 9250) on a connection: each stream has one request and its reply.
//!
//! # Not implemented
//! Zone transfers (section 5.4 calls for them as an option): refused. That a request has ended is not waited for, as in
//! CoreDNS.

use std::sync::Arc;

use dns::Query;
use dns::edns::Wishes;
use quinn::{Connection, ReadExactError, RecvStream, SendStream, VarInt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

use crate::message::REQUEST_OCTETS;
use crate::own_tasks::log_end;
use crate::quic::QuicConnection;
use crate::requests::Requests;

/// Nothing is wrong (section 4.3).
const NO_ERROR: u16 = 0;
/// The server cannot answer.
const INTERNAL_ERROR: u16 = 1;
/// The client does not keep to the protocol.
const PROTOCOL_ERROR: u16 = 2;
/// The client asks for too much.
const EXCESSIVE_LOAD: u16 = 4;

/// Why a stream has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The whole connection ends with this code.
    Connection(u16),
    /// The stream ends with this code.
    Stream(u16),
    /// The client has ended it.
    Gone,
}

/// Serves a connection to its end. `workers`: places for requests, of all connections together.
pub(crate) async fn serve(of: QuicConnection, workers: Arc<Semaphore>) {
    let mut streams = JoinSet::new();
    {
        let mut leave = std::pin::pin!(of.leave());
        loop {
            tokio::select! {
                () = &mut leave => break,
                Some(ended) = streams.join_next() => log_end(ended),
                accepted = of.connection.accept_bi() => match accepted {
                    Ok((send, receive)) => {
                        let stream = Stream {
                            connection: of.connection.clone(),
                            requests: Arc::clone(&of.requests),
                            send,
                            receive,
                        };
                        streams.spawn(stream.serve(Arc::clone(&workers)));
                    }
                    Err(error) => {
                        debug!(peer = %of.requests.client.peer, %error, "a connection of QUIC ended");
                        return;
                    }
                },
            }
        }
    }
    of.finish(&mut streams).await;
    of.connection.close(VarInt::from(NO_ERROR), b"");
}

/// A stream of a connection.
struct Stream {
    /// The connection.
    connection: Connection,
    /// Its requests.
    requests: Arc<Requests>,
    /// Where the reply goes.
    send: SendStream,
    /// Where the request comes from.
    receive: RecvStream,
}

impl Stream {
    /// Answers the request of the stream.
    async fn serve(mut self, workers: Arc<Semaphore>) {
        let _in_progress = self.requests.begin();
        let Err(fault) = self.exchange(&workers).await else {
            self.requests.count_code(NO_ERROR);
            return;
        };
        debug!(peer = %self.requests.client.peer, ?fault, "a stream of QUIC has no reply");
        match fault {
            Fault::Connection(code) => {
                self.requests.count_code(code);
                self.connection.close(VarInt::from(code), b"");
            }
            Fault::Stream(code) => {
                self.requests.count_code(code);
                // Both fail where the client was first.
                let _reset = self.send.reset(VarInt::from(code));
                let _stopped = self.receive.stop(VarInt::from(code));
            }
            Fault::Gone => {}
        }
    }

    /// Reads the request, answers it once there is a place for it, and sends the reply until it has arrived.
    async fn exchange(&mut self, workers: &Semaphore) -> Result<(), Fault> {
        let reading = read(&mut self.receive);
        let request = timeout(self.requests.patience(), reading)
            .await
            .unwrap_or(Err(Fault::Stream(INTERNAL_ERROR)))?;
        if !is_proper(&request) {
            return Err(Fault::Connection(PROTOCOL_ERROR));
        }
        let reply = {
            // The semaphore is never closed, so this cannot fail. A slow client does not hold a place.
            let _worker = workers.acquire().await;
            self.requests.reply_to(&request).await
        };
        let reply = reply.ok_or(Fault::Stream(INTERNAL_ERROR))?;
        let sending = async {
            self.send.write_all(&reply).await.map_err(|_| Fault::Gone)?;
            self.send.finish().map_err(|_| Fault::Gone)?;
            // Until the client has it, or wants no more.
            self.send.stopped().await.map(drop).map_err(|_| Fault::Gone)
        };
        let stalled = Err(Fault::Stream(EXCESSIVE_LOAD));
        let stall = self.requests.stall();
        timeout(stall, sending).await.unwrap_or(stalled)
    }
}

/// Reads a message with its length in front (section 4.2).
async fn read(receive: &mut RecvStream) -> Result<Vec<u8>, Fault> {
    let fault = |error| match error {
        ReadExactError::FinishedEarly(_) => Fault::Connection(PROTOCOL_ERROR),
        ReadExactError::ReadError(_) => Fault::Gone,
    };
    let mut length = [0; 2];
    receive.read_exact(&mut length).await.map_err(fault)?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > REQUEST_OCTETS {
        return Err(Fault::Stream(EXCESSIVE_LOAD));
    }
    let mut message = vec![0; length];
    receive.read_exact(&mut message).await.map_err(fault)?;
    Ok(message)
}

/// Whether a request keeps to the protocol: it can be read, its ID is 0, and it has no keepalive option (sections 4.2.1,
/// 4.3.3). Any other ends the connection.
fn is_proper(message: &[u8]) -> bool {
    let Ok(query) = Query::parse(message) else {
        return false;
    };
    let wishes: Option<Wishes<'_>> = query.opt.and_then(|opt| opt.wishes());
    query.id == 0 && !wishes.is_some_and(|wishes| wishes.keepalive)
}

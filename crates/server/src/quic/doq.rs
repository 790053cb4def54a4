//! DNS over QUIC (RFC 9250) on a connection: each stream has one request and its reply.
//!
//! # Not implemented
//! - Zone transfers (section 5.4 makes them optional): refused.
//! - Waiting for the end of a request's stream: a complete message is answered, as in CoreDNS.

use std::sync::Arc;

use dns::Query;
use dns::edns::Wishes;
use quinn::{Connection, ReadExactError, RecvStream, SendStream, VarInt};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

use crate::message::REQUEST_OCTETS;
use crate::own_tasks::log_end;
use crate::quic::QuicConnection;
use crate::quic::workers::Workers;
use crate::requests::Requests;

/// No error (section 4.3).
const NO_ERROR: u16 = 0;
/// The server cannot answer.
const INTERNAL_ERROR: u16 = 1;
/// The client breaks the protocol.
const PROTOCOL_ERROR: u16 = 2;
/// The client asks for too much.
const EXCESSIVE_LOAD: u16 = 4;

/// The reason for a stream without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The whole connection ends with this code.
    Connection(u16),
    /// The stream ends with this code.
    Stream(u16),
    /// The client has closed it.
    Gone,
}

/// Serves a connection to its end. `workers` are the places for requests of all connections.
pub(super) async fn serve(of: QuicConnection, workers: Workers) {
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
                        streams.spawn(stream.serve(workers.clone()));
                    }
                    Err(error) => {
                        debug!(peer = %of.requests.client.peer, %error, "a QUIC connection ended");
                        return;
                    }
                },
            }
        }
    }
    of.finish(&mut streams).await;
    of.connection.close(VarInt::from(NO_ERROR), b"");
}

struct Stream {
    /// The connection.
    connection: Connection,
    requests: Arc<Requests>,
    /// The direction of the reply.
    send: SendStream,
    /// The direction of the request.
    receive: RecvStream,
}

impl Stream {
    /// Answers the request of the stream.
    async fn serve(mut self, workers: Workers) {
        let _in_progress = self.requests.begin();
        let Err(fault) = self.exchange(&workers).await else {
            self.requests.count_code(NO_ERROR);
            return;
        };
        debug!(peer = %self.requests.client.peer, ?fault, "a QUIC stream got no reply");
        match fault {
            Fault::Connection(code) => {
                self.requests.count_code(code);
                self.connection.close(VarInt::from(code), b"");
            }
            Fault::Stream(code) => {
                self.requests.count_code(code);
                // Both fail if the client has closed the stream already.
                let _reset = self.send.reset(VarInt::from(code));
                let _stopped = self.receive.stop(VarInt::from(code));
            }
            Fault::Gone => {}
        }
    }

    /// Reads the request, answers it when there is a place for it, and sends the reply until it has arrived.
    async fn exchange(&mut self, workers: &Workers) -> Result<(), Fault> {
        let reading = read(&mut self.receive);
        let request = timeout(self.requests.patience(), reading)
            .await
            .unwrap_or(Err(Fault::Stream(INTERNAL_ERROR)))?;
        if !is_proper(&request) {
            return Err(Fault::Connection(PROTOCOL_ERROR));
        }
        let reply = {
            // A slow client does not hold a place.
            let _worker = workers.take().await;
            self.requests.reply_to(&request).await
        };
        let reply = reply.ok_or(Fault::Stream(INTERNAL_ERROR))?;
        let sending = async {
            self.send.write_all(&reply).await.map_err(|_| Fault::Gone)?;
            self.send.finish().map_err(|_| Fault::Gone)?;
            // Until the client has the reply, or stops the stream.
            self.send.stopped().await.map(drop).map_err(|_| Fault::Gone)
        };
        let stalled = Err(Fault::Stream(EXCESSIVE_LOAD));
        let stall = self.requests.stall();
        timeout(stall, sending).await.unwrap_or(stalled)
    }
}

/// Reads a message with its length before it (section 4.2).
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

/// Whether a request follows the protocol: it is readable, its ID is 0, and it has no keepalive option (sections 4.2.1,
/// 4.3.3). Any other request closes the connection.
fn is_proper(message: &[u8]) -> bool {
    let Ok(query) = Query::parse(message) else {
        return false;
    };
    let wishes: Option<Wishes<'_>> = query.opt.and_then(|opt| opt.wishes());
    query.id == 0 && !wishes.is_some_and(|wishes| wishes.keepalive)
}

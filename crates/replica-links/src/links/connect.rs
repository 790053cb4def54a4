//! Own connections: links to leaders, and questions to other replicas.

use replicas::ceiling::Ceiling;
use replicas::chain::Epoch;
use replicas::knowledge::Knowledge;
use replicas::replica::Token;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use std::sync::Arc;

use super::{Attempt, LinkEvent, Shared, session};
use crate::format::{
    ANSWER_BYTES, FormatError, Opening, Purpose, decode_reply, encode_question, take_answer,
};
use crate::messages::{LinkError, read_message, within, write_message};

/// Opens a link and runs it.
pub(crate) async fn dial(shared: Arc<Shared>, attempt: Attempt, address: String) {
    let stream = match open(&shared, &address, Purpose::Link).await {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(address, %error, "no link to the leader");
            // The loop may have ended.
            shared.events.send(LinkEvent::Failed(attempt)).await.ok();
            return;
        }
    };
    let link = shared.next_link();
    let (handle, queue) = session::queue(&shared);
    let connected = LinkEvent::Connected(attempt, link, handle);
    if shared.events.send(connected).await.is_ok() {
        session::run(&shared, link, stream, queue).await;
    }
}

/// Asks a replica what it knows.
pub(crate) async fn ask(
    shared: &Shared,
    address: &str,
    token: Token,
    epoch: Epoch,
    ceiling: &Ceiling,
) -> Result<Knowledge, LinkError> {
    let mut stream = open(shared, address, Purpose::Greeting).await?;
    let patience = shared.limits.idle_timeout;
    let question = encode_question(token, epoch, ceiling)?;
    write_message(&mut stream, &question, patience).await?;
    within(patience, stream.flush()).await?;
    let reply = read_message(&mut stream, patience, |_| ()).await?;
    let reply = reply.ok_or(FormatError::Short)?;
    match decode_reply(&reply.head)? {
        (answered, knowledge) if answered == token => Ok(knowledge),
        _ => Err(FormatError::Trailing.into()),
    }
}

/// A connection after its handshake and the first exchange.
async fn open(
    shared: &Shared,
    address: &str,
    purpose: Purpose,
) -> Result<TlsStream<TcpStream>, LinkError> {
    let connecting = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let identity = &shared.identity;
        let connector = TlsConnector::from(Arc::clone(&identity.tls().client));
        let mut stream = connector.connect(identity.name().clone(), stream).await?;
        if !identity.is_of_replica(stream.get_ref().1.peer_certificates()) {
            return Err(LinkError::Name);
        }
        stream.write_all(&Opening::of(purpose).encode()).await?;
        stream.flush().await?;
        let mut answer = [0; ANSWER_BYTES];
        stream.read_exact(&mut answer).await?;
        take_answer(answer)?;
        Ok(stream)
    };
    within(shared.limits.connect_timeout, connecting).await
}

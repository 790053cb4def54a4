//! The listener: who may connect, how many, and what a connection is for.

use ops::{PlaceLimits, Places};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{LinkEvent, Shared, session};
use crate::format::{FormatError, OPENING_BYTES, Opening, Purpose, decode_question, encode_reply};
use crate::messages::{LinkError, read_message, within, write_message};

/// The pause after the kernel refused a connection, as when all descriptors are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The socket on which other replicas connect.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Binds a TCP address.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).await.map(Self)
    }

    /// Its address, with the port that the kernel chose for port 0.
    ///
    /// # Errors
    /// When the kernel does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Accepts connections for ever. They end with it.
pub(crate) async fn accept(listener: Listener, shared: Arc<Shared>) {
    let places = Places::default();
    let limits = PlaceLimits {
        most: shared.limits.handshakes,
        most_of_source: shared.limits.handshakes_of_source,
        reserved: 0,
    };
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.0.accept() => accepted,
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection of a replica failed");
                }
                continue;
            }
        };
        match accepted {
            Ok((stream, peer)) => match places.take(peer.ip(), limits, false) {
                Some(place) => {
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move {
                        let opened = place.while_held(open(&shared, stream)).await;
                        drop(place);
                        serve(&shared, peer, opened.unwrap_or(Err(LinkError::Full))).await;
                    });
                }
                None => refuse(&shared, peer, &LinkError::Full),
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of a replica");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Counts and logs a connection that is refused.
fn refuse(shared: &Shared, peer: SocketAddr, error: &LinkError) {
    let count = match error {
        LinkError::Full => &shared.stats.full,
        LinkError::Io(_)
        | LinkError::Format(_)
        | LinkError::Silent(_)
        | LinkError::Name
        | LinkError::Unread => &shared.stats.unauthenticated,
    };
    count.fetch_add(1, Ordering::Relaxed);
    tracing::debug!(%peer, %error, "a connection of a replica is refused");
}

/// The handshake and the first exchange.
async fn open(
    shared: &Shared,
    stream: TcpStream,
) -> Result<(TlsStream<TcpStream>, Purpose), LinkError> {
    let opening = async {
        stream.set_nodelay(true)?;
        let acceptor = TlsAcceptor::from(Arc::clone(&shared.identity.tls().server));
        let mut stream = acceptor.accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates();
        if !shared.identity.is_of_replica(chain) {
            return Err(LinkError::Name);
        }
        let mut bytes = [0; OPENING_BYTES];
        stream.read_exact(&mut bytes).await?;
        let opening = Opening::decode(bytes)?;
        let (answer, result) = opening.answer();
        stream.write_all(&answer).await?;
        stream.flush().await?;
        result?;
        Ok((stream, opening.purpose))
    };
    within(shared.limits.handshake_timeout, opening).await
}

/// Runs an authenticated connection.
async fn serve(
    shared: &Shared,
    peer: SocketAddr,
    opened: Result<(TlsStream<TcpStream>, Purpose), LinkError>,
) {
    let (stream, purpose) = match opened {
        Ok(opened) => opened,
        Err(error) => return refuse(shared, peer, &error),
    };
    let slots = match purpose {
        Purpose::Link => &shared.links,
        Purpose::Greeting => &shared.questions,
    };
    let Ok(_slot) = slots.try_acquire() else {
        return refuse(shared, peer, &LinkError::Full);
    };
    match purpose {
        Purpose::Link => {
            let link = shared.next_link();
            let (handle, queue) = session::queue(shared);
            let accepted = LinkEvent::Accepted(link, handle);
            if shared.events.send(accepted).await.is_ok() {
                session::run(shared, link, stream, queue).await;
            }
        }
        Purpose::Greeting => {
            if let Err(error) = answer_question(shared, stream).await {
                tracing::debug!(%peer, %error, "a question of a replica was not answered");
            }
        }
    }
}

/// Answers the question on a connection.
async fn answer_question(
    shared: &Shared,
    mut stream: TlsStream<TcpStream>,
) -> Result<(), LinkError> {
    let patience = shared.limits.idle_timeout;
    let question = read_message(&mut stream, patience, |_| ()).await?;
    let question = question.ok_or(FormatError::Short)?;
    let (token, epoch, ceiling) = decode_question(&question.head)?;
    let (sender, answer) = oneshot::channel();
    let question = LinkEvent::Question(epoch, ceiling, sender);
    let is_given = shared.events.send(question).await.is_ok();
    // Without an answer the loop has ended.
    let ended = || io::Error::from(io::ErrorKind::ConnectionAborted);
    let answer = async { answer.await.ok().filter(|_| is_given).ok_or_else(ended) };
    let knowledge = within(patience, answer).await?;
    let reply = encode_reply(token, &knowledge)?;
    write_message(&mut stream, &reply, patience).await?;
    within(patience, stream.shutdown()).await
}

//! The response to a request.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use history::{NoPlace, PastNow, Piece, Shares, Turns, stream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::{Body, Incoming};
use ops::source_of;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use transfer::TlsPeer;

use crate::access::Reader;
use crate::body::AnswerBody;
use crate::counts::Counts;
use crate::endpoint::Right;
use crate::limits::{ANSWER_TIMES, Rates};
use crate::progress::{InProgress, Progress};
use crate::refusal::Refusal;
use crate::site::Site;
use crate::target::{Question, Target};

/// How long a question may wait for its turn.
const TURN: Duration = Duration::from_secs(120);
/// How long an answer may take to begin until its status is sent without its first pieces.
const BEGINNING: Duration = Duration::from_secs(30);
/// How long the refusal of a stranger is delayed whose source sends too many requests.
const DELAY: Duration = Duration::from_secs(1);
/// The pieces that are looked at before an answer begins: most errors show in them.
const LOOKED_AT: usize = 2;
/// The header with the exit code that the command line would have.
const EXIT: &str = "zonewright-exit";
/// The label of requests that reach no endpoint.
const NONE: &str = "none";
/// The label of descriptions of the API.
const DESCRIPTION: &str = "openapi.json";

/// What all connections of the API share.
pub(crate) struct Shared {
    pub(crate) past: PastNow,
    pub(crate) turns: Turns,
    pub(crate) counts: Arc<Counts>,
    pub(crate) questions: Shares,
    /// How often each reader asks.
    pub(crate) rates: Rates<String>,
    /// How often each source asks without being a reader.
    pub(crate) strangers: Rates<IpAddr>,
}

/// Responds to the requests of a connection.
pub(crate) struct Responder {
    pub(crate) shared: Arc<Shared>,
    /// A reload exchanges it.
    pub(crate) site: Arc<ArcSwap<Site>>,
    pub(crate) peer: SocketAddr,
    pub(crate) tls: TlsPeer,
    pub(crate) progress: Progress,
}

/// An answer that begins.
enum Begun {
    /// It is complete, with its failure if there is one.
    Whole(Vec<Bytes>, Option<Refusal>),
    /// The rest follows.
    Streamed(Vec<Bytes>, mpsc::Receiver<Piece>),
}

/// What is known of a request, for the log and the counts.
#[derive(Default)]
struct Known {
    endpoint: Option<&'static str>,
    reader: Option<Reader>,
    zone: Option<String>,
}

impl Responder {
    /// The response to a request.
    pub(crate) async fn respond(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        let progress = self.progress.begin();
        let mut known = Known::default();
        let outcome = self.answer(&request, &progress, &mut known).await;
        let (result, status) = match &outcome {
            Ok(Begun::Whole(_, Some(refusal))) | Err(refusal) => (refusal.word(), refusal.status()),
            Ok(Begun::Whole(_, None) | Begun::Streamed(..)) => ("ok", StatusCode::OK),
        };
        let endpoint = known.endpoint.unwrap_or(NONE);
        self.shared.counts.request(endpoint, result);
        self.log(&known, endpoint, status);
        let response = match outcome {
            Ok(Begun::Streamed(first, pieces)) => {
                Response::new(AnswerBody::streamed(first, pieces, progress))
            }
            Ok(Begun::Whole(text, None)) => Response::new(AnswerBody::whole(text, progress)),
            Ok(Begun::Whole(mut text, Some(refusal))) => {
                text.push(refusal.line().into());
                refused(&refusal, AnswerBody::whole(text, progress))
            }
            Err(refusal) => {
                let line = refusal.line().into();
                refused(&refusal, AnswerBody::whole([line], progress))
            }
        };
        with_headers(response, known.endpoint == Some(DESCRIPTION))
    }

    /// Takes the steps of a request.
    async fn answer(
        &self,
        request: &Request<Incoming>,
        progress: &InProgress,
        known: &mut Known,
    ) -> Result<Begun, Refusal> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(Refusal::Method);
        }
        if !request.body().is_end_stream() {
            return Err(Refusal::Body);
        }
        let target = Target::parse(request.uri());
        let site = self.site.load_full();
        let source = source_of(self.peer.ip());
        let rate = site.limits.requests_per_second;
        if let Ok(Target::Description(text)) = &target {
            known.endpoint = Some(DESCRIPTION);
            if !self.shared.strangers.take(&source, rate) {
                return Err(Refusal::TooMany);
            }
            let text = Bytes::from_static(text.as_bytes());
            return Ok(Begun::Whole(vec![text], None));
        }
        let counts = &self.shared.counts;
        let reader = site
            .access
            .identify(request.headers(), &self.tls, source, counts);
        let reader = match reader.await {
            Ok(reader) => reader,
            Err(refusal) => return Err(self.turn_away(refusal, source, rate).await),
        };
        let reader = known.reader.insert(reader).clone();
        self.count_against(reader.name(), rate)?;
        let Target::Question(question) = target? else {
            return Err(Refusal::NoEndpoint);
        };
        known.endpoint = Some(question.endpoint.name);
        known.zone = question.values.zone.as_ref().map(ToString::to_string);
        let zone = match question.endpoint.right {
            Right::Zone => question.values.zone.as_ref(),
            Right::All => None,
        };
        site.access.permit(&reader, zone, counts).await?;
        self.ask(&question, &reader, progress).await
    }

    /// Delays the refusal of a stranger whose source sends too many requests.
    async fn turn_away(&self, refusal: Refusal, source: IpAddr, rate: u32) -> Refusal {
        if matches!(refusal, Refusal::Unauthenticated(_))
            && !self.shared.strangers.take(&source, rate)
        {
            sleep(DELAY).await;
        }
        refusal
    }

    /// Counts a request of a reader.
    fn count_against(&self, caller: &str, per_second: u32) -> Result<(), Refusal> {
        match self.shared.rates.take(&caller.to_owned(), per_second) {
            true => Ok(()),
            false => Err(Refusal::TooMany),
        }
    }

    /// Asks a question, and waits until its answer begins.
    async fn ask(
        &self,
        question: &Question,
        reader: &Reader,
        progress: &InProgress,
    ) -> Result<Begun, Refusal> {
        let asked = question.endpoint.question(&question.values);
        let asked = asked.map_err(Refusal::Wrong)?;
        let place = self.shared.questions.take(reader.name());
        let place = place.map_err(|none| match none {
            NoPlace::OfReader => Refusal::TooMany,
            NoPlace::AtAll => Refusal::Busy,
        })?;
        let past = (self.shared.past)();
        let held = (place, progress.making());
        let (name, turns) = (reader.name(), &self.shared.turns);
        let begun = stream(asked, name, past, ANSWER_TIMES, turns, held);
        match timeout(TURN, begun).await {
            Ok(pieces) => begin(pieces.map_err(Refusal::Failed)?).await,
            Err(_) => Err(Refusal::Busy),
        }
    }

    /// Logs a request of a reader. Strangers, and readers that ask too often, appear only at the level `debug`.
    fn log(&self, known: &Known, endpoint: &str, status: StatusCode) {
        let peer = self.peer;
        let zone = known.zone.as_deref().unwrap_or("");
        // As a string it is written in quotes, whatever it contains.
        let reader = known.reader.as_ref().map_or("", Reader::name);
        let is_limited = status == StatusCode::TOO_MANY_REQUESTS;
        let status = status.as_u16();
        if reader.is_empty() || is_limited {
            tracing::debug!(reader, endpoint, zone, status, %peer, "history_api: a request");
        } else {
            tracing::info!(reader, endpoint, zone, status, %peer, "history_api: a request");
        }
    }
}

/// Waits for the first pieces of an answer, but not for long: work that has begun is not given up.
async fn begin(mut pieces: mpsc::Receiver<Piece>) -> Result<Begun, Refusal> {
    let mut first = Vec::new();
    let end = Instant::now() + BEGINNING;
    while first.len() < LOOKED_AT {
        let Ok(piece) = timeout_at(end, pieces.recv()).await else {
            break;
        };
        match piece {
            Some(Piece::Text(text)) => first.push(text.into()),
            Some(Piece::End(Ok(()))) => return Ok(Begun::Whole(first, None)),
            Some(Piece::End(Err(error))) => {
                return Ok(Begun::Whole(first, Some(error.into())));
            }
            None => return Err(Refusal::Failed("the answer broke off".to_owned())),
        }
    }
    Ok(Begun::Streamed(first, pieces))
}

/// The response of a refusal.
fn refused(refusal: &Refusal, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = refusal.status();
    let headers = response.headers_mut();
    headers.insert(EXIT, HeaderValue::from(u16::from(refusal.exit())));
    if refusal.is_passing() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    match refusal {
        Refusal::Method => {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        Refusal::Unauthenticated(_) => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Refusal::Body => {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Refusal::NoEndpoint
        | Refusal::LongUrl
        | Refusal::Wrong(_)
        | Refusal::Forbidden(_)
        | Refusal::TooMany
        | Refusal::Busy
        | Refusal::NoVerdict
        | Refusal::NoZone(_)
        | Refusal::History(_)
        | Refusal::Failed(_) => {}
    }
    response
}

/// Adds the headers of all responses.
fn with_headers(mut response: Response<AnswerBody>, is_json: bool) -> Response<AnswerBody> {
    let kind = if is_json {
        "application/json"
    } else {
        "application/x-ndjson"
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
        .headers_mut()
        .entry(EXIT)
        .or_insert(HeaderValue::from_static("0"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_takes_long_to_begin_is_streamed_and_not_given_up() {
        let (sender, pieces) = mpsc::channel(1);
        sender.send(Piece::Text(b"one".to_vec())).await.unwrap();
        let Ok(Begun::Streamed(first, mut rest)) = begin(pieces).await else {
            panic!("its status is sent");
        };
        assert_eq!(first, [Bytes::from_static(b"one")]);
        sender.send(Piece::End(Ok(()))).await.unwrap();
        assert!(matches!(rest.recv().await, Some(Piece::End(Ok(())))));
    }
}

//! The reviews of an API server, with a short memory: whose token it is, and what the account may read.
//!
//! A token is remembered by its digest. A verdict counts for [`GOOD_FOR`] at most, so a right that is taken away counts no longer
//! than that. Without a verdict nobody reads. Strangers have places, a rate and a memory of their own: however many tokens they try,
//! readers are reviewed.

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dns::Name;
use futures_util::future::BoxFuture;
use kubernetes::source::api_server::reviews::{Account, Readable, ReviewError, Reviews};
use quick_cache::sync::Cache;
use ring::digest::{SHA256, digest};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::counts::Counts;
use crate::limits::Rates;
use crate::refusal::Refusal;

/// How long a verdict counts.
pub(crate) const GOOD_FOR: Duration = Duration::from_secs(30);
/// How long a refusal counts.
pub(crate) const BAD_FOR: Duration = Duration::from_secs(10);
/// The verdicts of a kind that are remembered.
const REMEMBERED: usize = 8192;
/// The most reviews at once for readers that were known lately.
const AT_ONCE: usize = 16;
/// The most reviews of unknown tokens at once.
const UNKNOWN_AT_ONCE: usize = 8;
/// The reviews of unknown tokens of all sources in a second, on average.
const UNKNOWN_PER_SECOND: u32 = 100;
/// The pause between two warnings.
const WARNING_PAUSE: Duration = Duration::from_secs(10);
/// How long a request waits for others' reviews.
const WAIT: Duration = Duration::from_secs(5);

/// The API group and the resource of zones in rules of RBAC. There need not be such objects.
const GROUP: &str = "zonewright.dev";
const RESOURCE: &str = "zones";

/// Decides about tokens and rights.
pub trait Reviewer: Send + Sync + fmt::Debug {
    /// The account of a token; `None` when the token is not good.
    fn account<'a>(&'a self, token: &'a str)
    -> BoxFuture<'a, Result<Option<Account>, ReviewError>>;

    /// Whether an account may read a zone; all zones when `None`.
    fn may_read<'a>(
        &'a self,
        account: &'a Account,
        zone: Option<&'a str>,
    ) -> BoxFuture<'a, Result<bool, ReviewError>>;
}

impl Reviewer for Reviews {
    fn account<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<Account>, ReviewError>> {
        Box::pin(self.account_of(token))
    }

    fn may_read<'a>(
        &'a self,
        account: &'a Account,
        zone: Option<&'a str>,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        let object = Readable {
            group: GROUP,
            resource: RESOURCE,
            name: zone,
        };
        Box::pin(self.may_get(account, object))
    }
}

/// The digest of a token.
pub(crate) type TokenDigest = [u8; 32];

/// What is remembered of a token.
#[derive(Debug)]
pub(crate) enum Remembered {
    /// It is good, and of this account.
    Good(Arc<Account>),
    /// It is not good.
    Bad,
    /// It was good at its last review, and the next one is due.
    WasGood,
    /// Nothing.
    Nothing,
}

/// Verdicts that were given lately.
#[derive(Debug)]
struct Memory<K, V>(Cache<K, (Instant, V)>);

impl<K: Hash + Eq, V: Clone> Memory<K, V> {
    fn new() -> Self {
        Self(Cache::new(REMEMBERED))
    }

    fn get(&self, key: &K) -> Option<V> {
        let (end, verdict) = self.0.get(key)?;
        (Instant::now() < end).then_some(verdict)
    }

    /// Whether there is a verdict, even if it counts no longer.
    fn has(&self, key: &K) -> bool {
        self.0.peek(key).is_some()
    }

    fn forget(&self, key: &K) {
        self.0.remove(key);
    }

    fn note(&self, key: K, verdict: V, is_good: bool) {
        let counts_for = if is_good { GOOD_FOR } else { BAD_FOR };
        self.0.insert(key, (Instant::now() + counts_for, verdict));
    }
}

/// A reviewer with its memory.
#[derive(Debug)]
pub(crate) struct Reviewed {
    reviewer: Arc<dyn Reviewer>,
    accounts: Memory<TokenDigest, Arc<Account>>,
    /// Tokens that are not good. Apart, so that they push out no good ones.
    bad: Memory<TokenDigest, ()>,
    rights: Memory<(TokenDigest, Option<Name>), bool>,
    at_once: Semaphore,
    unknown_at_once: Semaphore,
    /// How often unknown tokens are reviewed.
    unknown: Rates<()>,
    /// When the log last said that there is no verdict. Locked for one look and one change.
    warned: Mutex<Option<Instant>>,
}

impl Reviewed {
    pub(crate) fn new(reviewer: Arc<dyn Reviewer>) -> Self {
        Self {
            reviewer,
            accounts: Memory::new(),
            bad: Memory::new(),
            rights: Memory::new(),
            at_once: Semaphore::new(AT_ONCE),
            unknown_at_once: Semaphore::new(UNKNOWN_AT_ONCE),
            unknown: Rates::default(),
            warned: Mutex::new(None),
        }
    }

    /// The digest of a token, and what is remembered of it.
    pub(crate) fn remembered(&self, token: &str) -> (TokenDigest, Remembered) {
        let mut key = TokenDigest::default();
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        (key, self.remembered_of(&key))
    }

    fn remembered_of(&self, key: &TokenDigest) -> Remembered {
        if let Some(account) = self.accounts.get(key) {
            return Remembered::Good(account);
        }
        match (self.bad.get(key), self.accounts.has(key)) {
            (Some(()), _) => Remembered::Bad,
            (None, true) => Remembered::WasGood,
            (None, false) => Remembered::Nothing,
        }
    }

    /// Whether one more unknown token may be reviewed now.
    pub(crate) fn takes_unknown(&self) -> bool {
        self.unknown.take(&(), UNKNOWN_PER_SECOND)
    }

    /// The account of a token whose review is due. Unknown tokens do not wait in the places of those that were good.
    pub(crate) async fn account(
        &self,
        token: &str,
        (key, was_good): (TokenDigest, bool),
        counts: &Counts,
    ) -> Result<Option<Arc<Account>>, Refusal> {
        let places = match was_good {
            true => &self.at_once,
            false => &self.unknown_at_once,
        };
        let _place = place(places).await?;
        // Others may have asked meanwhile.
        match self.remembered_of(&key) {
            Remembered::Good(account) => return Ok(Some(account)),
            Remembered::Bad => return Ok(None),
            Remembered::WasGood | Remembered::Nothing => {}
        }
        let reviewed = self.reviewer.account(token).await;
        let account = self.verdict("token", reviewed, Option::is_some, counts)?;
        let account = account.map(Arc::new);
        match &account {
            Some(account) => self.accounts.note(key, Arc::clone(account), true),
            None => {
                self.accounts.forget(&key);
                self.bad.note(key, (), false);
            }
        }
        Ok(account)
    }

    /// Whether an account may read a zone; all zones when `None`.
    pub(crate) async fn may_read(
        &self,
        (key, account): (TokenDigest, &Account),
        zone: Option<&Name>,
        counts: &Counts,
    ) -> Result<bool, Refusal> {
        let key = (key, zone.cloned());
        if let Some(known) = self.rights.get(&key) {
            return Ok(known);
        }
        let _place = place(&self.at_once).await?;
        if let Some(known) = self.rights.get(&key) {
            return Ok(known);
        }
        let name = zone.map(object_name);
        let reviewed = self.reviewer.may_read(account, name.as_deref()).await;
        let may = self.verdict("access", reviewed, |may| *may, counts)?;
        self.rights.note(key, may, may);
        Ok(may)
    }

    /// Counts a review. Without a verdict the log says why.
    fn verdict<T>(
        &self,
        kind: &'static str,
        reviewed: Result<T, ReviewError>,
        is_good: impl Fn(&T) -> bool,
        counts: &Counts,
    ) -> Result<T, Refusal> {
        let error = match reviewed {
            Ok(verdict) => {
                let outcome = if is_good(&verdict) {
                    "allowed"
                } else {
                    "denied"
                };
                counts.review(kind, outcome);
                return Ok(verdict);
            }
            Err(error) => error,
        };
        counts.review(kind, "failed");
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|at| at.elapsed() >= WARNING_PAUSE) {
            *warned = Some(Instant::now());
            tracing::warn!(%error, review = kind, "history_api: the API server gives no verdict, so no new token is accepted");
        }
        Err(Refusal::NoVerdict)
    }
}

/// Waits for a place for a review.
async fn place(places: &Semaphore) -> Result<SemaphorePermit<'_>, Refusal> {
    match timeout(WAIT, places.acquire()).await {
        Ok(Ok(place)) => Ok(place),
        Ok(Err(_)) | Err(_) => Err(Refusal::NoVerdict),
    }
}

/// The name of a zone in rules of RBAC: without the dot at its end.
pub(crate) fn object_name(zone: &Name) -> String {
    let text = zone.to_string();
    match text.strip_suffix('.') {
        Some(name) if !name.is_empty() => name.to_owned(),
        Some(_) | None => text,
    }
}

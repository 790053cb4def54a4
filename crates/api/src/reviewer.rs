//! The reviews of an API server, with a short memory: whose token it is, and what the account may read.
//!
//! A token is remembered by its digest. A verdict counts for [`GOOD_FOR`] at most, so a right that is taken away counts no longer
//! than that. Without a verdict nobody reads.

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dns::Name;
use futures_util::future::BoxFuture;
use kubernetes::source::api_server::reviews::{Account, Readable, ReviewError, Reviews};
use quick_cache::sync::Cache;
use ring::digest::{SHA256, digest};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::counts::Counts;
use crate::refusal::Refusal;

/// How long a verdict counts.
pub(crate) const GOOD_FOR: Duration = Duration::from_secs(30);
/// How long a refusal counts.
pub(crate) const BAD_FOR: Duration = Duration::from_secs(10);
/// The verdicts of a kind that are remembered.
const REMEMBERED: usize = 8192;
/// The most reviews at once.
const AT_ONCE: usize = 16;
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

    fn note(&self, key: K, verdict: V, is_good: bool) {
        let counts_for = if is_good { GOOD_FOR } else { BAD_FOR };
        self.0.insert(key, (Instant::now() + counts_for, verdict));
    }
}

/// A reviewer with its memory.
#[derive(Debug)]
pub(crate) struct Reviewed {
    reviewer: Arc<dyn Reviewer>,
    accounts: Memory<TokenDigest, Option<Arc<Account>>>,
    rights: Memory<(TokenDigest, Option<Name>), bool>,
    at_once: Semaphore,
    /// When the log last said that there is no verdict. Locked for one look and one change.
    warned: Mutex<Option<Instant>>,
}

impl Reviewed {
    pub(crate) fn new(reviewer: Arc<dyn Reviewer>) -> Self {
        Self {
            reviewer,
            accounts: Memory::new(),
            rights: Memory::new(),
            at_once: Semaphore::new(AT_ONCE),
            warned: Mutex::new(None),
        }
    }

    /// The digest of a token, and its account if it is remembered.
    pub(crate) fn remembered(&self, token: &str) -> (TokenDigest, Option<Option<Arc<Account>>>) {
        let mut key = TokenDigest::default();
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        (key, self.accounts.get(&key))
    }

    /// The account of a token that is not remembered.
    pub(crate) async fn account(
        &self,
        token: &str,
        key: TokenDigest,
        counts: &Counts,
    ) -> Result<Option<Arc<Account>>, Refusal> {
        let _place = self.place().await?;
        // Others may have asked meanwhile.
        if let Some(known) = self.accounts.get(&key) {
            return Ok(known);
        }
        let reviewed = self.reviewer.account(token).await;
        let account = self.verdict("token", reviewed, Option::is_some, counts)?;
        let account = account.map(Arc::new);
        self.accounts.note(key, account.clone(), account.is_some());
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
        let _place = self.place().await?;
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

    async fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Refusal> {
        match timeout(WAIT, self.at_once.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Refusal::NoVerdict),
        }
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

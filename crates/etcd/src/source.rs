//! Follows the keys of one zone: lists them, watches from the list's revision on, and begins again when the watch ends.
//!
//! After each loss of the connection everything is listed again: a store that was restored from a snapshot may have the
//! revisions of before with other keys. A list that breaks off changes nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::{StreamExt, stream};
use ops::Clock;
use tokio_util::sync::CancellationToken;

use crate::client::{Access, Connection, Fault, Range};
use crate::message;
use crate::tree::{Change, KeyValue};

/// The most keys of a zone.
const MOST_KEYS: usize = 1_000_000;
/// How long until the next try, at first and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];
/// Leases that are asked for at a time.
const LEASES: usize = 32;
/// Leases that are remembered.
const MOST_LEASES: usize = 100_000;

/// An event of the source.
#[derive(Debug)]
pub enum EtcdEvent {
    /// All keys of the zone.
    Listed {
        /// The keys.
        keys: Vec<KeyValue>,
        /// When the list was complete.
        seen: Instant,
    },
    /// Keys changed.
    Changed {
        /// The changes, in etcd's order.
        changes: Vec<Change>,
        /// When they were seen.
        seen: Instant,
    },
    /// etcd cannot be reached or refuses.
    Stale {
        /// Since when.
        since: SystemTime,
        /// Why.
        reason: String,
    },
}

/// A source of one zone.
#[derive(Debug)]
pub struct EtcdSource {
    access: Access,
    range: Range,
    clock: Arc<dyn Clock>,
    /// The seconds that leases were granted.
    leases: HashMap<i64, Option<u32>>,
}

impl EtcdSource {
    /// A source of the keys with a prefix.
    #[must_use]
    pub fn new(access: Access, prefix: &str, clock: Arc<dyn Clock>) -> Self {
        Self {
            access,
            range: Range::of(prefix),
            clock,
            leases: HashMap::new(),
        }
    }

    /// Lists all keys once, for commands that do not follow them.
    ///
    /// # Errors
    /// Why no member gave them.
    pub async fn list_once(mut self) -> Result<EtcdEvent, String> {
        let mut faults = Vec::new();
        for endpoint in self.access.endpoints.clone() {
            match self.begin(&endpoint).await {
                Ok((_, keys, _)) => {
                    let seen = self.clock.now();
                    return Ok(EtcdEvent::Listed { keys, seen });
                }
                Err(fault) => faults.push(fault.to_string()),
            }
        }
        Err(faults.join("; "))
    }

    /// Follows the keys until cancelled, or until `send` returns false.
    pub async fn run<F: Future<Output = bool> + Send>(
        self,
        send: impl Fn(EtcdEvent) -> F + Send + Sync,
        cancel: CancellationToken,
    ) {
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.follow(send) => {}
        }
    }

    async fn follow<F: Future<Output = bool> + Send>(
        mut self,
        send: impl Fn(EtcdEvent) -> F + Send + Sync,
    ) {
        let endpoints = self.access.endpoints.clone();
        let (mut wait, mut stale) = (RETRY[0], None);
        for endpoint in endpoints.iter().cycle() {
            let mut is_listed = false;
            let Err(fault) = self.session(endpoint, &send, &mut is_listed).await else {
                return;
            };
            if is_listed {
                (wait, stale) = (RETRY[0], None);
            }
            // A compacted watch is no loss: the list says what happened.
            if !matches!(fault, Fault::Compacted(_)) {
                let since = *stale.get_or_insert_with(|| self.clock.wall());
                let reason = fault.to_string();
                if !send(EtcdEvent::Stale { since, reason }).await {
                    return;
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY[1]);
        }
    }

    /// One connection, from its list to its end. `Ok` when nobody listens any more.
    async fn session<F: Future<Output = bool> + Send>(
        &mut self,
        endpoint: &str,
        send: &(impl Fn(EtcdEvent) -> F + Send + Sync),
        is_listed: &mut bool,
    ) -> Result<(), Fault> {
        let (mut connection, keys, revision) = self.begin(endpoint).await?;
        let mut watch = connection.watch(&self.range, revision + 1).await?;
        let seen = self.clock.now();
        if !send(EtcdEvent::Listed { keys, seen }).await {
            return Ok(());
        }
        *is_listed = true;
        loop {
            let Some(response) = watch.message().await? else {
                return Err(Fault::Ended("the server closed it".to_owned()));
            };
            let seen = self.clock.now();
            if response.compact_revision > 0 {
                return Err(Fault::Compacted(response.compact_revision));
            }
            if response.canceled {
                return Err(Fault::Ended(response.cancel_reason));
            }
            if response.events.is_empty() {
                continue;
            }
            let changes = self.changes(&mut connection, response.events).await?;
            if !send(EtcdEvent::Changed { changes, seen }).await {
                return Ok(());
            }
        }
    }

    /// A connection, all keys, and the revision at which they are.
    async fn begin(&mut self, endpoint: &str) -> Result<(Connection, Vec<KeyValue>, i64), Fault> {
        let begun = match Connection::open(&self.access, endpoint).await {
            Ok(mut connection) => {
                let listed = self.list(&mut connection).await;
                listed.map(|(keys, revision)| (connection, keys, revision))
            }
            Err(fault) => Err(fault),
        };
        // With TLS 1.3 a server that wants a certificate ends the connection after the handshake, at times without a word.
        let may_want_certificate =
            endpoint.starts_with("https:") && self.access.tls.identity.is_none();
        match begun {
            Err(Fault::Refused(said)) if may_want_certificate => Err(Fault::Certificate(said)),
            begun => begun,
        }
    }

    /// All keys, and the revision at which they are.
    async fn list(&mut self, connection: &mut Connection) -> Result<(Vec<KeyValue>, i64), Fault> {
        let (mut all, mut revision) = (Vec::new(), 0);
        let mut from = self.range.from.clone();
        loop {
            let page = connection.page(&self.range, from, revision).await?;
            if revision == 0 {
                revision = page.header.unwrap_or_default().revision;
            }
            let last = page.kvs.last().map(|kv| kv.key.clone());
            all.extend(page.kvs);
            if all.len() > MOST_KEYS {
                return Err(Fault::TooMany(MOST_KEYS));
            }
            match last.filter(|_| page.more) {
                None => break,
                Some(mut last) => {
                    last.push(0);
                    from = last;
                }
            }
        }
        let leases: Vec<i64> = all.iter().map(|kv| kv.lease).collect();
        self.learn(connection, leases).await?;
        let keys = all.into_iter().map(|kv| self.key_value(kv)).collect();
        Ok((keys, revision))
    }

    async fn changes(
        &mut self,
        connection: &mut Connection,
        events: Vec<message::Event>,
    ) -> Result<Vec<Change>, Fault> {
        let leases = events.iter().filter_map(|event| event.kv.as_ref());
        let leases = leases.map(|kv| kv.lease).collect();
        self.learn(connection, leases).await?;
        let changes = events.into_iter().filter_map(|event| {
            let kv = self.key_value(event.kv?);
            Some(match event.kind {
                0 => Change::Put(kv),
                _ => Change::Deleted {
                    key: kv.key,
                    revision: kv.revision,
                },
            })
        });
        Ok(changes.collect())
    }

    /// Asks for the times of leases that are not known.
    async fn learn(&mut self, connection: &Connection, mut ids: Vec<i64>) -> Result<(), Fault> {
        if self.leases.len() > MOST_LEASES {
            self.leases.clear();
        }
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| *id != 0 && !self.leases.contains_key(id));
        let asked = stream::iter(ids).map(|id| {
            let mut connection = connection.clone();
            async move { (id, connection.granted(id).await) }
        });
        let mut asked = asked.buffer_unordered(LEASES);
        while let Some((id, granted)) = asked.next().await {
            self.leases.insert(id, granted?);
        }
        Ok(())
    }

    fn key_value(&self, kv: message::KeyValue) -> KeyValue {
        KeyValue {
            key: String::from_utf8_lossy(&kv.key).into_owned(),
            value: kv.value,
            revision: kv.mod_revision,
            lease_seconds: self.leases.get(&kv.lease).copied().flatten(),
        }
    }
}

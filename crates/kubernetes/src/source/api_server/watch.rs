//! Follows one kind: lists and watches it, and recovers when either ends.

mod requests;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::io::AsyncBufRead;
use kube::core::Status;
use kube::core::params::ListParams;
use provenance::{FactKey, Kind};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::Shared;
use super::backoff::Backoff;
use super::fault::{Fault, plural};
use super::wire::{Line, Page, Position, Positioned, read_line};
use crate::facts::{Change, Fact};
use crate::source::convert::{self, Object, Reading, Setting};
use crate::source::problem::Reported;
use crate::source::{About, ErrorClass, EventSink, Interner, Problem, SourceEvent, Unheard};

/// After this many lists in a row that were cut off by 410, the list is requested in a single page: our pages take
/// longer than the server keeps a continue token.
const UNPAGED_AFTER: u32 = 3;

/// After this many watches in a row that were closed at once, the kind is listed again. So a server that refuses
/// watches is at least polled.
const LIST_AFTER_CLOSES: u32 = 5;

/// Selects the pods that have not ended.
const RUNNING_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown";

#[derive(Debug)]
enum End {
    Fault(Fault),
    Unheard,
}

impl From<Unheard> for End {
    fn from(_: Unheard) -> Self {
        Self::Unheard
    }
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

pub(super) struct KindWatch<'a, S> {
    kind: Kind,
    shared: &'a Shared,
    tx: S,
    interner: Interner,
    /// The problems of objects that were reported.
    reported: Reported<Option<FactKey>>,
    /// Whether the last fault was reported as a problem.
    reported_fault: Reported<()>,
    backoff: Backoff,
    /// Whether the last request was refused with 401.
    refused: bool,
    /// Whether there was a whole list once.
    is_listed: bool,
    /// Lists in a row that were cut off by 410.
    lists_gone: u32,
    /// Watches in a row that were closed at once.
    closed_at_once: u32,
    /// Whether the older version of the kind's API is used.
    older: bool,
    /// Whether the server may be another than the one that gave us our position, or an older state of it: after every
    /// fault, and after a watch without events.
    is_doubtful: bool,
}

impl<'a, S: EventSink> KindWatch<'a, S> {
    pub(super) fn new(kind: Kind, shared: &'a Shared, tx: S) -> Self {
        let settings = &shared.settings;
        Self {
            kind,
            shared,
            tx,
            interner: Interner::default(),
            reported: Reported::on(shared.stats.board()),
            reported_fault: Reported::on(shared.stats.board()),
            backoff: Backoff::new(settings.backoff_first, settings.backoff_longest),
            refused: false,
            is_listed: false,
            lists_gone: 0,
            closed_at_once: 0,
            older: false,
            is_doubtful: false,
        }
    }

    /// Follows the kind until the receiver is gone.
    pub(super) async fn run(mut self) {
        let mut position: Option<String> = None;
        loop {
            let number = self.shared.connection.client().await.number;
            let end = match &mut position {
                None => match self.list().await {
                    Ok(version) => {
                        position = Some(version);
                        self.is_listed = true;
                        self.is_doubtful = false;
                        continue;
                    }
                    Err(end) => end,
                },
                Some(version) => match self.watch(version).await {
                    Ok(()) => continue,
                    Err(end) => end,
                },
            };
            let fault = match end {
                End::Unheard => return,
                End::Fault(fault) => fault,
            };
            let closes = self.closed_at_once >= LIST_AFTER_CLOSES;
            self.is_doubtful = true;
            if fault.loses_position() || (closes && fault == Fault::ClosedAtOnce) {
                position = None;
                self.closed_at_once = 0;
            }
            if self.recover(&fault, number).await.is_err() {
                return;
            }
        }
    }

    /// Handles a fault: counts and reports it, pauses, and reads the credentials again if that may help.
    async fn recover(&mut self, fault: &Fault, number: u64) -> Result<(), Unheard> {
        self.shared.failed(self.kind, fault);
        let mut message = fault.message(self.kind);
        tracing::debug!(kind = %self.kind, "{message}");
        // The first 401 most likely means that the token has just been replaced.
        let refused = fault.class() == ErrorClass::Unauthorized;
        // Nothing is served before the first list, so the first fault is said at once. Later, a watch that breaks is
        // nothing to report, unless it does not come back.
        let is_reported = !self.is_listed || self.shared.stats.is_stale();
        if is_reported && !refused {
            self.say_fault(message.clone()).await?;
        }
        let wait = self
            .backoff
            .wait()
            .max(fault.retry_after().unwrap_or_default());
        tokio::time::sleep(wait).await;
        let mut needs_a_person = fault.needs_a_person() && (!refused || self.refused);
        self.refused = refused;
        if fault.may_be_credentials()
            && let Err(error) = self.shared.connection.renew(number).await
        {
            message = error.to_string();
            needs_a_person = true;
        }
        if needs_a_person {
            self.say_fault(message).await?;
        }
        Ok(())
    }

    /// Reports a fault of the kind, unless it is the last one that was reported.
    async fn say_fault(&mut self, message: String) -> Result<(), Unheard> {
        let problem = Problem {
            about: About::Kind(self.kind),
            place: "".into(),
            message,
        };
        let new = self.reported_fault.now((), vec![problem]);
        self.complain(new).await
    }

    async fn send(&self, event: SourceEvent) -> Result<(), Unheard> {
        self.tx.send(event).await
    }

    /// Reports new problems.
    async fn complain(&mut self, problems: Vec<Problem>) -> Result<(), Unheard> {
        for problem in problems {
            self.send(SourceEvent::Problem(problem)).await?;
        }
        Ok(())
    }

    /// Reads an object, and counts it when it is left out.
    fn read(&mut self, object: &RawValue, is_added: bool) -> Reading {
        let setting = Setting {
            is_added,
            ..Setting::api_server(self.shared.wanted.keep.clone())
        };
        let read = convert::read(
            self.kind,
            Object::Json(object),
            &setting,
            &mut self.interner,
        );
        if read.fact.is_none() && !read.problems.is_empty() {
            self.shared.stats.kind(self.kind).add_left_out();
        }
        read
    }

    /// Lists the kind page by page and sends the complete list. Returns the position from which to watch.
    async fn list(&mut self) -> Result<String, End> {
        let mut listed = self.pages().await;
        if self.kind == Kind::ServiceImport
            && let Err(End::Fault(Fault::Status { code: 404, .. })) = &listed
        {
            self.older = !self.older;
            listed = self.pages().await;
        }
        match listed {
            Ok(version) => {
                self.lists_gone = 0;
                Ok(version)
            }
            Err(End::Fault(fault)) => {
                let gone = matches!(fault, Fault::Status { code: 410, .. });
                self.lists_gone = if gone { self.lists_gone + 1 } else { 0 };
                Err(End::Fault(fault))
            }
            Err(End::Unheard) => Err(End::Unheard),
        }
    }

    /// Collects the pages of a list and sends them as one.
    async fn pages(&mut self) -> Result<String, End> {
        let mut facts = Vec::new();
        let mut problems: HashMap<Option<FactKey>, Vec<Problem>> = HashMap::new();
        let mut next: Option<String> = None;
        let version = loop {
            let text = self.page(next.take()).await?;
            let page: Page<'_> = serde_json::from_str(&text)
                .map_err(|error| Fault::Malformed(format!("a list: {error}")))?;
            self.take_items(page.items.unwrap_or_default(), &mut facts, &mut problems);
            match page.metadata.next.filter(|next| !next.is_empty()) {
                Some(token) => next = Some(token),
                None => break page.metadata.resource_version,
            }
        };
        let version = version
            .filter(|version| !version.is_empty())
            .ok_or_else(|| Fault::Malformed("a list without resourceVersion".to_owned()))?;
        let seen = self.shared.clock.now();
        facts.shrink_to_fit();
        self.shared.stats.kind(self.kind).add_list();
        self.send(SourceEvent::Changed {
            change: Change::Listed(self.kind, facts),
            seen,
            triggered: None,
        })
        .await?;
        let new = self.reported.all(problems);
        self.complain(new).await?;
        Ok(version)
    }

    async fn page(&mut self, next: Option<String>) -> Result<String, End> {
        let settings = &self.shared.settings;
        let unpaged = self.lists_gone >= UNPAGED_AFTER && next.is_none();
        let params = ListParams {
            limit: (!unpaged).then_some(settings.page_size),
            continue_token: next,
            label_selector: self.labels(),
            field_selector: self.fields(),
            ..ListParams::default()
        };
        let answer = self.ask_list(&params).await?;
        self.shared.heard();
        Ok(answer)
    }

    fn take_items(
        &mut self,
        items: Vec<&RawValue>,
        facts: &mut Vec<Fact>,
        problems: &mut HashMap<Option<FactKey>, Vec<Problem>>,
    ) {
        for item in items {
            let read = self.read(item, false);
            facts.extend(read.fact);
            if !read.problems.is_empty() {
                problems.entry(read.key).or_default().extend(read.problems);
            }
        }
    }

    /// Watches from `version` and updates it. `Ok` when the server ended a watch after a normal duration.
    async fn watch(&mut self, version: &mut String) -> Result<(), End> {
        if self.is_doubtful && self.has_gone_back(version).await? {
            return Err(Fault::went_back().into());
        }
        self.is_doubtful = false;
        let settings = &self.shared.settings;
        let (body, begin) = self.ask_watch(version).await?;
        self.shared.heard();
        self.shared.stats.kind(self.kind).add_watch();
        // The fault is over.
        self.reported_fault.forget(|()| true);
        let ended = self.follow(body, version).await;
        let lasted = self.shared.clock.now().saturating_duration_since(begin);
        if lasted >= settings.good_watch {
            self.backoff.reset();
        }
        match ended {
            Ok(Heard::Something) => {
                self.closed_at_once = 0;
                self.pause(lasted).await;
                Ok(())
            }
            Ok(Heard::Nothing) if lasted >= settings.least_watch => {
                // A server that was restored from a backup sends nothing until it reaches our position.
                self.is_doubtful = true;
                self.closed_at_once = 0;
                Ok(())
            }
            Ok(Heard::Nothing) => {
                self.closed_at_once += 1;
                Err(Fault::ClosedAtOnce.into())
            }
            Err(end) => Err(end),
        }
    }

    /// Pauses after a short watch with events, so that watches are not reopened in a tight loop.
    async fn pause(&mut self, lasted: Duration) {
        if lasted < self.shared.settings.least_watch {
            tokio::time::sleep(self.backoff.wait()).await;
        }
    }

    /// Handles the lines of a watch until it ends. The kind counts as connected as soon as the watch is open. If the
    /// watch before it was closed at once, it must first last or send an event.
    async fn follow(
        &mut self,
        body: impl AsyncBufRead,
        version: &mut String,
    ) -> Result<Heard, End> {
        let settings = &self.shared.settings;
        let silence = settings.longest_silence();
        let mut body = std::pin::pin!(body);
        let mut line = Vec::new();
        let mut heard = Heard::Nothing;
        let mut doubted = self.closed_at_once > 0;
        if !doubted {
            self.shared.live(self.kind);
        }
        loop {
            let patience = if doubted {
                settings.least_watch
            } else {
                silence
            };
            line.clear();
            let more = loop {
                // A line that the shorter timeout interrupts is continued.
                match timeout(patience, read_line(body.as_mut(), &mut line)).await {
                    Ok(more) => break more?,
                    Err(_) if doubted => {
                        doubted = false;
                        self.shared.live(self.kind);
                    }
                    Err(_) => return Err(Fault::Silent(silence).into()),
                }
            };
            if !more {
                return Ok(heard);
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            self.shared.heard();
            let seen = self.shared.clock.now();
            self.take_line(&line, seen, version).await?;
            heard = Heard::Something;
            if doubted {
                doubted = false;
                self.shared.live(self.kind);
            }
        }
    }

    /// Handles one line of a watch.
    async fn take_line(
        &mut self,
        line: &[u8],
        seen: Instant,
        version: &mut String,
    ) -> Result<(), End> {
        let malformed = |error: serde_json::Error| Fault::Malformed(format!("a watch: {error}"));
        let line: Line<'_> = serde_json::from_slice(line).map_err(malformed)?;
        match &*line.word {
            "ADDED" | "MODIFIED" | "DELETED" => {
                let read = self.read(line.object, line.word == "ADDED");
                // Also for an unreadable object: the position is after it.
                if let Ok(Positioned {
                    metadata:
                        Position {
                            resource_version: Some(at),
                            ..
                        },
                }) = serde_json::from_str(line.object.get())
                    && !at.is_empty()
                {
                    *version = at;
                }
                self.take_object(read, line.word == "DELETED", seen).await?;
            }
            "BOOKMARK" => {
                let at: Positioned = serde_json::from_str(line.object.get()).map_err(malformed)?;
                let at = at.metadata.resource_version.filter(|at| !at.is_empty());
                let missing = || Fault::Malformed("a bookmark without resourceVersion".to_owned());
                *version = at.ok_or_else(missing)?;
            }
            "ERROR" => {
                let status: Status = serde_json::from_str(line.object.get()).map_err(malformed)?;
                return Err(Fault::of_event(&status).into());
            }
            other => {
                return Err(Fault::Malformed(format!("a watch: unknown event {other:?}")).into());
            }
        }
        Ok(())
    }

    /// Sends the change that a watch event means. An unreadable object counts as deleted, as it would in a list, so
    /// that watching and listing give the same.
    async fn take_object(
        &mut self,
        read: Reading,
        deleted: bool,
        seen: Instant,
    ) -> Result<(), Unheard> {
        let Reading {
            key,
            origin,
            fact,
            triggered,
            problems,
        } = read;
        let change = match (fact, &key) {
            (Some(fact), _) if !deleted => Some(Change::Applied(fact)),
            (Some(_) | None, Some(key)) => Some(Change::Deleted(key.clone(), origin)),
            (Some(_) | None, None) => None,
        };
        let problems = if deleted { Vec::new() } else { problems };
        if let Some(change) = change {
            self.shared.stats.kind(self.kind).add_event();
            let event = SourceEvent::Changed {
                change,
                seen,
                triggered: triggered.filter(|_| !deleted),
            };
            self.send(event).await?;
        }
        let new = self.reported.now(key, problems);
        self.complain(new).await
    }
}

/// Whether a watch sent anything before it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// An event or a bookmark.
    Something,
    Nothing,
}

//! The past as `audit` asks for it: from the journal, with the running server's zones where there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use archive::Stores;
use directives::config::{Config, History};
use dns::{Name, Rtype, Serial};
use history::{AuditError, BlockLine, Grounds, HistoryLine, Order, Past, Status};
use ops::{Clock, SystemClock, millis};
use provenance::Operator;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use writer::{HoldOrder, Input, Reason, Released, Waiting, ZonePlan};
use zone::journal::{
    Acts, Archived, Journal, KeptCorefile, OpenError, PartVerdict, PartialStep, Reader,
    SegmentPart, SerialPlace, StoredZone, Topic, Verdict,
};
use zone::{Contents, Hash, Net, Step, Version, ZoneSet};

use crate::failure::Failure;
use crate::runtime::blocks::{block_of, blocks};
use crate::runtime::caller_wishes::{Wanted, Wishes};
use crate::runtime::deployment::Deployment;
use crate::runtime::holds::{rollback_to, target_of};
use crate::runtime::http_endpoints::ObservedNow;
use crate::runtime::ingest::{Data, WAITING_QUESTIONS};
use crate::runtime::observed::status;
use crate::runtime::status::history_line;

/// Tells how a running server stands.
pub(crate) type StatusOf = Arc<dyn Fn() -> Status + Send + Sync>;

/// How long the asker of an order waits for its being carried out.
const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(30);

/// How long a question for the writer waits for its place.
const PLACE_WITHIN: Duration = Duration::from_secs(10);

/// The past in a store.
pub struct StoredPast {
    /// Reads the journal.
    reader: Reader,
    /// Holds the store when no server does.
    _journal: Option<Journal>,
    /// The zones of the running server: going back from the current version is cheap.
    zones: Option<Arc<ZoneSet>>,
    /// How the running server stands.
    status: Option<StatusOf>,
    /// The way to the writer of the running server.
    inputs: Option<mpsc::WeakSender<Input>>,
    /// The places of questions for it.
    questions: Arc<Semaphore>,
    /// The blocks of its Corefile.
    blocks: Vec<BlockLine>,
    /// The zones with `require_reason`.
    reasoned: BTreeSet<Name>,
    /// The reverse zones of zones of names.
    reverse: BTreeMap<Name, Vec<Name>>,
    /// The way to the process of the running server.
    wishes: Option<Wishes>,
    /// The time.
    clock: Arc<dyn Clock>,
    /// Whether the files beside the store leave open which versions there were after the newest.
    is_unsure: bool,
}

/// Why a store cannot be asked.
pub(crate) enum PastError {
    /// Another process has it, perhaps for a moment.
    Busy(Failure),
    /// Anything else.
    Other(Failure),
}

impl PastError {
    /// The same about another folder than the one that was read for it.
    pub(crate) fn about(self, read: &Path, asked: &Path) -> Self {
        match self {
            Self::Busy(failure) => Self::Busy(failure.about(read, asked)),
            Self::Other(failure) => Self::Other(failure.about(read, asked)),
        }
    }
}

impl StoredPast {
    /// The past of what runs, as the control socket tells of it.
    pub(crate) fn of_data(
        data: &Data,
        config: &Config,
        observed: &ObservedNow,
        wishes: &Wishes,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let asks = Arc::clone(observed);
        let zones = Some(Arc::clone(&data.deployment.zones));
        Self {
            status: Some(Arc::new(move || status(&asks.load()))),
            inputs: data.weak_inputs(),
            questions: Arc::clone(&data.questions),
            blocks: blocks(config, &data.deployment),
            reasoned: reasoned(config),
            reverse: reverse(&data.deployment),
            wishes: Some(wishes.clone()),
            ..Self::of_store(data.reader.clone(), zones, Arc::clone(clock))
        }
    }

    /// The past as a reader has it, with the zones that are served, where there are any; nothing can be ordered.
    #[must_use]
    pub fn of_store(reader: Reader, zones: Option<Arc<ZoneSet>>, clock: Arc<dyn Clock>) -> Self {
        Self {
            reader,
            _journal: None,
            zones,
            status: None,
            inputs: None,
            questions: Arc::new(Semaphore::new(WAITING_QUESTIONS)),
            blocks: Vec::new(),
            reasoned: BTreeSet::new(),
            reverse: BTreeMap::new(),
            wishes: None,
            clock,
            is_unsure: false,
        }
    }

    /// Opens the store of a server that does not run. `place` begins the lines about what is repaired.
    pub(crate) fn open(state: &Path, place: &str) -> Result<Self, PastError> {
        if !state.is_dir() {
            return Err(PastError::Other(Failure::unusable(format!(
                "there is no state folder {}; name one with --state, or start a server with \
                 `zonewright run`",
                state.display()
            ))));
        }
        // Whoever only reads makes no store.
        if Journal::is_unused(state) {
            return Err(PastError::Other(Failure::unusable(format!(
                "no zone is stored in the state folder {}, and no server runs on it; name another with --state, or \
                 start a server with `zonewright run`",
                state.display()
            ))));
        }
        let clock = Arc::new(SystemClock);
        let wall = Arc::clone(&clock);
        let opened = Journal::open(state, Arc::new(move || millis(wall.wall())));
        let (mut journal, report) = opened.map_err(|error| {
            let failure = Failure::unusable(error.to_string());
            match error {
                OpenError::Locked { .. } => PastError::Busy(failure),
                OpenError::Foreign { .. }
                | OpenError::OtherFormat { .. }
                | OpenError::File { .. }
                | OpenError::Unusable { .. }
                | OpenError::KeptFromUs { .. }
                | OpenError::Database { .. } => PastError::Other(failure),
            }
        })?;
        for note in report.notes {
            tracing::warn!("{place}{note}");
        }
        journal.set_objects(Arc::new(Stores::new()));
        let reader = journal.reader();
        Ok(Self {
            _journal: Some(journal),
            ..Self::of_store(reader, None, clock)
        })
    }
}

impl StoredPast {
    /// The files beside the store leave open which versions there were after the newest.
    pub(crate) const fn be_unsure(&mut self) {
        self.is_unsure = true;
    }

    /// What is not known of the versions after the newest one that is here.
    fn unknown_after(&self, zone: &StoredZone) -> Option<String> {
        self.is_unsure.then(|| {
            format!(
                "it is not known whether versions after serial {} were announced: the state folder is a copy, or a file of \
                 it is not known, as `verify` says",
                zone.serial
            )
        })
    }

    /// An order as the writer takes it: an old content is read here, so that the writer does not wait.
    fn input(
        &self,
        zone: Name,
        order: Order,
        by: Operator,
        asked: oneshot::Sender<Released>,
    ) -> Result<Input, AuditError> {
        let (until_ms, rollback) = match order {
            Order::Release => return Ok(Input::Release { zone, by, asked }),
            Order::Advance { serial } => {
                return Ok(Input::Advance {
                    zone,
                    serial,
                    by,
                    asked,
                });
            }
            Order::Freeze { until_ms } => (until_ms, None),
            Order::Rollback {
                seq,
                serial,
                until_ms,
            } => {
                let none = || AuditError::NoZone {
                    zone: zone.clone(),
                    known: self.served_zones(),
                };
                let served = self.near(&zone).ok_or_else(none)?;
                let contents = self.contents(&zone, seq)?;
                let rollback = rollback_to(serial, &contents, &served);
                (
                    Some(until_ms),
                    Some((rollback, target_of(contents, &served))),
                )
            }
        };
        let order = Box::new(HoldOrder {
            until_ms,
            by,
            rollback,
        });
        Ok(Input::Hold { zone, order, asked })
    }

    /// Asks the writer a question, once it has a place: changes do not wait behind many of them.
    fn ask_writer<T>(
        &self,
        inputs: &mpsc::WeakSender<Input>,
        question: impl FnOnce(oneshot::Sender<T>, OwnedSemaphorePermit) -> Input,
    ) -> Said<T> {
        let place = Arc::clone(&self.questions).acquire_owned();
        let place = async { tokio::time::timeout(PLACE_WITHIN, place).await };
        let Ok(Ok(place)) = Handle::current().block_on(place) else {
            return Said::Busy;
        };
        let (asked, answer) = oneshot::channel();
        ask(inputs, question(asked, place), answer, CARRIED_OUT_WITHIN)
    }

    /// The zones of the running server.
    fn served_zones(&self) -> Vec<Name> {
        let zones = self.zones.iter().flat_map(|zones| zones.all());
        zones.map(|zone| zone.apex().clone()).collect()
    }

    /// The current version of the running server.
    fn near(&self, zone: &Name) -> Option<Arc<Version>> {
        self.zones.as_ref()?.get(zone)?.current()
    }
}

/// What the writer said.
#[derive(Debug, PartialEq, Eq)]
enum Said<T> {
    /// This.
    Answer(T),
    /// Nothing in time; it has taken in what it was told.
    Late,
    /// Nothing in time; it did not come to take in what it was told, and will not.
    Busy,
    /// Nothing: it is ending.
    Ending,
}

/// Tells the writer something and waits for its answer, in all not longer than `most`; for a thread of the runtime
/// that may wait. Whoever waits for the answer does not keep the writer alive.
fn ask<T>(
    inputs: &mpsc::WeakSender<Input>,
    input: Input,
    answer: oneshot::Receiver<T>,
    most: Duration,
) -> Said<T> {
    let mut is_sent = false;
    let asks = async {
        inputs.upgrade()?.send(input).await.ok()?;
        is_sent = true;
        answer.await.ok()
    };
    let waits = async { tokio::time::timeout(most, asks).await };
    match Handle::current().block_on(waits) {
        Ok(Some(said)) => Said::Answer(said),
        Ok(None) => Said::Ending,
        Err(_) if is_sent => Said::Late,
        Err(_) => Said::Busy,
    }
}

/// The reasons that the writer gives, or that it gives none.
fn reasons_of(said: Said<Vec<Reason>>) -> Vec<Reason> {
    let why = match said {
        Said::Answer(reasons) => return reasons,
        Said::Late | Said::Busy => "the server is busy: ask again",
        Said::Ending => "the server is shutting down",
    };
    let text = format!("whether a held version or the cluster says more is not known: {why}");
    vec![Reason::new("unknown", text)]
}

impl std::fmt::Debug for StoredPast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoredPast")
    }
}

impl Past for StoredPast {
    fn zones(&self) -> Vec<Name> {
        self.reader
            .zones()
            .into_iter()
            .map(|zone| zone.apex)
            .collect()
    }

    fn lost(&self) -> Vec<Name> {
        self.reader.lost()
    }

    fn doubt(&self, zone: &Name) -> Option<String> {
        let told = self.reader.doubt(zone);
        told.or_else(|| self.unknown_after(&self.reader.zone(zone)?))
    }

    fn is_running(&self) -> bool {
        self.status.is_some()
    }

    fn range(&self, zone: &Name) -> Option<(u64, u64)> {
        self.reader
            .zone(zone)
            .map(|zone| (zone.oldest, zone.newest))
    }

    fn archived(&self, zone: &Name) -> Vec<Archived> {
        self.reader.archived(zone)
    }

    fn acts(&self, zone: &Name, after: u64) -> Result<Acts, AuditError> {
        Ok(self.reader.acts(zone, after)?)
    }

    fn corefiles(&self) -> Result<Vec<Option<KeptCorefile>>, AuditError> {
        Ok(self.reader.corefiles()?)
    }

    fn step(&self, zone: &Name, seq: u64) -> Result<Arc<Step>, AuditError> {
        Ok(Arc::new(self.reader.step(zone, seq)?))
    }

    fn steps(&self, zone: &Name, seqs: RangeInclusive<u64>) -> Result<Vec<Arc<Step>>, AuditError> {
        Ok(self.reader.steps(zone, seqs)?)
    }

    fn step_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<PartialStep, AuditError> {
        Ok(self.reader.step_of(zone, seq, name)?)
    }

    fn place_of(
        &self,
        zone: &Name,
        serial: Serial,
        newest: u64,
    ) -> Result<SerialPlace, AuditError> {
        Ok(self.reader.place_of(zone, serial, newest)?)
    }

    fn moment(&self, zone: &Name, seq: u64) -> Result<(Serial, u64), AuditError> {
        Ok(self.reader.moment(zone, seq)?)
    }

    fn find(
        &self,
        zone: &Name,
        topic: Topic,
        seqs: RangeInclusive<u64>,
        call: &mut dyn FnMut(u64) -> Result<bool, AuditError>,
    ) -> Result<(), AuditError> {
        self.reader.find(zone, topic, seqs, call)
    }

    fn contents_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<Contents, AuditError> {
        let near = self.near(zone);
        Ok(self.reader.contents_of(zone, seq, name, near.as_deref())?)
    }

    fn difference(&self, zone: &Name, older: u64, newer: u64) -> Result<Option<Net>, AuditError> {
        let near = self.near(zone);
        Ok(self
            .reader
            .difference(zone, (older, newer), near.as_deref())?)
    }

    fn verify(&self, zone: &Name, anchors: &[Hash]) -> Result<Verdict, AuditError> {
        Ok(self.reader.verify(zone, anchors)?)
    }

    fn oldest_here(&self, zone: &Name) -> Option<u64> {
        self.reader.oldest_here(zone)
    }

    fn verify_here(&self, zone: &Name, anchors: &[Hash]) -> Result<PartVerdict, AuditError> {
        Ok(self.reader.verify_here(zone, anchors)?)
    }

    fn segment_parts(&self, zone: &Name) -> Vec<SegmentPart> {
        self.reader.segment_parts(zone)
    }

    fn verify_segment(
        &self,
        zone: &Name,
        first: u64,
        anchors: &[Hash],
    ) -> Result<PartVerdict, AuditError> {
        Ok(self.reader.verify_segment(zone, first, anchors)?)
    }

    fn contents(&self, zone: &Name, seq: u64) -> Result<Contents, AuditError> {
        let near = self.near(zone);
        Ok(self.reader.contents_at(zone, seq, near.as_deref())?)
    }

    fn status(&self) -> Option<Status> {
        self.status.as_ref().map(|status| status())
    }

    fn history(&self, zone: &Name) -> Option<HistoryLine> {
        history_line(&self.reader, zone)
    }

    fn reverse_of(&self, zone: &Name) -> Vec<Name> {
        self.reverse.get(zone).cloned().unwrap_or_default()
    }

    fn requires_reason(&self, zone: &Name) -> bool {
        self.reasoned.contains(zone)
    }

    fn order(&self, zone: &Name, order: Order, by: &Operator) -> Result<Serial, AuditError> {
        let Some(inputs) = &self.inputs else {
            return Err(AuditError::NoServer);
        };
        let refused = |why: &str| Err(AuditError::Refused(why.to_owned()));
        let (asked, answer) = oneshot::channel();
        let input = self.input(zone.clone(), order, by.clone(), asked)?;
        match ask(inputs, input, answer, CARRIED_OUT_WITHIN) {
            Said::Answer(released) => released.map_err(AuditError::Refused),
            Said::Late => {
                refused("the request is accepted, but not done yet: see zonewright status")
            }
            Said::Busy => {
                refused("the request was not accepted, because the server is busy; try again")
            }
            Said::Ending => refused("the server is shutting down"),
        }
    }

    fn reload(&self, by: &Operator) -> Result<(), AuditError> {
        let wishes = self.wishes.as_ref().ok_or(AuditError::NoServer)?;
        let reloaded = wishes.ask(by, Wanted::Reload)?;
        reloaded.map_err(|why| {
            AuditError::Refused(format!("{why}\nThe configuration before it stays in use"))
        })
    }

    fn stop(&self, by: &Operator) -> Result<(), AuditError> {
        let wishes = self.wishes.as_ref().ok_or(AuditError::NoServer)?;
        wishes.ask(by, Wanted::Stop)
    }

    fn promote(&self, by: &Operator) -> Result<(), AuditError> {
        let wishes = self.wishes.as_ref().ok_or(AuditError::NoServer)?;
        let promoted = wishes.ask(by, Wanted::Promote)?;
        promoted.map_err(AuditError::Refused)
    }

    fn notify(&self, zone: &Name, by: &Operator) -> Result<Vec<String>, AuditError> {
        let wishes = self.wishes.as_ref().ok_or(AuditError::NoServer)?;
        let notified = wishes.ask(by, |asked| Wanted::Notify(zone.clone(), asked))?;
        Ok(notified.iter().map(ToString::to_string).collect())
    }

    fn waiting(&self, zone: &Name) -> Result<Option<Waiting>, AuditError> {
        let Some(inputs) = &self.inputs else {
            return Err(AuditError::NoServer);
        };
        let zone = zone.clone();
        let waiting = |asked, place| Input::Waiting { zone, asked, place };
        match self.ask_writer(inputs, waiting) {
            Said::Answer(waiting) => Ok(waiting),
            Said::Late | Said::Busy => {
                Err(AuditError::Refused("the server is busy; try again".into()))
            }
            Said::Ending => Err(AuditError::Refused("the server is shutting down".into())),
        }
    }

    fn grounds(&self, name: &Name, rtype: Rtype) -> Result<Grounds, AuditError> {
        let Some(inputs) = &self.inputs else {
            return Err(AuditError::NoServer);
        };
        let name = name.to_lower();
        // A question for which no block has a key reaches no zone.
        let block = block_of(&self.blocks, &name).cloned().unwrap_or_default();
        let zone = block.zones.find(name.as_wire(), rtype);
        let mut reasons = Vec::new();
        if let Some(zone) = zone {
            let zone = zone.apex().clone();
            reasons = reasons_of(self.ask_writer(inputs, |asked, place| Input::Why {
                zone,
                name,
                asked,
                place,
            }));
        }
        Ok(Grounds { block, reasons })
    }

    fn now_ms(&self) -> u64 {
        millis(self.clock.wall())
    }
}

/// The reverse zones of each zone of names: those of its cluster, or of its `k8s_external`.
fn reverse(deployment: &Deployment) -> BTreeMap<Name, Vec<Name>> {
    let mut all = BTreeMap::new();
    let mut add = |names: &[ZonePlan], reverse: &[ZonePlan]| {
        let reverse: Vec<Name> = reverse.iter().map(|zone| zone.name.clone()).collect();
        for zone in names {
            all.insert(zone.name.clone(), reverse.clone());
        }
    };
    for cluster in &deployment.plan.clusters {
        let plan = &cluster.plan;
        add(&plan.forward, &plan.reverse);
        add(&plan.clusterset, &plan.reverse);
        for external in &plan.external {
            add(&external.forward, &external.reverse);
        }
    }
    all
}

/// The zones with `require_reason`.
fn reasoned(config: &Config) -> BTreeSet<Name> {
    let zones = config.servers.iter().flat_map(|block| {
        block.zones_written().filter(|zone| {
            let history = block.for_zone::<History>(zone);
            history.is_some_and(|history| history.requires_reason)
        })
    });
    zones.map(Name::to_lower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::{Output, Piece, Question, ReaderTimes, Request, Turns, stream_to_socket};
    use zone::journal::WallClock;

    /// How long a test waits for what comes at once.
    const SOON: Duration = Duration::from_secs(60);

    /// What a server that writes to this channel answers from.
    fn past_of(inputs: &mpsc::Sender<Input>, state: &Path) -> (StoredPast, Journal) {
        let wall: WallClock = Arc::new(|| 1_000_000);
        let (journal, _) = Journal::open(state, wall).unwrap();
        let past = StoredPast {
            inputs: Some(inputs.downgrade()),
            ..StoredPast::of_store(journal.reader(), None, Arc::new(SystemClock))
        };
        (past, journal)
    }

    #[tokio::test]
    async fn who_waits_for_an_order_does_not_keep_the_writer_from_ending() {
        let state = tempfile::tempdir().unwrap();
        let (inputs, mut writer) = mpsc::channel(1);
        let (past, _journal) = past_of(&inputs, state.path());
        let zone: Name = "z.".parse().unwrap();
        let order = Order::Freeze { until_ms: None };
        let asks = tokio::task::spawn_blocking(move || past.order(&zone, order, &"someone".into()));
        let ordered = writer.recv().await.unwrap();
        drop(inputs);
        let next = tokio::time::timeout(SOON, writer.recv()).await;
        assert!(next.expect("the asker holds no sender").is_none());
        drop(ordered);
        let why = asks.await.unwrap().unwrap_err();
        assert_eq!(why.to_string(), "the server is shutting down");
    }

    #[tokio::test]
    async fn an_answer_is_waited_for_only_so_long_and_so_is_a_place_in_the_queue() {
        let (inputs, mut writer) = mpsc::channel(1);
        let asks = |most| {
            let inputs = inputs.downgrade();
            tokio::task::spawn_blocking(move || {
                let (asked, answer) = oneshot::channel();
                let (zone, by) = (Name::root(), "someone".into());
                ask(&inputs, Input::Release { zone, by, asked }, answer, most)
            })
        };
        let short = Duration::from_millis(1);
        assert_eq!(asks(short).await.unwrap(), Said::Late);
        // What it left takes the only place.
        assert_eq!(asks(short).await.unwrap(), Said::Busy);
        assert!(writer.try_recv().is_ok() && writer.try_recv().is_err());
        let waits = asks(SOON);
        let Some(Input::Release { asked, .. }) = writer.recv().await else {
            panic!("another order");
        };
        asked.send(Err("no".to_owned())).unwrap();
        assert_eq!(waits.await.unwrap(), Said::Answer(Err("no".to_owned())));
        writer.close();
        assert_eq!(asks(SOON).await.unwrap(), Said::Ending);
    }

    #[tokio::test]
    async fn a_change_waits_behind_one_question_of_many_readers() {
        let state = tempfile::tempdir().unwrap();
        let (inputs, mut writer) = mpsc::channel(1024);
        let (past, _journal) = past_of(&inputs, state.path());
        let past = Arc::new(past);
        let zone: Name = "z.".parse().unwrap();
        let readers: Vec<_> = (0..20)
            .map(|_| {
                let (past, zone) = (Arc::clone(&past), zone.clone());
                tokio::task::spawn_blocking(move || past.waiting(&zone))
            })
            .collect();
        for number in 0..readers.len() {
            let (asked, _released) = oneshot::channel();
            let first = tokio::time::timeout(SOON, writer.recv()).await;
            let change = Input::Release {
                zone: zone.clone(),
                by: "someone".into(),
                asked,
            };
            inputs.send(change).await.unwrap();
            // While the writer is at a question, none is before the change.
            let Some(Input::Waiting { asked, place, .. }) = first.expect("one asks") else {
                panic!("{number}: no question");
            };
            assert!(matches!(writer.try_recv(), Ok(Input::Release { .. })));
            assert!(
                writer.try_recv().is_err(),
                "{number}: others wait elsewhere"
            );
            asked.send(None).unwrap();
            drop(place);
        }
        for reader in readers {
            assert!(reader.await.unwrap().unwrap().is_none());
        }
    }

    #[test]
    fn reasons_that_the_writer_does_not_give_are_unknown() {
        let code = |said| reasons_of(said).first().map(|reason| reason.code);
        assert_eq!(code(Said::Answer(Vec::new())), None);
        for said in [Said::Late, Said::Busy, Said::Ending] {
            assert_eq!(code(said), Some("unknown"));
        }
    }

    #[tokio::test]
    async fn what_reads_much_waits_for_its_turn_and_what_does_not_has_none() {
        let state = tempfile::tempdir().unwrap();
        let (inputs, _writer) = mpsc::channel(1);
        let (past, _journal) = past_of(&inputs, state.path());
        let past: Arc<dyn Past + Send + Sync> = Arc::new(past);
        let reading = Arc::new(Semaphore::new(0));
        let turns = Turns::of_socket(&reading);
        let times = ReaderTimes {
            pause: SOON,
            most: SOON,
        };
        let asked = |request| {
            let question = Question {
                request,
                output: Output::Text,
            };
            let (past, turns) = (Arc::clone(&past), turns.clone());
            async move {
                let by = "someone".into();
                let pieces = stream_to_socket(question, by, past, times, &turns, ()).await;
                match pieces.unwrap().recv().await {
                    Some(Piece::End(Err(why))) => why.to_string(),
                    other => panic!("it has no answer: {other:?}"),
                }
            }
        };
        let status = tokio::time::timeout(SOON, asked(Request::Status)).await;
        let why = status.expect("it does not wait");
        assert!(why.contains("no server runs"), "{why}");
        let mut verified = Box::pin(asked(Request::Verify {
            zone: None,
            anchors: Vec::new(),
            noted: Vec::new(),
        }));
        tokio::select! {
            biased;
            early = &mut verified => panic!("it waits: {early:?}"),
            () = async { for _ in 0..50 { drop(asked(Request::Status).await); } } => {}
        }
        reading.add_permits(1);
        let why = tokio::time::timeout(SOON, verified).await;
        let why = why.expect("its turn has come");
        assert!(why.contains("no zone is stored here"), "{why}");
        let turn = tokio::time::timeout(SOON, reading.acquire()).await;
        assert!(turn.is_ok(), "it is the next one's turn");
    }
}

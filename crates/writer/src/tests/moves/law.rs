//! Law: however the configuration came to be, the zones are what a new writer would write, and on the way each says whether it
//! is stale, keeps its hold, its history and its serials.

use super::*;

/// What has `x.test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nothing,
    East,
    West,
    File,
}

#[derive(Debug, Clone)]
enum Event {
    Reload(Box<Setup>),
    /// A source is seen, by its place.
    Deliver(prop::sample::Index),
    Freeze,
    Release,
}

const SHARED: &str = "x.test.";

fn any_setup() -> impl Strategy<Value = Setup> {
    let owner = prop_oneof![
        1 => Just(Owner::Nothing),
        3 => Just(Owner::East),
        3 => Just(Owner::West),
        2 => Just(Owner::File),
    ];
    let east = prop::option::weighted(0.8, prop_oneof![Just(1), Just(3)]);
    let west = prop::option::weighted(0.8, prop_oneof![Just(2), Just(4)]);
    let bools = any::<(bool, bool, bool)>();
    (owner, east, west, bools).prop_map(|(owner, east, west, (has_overlay, has_catalog, leads))| {
        let zones = |home, of| match owner == of {
            true if leads => vec![SHARED, home],
            true => vec![home, SHARED],
            false => vec![home],
        };
        let (of_east, of_west) = (zones("e.test.", Owner::East), zones("w.test.", Owner::West));
        let east = east.map(|source| (source, &*of_east));
        let west = west.map(|source| (source, &*of_west));
        let has_cluster = match owner {
            Owner::East => east.is_some(),
            Owner::West => west.is_some(),
            Owner::Nothing | Owner::File => false,
        };
        let clusters: Vec<_> = east.into_iter().chain(west).collect();
        let mut setup = Setup::of(&clusters);
        if owner == Owner::File {
            setup = setup.with_file(7, SHARED, Role::Zone);
        } else if has_cluster && has_overlay {
            setup = setup.with_file(8, SHARED, Role::Overlay);
        }
        // A catalog begins with a member.
        if has_catalog && !setup.names().is_empty() {
            setup.catalogs.push(catalog_of(&setup.names()));
        }
        setup
    })
}

/// A catalog that may list these zones.
fn catalog_of(zones: &BTreeSet<Name>) -> CatalogPlan {
    let zones: Vec<_> = zones.iter().map(|name| Arc::new(Zone::new(name))).collect();
    catalog::catalog(&zones.iter().collect::<Vec<_>>(), None).plan
}

/// A line without the past of the zone: a catalog remembers the labels of its former members.
fn comparable(line: String) -> Option<String> {
    if !line.contains("catalog.invalid.") {
        return Some(line);
    }
    let (_, member) = line.split_once(" PTR ")?;
    Some(member.to_owned())
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any_setup().prop_map(|setup| Event::Reload(Box::new(setup))),
        4 => any::<prop::sample::Index>().prop_map(Event::Deliver),
        1 => Just(Event::Freeze),
        1 => Just(Event::Release),
    ]
}

impl Setup {
    /// The file under a zone of a cluster.
    fn overlay_of(&self, zone: &Name) -> Option<SourceId> {
        let mut files = self.files.iter();
        let file =
            files.find(|(_, plan)| matches!(plan, FilePlan::Overlay { zone: it } if it == zone));
        file.map(|(source, _)| *source)
    }
}

impl Running {
    fn release(&mut self, zone: &str) -> oneshot::Receiver<Released> {
        let (asked, answer) = oneshot::channel();
        let (zone, by) = (zone.parse().unwrap(), "someone".into());
        self.pipeline.take(Input::Release { zone, by, asked });
        answer
    }
}

/// What has to be true of the writer, kept beside it.
#[derive(Default)]
struct Model {
    /// The sources that were seen since they are there.
    seen: BTreeSet<SourceId>,
    /// The zones that were written from the source that they have now.
    written: BTreeSet<Name>,
    is_frozen: bool,
    /// The last serial of each zone that ever was, and the content under it.
    shown: BTreeMap<Name, (Serial, Vec<String>)>,
}

impl Model {
    fn reload(&mut self, old: &Setup, new: &Setup) {
        let clusters = new.clusters.iter();
        let clusters = clusters.map(|(_, handles)| handles.source);
        let files = new.files.iter().map(|(source, _)| *source);
        let sources: BTreeSet<_> = clusters.chain(files).collect();
        self.seen.retain(|source| sources.contains(source));
        self.written.retain(|zone| {
            new.source_of(zone).is_some() && new.source_of(zone) == old.source_of(zone)
        });
        let shared = SHARED.parse().unwrap();
        self.is_frozen &= new.source_of(&shared).is_some();
    }

    /// The names that a zone has once all its sources are seen; `None` before.
    fn origins(&self, setup: &Setup, zone: &Name) -> Option<String> {
        let sources = [setup.overlay_of(zone), setup.source_of(zone)];
        let sources = sources.into_iter().flatten();
        let mut origins = BTreeSet::new();
        for source in sources {
            self.seen.get(&source)?;
            let is_file = setup.files.iter().any(|(it, _)| *it == source);
            let letter = if is_file { 'f' } else { 's' };
            origins.insert(format!("{letter}{}", source.0));
        }
        Some(origins.into_iter().collect::<Vec<_>>().join(" "))
    }

    fn check(&mut self, running: &Running) -> Result<(), TestCaseError> {
        let setup = &running.setup;
        for zone in running.pipeline.zones.all() {
            let name = zone.apex();
            let is_shared = name.to_string() == SHARED;
            let is_frozen = self.is_frozen && is_shared;
            let version = zone.current();
            if setup.source_of(name).is_some() {
                if let Some(origins) = self.origins(setup, name) {
                    self.written.insert(name.clone());
                    if !is_frozen {
                        prop_assert_eq!(running.origins(&name.to_string()), origins);
                    }
                }
                let is_stale = version.is_some() && !self.written.contains(name);
                prop_assert_eq!(
                    zone.stale_since_ms().is_some(),
                    is_stale,
                    "{} is stale",
                    name
                );
            }
            prop_assert_eq!(zone.hold().is_some(), is_frozen, "{} is on hold", name);
            let Some(version) = version else { continue };
            let lines = lines(std::slice::from_ref(&version.contents));
            if let Some((serial, before)) = self.shown.get(name) {
                let is_next = version.serial.is_after(*serial);
                let is_same = version.serial == *serial && lines == *before;
                prop_assert!(is_next || is_same, "{} after {}", version.serial, serial);
            }
            self.shown.insert(name.clone(), (version.serial, lines));
        }
        let store = &running.pipeline.store;
        let shared = SHARED.parse().unwrap();
        prop_assert_eq!(
            store.holds.contains(&shared),
            self.is_frozen,
            "the hold is stored"
        );
        for (plan, handles) in &setup.clusters {
            for zone in plan.zones() {
                prop_assert_eq!(store.retentions.get(&zone.name), Some(&zone.retention));
            }
            let table = handles.live.seen.as_ref().unwrap();
            let is_seen = self.seen.contains(&handles.source);
            prop_assert_eq!(table.contains("a"), is_seen.then_some(true));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn reloads_one_after_the_other_lead_where_a_start_leads(events in prop::collection::vec(any_event(), 1..14)) {
        let mut running = Running::start();
        let mut model = Model::default();
        for event in events {
            match event {
                Event::Reload(setup) => {
                    model.reload(&running.setup, &setup);
                    running.change(*setup, None).unwrap();
                }
                Event::Deliver(place) => {
                    let sources: Vec<_> = running.sources().into_iter().collect();
                    if !sources.is_empty() {
                        let source = *place.get(&sources);
                        model.seen.insert(source);
                        running.deliver(source.0);
                    }
                }
                Event::Freeze => {
                    let answer = running.freeze(SHARED);
                    model.is_frozen |= answer.blocking_recv().unwrap().is_ok();
                }
                Event::Release => {
                    drop(running.release(SHARED));
                    prop_assert!(running.pipeline.commit());
                    model.is_frozen = false;
                }
            }
            model.check(&running)?;
        }
        drop(running.release(SHARED));
        running.deliver_all();
        let fresh = Running::of(running.setup.clone());
        let all = |running: &Running| {
            let lines = lines(&contents_of(&running.pipeline.zones)).into_iter();
            lines.filter_map(comparable).collect::<BTreeSet<_>>()
        };
        prop_assert_eq!(all(&running), all(&fresh));
    }
}

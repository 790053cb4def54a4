//! Stores the causes of a step in groups, each distinct string once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use provenance::{Cause, Kind, ObjectKey, Origin, Verb};

use crate::journal::codec::{Stream, StreamError, Streamed, put_counted, put_number};

/// The stored number of a verb; never changed.
const fn verb_code(verb: Verb) -> u8 {
    match verb {
        Verb::Applied => 1,
        Verb::Deleted => 2,
        Verb::Listed => 3,
        Verb::Vanished => 4,
        Verb::Configured => 5,
        Verb::Restored => 6,
        Verb::RolledBack => 7,
        Verb::Resumed => 8,
    }
}

const fn verb_of(code: u8) -> Option<Verb> {
    Some(match code {
        1 => Verb::Applied,
        2 => Verb::Deleted,
        3 => Verb::Listed,
        4 => Verb::Vanished,
        5 => Verb::Configured,
        6 => Verb::Restored,
        7 => Verb::RolledBack,
        8 => Verb::Resumed,
        _ => return None,
    })
}

/// The stored number of a kind; never changed and never 0.
const fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::Namespace => 1,
        Kind::Service => 2,
        Kind::EndpointSlice => 3,
        Kind::Pod => 4,
        Kind::ServiceImport => 5,
    }
}

fn kind_of(code: u8) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind_code(*kind) == code)
}

/// Writes groups of causes, each distinct string once. Steps without hashes have no `operation`.
pub(super) fn put_causes(out: &mut Vec<u8>, groups: &[Vec<Cause>], operations: bool) {
    let texts = if operations { TEXTS } else { OLD_TEXTS };
    let mut places: HashMap<&str, u64> = HashMap::new();
    let mut strings = Vec::new();
    let mut body = Vec::new();
    put_number(&mut body, groups.len() as u64);
    for group in groups {
        put_number(&mut body, group.len() as u64);
        for cause in group {
            body.push(verb_code(cause.verb));
            body.push(cause.kind.map_or(0, kind_code));
            for text in &cause_texts(cause)[..texts] {
                let next = places.len() as u64;
                let place = *places.entry(*text).or_insert_with(|| {
                    put_counted(&mut strings, text.as_bytes());
                    next
                });
                put_number(&mut body, place);
            }
        }
    }
    put_number(out, places.len() as u64);
    out.extend_from_slice(&strings);
    out.extend_from_slice(&body);
}

/// The number of strings of a cause.
const TEXTS: usize = 7;
/// The number of strings of a cause in steps without hashes: `operation` is missing.
const OLD_TEXTS: usize = 6;

/// The strings of a cause in the order in which they are stored.
fn cause_texts(cause: &Cause) -> [&str; TEXTS] {
    let Cause {
        verb: _,
        kind: _,
        key: ObjectKey { namespace, name },
        origin:
            Origin {
                uid,
                resource_version,
                manager,
                operation,
                place,
            },
    } = cause;
    [
        namespace,
        name,
        uid,
        resource_version,
        manager,
        place,
        operation,
    ]
}

/// Groups of causes in stored form. A large step has many, and few of them are needed.
pub(super) struct CauseTable {
    /// All strings, concatenated.
    octets: Vec<u8>,
    ends: Vec<usize>,
    /// Verb, kind and positions of the strings of each cause.
    causes: Vec<(u8, u8, [usize; TEXTS])>,
    groups: Vec<usize>,
}

const MALFORMED: StreamError = StreamError::Damaged("a cause is malformed");

impl CauseTable {
    pub(super) fn take(stream: &mut Stream<'_>, operations: bool) -> Streamed<Self> {
        let mut table = Self {
            octets: Vec::new(),
            ends: Vec::new(),
            causes: Vec::new(),
            groups: Vec::new(),
        };
        for _ in 0..stream.count()? {
            table.octets.extend_from_slice(stream.counted()?);
            table.ends.push(table.octets.len());
        }
        let stored = if operations { TEXTS } else { OLD_TEXTS };
        for _ in 0..stream.count()? {
            for _ in 0..stream.count()? {
                let (verb, kind) = (stream.octet()?, stream.octet()?);
                // A position outside the table stands for a string that is not stored.
                let mut texts = [usize::MAX; TEXTS];
                for text in &mut texts[..stored] {
                    *text = stream.count()?;
                    if *text >= table.ends.len() {
                        return Err(MALFORMED);
                    }
                }
                table.causes.push((verb, kind, texts));
            }
            table.groups.push(table.causes.len());
        }
        Ok(table)
    }

    /// Returns the groups. Those whose number is not wanted stay empty.
    pub(super) fn groups(&self, wanted: impl Fn(usize) -> bool) -> Streamed<Vec<Vec<Cause>>> {
        let mut strings: Vec<Option<Arc<str>>> = vec![None; self.ends.len()];
        let mut groups = Vec::with_capacity(self.groups.len());
        let mut start = 0;
        for (number, end) in self.groups.iter().enumerate() {
            let causes = &self.causes[start..*end];
            start = *end;
            let group = if wanted(number) { causes } else { &[] };
            let cause = |cause: &_| self.cause(cause, &mut strings);
            groups.push(group.iter().map(cause).collect::<Streamed<_>>()?);
        }
        Ok(groups)
    }

    /// The tags of the groups whose causes all have such a verb and can apply to a whole version.
    pub(super) fn of_version(&self, is_such: impl Fn(Verb) -> bool) -> BTreeSet<u32> {
        let fits = |(verb, kind, _): &(u8, u8, _)| {
            let verb = verb_of(*verb).filter(|verb| verb.is_of_version() && is_such(*verb));
            *kind == 0 && verb.is_some()
        };
        let mut start = 0;
        let groups = (0..).zip(&self.groups);
        let groups = groups.filter(|(_, end)| {
            let causes = &self.causes[start..**end];
            start = **end;
            !causes.is_empty() && causes.iter().all(fits)
        });
        groups.map(|(tag, _)| tag).collect()
    }

    fn cause(
        &self,
        (verb, kind, places): &(u8, u8, [usize; TEXTS]),
        strings: &mut [Option<Arc<str>>],
    ) -> Streamed<Cause> {
        let kind = match kind {
            0 => None,
            code => Some(kind_of(*code).ok_or(MALFORMED)?),
        };
        let mut texts: [Arc<str>; TEXTS] = Default::default();
        for (text, place) in texts.iter_mut().zip(places) {
            let Some(known) = strings.get_mut(*place) else {
                continue;
            };
            *text = match known {
                Some(known) => Arc::clone(known),
                None => Arc::clone(known.insert(self.string(*place)?.into())),
            };
        }
        let [
            namespace,
            name,
            uid,
            resource_version,
            manager,
            place,
            operation,
        ] = texts;
        Ok(Cause {
            verb: verb_of(*verb).ok_or(MALFORMED)?,
            kind,
            key: ObjectKey { namespace, name },
            origin: Origin {
                uid,
                resource_version,
                manager,
                operation,
                place,
            },
        })
    }

    fn string(&self, place: usize) -> Streamed<&str> {
        let start = match place {
            0 => 0,
            place => self.ends[place - 1],
        };
        std::str::from_utf8(&self.octets[start..self.ends[place]]).map_err(|_| MALFORMED)
    }
}

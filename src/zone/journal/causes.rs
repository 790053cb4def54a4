//! How the causes of a step are stored: groups of them, each distinct string once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::{Cause, Kind, ObjectKey, Origin, Verb};
use crate::zone::journal::codec::{Stream, StreamError, Streamed, put_counted, put_number};

/// The number that stands for a verb in the store, for ever.
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

/// The verb a number stands for.
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

/// The number that stands for a kind in the store, for ever; never 0.
const fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::Namespace => 1,
        Kind::Service => 2,
        Kind::EndpointSlice => 3,
        Kind::Pod => 4,
        Kind::ServiceImport => 5,
    }
}

/// The kind a number stands for.
fn kind_of(code: u8) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind_code(*kind) == code)
}

/// Writes groups of causes, each distinct string once. Steps without hashes have no operations.
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

/// How many strings a cause has.
const TEXTS: usize = 7;
/// How many it had when there were no hashes: the operation is missing.
const OLD_TEXTS: usize = 6;

/// The strings of a cause, in the order they are stored.
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

/// Reads groups of causes.
pub(super) fn take_causes(stream: &mut Stream<'_>, operations: bool) -> Streamed<Vec<Vec<Cause>>> {
    const MALFORMED: StreamError = StreamError::Damaged("a cause is malformed");
    let mut strings: Vec<Arc<str>> = Vec::new();
    for _ in 0..stream.count()? {
        let text = std::str::from_utf8(stream.counted()?).map_err(|_| MALFORMED)?;
        strings.push(text.into());
    }
    let mut groups = Vec::new();
    for _ in 0..stream.count()? {
        let mut group = Vec::new();
        for _ in 0..stream.count()? {
            let verb = verb_of(stream.octet()?).ok_or(MALFORMED)?;
            let kind = match stream.octet()? {
                0 => None,
                code => Some(kind_of(code).ok_or(MALFORMED)?),
            };
            let mut texts: [Arc<str>; TEXTS] = Default::default();
            let stored = if operations { TEXTS } else { OLD_TEXTS };
            for text in &mut texts[..stored] {
                let place = stream.count()?;
                *text = Arc::clone(strings.get(place).ok_or(MALFORMED)?);
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
            group.push(Cause {
                verb,
                kind,
                key: ObjectKey { namespace, name },
                origin: Origin {
                    uid,
                    resource_version,
                    manager,
                    operation,
                    place,
                },
            });
        }
        groups.push(group);
    }
    Ok(groups)
}

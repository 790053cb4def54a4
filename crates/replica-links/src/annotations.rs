//! A [`Record`] as a Lease: the holder in `spec`, so that `kubectl get lease` shows it, the rest as annotations.
//!
//! ```text
//! zonewright.dev/format        "1"
//! zonewright.dev/epoch         "7"
//! zonewright.dev/ceiling       "1795286912", or "none" before anything was reserved
//! zonewright.dev/above         {"example.org.":2026112405}
//! zonewright.dev/in-sync       ["a1","b2"]
//! zonewright.dev/address       "10.244.1.7:5380"
//! zonewright.dev/newest        {"cluster.local.":[1795286656,"9c1f03ab"]}
//! zonewright.dev/must-publish  "false"
//! ```
//!
//! All of them have to be there: an annotation that was deleted must not look like a ceiling that was never reserved. `spec` has times and
//! `leaseTransitions` for people, and nothing here reads them. Labels and annotations of others stay.

use dns::{Name, ParseError, Serial};
use kubernetes::source::api_server::lease::LeaseObject;
use replicas::ceiling::Ceiling;
use replicas::chain::{Epoch, ReplicaId};
use replicas::record::{HashStart, Newest, Record, Seen};
use serde::Serialize;
use serde::de::DeserializeOwned;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

/// The form of the annotations.
const FORMAT: &str = "1";
/// What all keys begin with.
const PREFIX: &str = "zonewright.dev/";
/// A ceiling before anything was reserved.
const NO_CEILING: &str = "none";
/// The most bytes of `newest`. All annotations of an object together may have 256 KiB, and a long name may have 1 KB as text.
const NEWEST_MAX_BYTES: usize = 96 << 10;

/// Which annotation of a Lease cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// It is not there.
    #[error("the Lease has no annotation {PREFIX}{0}")]
    Missing(&'static str),
    /// Its text is wrong.
    #[error("the annotation {PREFIX}{key} of the Lease cannot be read: {reason}")]
    Unreadable {
        /// Its key, without the prefix.
        key: &'static str,
        /// The reason.
        reason: String,
    },
}

/// What a Lease has beside a record.
#[derive(Debug, Clone)]
pub struct Written {
    /// The time of the write.
    pub now: SystemTime,
    /// The lease duration.
    pub lease_duration: Duration,
}

/// The record of a Lease, with its version and uid.
///
/// # Errors
/// [`AnnotationError`] for the first annotation that cannot be read.
pub fn read(object: &LeaseObject) -> Result<Seen, AnnotationError> {
    let texts = Texts(&object.annotations);
    let format = texts.get("format")?;
    if format != FORMAT {
        return Err(unreadable("format", format!("it is not {FORMAT}")));
    }
    let ceiling = Ceiling {
        common: match texts.get("ceiling")? {
            NO_CEILING => None,
            text => Some(Serial::decode(parse("ceiling", text)?)),
        },
        above: named("above", texts.json("above")?, |serial: u32| {
            Ok(Serial::decode(serial))
        })?,
    };
    let in_sync: Vec<String> = texts.json("in-sync")?;
    let record = Record {
        holder: object.holder.as_deref().map(ReplicaId::from),
        epoch: Epoch(parse("epoch", texts.get("epoch")?)?),
        ceiling,
        in_sync: in_sync.iter().map(|it| ReplicaId::from(&**it)).collect(),
        address: texts.get("address")?.to_owned(),
        newest: named("newest", texts.json("newest")?, read_newest)?,
        must_publish: parse("must-publish", texts.get("must-publish")?)?,
    };
    Ok(Seen {
        uid: object.uid.clone(),
        version: object.resource_version.clone(),
        record,
    })
}

/// A Lease with a record. Labels, annotations of others, uid and version are those of `base`, the Lease that it replaces.
#[must_use]
pub fn write(record: &Record, base: &LeaseObject, written: &Written) -> LeaseObject {
    let Record {
        holder,
        epoch,
        ceiling,
        in_sync,
        address,
        newest,
        must_publish,
    } = record;
    let above: BTreeMap<String, u32> = { ceiling.above.iter() }
        .map(|(zone, serial)| (zone.to_string(), serial.encode()))
        .collect();
    let in_sync: Vec<String> = in_sync.iter().map(ToString::to_string).collect();
    let common = ceiling.common.map(|it| it.to_string());
    let texts = [
        ("format", FORMAT.to_owned()),
        ("epoch", epoch.to_string()),
        ("ceiling", common.unwrap_or_else(|| NO_CEILING.to_owned())),
        ("above", json(&above)),
        ("in-sync", json(&in_sync)),
        ("address", address.clone()),
        ("newest", newest_text(newest)),
        ("must-publish", must_publish.to_string()),
    ];
    let mut annotations = base.annotations.clone();
    annotations.retain(|key, _| !key.starts_with(PREFIX));
    annotations.extend(texts.map(|(key, text)| (format!("{PREFIX}{key}"), text)));
    let holder = holder.as_ref().map(ToString::to_string);
    let is_same_term =
        base.holder == holder && base.annotations.get(EPOCH) == annotations.get(EPOCH);
    // A released Lease has a second, as client-go writes it.
    let duration = if holder.is_some() {
        written.lease_duration.as_secs().max(1)
    } else {
        1
    };
    LeaseObject {
        uid: base.uid.clone(),
        resource_version: base.resource_version.clone(),
        labels: base.labels.clone(),
        annotations,
        holder,
        duration_seconds: Some(i32::try_from(duration).unwrap_or(i32::MAX)),
        transitions: Some(i32::try_from(epoch.0).unwrap_or(i32::MAX)),
        acquired: base.acquired.filter(|_| is_same_term).or(Some(written.now)),
        renewed: Some(written.now),
    }
}

/// The key of the epoch, by which two terms of one holder differ.
const EPOCH: &str = "zonewright.dev/epoch";

/// The newest versions of as many zones as there is room for: they are for comparison only.
fn newest_text(newest: &BTreeMap<Name, Newest>) -> String {
    let mut texts = BTreeMap::new();
    let mut bytes = 0;
    for (zone, newest) in newest {
        let zone = zone.to_string();
        // A serial, the hash and the punctuation; each backslash of a name is written twice.
        bytes += 2 * zone.len() + 32;
        if bytes > NEWEST_MAX_BYTES {
            tracing::debug!("the Lease has no room for the newest versions of all zones");
            break;
        }
        let hash = newest.hash.iter().fold(String::new(), |mut text, byte| {
            // A String takes everything.
            write!(text, "{byte:02x}").ok();
            text
        });
        texts.insert(zone, (newest.serial.encode(), hash));
    }
    json(&texts)
}

/// The serial and the begin of the hash of a version.
fn read_newest((serial, hash): (u32, String)) -> Result<Newest, String> {
    let wrong = || format!("\"{hash}\" is not the begin of a hash");
    if hash.len() != 2 * size_of::<HashStart>() || !hash.bytes().all(|it| it.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let number = u32::from_str_radix(&hash, 16).map_err(|_| wrong())?;
    Ok(Newest {
        serial: Serial::decode(serial),
        hash: number.to_be_bytes(),
    })
}

/// The annotations of a Lease.
struct Texts<'a>(&'a BTreeMap<String, String>);

impl<'a> Texts<'a> {
    fn get(&self, key: &'static str) -> Result<&'a str, AnnotationError> {
        let text = self.0.get(&format!("{PREFIX}{key}"));
        text.map(String::as_str)
            .ok_or(AnnotationError::Missing(key))
    }

    fn json<T: DeserializeOwned>(&self, key: &'static str) -> Result<T, AnnotationError> {
        let text = self.get(key)?;
        serde_json::from_str(text).map_err(|error| unreadable(key, error.to_string()))
    }
}

/// Text of a value whose keys are strings.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists are JSON")
}

fn parse<T>(key: &'static str, text: &str) -> Result<T, AnnotationError>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    text.parse()
        .map_err(|error: T::Err| unreadable(key, format!("\"{text}\": {error}")))
}

/// Values by the name of a zone.
fn named<T, U>(
    key: &'static str,
    texts: BTreeMap<String, T>,
    value: impl Fn(T) -> Result<U, String>,
) -> Result<BTreeMap<Name, U>, AnnotationError> {
    let count = texts.len();
    let read = |(zone, text): (String, T)| {
        let zone = zone
            .parse()
            .map_err(|error: ParseError| error.to_string())?;
        Ok((zone, value(text)?))
    };
    let values: Result<BTreeMap<Name, U>, String> = texts.into_iter().map(read).collect();
    let values = values.map_err(|reason| unreadable(key, reason))?;
    if values.len() < count {
        return Err(unreadable(key, "a zone is there twice".to_owned()));
    }
    Ok(values)
}

const fn unreadable(key: &'static str, reason: String) -> AnnotationError {
    AnnotationError::Unreadable { key, reason }
}

#[cfg(test)]
mod tests;

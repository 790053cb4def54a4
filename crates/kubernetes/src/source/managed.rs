//! `managedFields`: finds the manager that last wrote a field that records depend on.
//!
//! Among the entries with such fields the latest counts (of equal times the last one). If there is none, for example
//! because the server does not track the object, the latest of all entries counts. So a manager that only annotates a
//! Service is not named for a port that another manager changed. For an object that comes into view, any label counts too:
//! the selector asks for one. The field lists, the long part, are read without
//! being stored.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Fields of `spec` and `status` of any kind that records can depend on.
const FIELDS: [&str; 14] = [
    "f:clusterIP",
    "f:clusterIPs",
    "f:clusters",
    "f:externalIPs",
    "f:externalName",
    "f:ips",
    "f:loadBalancer",
    "f:phase",
    "f:podIP",
    "f:podIPs",
    "f:ports",
    "f:publishNotReadyAddresses",
    "f:selector",
    "f:type",
];
/// Labels that name the owner of a slice's endpoints.
const LABELS: [&str; 2] = [
    "f:kubernetes.io/service-name",
    "f:multicluster.kubernetes.io/service-name",
];

/// The last manager and its operation.
#[derive(Debug, Default)]
pub(super) struct LastManager {
    pub(super) name: Option<String>,
    /// `operation`: `Apply` or `Update`.
    pub(super) operation: Option<String>,
    /// The last manager where labels count, if that is another entry.
    pub(super) with_labels: Option<Box<LastManager>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedEntry {
    manager: Option<String>,
    operation: Option<String>,
    /// `time`, RFC 3339 in UTC: the order of the text is the order of time.
    time: Option<String>,
    /// `fieldsV1`, reduced to whether records can depend on it.
    #[serde(rename = "fieldsV1", default)]
    fields: Option<Fields>,
}

/// Fields of an object that records can depend on.
#[derive(Debug, Default, Deserialize)]
struct Fields {
    #[serde(rename = "f:spec", default)]
    spec: Keys,
    #[serde(rename = "f:status", default)]
    status: Keys,
    #[serde(rename = "f:metadata", default)]
    metadata: Option<MetadataFields>,
    /// `endpoints` of a slice.
    #[serde(rename = "f:endpoints", default)]
    endpoints: Option<IgnoredAny>,
    /// `ports` of a slice.
    #[serde(rename = "f:ports", default)]
    ports: Option<IgnoredAny>,
    /// `addressType` of a slice.
    #[serde(rename = "f:addressType", default)]
    address_type: Option<IgnoredAny>,
}

/// Fields of `metadata`.
#[derive(Debug, Default, Deserialize)]
struct MetadataFields {
    #[serde(rename = "f:labels", default)]
    labels: Keys,
}

impl Fields {
    /// Whether records can depend on one of them.
    fn matter(&self) -> bool {
        let Self {
            spec,
            status,
            metadata,
            endpoints,
            ports,
            address_type,
        } = self;
        let labels = metadata.as_ref().is_some_and(|fields| fields.labels.matter);
        let of_slice = endpoints.is_some() || ports.is_some() || address_type.is_some();
        spec.matter || status.matter || labels || of_slice
    }

    /// Whether there is a label among them.
    fn have_label(&self) -> bool {
        self.metadata.as_ref().is_some_and(|it| it.labels.are_any)
    }
}

/// The keys of a map, reduced to what is asked of them.
#[derive(Debug, Default)]
struct Keys {
    /// Whether records can depend on one.
    matter: bool,
    are_any: bool,
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Reads the map key by key.
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of fields")
            }

            fn visit_unit<E>(self) -> Result<Keys, E> {
                Ok(Keys::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Keys::default();
                while let Some(key) = map.next_key::<String>()? {
                    map.next_value::<IgnoredAny>()?;
                    keys.matter |= FIELDS.contains(&key.as_str()) || LABELS.contains(&key.as_str());
                    keys.are_any |= key != ".";
                }
                Ok(keys)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for LastManager {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Reads the list entry by entry.
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = LastManager;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of managed fields")
            }

            fn visit_unit<E>(self) -> Result<LastManager, E> {
                Ok(LastManager::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<LastManager, A::Error> {
                let mut entries = Vec::new();
                while let Some(ManagedEntry {
                    manager,
                    operation,
                    time,
                    fields,
                }) = seq.next_element()?
                {
                    let fields = fields.unwrap_or_default();
                    let (matter, label) = (fields.matter(), fields.have_label());
                    entries.push((matter, label, time, manager, operation));
                }
                // Of equal ranks the last one.
                let last = |counts: fn(bool, bool) -> bool| {
                    let places = 0..entries.len();
                    places.max_by_key(|place| {
                        let (matter, label, time, ..) = &entries[*place];
                        (counts(*matter, *label), time)
                    })
                };
                let [own, with_labels] = [
                    last(|matter, _| matter),
                    last(|matter, label| matter || label),
                ];
                let manager = |place: usize| LastManager {
                    name: entries[place].3.clone(),
                    operation: entries[place].4.clone(),
                    with_labels: None,
                };
                let other = with_labels.filter(|_| with_labels != own);
                Ok(own.map_or_else(LastManager::default, |own| LastManager {
                    with_labels: other.map(|place| Box::new(manager(place))),
                    ..manager(own)
                }))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Manager and operation of a list.
    fn last(list: &str) -> (String, String) {
        let read: LastManager = serde_json::from_str(list).unwrap();
        (
            read.name.unwrap_or_default(),
            read.operation.unwrap_or_default(),
        )
    }

    #[test]
    fn causes_08_where_labels_count_the_last_one_that_wrote_one_is_named() {
        let entry = |name: &str, day: u8, fields: &str| {
            format!(
                r#"{{"manager":"{name}","operation":"Update","time":"2026-01-0{day}T00:00:00Z","fieldsV1":{fields}}}"#
            )
        };
        let ports = r#"{"f:spec":{"f:ports":{"k:{}":{}}}}"#;
        let label = r#"{"f:metadata":{"f:labels":{".":{},"f:team":{}}}}"#;
        let no_label = r#"{"f:metadata":{"f:annotations":{"f:x":{}},"f:labels":{".":{}}}}"#;
        for (entries, want) in [
            // The scaler wrote ports, then carol a label, then eve a note.
            (
                vec![
                    entry("scaler", 1, ports),
                    entry("carol", 2, label),
                    entry("eve", 3, no_label),
                ],
                ["scaler", "carol"],
            ),
            (
                vec![entry("carol", 1, label), entry("scaler", 2, ports)],
                ["scaler", ""],
            ),
            (vec![entry("scaler", 1, ports)], ["scaler", ""]),
            (vec![], ["", ""]),
        ] {
            let read: LastManager =
                serde_json::from_str(&format!("[{}]", entries.join(","))).unwrap();
            let with_labels = read.with_labels.and_then(|other| other.name);
            let named = [read.name, with_labels].map(Option::unwrap_or_default);
            assert_eq!(named, want);
        }
    }

    #[test]
    fn the_last_writer_of_a_field_that_matters_is_named() {
        let entry = |name: &str, operation: &str, day: u8, fields: &str| {
            format!(
                r#"{{"manager":"{name}","operation":"{operation}","time":"2026-01-0{day}T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{fields}}}"#
            )
        };
        let ports = r#"{"f:spec":{"f:ports":{"k:{\"port\":80}":{".":{}}}}}"#;
        let notes = r#"{"f:metadata":{"f:annotations":{"f:x":{}},"f:labels":{"f:team":{}}}}"#;
        let whose = r#"{"f:metadata":{"f:labels":{"f:kubernetes.io/service-name":{}}}}"#;
        let endpoints = r#"{"f:endpoints":{}}"#;
        let list = |entries: &[String]| format!("[{}]", entries.join(","));
        let alice = entry("alice", "Apply", 1, ports);
        let bob = entry("bob", "Update", 3, notes);
        for (entries, want) in [
            (vec![alice.clone(), bob.clone()], ("alice", "Apply")),
            (vec![bob.clone(), alice.clone()], ("alice", "Apply")),
            (vec![bob.clone()], ("bob", "Update")),
            (
                vec![
                    alice.clone(),
                    entry("carol", "Update", 2, whose),
                    bob.clone(),
                ],
                ("carol", "Update"),
            ),
            (
                vec![alice.clone(), entry("dora", "Update", 1, endpoints)],
                ("dora", "Update"),
            ),
            (vec![], ("", "")),
        ] {
            let (name, operation) = last(&list(&entries));
            assert_eq!((&*name, &*operation), want);
        }
        assert_eq!(last("null"), (String::new(), String::new()));
        assert_eq!(
            last(r#"[{"manager":"m","fieldsV1":null}]"#),
            ("m".to_owned(), String::new())
        );
    }
}

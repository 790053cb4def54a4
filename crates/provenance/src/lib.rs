//! Which object or action caused a record: plain values that facts, versions and the history share.

mod operator;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use operator::{Operator, SocketUser};

/// Namespace and name of an object; the namespace is empty for objects that have none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Empty for a Namespace itself.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The kinds of objects that records come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1` Namespace.
    Namespace,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// `v1` Pod; only where names of pods are verified.
    Pod,
    /// `multicluster.x-k8s.io` ServiceImport, `v1beta1` or `v1alpha1`.
    ServiceImport,
}

impl Kind {
    /// All kinds, in the order in which they are listed.
    pub const ALL: [Self; 5] = [
        Self::Namespace,
        Self::Service,
        Self::EndpointSlice,
        Self::Pod,
        Self::ServiceImport,
    ];

    /// The index in [`Self::ALL`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }

    /// The object of this kind and key.
    #[must_use]
    pub fn of(self, key: &ObjectKey) -> FactKey {
        FactKey {
            kind: self,
            key: key.clone(),
        }
    }

    /// The kind with a name as kubectl takes it: singular, plural or short, in any case, with or without the API group.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let word = text.split_once('.').map_or(text, |(word, _group)| word);
        let word = word.to_ascii_lowercase();
        let singular = word.strip_suffix('s').unwrap_or(&word);
        let is_named = |kind: &Self| {
            let mut names = kind.names().split(' ');
            names.any(|name| name == word || name == singular)
        };
        Self::ALL.into_iter().find(is_named)
    }

    /// The singular and the short name of kubectl.
    const fn names(self) -> &'static str {
        match self {
            Self::Namespace => "namespace ns",
            Self::Service => "service svc",
            Self::EndpointSlice => "endpointslice",
            Self::Pod => "pod po",
            Self::ServiceImport => "serviceimport svcim",
        }
    }

    /// Whether objects of this kind are in a namespace.
    #[must_use]
    pub const fn has_namespace(self) -> bool {
        !matches!(self, Self::Namespace)
    }

    /// The kind as the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Pod => "Pod",
            Self::ServiceImport => "ServiceImport",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The longest name of an object, in bytes.
const NAME_OCTETS: usize = 253;

/// Whether a text can be the name of an object or of a namespace: a subdomain as in RFC 1123, section 2.1, in small letters
/// ("Object Names and IDs" of the Kubernetes documentation).
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= NAME_OCTETS && text.split('.').all(is_label)
}

/// Whether a text is a label of such a name. Its length is not checked.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let is_inner = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit();
    !text.is_empty()
        && text.bytes().all(|octet| is_inner(octet) || octet == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Kind and key: the name of an object within its cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FactKey {
    /// The kind.
    pub kind: Kind,
    /// Namespace and name.
    pub key: ObjectKey,
}

/// The source of a fact, which is no part of its content.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Origin {
    /// `metadata.uid`; empty in a manifest written by hand.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`; empty in a manifest written by hand.
    pub resource_version: Arc<str>,
    /// The field manager that last wrote fields that records depend on, by `metadata.managedFields`; empty when
    /// unknown.
    pub manager: Arc<str>,
    /// The operation of that manager, `Apply` or `Update`; empty when unknown.
    pub operation: Arc<str>,
    /// `FILE:LINE` of a manifest; empty for objects of an API server.
    pub place: Arc<str>,
}

/// The event that caused a change of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// The watch saw the object added or changed.
    Applied,
    /// The watch saw the object deleted.
    Deleted,
    /// The object was in a complete list, the first one or one after an outage.
    Listed,
    /// The object was missing from a complete list: it was deleted while there was no watch.
    Vanished,
    /// The configuration was read for the first time, or changed.
    Configured,
    /// The store lost its newest versions; the last intact one was published again under a new serial.
    Restored,
    /// An operator put an earlier content in place of the sources'.
    RolledBack,
    /// A freeze or rollback ended; the zone follows its sources again.
    Resumed,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 8] = [
        Self::Applied,
        Self::Deleted,
        Self::Listed,
        Self::Vanished,
        Self::Configured,
        Self::Restored,
        Self::RolledBack,
        Self::Resumed,
    ];

    /// The verb with this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == word)
    }

    /// The word in logs and in the history.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Deleted => "deleted",
            Self::Listed => "listed",
            Self::Vanished => "vanished",
            Self::Configured => "configured",
            Self::Restored => "restored",
            Self::RolledBack => "rolled back",
            Self::Resumed => "resumed",
        }
    }

    /// Whether the object is gone after the event, so that its manager is the last one before.
    #[must_use]
    pub const fn ends_object(self) -> bool {
        matches!(self, Self::Deleted | Self::Vanished)
    }

    /// Whether the event can cause a whole version instead of single records, when it has no object.
    #[must_use]
    pub const fn is_of_version(self) -> bool {
        match self {
            Self::Configured | Self::Restored | Self::RolledBack | Self::Resumed => true,
            Self::Applied | Self::Deleted | Self::Listed | Self::Vanished => false,
        }
    }
}

/// The object that caused a change of records, and the event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cause {
    /// The event.
    pub verb: Verb,
    /// The object's kind; `None` for the configuration.
    pub kind: Option<Kind>,
    /// Namespace and name.
    pub key: ObjectKey,
    /// Uid, resourceVersion, manager, place.
    pub origin: Origin,
}

impl Cause {
    /// An event that has no object: what it is about, in words.
    #[must_use]
    pub fn of(verb: Verb, what: &str) -> Self {
        Self {
            verb,
            kind: None,
            key: ObjectKey::new("", what),
            origin: Origin::default(),
        }
    }

    /// Whether this cause is of a whole version, not of single records.
    #[must_use]
    pub const fn is_of_version(&self) -> bool {
        self.kind.is_none() && self.verb.is_of_version()
    }

    /// Whether this cause is the configuration.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        self.kind.is_none() && self.verb == Verb::Configured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_found_by_its_word() {
        // A new verb does not compile until it is here, and fails until it is in the list.
        let number = |verb| match verb {
            Verb::Applied => 0,
            Verb::Deleted => 1,
            Verb::Listed => 2,
            Verb::Vanished => 3,
            Verb::Configured => 4,
            Verb::Restored => 5,
            Verb::RolledBack => 6,
            Verb::Resumed => 7,
        };
        for (at, verb) in Verb::ALL.into_iter().enumerate() {
            assert_eq!(number(verb), at);
            assert_eq!(Verb::named(verb.as_str()), Some(verb));
        }
        assert_eq!(Verb::named("rolled"), None);
    }

    #[test]
    fn kinds_have_the_names_that_kubectl_takes() {
        for (text, kind) in [
            ("Service", Kind::Service),
            ("services", Kind::Service),
            ("SVC", Kind::Service),
            ("endpointslices.discovery.k8s.io", Kind::EndpointSlice),
            ("ns", Kind::Namespace),
            ("po", Kind::Pod),
            ("svcim", Kind::ServiceImport),
        ] {
            assert_eq!(Kind::named(text), Some(kind), "{text}");
        }
        for text in ["", "s", "n", "servicess", "deployment", "service/web", "."] {
            assert_eq!(Kind::named(text), None, "{text}");
        }
    }
}

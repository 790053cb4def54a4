//! The kinds of objects that are watched in a cluster, depending on the configuration.

use provenance::Kind;

/// A part of a cluster that can be available or lost independently of the other. The zones of one part continue
/// without the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The API that every cluster has.
    Cluster,
    /// ServiceImports, which only some clusters have.
    Imports,
}

impl Part {
    /// The part that a kind belongs to.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Namespace | Kind::Service | Kind::EndpointSlice | Kind::Pod => Self::Cluster,
            Kind::ServiceImport => Self::Imports,
        }
    }
}

/// A set of kinds, in the order of [`Kind::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kinds(u8);

const _: () = assert!(Kind::ALL.len() <= 8, "a bit for each kind");

impl Kinds {
    /// The kinds that are watched by default.
    pub const BASE: Self = Self(0)
        .with(Kind::Namespace)
        .with(Kind::Service)
        .with(Kind::EndpointSlice);

    /// Adds a kind.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Self {
        Self(self.0 | 1 << kind.place())
    }

    /// Removes a kind.
    #[must_use]
    pub const fn without(self, kind: Kind) -> Self {
        Self(self.0 & !(1 << kind.place()))
    }

    /// Whether a kind is one of them.
    #[must_use]
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 & 1 << kind.place() != 0
    }

    /// The number of kinds.
    #[must_use]
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The position of a kind in the set. For a kind that is not in it, the position that it would have.
    #[must_use]
    pub const fn place_of(self, kind: Kind) -> usize {
        (self.0 & ((1 << kind.place()) - 1)).count_ones() as usize
    }

    /// The kinds.
    pub fn iter(self) -> impl Iterator<Item = Kind> + Clone {
        Kind::ALL
            .into_iter()
            .filter(move |kind| self.contains(*kind))
    }
}

impl Default for Kinds {
    fn default() -> Self {
        Self::BASE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_keep_their_order_and_places_whatever_is_left_out() {
        let all = Kind::ALL.into_iter().fold(Kinds::BASE, Kinds::with);
        assert_eq!(all.iter().collect::<Vec<_>>(), Kind::ALL);
        for gone in Kind::ALL {
            let some = all.without(gone);
            assert!(!some.contains(gone));
            assert_eq!(some.count(), Kind::ALL.len() - 1);
            for (place, kind) in some.iter().enumerate() {
                assert!(some.contains(kind));
                assert_eq!(some.place_of(kind), place);
            }
        }
    }
}

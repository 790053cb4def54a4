//! What a difference from CoreDNS says.

/// Where a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// By the comparison with CoreDNS on generated clusters.
    Compared,
    /// Elsewhere, for the reason and at the place this says.
    Elsewhere(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    pub id: &'static str,
    /// What it is about.
    pub what: &'static str,
    /// What CoreDNS does.
    pub coredns: &'static str,
    /// What we do.
    pub ours: &'static str,
    /// Why.
    pub why: &'static str,
    /// Where it is shown.
    pub shown: Shown,
}

/// One that the comparison meets.
pub(super) const fn compared(
    id: &'static str,
    [what, coredns, ours, why]: [&'static str; 4],
) -> Difference {
    Difference {
        id,
        what,
        coredns,
        ours,
        why,
        shown: Shown::Compared,
    }
}

/// One that it cannot meet.
pub(super) const fn elsewhere(
    id: &'static str,
    [what, coredns, ours, why]: [&'static str; 4],
    place: &'static str,
) -> Difference {
    Difference {
        id,
        what,
        coredns,
        ours,
        why,
        shown: Shown::Elsewhere(place),
    }
}

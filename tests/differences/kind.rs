//! What a difference from CoreDNS says.

/// What a difference is about. In the order of the documentation: what could hurt most comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Start,
    Names,
    Answers,
    Transfers,
    Handlers,
    Messages,
    Logs,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Start,
        Self::Names,
        Self::Answers,
        Self::Transfers,
        Self::Handlers,
        Self::Messages,
        Self::Logs,
    ];

    /// The heading in the documentation.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Start => "The start, and the Corefile",
            Self::Names => "Names with another code",
            Self::Answers => "Other records, TTLs and codes",
            Self::Transfers => "Transfers, NOTIFY and serials",
            Self::Handlers => "Handlers around the zones",
            Self::Messages => "Messages",
            Self::Logs => "Logs and metrics",
        }
    }
}

/// Where a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// By generated questions about generated clusters: `tests/compare.rs`.
    Clusters,
    /// By generated questions about layers of directives: `tests/compare_layers.rs`.
    Layers,
    /// By a case of `tests/handlers`, which names the id.
    Handlers,
    /// By these tests (`FILE NAME`, without `.rs`).
    Tests {
        /// Why no generated question shows it.
        because: &'static str,
        tests: &'static [&'static str],
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    pub id: &'static str,
    pub kind: Kind,
    /// What it is about.
    pub what: &'static str,
    /// What CoreDNS does.
    pub coredns: &'static str,
    /// What we do.
    pub ours: &'static str,
    /// Why.
    pub why: &'static str,
    /// What a user does who depends on CoreDNS's way.
    pub instead: &'static str,
    /// Where it is shown.
    pub shown: Shown,
}

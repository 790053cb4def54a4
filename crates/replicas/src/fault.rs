//! The fences and waits that tests take out, one at a time, to see that the simulation misses each.

/// A fence or a wait. Only tests can take one out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A commit does not wait for the in-sync followers.
    AckWait,
    /// A follower acknowledges a step before it is durable.
    AckBeforeSync,
    /// A silent follower is forgotten first, and the Lease is written later.
    SilenceBeforeSwap,
    /// A follower joins the in-sync set before it has everything.
    EarlyJoin,
    /// A follower that is being added counts only when the answer of the API server is there.
    AddedLate,
    /// A new leader starts at its own newest serial, not above the ceiling.
    Floor,
    /// A leader uses serials above its ceiling.
    Ceiling,
    /// Any replica may be promoted, in sync or not.
    Eligibility,
    /// A promoted leader drops the steps that it does not know as announced.
    DropOwn,
    /// A promoted leader does not wait for its own watch.
    Freshness,
    /// A new leader keeps the epoch that it finds, and followers cannot tell it from the last one.
    SameEpoch,
    /// Followers and other replicas accept frames of a lower epoch.
    LowerEpoch,
    /// The epoch that a replica answered is not on its disk.
    EpochInMemory,
    /// The Lease is written without a look at its resource version.
    BlindWrite,
    /// A release clears the Lease whoever holds it.
    BlindRelease,
    /// A version is visible before it is durable here.
    VisibleFirst,
    /// A follower does not drop steps that the new leader does not have.
    KeepExtra,
    /// A follower shows what it stored without waiting for the leader's word.
    ShowUnannounced,
    /// A blank Lease is taken without asking the other replicas.
    CreateAlone,
    /// A replica that lost its disk has its old name.
    SameName,
}

impl Fault {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 20] = [
        Self::AckWait,
        Self::AckBeforeSync,
        Self::SilenceBeforeSwap,
        Self::EarlyJoin,
        Self::AddedLate,
        Self::Floor,
        Self::Ceiling,
        Self::Eligibility,
        Self::DropOwn,
        Self::Freshness,
        Self::SameEpoch,
        Self::LowerEpoch,
        Self::EpochInMemory,
        Self::BlindWrite,
        Self::BlindRelease,
        Self::VisibleFirst,
        Self::KeepExtra,
        Self::ShowUnannounced,
        Self::CreateAlone,
        Self::SameName,
    ];
}

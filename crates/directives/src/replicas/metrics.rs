//! The metrics of `replicas`. All have a label, so that a server without the directive has none of them.

ops::declare_metrics! {
    pub,
    LEADER Gauge "zonewright_leader" ["replica"] "1 while this replica makes versions, 0 while it follows another one";
    EPOCH Gauge "zonewright_epoch" ["replica"] "Highest epoch of a leader that this replica has seen";
    IN_SYNC Gauge "zonewright_in_sync_replicas" ["replica"] "Replicas that have every published version, the leader included, as this replica has last read";
    NO_ELIGIBLE Gauge "zonewright_no_eligible_leader" ["replica"] "1 while no replica leads for a lease duration, and none may begin without an operator";
    BEHIND Gauge "zonewright_replica_behind" ["replica"] "1 while this replica is behind the leader for too long, by proof of the API server; `/ready` is 503 then";
    LAG Gauge "zonewright_replica_lag_versions" ["replica"] "At the leader: versions that a follower lacks, over all zones";
    PROMOTIONS Counter "zonewright_promotions" ["replica"] "Terms in which this replica led";
    RENEWALS Counter "zonewright_lease_renewals" ["outcome"] "Renewals of the Lease, and calls about it that failed";
    FRAMES Counter "zonewright_replication_frames" ["outcome"] "Frames of an earlier leader that were refused";
}

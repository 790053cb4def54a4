//! Times and limits of replicas, and the switches that tests use to take out one fence or one wait.

use std::time::Duration;

use crate::fault::Fault;

/// Time since the machine started, `CLOCK_BOOTTIME` on Linux: it includes the time in which the machine slept.
pub type Boottime = Duration;

/// What the edge read when an event came.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The time since the start of the machine. It never goes back while the process lives.
    pub boot: Boottime,
    /// The wall clock in seconds since 1970, modulo 2^32. It may jump.
    pub wall: u32,
    /// A random number: it spreads the candidates for the Lease.
    pub random: u32,
}

/// Times and limits. The defaults are those of client-go's leader election where it has them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// A candidate waits this long after it saw the Lease change.
    pub lease_duration: Duration,
    /// A leader stops this long after it sent the last renewal that succeeded; below `lease_duration`.
    pub renew_deadline: Duration,
    /// Time between two renewals, and between two reads of the Lease.
    pub retry_period: Duration,
    /// Each call to the API server may take this long.
    pub call_timeout: Duration,
    /// A leader commits only if the lease is still its own for this long.
    pub lease_margin: Duration,
    /// The longest random wait of a candidate.
    pub candidate_wait: Duration,
    /// A follower that says nothing, or stores nothing, for this long leaves the in-sync set.
    pub silence: Duration,
    /// Time between two frames of a leader that has nothing to send; below `silence`.
    pub heartbeat: Duration,
    /// A follower that left the in-sync set stays outside for this long.
    pub rejoin_wait: Duration,
    /// After this time without an eligible replica a replica that is not in sync may lead.
    pub orphan_wait: Duration,
    /// A new leader waits this long for the answers of the other replicas.
    pub greeting_wait: Duration,
    /// NOTIFY waits this long for the in-sync followers to show a version.
    pub notify_wait: Duration,
    /// A replica that is behind for this long, by proof, is not ready.
    pub lag: Duration,
    /// Copies of a version, the leader's included, without which it is not announced.
    pub min_in_sync: usize,
    /// The largest in-sync set; more replicas follow but do not count.
    pub max_in_sync: usize,
    /// Bytes on the way to one follower. A single larger step is sent alone.
    pub window_bytes: usize,
    /// A digest of the configuration; replicas with another one are refused.
    pub digest: u64,
    /// The fence or wait that is taken out, in tests only.
    pub fault: Option<Fault>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            call_timeout: Duration::from_secs(5),
            lease_margin: Duration::from_secs(1),
            candidate_wait: Duration::from_millis(500),
            silence: Duration::from_secs(1),
            heartbeat: Duration::from_millis(250),
            rejoin_wait: Duration::from_secs(2),
            orphan_wait: Duration::from_secs(600),
            greeting_wait: Duration::from_secs(1),
            notify_wait: Duration::from_millis(50),
            lag: Duration::from_secs(30),
            min_in_sync: 1,
            max_in_sync: 5,
            window_bytes: 1 << 20,
            digest: 0,
            fault: None,
        }
    }
}

impl Settings {
    /// Whether a test has taken this out.
    #[must_use]
    pub(crate) fn lacks(&self, fault: Fault) -> bool {
        cfg!(test) && self.fault == Some(fault)
    }
}

//! Two to five replicas with one line of serials: who leads, what followers have, when a version is announced.
//!
//! One replica leads. It alone makes versions. A version is announced when it is durable on the leader **and on every replica of
//! the in-sync set**, and only a member of that set is promoted. The set, the leader's epoch and the ceiling of serials are in one
//! Lease of the API server, and change by compare-and-swap. This is primary-backup replication with its membership in a consistent
//! store, as in PacificA and in Kafka's in-sync replicas.
//!
//! Everything here is synchronous and deterministic: no I/O, no clocks, no threads, no random numbers. [`replica::Replica`] takes an
//! [`replica::Event`] and gives [`replica::Action`]s. The simulation in `tests` runs whole installations in one process.
//!
//! # What holds
//!
//! - A serial names one content for ever, on all replicas and secondaries.
//! - Nobody sees a version before it is durable where it is seen, and on every in-sync replica.
//! - An announced version is on the disk of every in-sync replica.
//! - Two epochs never use the same serial, announced or not.
//! - A replica that has answered for an epoch never answers for a lower one.
//!
//! None of this depends on clocks. Clocks decide only how long it takes until somebody leads.
//!
//! The exceptions:
//!
//! - All disks of the in-sync set are lost, or an operator accepts the loss, or nobody eligible comes for the orphan time. Announced
//!   versions are lost then. Their serials are not used again.
//! - An old copy is put back in place of the disk of the only in-sync replica that is left. It is promoted if the Lease does not name a
//!   newer version and no replica that knows more answers.
//! - The API server's store is restored from a backup. The replicas notice by the lower epoch, or by the answers of the others. While they do
//!   not hear each other, a replica of the old in-sync set may lead with what it has. Resource versions may come again then: a write that is
//!   on its way until its own one does is accepted.
//! - The Lease is lost, and every replica that knows its last epoch is lost, too, or is not heard by the one that is told to lead. Only
//!   secondaries and clocks know the serials then.
//!
//! # Modules
//!
//! [`lease`] holds the Lease, [`candidacy`] and [`promotion`] say who may take it. A [`term`] is what its holder does, [`leader`] is its side
//! of replication, [`follower`] the other one. [`store`] is what is durable, [`knowledge`] what replicas tell each other. [`ceiling`]
//! is the reserve of serials, [`fixed`] stands for an API server that is not there, [`status`] is for people.
//!
//! # What the edges do
//!
//! All edges belong to one loop: it gives events one at a time and carries out the actions of each in order before the next. Events carry
//! [`settings::Now`], read when the event is given. [`replica::Event::Tick`] comes at least ten times a second.
//!
//! ## The clock
//!
//! `boot` is `CLOCK_BOOTTIME`, which includes the time in which the machine slept. `wall` may be wrong and may jump. `random` is a new random
//! number for each event.
//!
//! ## The Lease
//!
//! For [`replica::Action::Lease`] the edge makes one HTTP request, without retries, without a cache, and ends it after
//! [`settings::Settings::call_timeout`]. GET is sent without `resourceVersion`, so that it is answered from the quorum. PUT carries the
//! `resourceVersion` that the call names, and the uid of the Lease that had it: if there is no Lease, the API server creates one by a PUT without a uid, whatever
//! `resourceVersion` it carries. With the uid it answers 409. 404, 409 and everything else are the three failures of [`lease::Answer`]. An answer that comes too late may be given or dropped.
//!
//! - [`record::Record`] is written whole: holder, `leaseTransitions` and times in `spec`, the rest as annotations. A Lease whose annotations cannot be
//!   read is answered as [`lease::Answer::Failed`]: it was written by hand, and only an operator knows what it means.
//! - The watch gives [`lease::LeaseEvent::Watched`]. It may be late, repeat itself, or be missing: it only saves time.
//! - The Lease has no owner reference, and no tool that removes the program may remove it.
//!
//! ## The disk
//!
//! [`replica::Action::Order`]s are carried out in order, each atomically, and [`replica::Event::Ordered`] answers each in the same order
//! *after* `fdatasync`. Several may share one sync.
//!
//! - A refused order has left nothing behind, also not after a restart. After a sync that failed the process ends, because nothing is known of
//!   the disk then.
//! - An append that does not follow the newest version of its zone is refused, and so is every order for a zone behind a refused one.
//! - The edge computes the hash of the content and of the version, and refuses with [`store::Refusal::WrongHash`] what does not have the hash
//!   that it names.
//! - The vow is in the same store as the journal, so that a copy that is put back has both of the same age.
//! - [`replica::Action::Show`] marks the version as announced, without a sync. Versions after the mark are
//!   [`chain::Chain::unannounced`] after a restart; the one at the mark is served.
//! - [`chain::ReplicaId`] has a number that was drawn when the state folder was made. An empty folder is another replica.
//! - After [`store::Refusal::Store`] the edge tries a small write every second, and gives [`replica::Event::StoreOk`] when it is durable.
//! - A step holds everything that the journal knows of a version: records, causes, time, holds, state of the gate, generations of catalogs.
//!   A change of a hold without a change of records is a step, too.
//! - [`leader::Fetch`] is answered from what is durable: steps from the last of the named versions after which the journal has all steps, or
//!   a snapshot if there is none. A snapshot is the oldest version from which the journal has all steps: they follow as other steps do,
//!   with the same checks. [`chain::Tip::NONE`] is in a journal that has all steps of the zone. Each is answered, or the link is closed.
//! - A step or snapshot that is too large for one payload comes in [`chain::Part`]s before it: [`store::Order::Stage`] holds them in
//!   memory, and says only that they are there. The step or snapshot that follows takes all parts of its version, and is refused if one is missing.
//!
//! ## Links
//!
//! TLS 1.3 with certificates on both sides. A link delivers frames in order and unchanged or not at all. Numbers of links are never used
//! again while the process lives. [`replica::Action::Connect`] is answered by [`replica::Event::Connected`] or by
//! [`replica::Event::Closed`] with `None`, within two seconds. A later one replaces one that is not answered yet, because the answers do not
//! say which it was. A frame may take longer to arrive than a follower waits for one: meanwhile the edge gives
//! [`frame::Body::Ping`]s with its epoch. [`replica::Event::Closed`] is the last event of a link that the other end or the
//! network closed; after [`replica::Action::Close`] no event of the link comes. [`leader::Leader`] bounds the bytes on the way to a
//! follower, not the number of links: the edge does that.
//!
//! ## Questions
//!
//! For [`replica::Action::Greet`] the edge asks every other replica of the installation, in sync or not, leading or not, and gives
//! [`replica::Event::Greeted`] when all have answered or after [`settings::Settings::greeting_wait`]. The list of replicas is that of the
//! pods that exist, as a headless Service with `publishNotReadyAddresses` has it. `is_complete` is true only if each of them answered.
//! The other side gives [`replica::Event::Greeting`] and sends back the knowledge of [`replica::Action::Answer`] with the same token.
//!
//! ## Facts
//!
//! For [`replica::Action::Prove`] the edge reads the current resource version of each kind from the API server (`limit=1`, without
//! `resourceVersion`), waits until its own watch has passed it, lists again after ten seconds, and asks all secondaries for their serials
//! meanwhile. [`replica::Event::Proven`] may not come before the first; secondaries that do not answer are left out.
//!
//! ## The writer
//!
//! Between [`replica::Action::Lead`] and [`replica::Action::Stop`] the writer makes versions: check and gate, [`replica::Replica::permit`] for the serial,
//! the hashes, [`replica::Event::Propose`]. The gate judges the first one as after a restart. With `must_publish` each zone gets a version, even with the
//! same content. A version becomes visible by [`replica::Action::Show`] alone, on leader and followers. NOTIFY is sent for
//! [`replica::Action::Notify`] alone. Gate, holds and renders of a step that was declined are taken back.
//!
//! ## The end
//!
//! After [`replica::Event::Leave`] the loop goes on until [`replica::Replica::has_left`] is true. Then the Lease is released, or was not held.
//!
//! # Not here
//!
//! - Formats of frames and annotations, and their versions.
//! - Replicas with different zones: the digest of the configuration keeps them apart.
//! - A quorum smaller than the in-sync set: the slowest member counts, for a second at most.
#![forbid(unsafe_code)]

pub mod candidacy;
pub mod ceiling;
pub mod chain;
pub mod fault;
pub mod fixed;
pub mod follower;
pub mod frame;
pub mod knowledge;
pub mod leader;
pub mod lease;
pub mod promotion;
pub mod record;
pub mod replica;
pub mod settings;
pub mod status;
pub mod store;
pub mod term;

#[cfg(test)]
mod tests;

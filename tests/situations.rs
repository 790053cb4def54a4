//! The 99 situations in which CoreDNS's own tests put it, by their numbers, with zonewright in its place.
//!
//! Each runs on manifests, over UDP and TCP. Where we answer otherwise on purpose, the difference's id of
//! [`differences`] stands in the test. What is not here is shown elsewhere:
//! `tests/situation_list.rs` has them all.

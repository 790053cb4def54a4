//! The 99 situations in which CoreDNS's own tests put it, by their numbers, with zonewright in its place: `services` 1 to
//! 20, `endpoints` 21 to 37, `negative` 38 to 56, `pointers` 57 to 68, `sets` 69 to 77, `transfers` 78 to 90, `outside`
//! 91 to 99.
//!
//! Each runs on manifests, over UDP and TCP. Where we answer otherwise on purpose, the difference's id of
//! `tests/differences` stands in the test. What is not here is shown elsewhere: `tests/situation_list.rs` has them all.

mod endpoints;
mod negative;
mod outside;
mod pointers;
mod services;
mod sets;
mod site;
mod transfers;

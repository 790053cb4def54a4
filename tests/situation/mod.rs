//! The situations, in the order of the list: `services` 1 to 20, `endpoints` 21 to 37, `negative` 38 to 56,
//! `pointers` 57 to 68, `sets` 69 to 77, `transfers` 78 to 90, `outside` 91 to 99.

mod endpoints;
mod negative;
mod outside;
mod pointers;
mod services;
mod sets;
mod site;
mod transfers;

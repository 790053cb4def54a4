//! zonewright: DNS for Kubernetes that the world's ordinary DNS servers can hold.

pub mod corefile;
pub mod dns;

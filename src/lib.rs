//! zonewright: DNS for Kubernetes that the world's ordinary DNS servers can hold.

pub mod cluster;
pub mod dns;
pub mod ops;
pub mod serve;
pub mod transfer;
pub mod zone;

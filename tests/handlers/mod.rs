//! Handlers beside those of a real CoreDNS: cases, the servers they run on, and what is compared.

pub mod ask;
pub mod case;
pub mod run;

pub mod cache;
pub mod forward;
pub mod hosts;

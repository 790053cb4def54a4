//! Handlers beside those of a real CoreDNS: cases, the servers they run on, and what is compared.

pub mod ask;
pub mod case;
pub mod run;

pub mod acl;
pub mod cache;
pub mod chain;
pub mod dns64;
pub mod forward;
pub mod hosts;
pub mod log;
pub mod loops;
pub mod metrics;
pub mod rewrite;
pub mod secure;
pub mod template;

//! The directives of the Corefile: what each says, and what answers at query time where it says so.
//!
//! Each has a folder of its word.

pub mod config;
pub mod handlers;

mod acl;
mod any;
mod apex;
mod autopath;
mod bind;
mod cache;
mod catalog;
mod chaos;
mod dns64;
mod errors;
mod file;
mod forward;
mod gate;
mod health;
mod history;
mod hosts;
mod k8s_external;
mod kubernetes;
mod loadbalance;
mod local;
mod log;
mod r#loop;
mod metadata;
mod multicluster;
mod nsid;
mod prometheus;
mod ready;
mod rewrite;
mod template;
mod tls;
mod transfer;
mod tsig;

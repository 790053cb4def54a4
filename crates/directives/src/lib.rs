//! The directives of the Corefile: the settings of each, and its handler if it has one.
//!
//! Each has a folder with its name.

pub mod config;
pub mod handlers;

mod acl;
mod any;
mod apex;
mod autopath;
mod bind;
mod bufsize;
mod cache;
mod cancel;
mod catalog;
mod chaos;
mod cookies;
mod debug;
mod dns64;
mod errors;
mod etcd;
mod file;
mod forward;
mod gate;
mod header;
mod health;
mod history;
mod history_api;
mod hosts;
mod https;
mod https3;
mod k8s_external;
mod kubernetes;
mod loadbalance;
mod local;
mod log;
mod r#loop;
mod metadata;
mod minimal;
mod multicluster;
mod multisocket;
mod nsid;
mod pprof;
mod prometheus;
mod quic;
mod ready;
mod reload;
mod replicas;
mod rewrite;
mod root;
mod rrl;
mod state;
mod template;
mod timeouts;
mod tls;
mod transfer;
mod tsig;
mod whoami;

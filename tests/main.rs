//! All tests of the whole program, as one binary: each file is a module, `tools/run-tests` knows the groups.
//!
//! `cargo test --test it golden` runs those of one file.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test has no outside, its helpers fail it, and its output shows what was left out"
)]

mod abuse;
mod archive;
mod checkers;
mod cli;
mod cluster;
mod cluster_audit;
mod cluster_check;
mod cluster_deploy;
mod cluster_etcd;
mod cluster_failover;
mod cluster_history_api;
mod cluster_imports;
mod cluster_manual;
mod cluster_notes;
mod cluster_options;
mod cluster_reload;
mod cluster_replicas;
mod cluster_story;
mod compare;
mod compare_autopath;
mod compare_emit;
mod compare_etcd;
mod compare_examples;
mod compare_layers;
mod compare_migration;
mod compare_stock;
mod comparison;
mod crash;
mod crash_abuse;
mod crash_archive;
mod crash_damage;
mod crash_history;
mod crash_restart;
mod deploy;
mod differences;
mod docs;
mod encrypted;
mod evidence;
mod examples;
mod flags;
mod follow;
mod followed;
mod gate;
mod golden;
mod handlers;
mod history;
mod history_api;
mod image;
mod install;
mod interop;
mod interop_cases;
mod interop_catalog;
mod interop_check;
mod interop_cookies;
mod interop_doctor;
mod interop_offline;
mod interop_rrl;
mod interop_secure;
mod interop_signed;
mod interop_steps;
mod listeners;
mod manual;
mod monitoring;
mod notes;
mod operating;
mod orders;
mod packages;
mod promise;
mod release;
mod reload;
mod replicas;
mod sandbox;
mod schemas;
mod situation_list;
mod situations;
mod soak;
mod state_folder;
mod stories;
mod support;
mod tenants;
mod tidy;
mod transfer_list;
mod unknown;
mod walls;
mod why;

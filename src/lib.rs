//! zonewright: DNS for Kubernetes that the world's ordinary DNS servers can hold.
//!
//! A cluster becomes facts, facts become records, records become numbered, durable versions of zones,
//! and those are served, transferred and audited. In reading order: `dns` holds values, `cluster` facts,
//! `schema` the specification, `zone` versions and their store, `pipeline` the single writer;
//! `source` and `serve` are the edges, `transfer` gives versions away, `audit` reads the past, `corefile`
//! the configuration, `ops` what running takes; `app` puts all together.
//!
//! Glossary. *Apex*: the name of a zone. *Owner*: the name a record stands at. *RRset*: all records of one
//! owner and type. *Version*: the contents of a zone under one serial, for ever. *Step*: what two
//! versions that follow each other differ in. *Secondary*: a server that takes our zones. *Fact*: what is
//! kept of a Kubernetes object. *Source*: an API server or a folder of manifests.

pub mod app;
pub mod cli;
pub mod doctor;
pub mod emit;

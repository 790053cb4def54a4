//! The Corefile: text becomes one typed, checked, immutable [`Config`].
//!
//! The grammar is CoreDNS's (its Caddyfile), and so is the meaning of its directives. Reading goes in
//! steps that only record and one that resolves: words (`lexer`), blocks with snippets, imports and
//! environment put in (`parser`), zones (`zone`), each directive in its own file, and the checks over
//! all blocks (`blocks`). Nothing stops at the first error: all come out together, each with file,
//! line, column and what to do.
//!
//! Only files are read here: the Corefile, what it imports, key files. Everything else that is named
//! (folders, certificates, addresses) is looked at by those who use it.

mod acl;
mod apex;
mod autopath;
mod bind;
mod blocks;
mod cache;
mod catalog;
mod chaos;
mod dns64;
mod errors;
mod external;
mod file;
mod form;
mod forward;
mod gate;
mod handlers;
mod health;
mod history;
mod hosts;
mod keyfile;
mod known;
mod kubernetes;
mod listener;
mod listener_tls;
mod loadbalance;
mod local;
mod log;
mod metadata;
mod mnemonic;
mod multicluster;
mod nested;
mod nsid;
mod operations;
mod pattern;
mod prometheus;
mod ready;
mod refused;
mod repeats;
mod rewrite;
mod secret;
mod sources;
mod template;
mod tls;
mod transfer;
mod tsig;
mod zone;
mod zoned;

pub use acl::{Acl, AclAction, AclPolicy};
pub use apex::{Apex, NameServer};
pub use autopath::{Autopath, SearchPath, search_names};
pub use bind::{Bind, BindHost};
pub use blocks::{Config, Loaded, Overrides, Rejected, ServerBlock, load, parse_text};
pub use cache::{Cache, Kept, Prefetch, Stale};
pub use catalog::{Catalog, CatalogEntry};
pub use chaos::Chaos;
pub use dns64::Dns64;
pub use errors::{Consolidate, Errors, Level};
pub use external::{External, external_options};
pub use file::ZoneFile;
pub use form::Form;
pub use forward::{
    DohMethod, Forward, ForwardPolicy, HealthCheck, Target, TargetHost, TargetScheme, TlsFiles,
};
pub use gate::{Gate, Hold};
pub use handlers::{HANDLER_OPTIONS, Handlers};
pub use health::Health;
pub use history::History;
pub use hosts::{HostLine, Hosts};
pub use known::directives;
pub use kubernetes::{ApiLimits, ClientTls, Kubernetes, Options, Pods, Source, kubernetes_options};
pub use listener::Listener;
pub use listener_tls::{nsid_of, tls_of};
pub use loadbalance::{Loadbalance, Policy};
pub use local::Local;
pub use log::{LogClass, LogField, LogPiece, LogRule};
pub use metadata::{CLIENT_LABEL, Metadata};
pub use mnemonic::CLASS_ANY;
pub use nsid::Nsid;
pub use operations::{Operations, Reload, Sockets, Timeouts};
pub use pattern::Pattern;
pub use prometheus::Prometheus;
pub use ready::{Monitor, Ready};
pub use refused::refused_table;
pub use rewrite::{
    AnswerRule, EdnsAction, EdnsOption, EdnsRule, EdnsValue, NameMatch, NameRule, RewriteField,
    RewriteRule, Variable, filled,
};
pub use secret::Secret;
pub use template::Template;
pub use tls::{ClientAuth, Tls};
pub use transfer::{Allow, Peer, Secondary, Transfer};
pub use tsig::{KeyFile, TsigKey, read_keys_again};
pub use zone::{Scheme, ZoneKey};
pub use zoned::Zoned;

#[cfg(test)]
mod tests;

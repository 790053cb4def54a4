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

pub(crate) mod blocks;
pub(crate) mod form;
pub(crate) mod handlers;
pub(crate) mod known;
pub(crate) mod listener;
pub(crate) mod listener_tls;
pub(crate) mod mnemonic;
pub(crate) mod nested;
pub(crate) mod operations;
pub(crate) mod pattern;
pub(crate) mod refused;
pub(crate) mod repeats;
pub(crate) mod sources;
pub(crate) mod zone;
pub(crate) mod zoned;

pub use crate::acl::config::{Acl, AclAction, AclPolicy};
pub use crate::apex::{Apex, NameServer};
pub use crate::autopath::config::{Autopath, SearchPath, search_names};
pub use crate::bind::{Bind, BindHost};
pub use crate::cache::config::{Cache, Kept, Prefetch, Stale};
pub use crate::catalog::{Catalog, CatalogEntry};
pub use crate::chaos::config::Chaos;
pub use crate::dns64::config::Dns64;
pub use crate::errors::config::{Consolidate, Errors, Level};
pub use crate::file::ZoneFile;
pub use crate::forward::config::{
    DohMethod, Forward, ForwardPolicy, HealthCheck, Target, TargetHost, TargetScheme, TlsFiles,
};
pub use crate::gate::{Gate, Hold};
pub use crate::health::Health;
pub use crate::history::History;
pub use crate::hosts::config::{HostLine, Hosts};
pub use crate::k8s_external::{External, external_options};
pub use crate::kubernetes::{
    ApiLimits, ClientTls, Kubernetes, Options, Pods, Source, kubernetes_options,
};
pub use crate::loadbalance::config::{Loadbalance, Policy};
pub use crate::local::config::Local;
pub use crate::log::config::{LogClass, LogField, LogPiece, LogRule};
pub use crate::metadata::config::{CLIENT_LABEL, Metadata};
pub use crate::nsid::Nsid;
pub use crate::prometheus::Prometheus;
pub use crate::ready::{Monitor, Ready};
pub use crate::rewrite::config::{
    AnswerRule, EdnsAction, EdnsOption, EdnsRule, EdnsValue, NameMatch, NameRule, RewriteField,
    RewriteRule, Variable, filled,
};
pub use crate::template::config::Template;
pub use crate::tls::{ClientAuth, Tls};
pub use crate::transfer::{Allow, Peer, Secondary, Transfer};
pub use crate::tsig::secret::Secret;
pub use crate::tsig::{KeyFile, TsigKey, read_keys_again};
pub use blocks::{Config, Loaded, Overrides, Rejected, ServerBlock, load, parse_text};
pub use form::Form;
pub use handlers::{HANDLER_OPTIONS, Handlers};
pub use known::directives;
pub use listener::Listener;
pub use listener_tls::{nsid_of, tls_of};
pub use mnemonic::CLASS_ANY;
pub use operations::{Operations, Reload, Sockets, Timeouts};
pub use pattern::Pattern;
pub use refused::refused_table;
pub use zone::{Scheme, ZoneKey};
pub use zoned::Zoned;

#[cfg(test)]
pub(crate) mod tests;

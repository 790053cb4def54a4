//! The Corefile: text becomes one typed, checked, immutable [`Config`].
//!
//! The grammar is CoreDNS's (its Caddyfile), and so is the meaning of its directives. The crate `corefile` makes words
//! and blocks, with snippets, imports and environment put in; `load` reads the keys of each block (`zone`) and its
//! directives (`registry`); `checks` compares all blocks. Reading continues after an error: all errors come out
//! together, each with file, line, column and a fix.
//!
//! Only these files are read here: the Corefile, its imports, and key files. Other code checks the folders,
//! certificates and addresses that it names.

pub(crate) mod block;
pub(crate) mod checks;
pub(crate) mod fallthrough;
pub(crate) mod form;
pub(crate) mod http;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod load;
pub(crate) mod mnemonic;
pub(crate) mod nested;
pub(crate) mod pattern;
pub(crate) mod registry;
pub(crate) mod secret_words;
pub(crate) mod sources;
pub(crate) mod written_zones;
pub(crate) mod zone;
pub(crate) mod zoned;

pub use crate::acl::{Acl, AclAction, AclPolicy};
pub use crate::any::Any;
pub use crate::apex::{Apex, NameServer};
pub use crate::autopath::{Autopath, SearchPath, search_names};
pub use crate::bind::{Bind, BindHost};
pub use crate::bufsize::Bufsize;
pub use crate::cache::{Cache, Kept, Prefetch, Stale};
pub use crate::catalog::Catalog;
pub use crate::chaos::Chaos;
pub use crate::cookies::Cookies;
pub use crate::debug::DebugLines;
pub use crate::dns64::Dns64;
pub use crate::errors::{Consolidate, Errors, Level};
pub use crate::etcd::{Etcd, Password};
pub use crate::file::ZoneFile;
pub use crate::forward::{
    DohMethod, Forward, ForwardPolicy, HealthCheck, Target, TargetHost, TargetScheme, TlsFiles,
};
pub use crate::gate::{Gate, Hold};
pub use crate::health::Health;
pub use crate::history::History;
pub use crate::history::note::{NOTE_EVERY, NoteOption, NoteTarget, server_of};
pub use crate::history_api::{AllowedReader, HistoryApi};
pub use crate::hosts::{HostLine, Hosts};
pub use crate::https::HttpsLimits;
pub use crate::https3::Https3Limits;
pub use crate::k8s_external::External;
pub use crate::kubernetes::{
    ApiLimits, ClientTls, Kubernetes, Options, Pods, RecordLimits, Source,
};
pub use crate::loadbalance::{Loadbalance, Policy};
pub use crate::local::Local;
pub use crate::log::{LogClass, LogField, LogPiece, LogRule};
pub use crate::r#loop::Loop;
pub use crate::metadata::{CLIENT_LABEL, Metadata};
pub use crate::minimal::Minimal;
pub use crate::multicluster::Multicluster;
pub use crate::multisocket::Sockets;
pub use crate::nsid::Nsid;
pub use crate::prometheus::Prometheus;
pub use crate::quic::QuicLimits;
pub use crate::ready::{Monitor, Ready};
pub use crate::reload::Reload;
pub use crate::replicas::{
    OtherReplicas, ReplicaRole, ReplicaTls, Replicas, metrics as replica_metrics,
};
pub use crate::rewrite::{
    AnswerRule, EdnsAction, EdnsOption, EdnsRule, EdnsValue, NameMatch, NameRule, Part,
    RewriteField, RewriteRule, Variable, filled,
};
pub use crate::rrl::Rrl;
pub use crate::template::Template;
pub use crate::timeouts::Timeouts;
pub use crate::tls::{ClientAuth, Tls};
pub use crate::transfer::{Allow, Peer, Secondary, Transfer};
pub use crate::tsig::secret::Secret;
pub use crate::tsig::{KeyFile, Tsig, TsigKey, read_keys_again};
pub use block::{Directive, Repeat, Role, ServerBlock};
pub use form::Form;
pub use listener::{Listener, block_for, transfers_on};
pub use load::{Config, Loaded, Overrides, Rejected, load, parse_text};
pub use mnemonic::CLASS_ANY;
pub use pattern::Pattern;
pub use registry::{
    Registered, answering_words, directive_table, directives, handler_metrics, handlers,
    refused_table,
};
pub use zone::{Scheme, ZoneKey};
pub use zoned::Zoned;

#[cfg(test)]
pub(crate) mod tests;

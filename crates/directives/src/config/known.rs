//! The words that may begin a directive: ours, CoreDNS's, and those CoreDNS has given up.

use corefile::lexer::Token;
use corefile::place::Report;

use crate::config::refused::{REFUSED, reason};

/// A directive we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Word {
    /// Who may ask what.
    Acl,
    /// One record for questions of type ANY.
    Any,
    /// Start of authority and name servers of the zones.
    Apex,
    /// The search path of clients.
    Autopath,
    /// Addresses to listen on.
    Bind,
    /// What is kept of replies.
    Cache,
    /// The largest datagram.
    Bufsize,
    /// A zone that lists zones.
    Catalog,
    /// What is told in class CH.
    Chaos,
    /// IPv6 addresses for what has only IPv4.
    Dns64,
    /// Lines of the level debug.
    Debug,
    /// Logging of errors.
    Errors,
    /// A zone file.
    File,
    /// Who is asked for other names.
    Forward,
    /// Liveness over HTTP.
    Health,
    /// Names and addresses of a file.
    Hosts,
    /// The names of what is reached from outside the cluster.
    External,
    /// Which losses are held.
    Gate,
    /// How many versions are kept.
    History,
    /// The cluster.
    Kubernetes,
    /// Names of the machine itself.
    Local,
    /// Logging of queries.
    Log,
    /// What is found out about queries.
    Metadata,
    /// The order of addresses.
    Loadbalance,
    /// Questions that come back.
    Loop,
    /// Nothing but the answer.
    Minimal,
    /// A set of clusters.
    Multicluster,
    /// Sockets for each address.
    Multisocket,
    /// The name of the server.
    Nsid,
    /// Profiles of a Go program.
    Pprof,
    /// Metrics over HTTP.
    Prometheus,
    /// Readiness over HTTP.
    Ready,
    /// Other questions than those that came.
    Rewrite,
    /// Replies made from the question.
    Template,
    /// The Corefile is followed.
    Reload,
    /// Where relative paths begin.
    Root,
    /// Times of connections.
    Timeouts,
    /// Certificates.
    Tls,
    /// Who may have a zone.
    Transfer,
    /// Keys.
    Tsig,
}

/// The directives that work.
const OURS: &[(&str, Word)] = &[
    ("acl", Word::Acl),
    ("any", Word::Any),
    ("apex", Word::Apex),
    ("autopath", Word::Autopath),
    ("bind", Word::Bind),
    ("cache", Word::Cache),
    ("bufsize", Word::Bufsize),
    ("catalog", Word::Catalog),
    ("chaos", Word::Chaos),
    ("debug", Word::Debug),
    ("dns64", Word::Dns64),
    ("errors", Word::Errors),
    ("file", Word::File),
    ("forward", Word::Forward),
    ("gate", Word::Gate),
    ("health", Word::Health),
    ("history", Word::History),
    ("hosts", Word::Hosts),
    ("k8s_external", Word::External),
    ("kubernetes", Word::Kubernetes),
    ("local", Word::Local),
    ("log", Word::Log),
    ("metadata", Word::Metadata),
    ("loadbalance", Word::Loadbalance),
    ("loop", Word::Loop),
    ("minimal", Word::Minimal),
    ("multicluster", Word::Multicluster),
    ("multisocket", Word::Multisocket),
    ("nsid", Word::Nsid),
    ("pprof", Word::Pprof),
    ("prometheus", Word::Prometheus),
    ("ready", Word::Ready),
    ("rewrite", Word::Rewrite),
    ("template", Word::Template),
    ("reload", Word::Reload),
    ("root", Word::Root),
    ("timeouts", Word::Timeouts),
    ("tls", Word::Tls),
    ("transfer", Word::Transfer),
    ("tsig", Word::Tsig),
];

/// The names of the directives that work.
pub fn directives() -> impl Iterator<Item = &'static str> {
    OURS.iter().map(|(name, _)| *name)
}

/// What CoreDNS no longer has, and what took its place.
const GONE: &[(&str, &str)] = &[
    ("proxy", "write forward"),
    (
        "federation",
        "take it out: clusters no longer have federation",
    ),
    ("upstream", "take it out"),
];

/// Whether this word begins a directive, supported or not.
pub(crate) fn is_known(text: &str) -> bool {
    lookup(text).is_some() || reason(text).is_some() || GONE.iter().any(|(gone, _)| *gone == text)
}

/// Our directive of this name.
fn lookup(text: &str) -> Option<Word> {
    OURS.iter()
        .find(|(name, _)| *name == text)
        .map(|(_, word)| *word)
}

/// Our directive of this name; any other is reported.
pub(crate) fn word(name: &Token, report: &mut Report) -> Option<Word> {
    let text = name.text.as_str();
    let found = lookup(text);
    if found.is_some() {
        return found;
    }
    if let Some(why) = reason(text) {
        report.not_supported(&name.place, text, why);
    } else if let Some((_, mend)) = GONE.iter().find(|(gone, _)| *gone == text) {
        report.error(&name.place, format!("{text}: no longer a directive"), *mend);
    } else {
        let mend = match nearest(text) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "take it out, or look for a missing '{' or '}' above".to_owned(),
        };
        report.error(
            &name.place,
            format!("unknown directive {}", name.shown()),
            mend,
        );
    }
    None
}

/// The directive that `text` is a slip of: one that becomes equal when one character is left out,
/// added or changed, or two neighbours swapped.
fn nearest(text: &str) -> Option<&'static str> {
    let names = OURS
        .iter()
        .map(|(name, _)| *name)
        .chain(REFUSED.iter().map(|(name, _)| *name));
    names
        .filter(|name| name.len() > 2)
        .find(|name| is_slip(text.as_bytes(), name.as_bytes()))
}

/// Whether one edit makes the two equal.
fn is_slip(left: &[u8], right: &[u8]) -> bool {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let (left, right) = (&left[common..], &right[common..]);
    match (left, right) {
        ([_, left_rest @ ..], _) if left_rest == right => true,
        (_, [_, right_rest @ ..]) if left == right_rest => true,
        ([_, left_rest @ ..], [_, right_rest @ ..]) if left_rest == right_rest => true,
        ([a, b, left_rest @ ..], [c, d, right_rest @ ..]) => {
            a == d && b == c && left_rest == right_rest
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_the_word_that_was_meant() {
        for (slip, want) in [
            ("kubernets", Some("kubernetes")),
            ("kuberenetes", Some("kubernetes")),
            ("promethues", Some("prometheus")),
            ("error", Some("errors")),
            ("errors_", Some("errors")),
            ("Log", Some("log")),
            ("nonsense", None),
        ] {
            assert_eq!(nearest(slip), want, "{slip}");
        }
    }
}

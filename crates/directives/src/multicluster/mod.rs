//! `multicluster [ZONES...] { kubeconfig FILE [CONTEXT]; noendpoints; fallthrough [ZONES...] }`: the zones of
//! a set of clusters alone, as the plugin coredns/multicluster has them; `manifests DIR` is ours. Its TTL
//! is that plugin's, 5 seconds. `kubernetes` has an option of the same name, for both from one cluster.

use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

use crate::kubernetes::{self, Kubernetes};

/// The options, for messages.
const OPTIONS: &str = "kubeconfig, manifests, noendpoints and fallthrough";

/// Reads the directive; `block_zones` are the default.
pub(crate) fn parse(directive: Statement, block_zones: &[Name], report: &mut Report) -> Kubernetes {
    let Statement {
        name,
        arguments,
        open,
        lines,
        root,
    } = directive;
    let is_ours = |line: &corefile::parser::Line| {
        let text = line.name.text.as_str();
        ["kubeconfig", "manifests", "noendpoints", "fallthrough"].contains(&text)
    };
    let (ours, others): (Vec<_>, Vec<_>) = lines.into_iter().partition(is_ours);
    let directive = Statement {
        name,
        arguments,
        open,
        lines: ours,
        root,
    };
    for line in &others {
        directive.unknown_option(line, OPTIONS, report);
    }
    let read = kubernetes::parse(&directive, block_zones, report);
    Kubernetes {
        clusterset_zones: read.forward_zones,
        forward_zones: Vec::new(),
        imports_only: true,
        ..read
    }
}

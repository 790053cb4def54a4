//! `multicluster [ZONES...] { kubeconfig FILE [CONTEXT]; noendpoints; fallthrough [ZONES...] }`: the zones of
//! a set of clusters alone, as the plugin coredns/multicluster has them; `manifests DIR` is ours. Its TTL
//! is that plugin's, 5 seconds. `kubernetes` has an option of the same name, for both from one cluster.

use crate::config::block::{Directive, Role};
use crate::kubernetes::Kubernetes;
use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

/// A set of clusters: of a cluster its ServiceImports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multicluster(pub Kubernetes);

impl Directive for Multicluster {
    const WORD: &'static str = "multicluster";
    const USAGE: &'static str = "multicluster [ZONES…] { … }";
    const SUMMARY: &'static str = "a set of clusters alone, from its ServiceImports; beside a cluster's own names it is an option of `kubernetes`";
    const OPTIONS: &'static str = "kubeconfig, manifests, noendpoints and fallthrough";
    const ROLE: Role = Role::Zones;

    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        let mut ours = directive.clone();
        let is_ours = |option: &str| {
            ["kubeconfig", "manifests", "noendpoints", "fallthrough"].contains(&option)
        };
        ours.lines.retain(|line| is_ours(&line.name.text));
        for line in &directive.lines {
            if !is_ours(&line.name.text) {
                directive.unknown_option(line, Self::OPTIONS, report);
            }
        }
        let read = Kubernetes::read(&ours, zones, report)?;
        Some(Self(Kubernetes {
            clusterset_zones: read.forward_zones,
            forward_zones: Vec::new(),
            imports_only: true,
            ..read
        }))
    }
}

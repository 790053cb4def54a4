//! `multicluster [ZONES...] { kubeconfig FILE [CONTEXT]; noendpoints; fallthrough [ZONES...] }`: the zones of a
//! clusterset alone, as in the plugin coredns/multicluster. Its TTL is that plugin's, 5 seconds; `manifests DIR` is
//! ours. `kubernetes` has an option of the same name, for cluster and clusterset together.

use crate::config::block::{Directive, Role};
use crate::kubernetes::Kubernetes;
use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

/// The clusterset of a cluster: its ServiceImports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multicluster(pub Kubernetes);

impl Directive for Multicluster {
    const WORD: &'static str = "multicluster";
    const USAGE: &'static str = "multicluster [ZONES…] { … }";
    const SUMMARY: &'static str = "zones of a set of clusters, from its ServiceImports. For zones of a cluster's own names beside them use the option of `kubernetes`";
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

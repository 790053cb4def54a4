//! Which addresses `bind` means.

use std::net::IpAddr;

use directives::config::{Bind, BindHost, ServerBlock};

/// The addresses that a block is bound to, without those it excepts; none where it takes all there are.
pub(crate) fn hosts_of(
    block: &ServerBlock,
    local: &dyn Fn(Option<&str>) -> Vec<IpAddr>,
) -> Vec<IpAddr> {
    let Some(bind) = block.get::<Bind>() else {
        return Vec::new();
    };
    let except = bound_addresses(&bind.except, local);
    let mut hosts = bound_addresses(&bind.hosts, local);
    hosts.retain(|address| !except.contains(address) && !address.is_unspecified());
    hosts
}

/// The addresses that hosts behind `bind` have.
pub(crate) fn bound_addresses(
    hosts: &[BindHost],
    local: &dyn Fn(Option<&str>) -> Vec<IpAddr>,
) -> Vec<IpAddr> {
    let addresses_of = |host: &BindHost| match host {
        BindHost::Address(address) => vec![*address],
        BindHost::Interface(name) => local(Some(name)),
    };
    hosts.iter().flat_map(addresses_of).collect()
}

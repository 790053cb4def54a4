//! `acl [ZONES...] { allow|block|filter|drop [type T...] [net CIDR...] }`: filters queries by name, type and client
//! address.

pub(crate) mod handler;
pub(crate) mod metrics;

use std::net::IpAddr;

use corefile::lexer::Token;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use dns::Network;
use dns::{Name, Rtype};
use ops::metrics::Metric;

use crate::acl::handler::AclHandler;
use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::config::mnemonic;
use crate::config::zone;
use crate::handlers::chain::{BuildError, Chain};

/// The action for a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclAction {
    /// The next handler gets it.
    Allow,
    /// It is refused.
    Block,
    /// It is answered without records.
    Filter,
    /// It is not answered.
    Drop,
}

/// One line: a set of queries, and the action for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclPolicy {
    /// The action.
    pub action: AclAction,
    /// The types of the queries; all for `None`.
    pub types: Option<Vec<Rtype>>,
    /// The addresses of the clients; all for `None`.
    pub nets: Option<Vec<Network>>,
}

/// One directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    /// Its place in the Corefile.
    pub place: Place,
    /// The names that it applies to, and all names below them.
    pub zones: Vec<Name>,
    /// Its lines. The first that applies to a query decides.
    pub policies: Vec<AclPolicy>,
}

impl Directive for Acl {
    const WORD: &'static str = "acl";
    const USAGE: &'static str = "acl [ZONES…]";
    const SUMMARY: &'static str = "allows or refuses queries and transfers by type and client address: `allow`, `block`, `filter`, `drop`";
    const OPTIONS: &'static str = "allow, block, filter and drop";
    const REPEAT: Repeat = Repeat::Several;
    const ROLE: Role = Role::Decides;
    const METRICS: &'static [Metric] = metrics::METRICS;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let policy = |line: &Line| policy(directive, line, &mut *report);
        let policies = directive.lines.iter().filter_map(policy).collect();
        Some(Acl {
            place: directive.name.place.clone(),
            zones: zone::arguments(&directive.arguments, block_zones, report),
            policies,
        })
    }

    fn add_handlers(&self, block: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(AclHandler::new(
            block.all().cloned().collect(),
            chain.context.counts,
        ));
        Ok(())
    }
}

/// Reads `allow|block|filter|drop [type T...] [net CIDR...]`.
fn policy(directive: &Statement, line: &Line, report: &mut Report) -> Option<AclPolicy> {
    let action = match line.name.text.to_ascii_lowercase().as_str() {
        "allow" => AclAction::Allow,
        "block" => AclAction::Block,
        "filter" => AclAction::Filter,
        "drop" => AclAction::Drop,
        _ => {
            directive.unknown_option(line, Acl::OPTIONS, report);
            return None;
        }
    };
    let mut policy = AclPolicy {
        action,
        types: None,
        nets: None,
    };
    // A `*` counts for the whole line, whatever types or ranges a later section has.
    let (mut all_types, mut all_nets) = (false, false);
    let mut words = line.arguments.as_slice();
    while let Some((section, rest)) = words.split_first() {
        let end = rest.iter().position(is_section).unwrap_or(rest.len());
        let (values, after) = rest.split_at(end);
        words = after;
        if is_section(section) && values.is_empty() {
            let message = format!("{} has no values", section.shown());
            report.error(
                &section.place,
                message,
                "write: type TYPE..., net CIDR... or *",
            );
        }
        match section.text.to_ascii_lowercase().as_str() {
            "type" => {
                all_types |= values.iter().any(|value| value.text == "*");
                let types = policy.types.get_or_insert_default();
                types.extend(values.iter().filter_map(|value| rtype(value, report)));
            }
            "net" => {
                all_nets |= values.iter().any(|value| value.text == "*");
                let nets = policy.nets.get_or_insert_default();
                nets.extend(values.iter().filter_map(|value| net(value, report)));
            }
            _ => {
                let message = format!("{} is neither type nor net", section.shown());
                let fix = "write: ACTION [type TYPE...] [net CIDR...]";
                report.error(&section.place, message, fix);
            }
        }
    }
    policy.types = policy.types.filter(|_| !all_types);
    policy.nets = policy.nets.filter(|_| !all_nets);
    Some(policy)
}

fn is_section(token: &Token) -> bool {
    ["type", "net"]
        .iter()
        .any(|word| token.text.eq_ignore_ascii_case(word))
}

/// Reads a type; `None` for `*`.
fn rtype(token: &Token, report: &mut Report) -> Option<Rtype> {
    if token.text == "*" {
        return None;
    }
    let found = mnemonic::rtype(&token.text);
    if found.is_none() {
        let message = format!("{} is not a type", token.shown());
        report.error(
            &token.place,
            message,
            "write a type in capitals, such as AAAA, or *",
        );
    }
    found
}

/// Reads a range or an address; `None` for `*`.
fn net(token: &Token, report: &mut Report) -> Option<Network> {
    if token.text == "*" {
        return None;
    }
    let one = token.text.parse::<IpAddr>().ok().map(Network::of);
    let found = one.or_else(|| token.text.parse().ok());
    if found.is_none() {
        let message = format!("{} is not a range of addresses", token.shown());
        report.error(
            &token.place,
            message,
            "write one such as 10.0.0.0/8 or fd00::/8, or *",
        );
    }
    found
}

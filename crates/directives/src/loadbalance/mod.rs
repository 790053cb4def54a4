//! `loadbalance [round_robin|weighted FILE] { reload DURATION; prefer CIDR... }`: the order of addresses.

pub(crate) mod handler;

use std::path::PathBuf;
use std::time::Duration;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use dns::{Name, Network};
use server::Shape;

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::handlers::chain::{BuildError, Chain};
use crate::loadbalance::handler::LoadbalanceHandler;

/// How often the file of weights is looked at unless written, as CoreDNS.
const RELOAD: Duration = Duration::from_secs(30);

/// The order of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loadbalance {
    /// Where it stands.
    pub place: Place,
    /// Who comes first.
    pub policy: Policy,
    /// Addresses in these come in front, those of the first before those of the second.
    pub prefer: Vec<Network>,
}

/// Who comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// Any order.
    RoundRobin,
    /// One address by its weight, the others as they were.
    Weighted {
        /// The file of weights.
        file: PathBuf,
        /// How often it is looked at; never again for zero.
        reload: Duration,
    },
}

impl Loadbalance {
    /// Whether any order of addresses does.
    fn is_plain(&self) -> bool {
        self.policy == Policy::RoundRobin && self.prefer.is_empty()
    }
}

impl Directive for Loadbalance {
    const WORD: &'static str = "loadbalance";
    const USAGE: &'static str = "loadbalance [round_robin|weighted FILE] { … }";
    const SUMMARY: &'static str = "addresses in another order for each reply";
    const OPTIONS: &'static str = "reload and prefer";
    const REPEAT: Repeat = Repeat::Joined(Some("the last policy counts, and every prefer"));
    const ROLE: Role = Role::Shapes;

    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        let first = Self {
            place: directive.name.place.clone(),
            policy: Policy::RoundRobin,
            prefer: Vec::new(),
        };
        first.read_again(directive, zones, report)
    }

    fn read_again(mut self, again: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let mut words = again.arguments.iter();
        let policy = words.next();
        let file = words.next();
        let mut reload = None;
        let is_weighted = policy.is_some_and(|word| word.text == "weighted");
        match policy.map(|word| (word, word.text.as_str())) {
            None | Some((_, "round_robin")) => {
                if let Some(more) = file {
                    let message = format!("round_robin: {} is one argument too many", more.shown());
                    report.error(&more.place, message, "take it out");
                }
            }
            Some((word, "weighted")) => {
                if file.is_none() {
                    let fix = "write: loadbalance weighted FILE";
                    report.error(&word.place, "weighted without a file of weights", fix);
                }
                if let Some(more) = words.next() {
                    let message = format!("weighted: {} is one argument too many", more.shown());
                    report.error(&more.place, message, "take it out");
                }
            }
            Some((word, _)) => {
                let message = format!("loadbalance has no policy {}", word.shown());
                report.error(&word.place, message, "write round_robin or weighted FILE");
            }
        }
        for line in &again.lines {
            match line.name.text.as_str() {
                "reload" if is_weighted => {
                    let value = line.value("DURATION", go_duration, report);
                    line.set(&mut reload, value, report);
                }
                "prefer" => {
                    for token in line.at_least_one("CIDR...", report).unwrap_or_default() {
                        match token.text.parse::<Network>() {
                            Ok(network) if token.text.contains('/') => self.prefer.push(network),
                            Ok(_) | Err(_) => {
                                let message = format!("prefer: {} is no network", token.shown());
                                report.error(&token.place, message, "write one such as 10.0.0.0/8");
                            }
                        }
                    }
                }
                _ => again.unknown_option(line, Self::OPTIONS, report),
            }
        }
        self.policy = match file.filter(|_| is_weighted) {
            Some(file) => Policy::Weighted {
                file: PathBuf::from(&file.text),
                reload: reload.unwrap_or(RELOAD),
            },
            None => Policy::RoundRobin,
        };
        self.place = again.name.place.clone();
        Some(self)
    }

    fn add_handlers(&self, _: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        if !self.is_plain() {
            chain.add(LoadbalanceHandler::new(self.clone())?);
        }
        Ok(())
    }

    fn shape(&self, shape: &mut Shape) {
        shape.shuffles = self.is_plain();
    }
}

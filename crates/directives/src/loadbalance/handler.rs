//! `loadbalance` with weights or preferred networks. Plain `round_robin` is a [`Shape`]: it needs no handler.
//!
//! [`Shape`]: server::Shape

use std::collections::HashMap;
use std::error::Error;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use dns::{Name, Rcode, Record, Rtype};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ops::watch::FileWatch;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Request};
use server::shuffle::{Dice, parts, shuffle};
use tokio_util::sync::CancellationToken;

use crate::handlers::chain::BuildError;
use crate::loadbalance::{Loadbalance, Policy};

/// The weights of addresses, by name in lower case. An address that is not listed has the weight 1.
type Weights = HashMap<Name, Vec<(IpAddr, u8)>>;

/// A line without meaning in a file of weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: {what}; write a name alone on its line, then ADDRESS WEIGHT (1 to 255) for each"
)]
struct BadWeights {
    /// The number of the line.
    line: usize,
    /// The fault.
    what: String,
}

pub(crate) struct LoadbalanceHandler {
    balance: Loadbalance,
    /// The weights of its file.
    weights: ArcSwap<Weights>,
    dice: Mutex<Dice>,
}

impl LoadbalanceHandler {
    /// Reads the file of weights, if the policy has one. A missing file is looked for again later.
    ///
    /// # Errors
    /// When the weights cannot be read.
    pub(crate) fn new(balance: Loadbalance) -> Result<Self, BuildError> {
        let weights = match &balance.policy {
            Policy::RoundRobin => Weights::new(),
            Policy::Weighted { file, reload } => {
                let wrong = |error: Box<dyn Error + Send + Sync>| {
                    BuildError::new(&balance.place, file.display(), error)
                };
                match std::fs::read_to_string(file) {
                    Ok(text) => read_weights(&text).map_err(|error| wrong(error.into()))?,
                    Err(error) if !reload.is_zero() => {
                        tracing::warn!(file = %file.display(), %error, "weights cannot be read yet");
                        Weights::new()
                    }
                    Err(error) => return Err(wrong(Box::from(error))),
                }
            }
        };
        Ok(Self::with_weights(balance, weights))
    }

    fn with_weights(balance: Loadbalance, weights: Weights) -> Self {
        Self {
            balance,
            weights: ArcSwap::from_pointee(weights),
            dice: Mutex::new(Dice::new()),
        }
    }

    /// Sorts the addresses of a section.
    fn order(&self, records: &mut [Record], dice: &mut Dice, is_by_weight: bool) {
        match &self.balance.policy {
            Policy::RoundRobin => shuffle(records, dice),
            Policy::Weighted { .. } if is_by_weight => {
                let [addresses, _] = parts(records);
                if let Some(first) = by_weight(addresses, &self.weights.load(), dice) {
                    addresses.swap(0, first);
                }
            }
            Policy::Weighted { .. } => {}
        }
        let prefer = &self.balance.prefer;
        if !prefer.is_empty() {
            let [addresses, _] = parts(records);
            // The sort is stable: within a network the order stays.
            addresses.sort_by_key(|record| {
                let address = record.view().address();
                let place = address.and_then(|it| prefer.iter().position(|net| net.contains(it)));
                place.unwrap_or(usize::MAX)
            });
        }
    }

    /// Loads the file of weights if it has changed, and logs its faults.
    fn look(&self, file: &Path) {
        let name = file.display();
        match std::fs::read_to_string(file) {
            Err(error) => {
                tracing::error!(file = %name, %error, "weights cannot be read; the old ones stay in use")
            }
            Ok(text) => match read_weights(&text) {
                Err(error) => {
                    tracing::error!(file = %name, %error, "the weights have an error; the old ones stay in use")
                }
                Ok(new) if new != **self.weights.load() => {
                    self.weights.store(Arc::new(new));
                    tracing::info!(file = %name, "the changed weights are in use");
                }
                Ok(_) => {}
            },
        }
    }
}

/// Reads a file of weights. The error is the first faulty line.
fn read_weights(text: &str) -> Result<Weights, BadWeights> {
    let mut weights = Weights::new();
    let mut name: Option<Name> = None;
    for (place, line) in text.lines().enumerate() {
        let bad = |what: String| BadWeights {
            line: place + 1,
            what,
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            [word] => {
                if word.parse::<IpAddr>().is_ok() {
                    return Err(bad(format!("{word} has no weight")));
                }
                let parsed = Name::parse_in(word, &Name::root());
                let parsed = parsed.map_err(|error| bad(format!("{word}: {error}")))?;
                name = Some(parsed.to_lower());
            }
            [address, weight] => {
                let parsed = address.parse();
                let parsed = parsed.map_err(|_| bad(format!("{address} is not an address")))?;
                let Ok(weight @ 1..) = weight.parse() else {
                    return Err(bad(format!("{weight} is not a weight")));
                };
                let Some(name) = &name else {
                    return Err(bad("an address before the first name".to_owned()));
                };
                weights
                    .entry(name.clone())
                    .or_default()
                    .push((parsed, weight));
            }
            _ => return Err(bad("too many words".to_owned())),
        }
    }
    Ok(weights)
}

/// A random address to put first: the larger its weight, the more often.
fn by_weight(addresses: &[Record], weights: &Weights, dice: &mut Dice) -> Option<usize> {
    let weight_of = |record: &Record| {
        let own = weights.get(&record.owner.to_lower())?;
        let address = record.view().address()?;
        let found = own.iter().find(|(there, _)| *there == address);
        found.map(|(_, weight)| u32::from(*weight))
    };
    let each: Vec<u32> = addresses
        .iter()
        .map(|it| weight_of(it).unwrap_or(1))
        .collect();
    let mut left = dice.roll().checked_rem(each.iter().sum())?;
    each.iter()
        .position(|weight| match left.checked_sub(*weight) {
            None => true,
            Some(rest) => {
                left = rest;
                false
            }
        })
}

impl Handler for LoadbalanceHandler {
    fn name(&self) -> &'static str {
        "loadbalance"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        // Replies of other types may have addresses too.
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        async move {
            let is_by_weight = matches!(request.qtype, Rtype::A | Rtype::AAAA | Rtype::SRV);
            let mut outcome = next.run(request).await;
            if let Outcome::Reply(reply) = &mut outcome
                && reply.rcode == Rcode::NOERROR
            {
                let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
                for section in [
                    &mut reply.answers,
                    &mut reply.authority,
                    &mut reply.additional,
                ] {
                    self.order(section, &mut dice, is_by_weight);
                }
            }
            outcome
        }
        .boxed()
    }

    fn background(self: Arc<Self>, cancel: CancellationToken) -> Option<BoxFuture<'static, ()>> {
        let (file, every) = match &self.balance.policy {
            Policy::Weighted { file, reload } if !reload.is_zero() => (file.clone(), *reload),
            Policy::Weighted { .. } | Policy::RoundRobin => return None,
        };
        let follow = async move {
            let mut watch = FileWatch::default();
            loop {
                tokio::select! {
                    () = cancel.cancelled() => return,
                    () = watch.next([&file], every) => {}
                }
                let (this, file) = (Arc::clone(&self), file.clone());
                // If the read panicked, the old weights stay.
                if tokio::task::spawn_blocking(move || this.look(&file))
                    .await
                    .is_err()
                {
                    tracing::error!("checking the file of weights failed");
                }
            }
        };
        Some(follow.boxed())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use corefile::place::Place;
    use dns::{Network, Rdata, Ttl};
    use std::time::Duration;

    /// Records of one name with these addresses.
    fn records(addresses: &[&str]) -> Vec<Record> {
        let record = |text: &&str| {
            let (rtype, rdata) = Rdata::address(text.parse().unwrap());
            Record {
                owner: "A.test.".parse().unwrap(),
                rtype,
                ttl: Ttl::decode(1),
                rdata,
            }
        };
        addresses.iter().map(record).collect()
    }

    fn handler(policy: Policy, prefer: Vec<Network>, weights: Weights) -> LoadbalanceHandler {
        let balance = Loadbalance {
            place: Place::start_of("Corefile"),
            policy,
            prefer,
        };
        LoadbalanceHandler::with_weights(balance, weights)
    }

    fn addresses(records: &[Record]) -> Vec<String> {
        let texts = records.iter().filter_map(|record| record.view().address());
        texts.map(|it| it.to_string()).collect()
    }

    #[test]
    fn an_address_comes_first_as_often_as_its_weight_says() {
        let text = "# weights\n\na.test\n10.0.0.1 3\n10.0.0.2 1\nother.test\n10.0.0.2 255\n";
        let weighted = Policy::Weighted {
            file: PathBuf::new(),
            reload: Duration::ZERO,
        };
        let balance = handler(weighted, vec![], read_weights(text).unwrap());
        let (mut dice, mut first) = (Dice::new(), 0);
        for _ in 0..4000 {
            let mut all = records(&["10.0.0.2", "10.0.0.1"]);
            balance.order(&mut all, &mut dice, true);
            first += u32::from(addresses(&all)[0] == "10.0.0.1");
        }
        assert!((2800..3200).contains(&first), "{first} of 4000");
    }

    #[test]
    fn preferred_networks_come_in_front_in_their_order() {
        let nets = ["10.2.0.0/16", "10.1.0.0/16"].map(|net| net.parse().unwrap());
        let balance = handler(Policy::RoundRobin, nets.to_vec(), Weights::new());
        let mut all = records(&["10.9.0.1", "10.1.0.1", "10.2.0.1"]);
        balance.order(&mut all, &mut Dice::new(), true);
        assert_eq!(addresses(&all), ["10.2.0.1", "10.1.0.1", "10.9.0.1"]);
    }

    #[test]
    fn a_wrong_file_of_weights_is_told_by_its_line() {
        for (text, line, what) in [
            ("10.0.0.1", 1, "10.0.0.1 has no weight"),
            ("10.0.0.1 7", 1, "an address before the first name"),
            ("a\nb 7", 2, "b is not an address"),
            ("a\n10.0.0.1 0", 2, "0 is not a weight"),
            ("a\n10.0.0.1 256", 2, "256 is not a weight"),
            ("a\n10.0.0.1 1 1", 2, "too many words"),
        ] {
            let what = what.to_owned();
            assert_eq!(read_weights(text), Err(BadWeights { line, what }));
        }
    }
}

//! `doctor`: tries each secondary of a Corefile, one line for each of its zones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use directives::config::{Catalog, Config, ServerBlock, Transfer};
use dns::tsig::{self, Key};
use dns::{Name, Serial};
use history::{Output, SCHEMA, Status};
use ops::{Clock, SystemClock};
use serde_json::json;

use crate::cli::answered::standing;
use crate::cli::args::{Configuration, Format, State};
use crate::cli::commands::{load, print};
use crate::doctor::{Diagnosis, Patient, Probed, Standing, diagnose, probe};
use crate::failure::Failure;

/// `doctor`.
///
/// # Errors
/// When the configuration is not usable, or something is wrong with a secondary.
pub fn doctor(configuration: &Configuration, state: &State, format: Format) -> Result<(), Failure> {
    let loaded = load(configuration)?;
    let state = &state.folder_with(&loaded.config);
    // The zones may change meanwhile: the serials before and after are compared.
    let before = standing(state);
    if before.is_none() {
        let state = state.display();
        tracing::warn!(
            "no server runs on the state folder {state}, so serials are not compared; name the folder of the running server with --state"
        );
    }
    let patients = patients(&loaded.config);
    if patients.is_empty() {
        let message = "the Corefile names no secondary: write transfer { to ADDRESS }";
        return Err(Failure::unusable(message));
    }
    let mut by_address: BTreeMap<SocketAddr, Vec<&Tries>> = BTreeMap::new();
    for tries in &patients {
        let address = tries.first.address;
        by_address.entry(address).or_default().push(tries);
    }
    // A secondary that does not answer delays no other.
    let visits: Vec<Visit<'_>> = std::thread::scope(|scope| {
        let visits: Vec<_> = by_address
            .values()
            .map(|patients| scope.spawn(|| visit_all(patients, before.as_ref())))
            .collect();
        let done = visits
            .into_iter()
            .map(|visit| visit.join().unwrap_or_default());
        done.flatten().collect()
    });
    let (after, now) = match before {
        Some(_) => (standing(state), SystemClock.now()),
        None => (None, SystemClock.now()),
    };
    let lines: Vec<(String, bool)> = visits
        .into_iter()
        .map(|visit| visit.line(after.as_ref(), now, format.output))
        .collect();
    let text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
    print(&text)?;
    let ill = lines.iter().filter(|(_, is_well)| !is_well).count();
    if ill > 0 || lines.len() < patients.len() {
        return Err(Failure::running(format!(
            "{ill} of {} zones at secondaries fail; the lines above have the fixes",
            lines.len()
        )));
    }
    Ok(())
}

/// One zone at one secondary, after it was tried.
struct Visit<'a> {
    /// With the first key of its line, if there is one.
    first: &'a Patient,
    /// The answers, with the key that it takes; or the zone for which it was not reached, so that it was not asked for this one.
    outcome: Result<(Option<Name>, Probed), &'a Name>,
}

impl Visit<'_> {
    /// The line of it, and whether all is well. `after` is the status of our server at `now`.
    fn line(self, after: Option<&Status>, now: Instant, output: Output) -> (String, bool) {
        let Self { first, outcome } = self;
        let diagnosis = match outcome {
            Ok((key, probed)) => {
                let after = after.and_then(|status| seen_of(status, first));
                diagnose(&probed.complete(after, now), key.as_ref())
            }
            Err(zone) => Diagnosis::Ill {
                what: format!("not tried, because it was not reached for {zone}"),
                fix: "see there".to_owned(),
            },
        };
        line(first, &diagnosis, output)
    }
}

/// Tries the zones at one secondary. If it was not reached for one zone, it is not asked for the others, because each try
/// takes seconds.
fn visit_all<'a>(patients: &[&'a Tries], before: Option<&Status>) -> Vec<Visit<'a>> {
    let mut unreached: Option<&Name> = None;
    let visits = patients.iter().map(|tries| {
        let first = &tries.first;
        let outcome = match unreached {
            Some(zone) => Err(zone),
            None => {
                let ours = before.and_then(|status| seen_of(status, first));
                let (key, probed) = tries.probed(ours.map(|it| it.serial));
                unreached = (!probed.findings.is_reached()).then_some(&first.zone);
                Ok((key, probed))
            }
        };
        Visit { first, outcome }
    });
    visits.collect()
}

/// The line of one zone at one secondary, and whether all is well.
fn line(patient: &Patient, diagnosis: &Diagnosis, output: Output) -> (String, bool) {
    let (is_well, message, fix) = match diagnosis {
        Diagnosis::Well(text) => (true, text, None),
        Diagnosis::Ill { what, fix } => (false, what, Some(fix)),
    };
    let Patient { zone, address, .. } = patient;
    let line = match output {
        Output::Text => format!("{zone} at {address}: {diagnosis}"),
        Output::Json => json!({
            "schema": SCHEMA,
            "zone": zone.to_string(),
            "secondary": address.to_string(),
            "good": is_well,
            "message": message,
            "fix": fix,
        })
        .to_string(),
    };
    (line, is_well)
}

/// One zone at one secondary, with each key that it may have while keys are exchanged.
struct Tries {
    /// With the first key of its line, if there is one.
    first: Patient,
    /// With the others.
    others: Vec<Patient>,
}

impl Tries {
    /// The answers with the first key that the secondary takes, and this key. If it takes none, those with the first.
    fn probed(&self, before: Option<Serial>) -> (Option<Name>, Probed) {
        let examine = |patient: &Patient| {
            let key = patient.key.as_ref().map(|key| key.name().clone());
            (key, probe(patient, before, &SystemClock))
        };
        let first = examine(&self.first);
        if !first.1.findings.refuses_key() {
            return first;
        }
        let mut others = self.others.iter().map(examine);
        let taken = others.find(|(_, probed)| !probed.findings.refuses_key());
        taken.unwrap_or(first)
    }
}

/// What it says of a zone at a secondary.
fn seen_of(status: &Status, patient: &Patient) -> Option<Standing> {
    let zone = patient.zone.to_string();
    let line = status.zones.iter().find(|it| it.zone == zone)?;
    let address = patient.address.to_string();
    let mut secondaries = status.secondaries.iter();
    let seen = secondaries.find(|it| it.zone == zone && it.secondary == address);
    let (asked, key, denied) = seen.map_or((None, None, None), |it| {
        (
            it.asked_seconds,
            it.asked_with.clone(),
            it.denied.clone().zip(it.denied_seconds),
        )
    });
    Some(Standing {
        serial: Serial::decode(line.serial?),
        asked: asked.map(Duration::from_secs),
        key,
        denied: denied.map(|(reason, seconds)| (reason, Duration::from_secs(seconds))),
    })
}

/// Each zone at each secondary, in the order of the Corefile.
fn patients(config: &Config) -> Vec<Tries> {
    let mut patients: Vec<Tries> = Vec::new();
    for block in &config.servers {
        for zone in block.zones_written() {
            let Some(transfer) = block.for_zone::<Transfer>(zone) else {
                continue;
            };
            for to in &transfer.secondaries {
                let is_known =
                    |Tries { first: it, .. }: &Tries| it.zone == *zone && it.address == to.address;
                if patients.iter().any(is_known) {
                    continue;
                }
                let with = |key: Option<Key>| Patient {
                    zone: zone.clone(),
                    address: to.address,
                    key: key.map(Arc::new),
                    source: transfer.source_for(to.address.ip()),
                    is_catalog: block.all::<Catalog>().any(|it| it.zone == *zone),
                };
                let mut keys = to.keys.iter().filter_map(|name| key_of(block, name));
                patients.push(Tries {
                    first: with(keys.next()),
                    others: keys.map(|key| with(Some(key))).collect(),
                });
            }
        }
    }
    patients
}

/// A key of this name.
fn key_of(block: &ServerBlock, name: &Name) -> Option<Key> {
    let key = block.key(name)?;
    let algorithm: tsig::Algorithm = key.algorithm.as_str().parse().ok()?;
    Some(Key::new(&key.name, algorithm, key.secret.expose()))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_secondary_that_is_not_reached_is_asked_for_one_zone_alone() {
        // Nobody listens where somebody did.
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = gone.local_addr().unwrap();
        drop(gone);
        let tries = |zone: &str| Tries {
            first: Patient {
                zone: Name::parse(zone).unwrap(),
                address,
                key: None,
                source: None,
                is_catalog: false,
            },
            others: Vec::new(),
        };
        let zones = [tries("a."), tries("b."), tries("c.")];
        let visits = visit_all(&zones.each_ref(), None).into_iter();
        let line = |visit: Visit<'_>| visit.line(None, SystemClock.now(), Output::Text);
        let lines: Vec<(String, bool)> = visits.map(line).collect();
        let [(first, false), (second, false), (third, false)] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert!(
            first.contains("not reached over UDP nor over TCP"),
            "{first}"
        );
        for line in [second, third] {
            let want = "FAIL: not tried, because it was not reached for a.; see there";
            assert!(line.ends_with(want), "{line}");
        }
    }
}

//! `doctor`: tries each secondary of a Corefile, one line for each of its zones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use directives::config::{Catalog, Config, ServerBlock, Transfer};
use dns::tsig::{self, Key};
use dns::{Name, Serial};
use history::{Output, Question, Request, SCHEMA, Status, ask};
use ops::SystemClock;
use serde_json::json;

use crate::cli::args::{Configuration, Format, State};
use crate::cli::commands::{load, print};
use crate::doctor::{Diagnosis, OurServer, Patient, Standing, diagnose, probe};
use crate::failure::Failure;

/// `doctor`.
///
/// # Errors
/// When the configuration is not usable, or something is wrong with a secondary.
pub fn doctor(configuration: &Configuration, state: &State, format: Format) -> Result<(), Failure> {
    let loaded = load(configuration)?;
    let state = &state.folder_with(&loaded.config);
    let is_running = our_status(state).is_some();
    if !is_running {
        tracing::warn!(
            "no server runs on this state folder, so serials are not compared; name the folder of the running server with --state"
        );
    }
    let ours = |patient: &Patient| {
        let status = is_running.then(|| our_status(state)).flatten()?;
        standing(status, patient)
    };
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
    let lines: Vec<(String, bool)> = std::thread::scope(|scope| {
        let visits: Vec<_> = by_address
            .values()
            .map(|patients| scope.spawn(|| visit_all(patients, &ours, format.output)))
            .collect();
        let done = visits
            .into_iter()
            .map(|visit| visit.join().unwrap_or_default());
        done.flatten().collect()
    });
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

/// Tries the zones at one secondary: the lines, and whether all is well. If it was not reached for one zone, it is not
/// asked for the others, because each try takes seconds.
fn visit_all(patients: &[&Tries], ours: &OurServer<'_>, output: Output) -> Vec<(String, bool)> {
    let mut unreached: Option<&Name> = None;
    let visits = patients.iter().map(|tries| {
        let diagnosis = unreached.map_or_else(
            || {
                let (diagnosis, is_reached) = tries.diagnosis(ours);
                unreached = (!is_reached).then_some(&tries.first.zone);
                diagnosis
            },
            |zone| Diagnosis::Ill {
                what: format!("not tried, because it was not reached for {zone}"),
                fix: "see there".to_owned(),
            },
        );
        line(&tries.first, &diagnosis, output)
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
    /// The diagnosis with the first key that the secondary takes, and whether it was reached. If it takes none, that with
    /// the first.
    fn diagnosis(&self, ours: &OurServer<'_>) -> (Diagnosis, bool) {
        let examine = |patient: &Patient| {
            let findings = probe(patient, ours, &SystemClock);
            let key = patient.key.as_ref().map(|key| key.name());
            let diagnosis = diagnose(&findings, key);
            ((diagnosis, findings.is_reached()), findings.refuses_key())
        };
        let (first, is_refused) = examine(&self.first);
        if !is_refused {
            return first;
        }
        let mut others = self.others.iter().map(examine);
        let taken = others.find(|(_, is_refused)| !is_refused);
        taken.map_or(first, |(found, _)| found)
    }
}

/// How things stand at the server that runs with this state folder.
fn our_status(state: &Path) -> Option<Status> {
    let question = Question {
        request: Request::Standing,
        output: Output::Json,
    };
    let mut text = Vec::new();
    ask(state, &question, &mut text)?.ok()?;
    serde_json::from_slice(&text).ok()
}

/// What it says of a zone at a secondary.
fn standing(status: Status, patient: &Patient) -> Option<Standing> {
    let zone = patient.zone.to_string();
    let line = status.zones.into_iter().find(|it| it.zone == zone)?;
    let address = patient.address.to_string();
    let mut secondaries = status.secondaries.into_iter();
    let seen = secondaries.find(|it| it.zone == zone && it.secondary == address);
    let (asked, key, denied) = seen.map_or((None, None, None), |it| {
        (
            it.asked_seconds,
            it.asked_with,
            it.denied.zip(it.denied_seconds),
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
        let lines = visit_all(&zones.each_ref(), &|_| None, Output::Text);
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

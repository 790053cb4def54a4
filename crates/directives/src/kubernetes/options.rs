//! The options of `kubernetes` that say which objects are seen, which names they give, and how hard the API server may
//! be pressed, with CoreDNS's words, meanings and limits.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use corefile::lexer::Token;
use corefile::parser::Line;
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use kubernetes::facts::{Selector, SelectorError};

/// The default time that the start waits for the first complete lists.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The names of pods made from their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pods {
    /// There are none.
    #[default]
    Disabled,
    /// For any address in every existing namespace: the server answers from the name alone.
    Insecure,
    /// For the addresses of existing pods: the records are in the zone.
    Verified,
}

/// The limits on requests to the API server. For `None` the source's default counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApiLimits {
    /// The average time between two requests: one by `apiserver_qps`.
    pub interval: Option<Duration>,
    /// The requests that may be sent at once after a pause: `apiserver_burst`.
    pub burst: Option<NonZeroU32>,
    /// The requests that may wait for their answer at once: `apiserver_max_inflight`.
    pub in_flight: Option<NonZeroU32>,
}

/// The most records of objects: `limits`. For `None` the default counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordLimits {
    /// Of an RRset.
    pub rrset: Option<NonZeroUsize>,
    /// Of a Service.
    pub service: Option<NonZeroUsize>,
    /// Of a namespace.
    pub namespace: Option<NonZeroUsize>,
}

/// The options for the contents of zones and for the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The labels of the namespaces that are watched; `None` means all namespaces.
    pub namespace_labels: Option<Selector>,
    /// The labels of the Services, EndpointSlices and Pods that are watched; `None` means all of them.
    pub labels: Option<Selector>,
    /// Names of pods.
    pub pods: Pods,
    /// Whether an endpoint without a host name takes its pod's name.
    pub endpoint_pod_names: bool,
    /// Whether endpoints are watched.
    pub endpoints: bool,
    /// Whether endpoints have names by topology zone.
    pub zonal: bool,
    /// Whether a Service with cluster IPs and without a ready endpoint is left out.
    pub hides_empty_services: bool,
    /// The most records of objects.
    pub limits: RecordLimits,
    /// The limits on requests to the API server.
    pub api: ApiLimits,
    /// The time that the start waits for the first complete lists.
    pub startup_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace_labels: None,
            labels: None,
            pods: Pods::Disabled,
            endpoint_pod_names: false,
            endpoints: true,
            zonal: false,
            hides_empty_services: false,
            limits: RecordLimits::default(),
            api: ApiLimits::default(),
            startup_timeout: STARTUP_TIMEOUT,
        }
    }
}

impl Options {
    /// Whether zones have the same contents with both.
    pub(super) fn same_contents(&self, other: &Self) -> bool {
        let Self {
            namespace_labels,
            labels,
            pods,
            endpoint_pod_names,
            endpoints,
            zonal,
            hides_empty_services,
            limits,
            api: _,
            startup_timeout: _,
        } = self;
        *namespace_labels == other.namespace_labels
            && *labels == other.labels
            && *pods == other.pods
            && *endpoint_pod_names == other.endpoint_pod_names
            && *endpoints == other.endpoints
            && *zonal == other.zonal
            && *hides_empty_services == other.hides_empty_services
            && *limits == other.limits
    }
}

#[derive(Default)]
pub(super) struct Draft {
    namespace_labels: Option<(Place, Selector)>,
    labels: Option<Selector>,
    pods: Option<Pods>,
    endpoint_pod_names: Option<()>,
    noendpoints: Option<Place>,
    zonal: Option<Place>,
    ignore_empty: Option<Place>,
    limits: Option<RecordLimits>,
    /// `apiserver_qps`; zero is the default.
    qps: Option<Option<Duration>>,
    /// `apiserver_burst`; zero is the default.
    burst: Option<Option<NonZeroU32>>,
    /// `apiserver_max_inflight`; zero is the default.
    in_flight: Option<Option<NonZeroU32>>,
    startup_timeout: Option<Duration>,
}

impl Draft {
    /// Reads one option. Returns false if it is none of these.
    pub(super) fn take(&mut self, line: &Line, report: &mut Report) -> bool {
        let place = line.name.place.clone();
        match line.name.text.as_str() {
            "namespace_labels" => {
                let value = selector(line, report).map(|selector| (place, selector));
                line.set(&mut self.namespace_labels, value, report);
            }
            "labels" => {
                let value = selector(line, report);
                line.set(&mut self.labels, value, report);
            }
            "pods" => {
                let value = pods(line, report);
                line.set(&mut self.pods, value, report);
            }
            "endpoint_pod_names" => {
                line.refuse_arguments(report);
                line.set(&mut self.endpoint_pod_names, Some(()), report);
            }
            "noendpoints" => {
                line.refuse_arguments(report);
                line.set(&mut self.noendpoints, Some(place), report);
            }
            "zonal" => {
                line.refuse_arguments(report);
                line.set(&mut self.zonal, Some(place), report);
            }
            "ignore" => {
                let value = ignore(line, report).then_some(place);
                line.set(&mut self.ignore_empty, value, report);
            }
            "limits" => {
                let value = limits(line, report);
                line.set(&mut self.limits, value, report);
            }
            "apiserver_qps" => {
                let value = line.value("NUMBER", interval, report);
                line.set(&mut self.qps, value, report);
            }
            "apiserver_burst" => {
                let value = line.value("NUMBER", amount, report);
                line.set(&mut self.burst, value, report);
            }
            "apiserver_max_inflight" => {
                let value = line.value("NUMBER", amount, report);
                line.set(&mut self.in_flight, value, report);
            }
            "startup_timeout" => {
                let value = line.value("DURATION", timeout, report);
                line.set(&mut self.startup_timeout, value, report);
            }
            _ => return false,
        }
        true
    }

    /// The options, with their defaults. `has_namespaces` says whether `namespaces` is written too.
    pub(super) fn finish(self, has_namespaces: bool, report: &mut Report) -> Options {
        let Self {
            namespace_labels,
            labels,
            pods,
            endpoint_pod_names,
            noendpoints,
            zonal,
            ignore_empty,
            limits,
            qps,
            burst,
            in_flight,
            startup_timeout,
        } = self;
        if let Some((place, _)) = namespace_labels.as_ref().filter(|_| has_namespaces) {
            let message = "namespaces and namespace_labels cannot both be set";
            report.error(place, message, "remove one");
        }
        if let (Some(place), Some(_)) = (&ignore_empty, &noendpoints) {
            let message = "without endpoints every Service with cluster IPs is empty, and ignored";
            report.warn(place, message, "remove noendpoints or ignore empty_service");
        }
        if let (Some(place), Some(_)) = (&zonal, &noendpoints) {
            let message = "zonal and noendpoints cannot both be set";
            report.error(place, message, "remove one");
        }
        Options {
            namespace_labels: namespace_labels.map(|(_, selector)| selector),
            labels,
            pods: pods.unwrap_or_default(),
            endpoint_pod_names: endpoint_pod_names.is_some(),
            endpoints: noendpoints.is_none(),
            zonal: zonal.is_some(),
            hides_empty_services: ignore_empty.is_some(),
            limits: limits.unwrap_or_default(),
            api: ApiLimits {
                interval: qps.flatten(),
                burst: burst.flatten(),
                in_flight: in_flight.flatten(),
            },
            startup_timeout: startup_timeout.unwrap_or(STARTUP_TIMEOUT),
        }
    }
}

/// Reads a label selector from all words of a line.
fn selector(line: &Line, report: &mut Report) -> Option<Selector> {
    let words = line.at_least_one("EXPRESSION", report)?;
    let text: Vec<&str> = words.iter().map(|token| token.text.as_str()).collect();
    match Selector::parse(&text.join(" ")) {
        Ok(selector) => Some(selector),
        Err(error) => {
            let fix = match &error {
                SelectorError::Unexpected { .. } => {
                    "write it as kubectl does: app=web,tier in (front, back),!internal"
                }
                SelectorError::Key(_) | SelectorError::Value(_) | SelectorError::Order(_) => {
                    "fix the expression"
                }
            };
            let option = &line.name.text;
            let message = format!("{option}: not a label selector: {error}");
            report.error(&words[0].place, message, fix);
            None
        }
    }
}

/// Reads `pods disabled|insecure|verified`.
fn pods(line: &Line, report: &mut Report) -> Option<Pods> {
    let token = line.exactly_one("disabled|insecure|verified", report)?;
    match token.text.as_str() {
        "disabled" => Some(Pods::Disabled),
        "insecure" => Some(Pods::Insecure),
        "verified" => Some(Pods::Verified),
        _ => {
            let message = format!("wrong value for pods: {}", token.shown());
            let fix = "write: pods disabled, pods insecure or pods verified";
            report.error(&token.place, message, fix);
            None
        }
    }
}

/// Reads `ignore empty_service`. Without a word it has no effect, as in CoreDNS.
fn ignore(line: &Line, report: &mut Report) -> bool {
    let Some((first, more)) = line.arguments.split_first() else {
        let message = "ignore needs an argument";
        report.warn(&line.name.place, message, "write: ignore empty_service");
        return false;
    };
    if first.text != "empty_service" {
        let message = format!("ignore has no option {}", first.shown());
        report.error(&first.place, message, "write: ignore empty_service");
        return false;
    }
    let too_many = |token: &Token| format!("ignore: {} is one argument too many", token.shown());
    if let Some(token) = more.first() {
        report.error(&token.place, too_many(token), "remove it");
    }
    true
}

/// Reads `limits [rrset N] [service N] [namespace N]`.
fn limits(line: &Line, report: &mut Report) -> Option<RecordLimits> {
    let mut limits = RecordLimits::default();
    let words = line.at_least_one("rrset N|service N|namespace N", report)?;
    for pair in words.chunks(2) {
        let limit = match pair[0].text.as_str() {
            "rrset" => &mut limits.rrset,
            "service" => &mut limits.service,
            "namespace" => &mut limits.namespace,
            _ => &mut None,
        };
        let number: Option<NonZeroUsize> = pair.get(1).and_then(|it| it.text.parse().ok());
        let is_known = ["rrset", "service", "namespace"].contains(&pair[0].text.as_str());
        if !is_known || number.is_none() || limit.is_some() {
            let message = format!("limits: {} has no meaning here", pair[0].shown());
            let fix = "write each at most once, with a whole number from 1: limits rrset N service N namespace N";
            report.error(&pair[0].place, message, fix);
            return None;
        }
        *limit = number;
    }
    Some(limits)
}

/// Reads a number of requests a second as the time between two. `None` for 0, the default.
fn interval(text: &str) -> Result<Option<Duration>, &'static str> {
    let wrong = "not a number of requests a second such as 50 or 2.5";
    let rate: f64 = text.parse().map_err(|_| wrong)?;
    if !rate.is_finite() || rate < 0.0 {
        return Err(wrong);
    }
    if rate == 0.0 {
        return Ok(None);
    }
    Duration::try_from_secs_f64(1.0 / rate)
        .map(Some)
        .map_err(|_| "too small")
}

/// Reads a whole number; `None` for 0, the default.
fn amount(text: &str) -> Result<Option<NonZeroU32>, &'static str> {
    let amount: u32 = text.parse().map_err(|_| "not a whole number from 0")?;
    Ok(NonZeroU32::new(amount))
}

/// Reads the time that the start waits.
fn timeout(text: &str) -> Result<Duration, String> {
    go_duration(text).map_err(|error| error.to_string())
}

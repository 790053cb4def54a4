//! CoreDNS's own metrics: queries by server and zone, panics, the process.

use ops::metrics as m;
use ops::metrics::Sample;
use server::Common;
use server::tally::{DURATIONS, PROTOS, SIZES};

/// The values that are read at scrape.
pub(crate) fn samples(common: &Common, out: &mut Vec<Sample>) {
    let version = env!("CARGO_PKG_VERSION");
    out.push(Sample::new(m::COREDNS_BUILD_INFO, &[version, "", ""], 1.0));
    let panics = number(common.stats.panics.get());
    out.push(Sample::new(m::PANICS, &[], panics));
    for (server, zone, name) in common.tallies.words() {
        out.push(Sample::new(
            m::PLUGIN_ENABLED,
            &[&server, &zone, "", name],
            1.0,
        ));
    }
    status_codes(common, out);
    for (server, zone, tally) in common.tallies.all() {
        let labels = [server.as_str(), zone.as_str(), ""];
        let with = |more: &[&str]| {
            [&labels, more]
                .concat()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let mut any = false;
        for (proto, family, rtype, value) in tally.requests() {
            any = true;
            let labels = with(&[proto, family, rtype]);
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            out.push(Sample::new(m::DNS_REQUESTS, &labels, number(value)));
        }
        if !any {
            continue;
        }
        for (rcode, by, value) in tally.replies() {
            let labels = [labels[0], labels[1], "", &rcode, by];
            out.push(Sample::new(m::DNS_RESPONSES, &labels, number(value)));
        }
        out.push(Sample::new(
            m::DNS_DO_REQUESTS,
            &labels,
            number(tally.dnssec_ok()),
        ));
        let durations = tally.durations();
        out.push(Sample::histogram(
            m::DNS_DURATION,
            &labels,
            &DURATIONS,
            durations,
        ));
        for (place, proto) in PROTOS.iter().enumerate() {
            let labels = [labels[0], labels[1], "", proto];
            let [request, reply] = tally.sizes(place);
            if request.0.iter().all(|count| *count == 0) {
                continue;
            }
            out.push(Sample::histogram(
                m::DNS_REQUEST_BYTES,
                &labels,
                &SIZES,
                request,
            ));
            out.push(Sample::histogram(
                m::DNS_RESPONSE_BYTES,
                &labels,
                &SIZES,
                reply,
            ));
        }
    }
    process(out);
}

/// The replies of HTTPS by their status, of QUIC by their error code.
fn status_codes(common: &Common, out: &mut Vec<Sample>) {
    for (server, codes) in common.tallies.codes() {
        let scheme = server.split("://").next();
        for (code, count) in codes.all() {
            let (metric, code) = match scheme {
                Some("https") => (m::HTTPS_RESPONSES, code.to_string()),
                Some("https3") => (m::HTTPS3_RESPONSES, code.to_string()),
                Some(_) | None => (m::QUIC_RESPONSES, format!("{code:#x}")),
            };
            out.push(Sample::new(metric, &[&server, &code], number(count)));
        }
    }
}

/// A whole number as a metric's value.
#[expect(
    clippy::cast_precision_loss,
    reason = "counters beyond 2^53 lose their last digits"
)]
const fn number(value: u64) -> f64 {
    value as f64
}

/// Samples of the process from the kernel, as far as it has them.
fn process(out: &mut Vec<Sample>) {
    // proc(5): times in hundredths of a second on every Linux of today, memory in pages.
    const TICKS: f64 = 100.0;
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let stat = read("/proc/self/stat");
    let fields: Vec<&str> = match stat.rsplit_once(") ") {
        Some((_, rest)) => rest.split(' ').collect(),
        None => Vec::new(),
    };
    // Counted from the third field, the state.
    let field = |at: usize| fields.get(at - 3).and_then(|text| text.parse::<f64>().ok());
    let mut put = |metric, value: Option<f64>| {
        out.extend(value.map(|value| Sample::new(metric, &[], value)));
    };
    let cpu = field(14)
        .zip(field(15))
        .map(|(user, system)| (user + system) / TICKS);
    put(m::CPU_SECONDS, cpu);
    put(m::VIRTUAL_BYTES, field(23));
    let status = read("/proc/self/status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    put(m::RESIDENT_BYTES, resident.map(|kib| kib * 1024.0));
    let boot = read("/proc/stat");
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime "));
    let boot = boot.and_then(|text| text.trim().parse::<f64>().ok());
    put(
        m::START_TIME,
        boot.zip(field(22))
            .map(|(boot, since)| boot + since / TICKS),
    );
    let open = std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    put(m::OPEN_FDS, open.map(|open| number(open as u64)));
    let limits = read("/proc/self/limits");
    let most = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let most = most.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    put(m::MAX_FDS, most);
}

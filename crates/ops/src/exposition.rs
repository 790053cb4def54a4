//! Translates OpenMetrics into Prometheus's text format 0.0.4, for scrapers that do not ask for OpenMetrics.
//!
//! The lines of samples are the same. OpenMetrics names the family of a counter without the `_total` of its samples,
//! and the family of an info without `_info`. In the older format a family has the name of its samples.

/// Content type of format 0.0.4.
pub(super) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Content type of OpenMetrics.
pub(super) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether a scraper with this `Accept` header gets OpenMetrics.
pub(super) fn wants_openmetrics(accept: &str) -> bool {
    accept.contains("application/openmetrics-text")
}

/// Translates OpenMetrics into format 0.0.4.
pub(super) fn plain(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    // HELP comes before TYPE, and only TYPE shows the name of the family in the older format.
    let mut help = None;
    for line in openmetrics.lines() {
        let Some(meta) = line.strip_prefix("# ") else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        if let Some(text) = meta.strip_prefix("HELP ") {
            help = text.split_once(' ');
        } else if let Some((name, kind)) = meta
            .strip_prefix("TYPE ")
            .and_then(|text| text.split_once(' '))
        {
            let (ending, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, text)) = help.take().filter(|(of, _)| *of == name) {
                out.push_str(&format!("# HELP {name}{ending} {text}\n"));
            }
            out.push_str(&format!("# TYPE {name}{ending} {kind}\n"));
        }
        // The older format has neither UNIT nor EOF.
    }
    out
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::info::Info;
    use prometheus_client::registry::{Registry, Unit};

    use super::*;

    #[test]
    fn families_are_called_as_their_samples() {
        let mut registry = Registry::default();
        registry.register("queries", "Queries", Counter::<u64>::default());
        registry.register_with_unit("age", "Age", Unit::Seconds, Gauge::<i64>::default());
        registry.register("build", "Build", Info::new(vec![("version", "1")]));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert_eq!(
            plain(&text),
            "# HELP queries_total Queries.\n# TYPE queries_total counter\nqueries_total 0\n\
             # HELP age_seconds Age.\n# TYPE age_seconds gauge\nage_seconds 0\n\
             # HELP build_info Build.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n"
        );
    }

    #[test]
    fn openmetrics_is_for_scrapers_that_name_it() {
        for (accept, want) in [
            ("", false),
            ("*/*", false),
            ("text/plain;version=0.0.4", false),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3",
                true,
            ),
        ] {
            assert_eq!(wants_openmetrics(accept), want, "{accept}");
        }
    }
}

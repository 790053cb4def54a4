//! Limits of encrypted listeners, which `https`, `https3` and `quic` set.

use corefile::parser::Statement;
use corefile::place::Report;

use crate::config::block::{Directive, ServerBlock};
use crate::config::zone::Scheme;

/// An option that sets a limit.
pub(crate) struct Limit<'a> {
    /// Its name in the Corefile.
    pub option: &'static str,
    /// Its least value.
    pub least: u32,
    /// Its value, if it is written.
    pub value: &'a mut Option<u32>,
}

/// Reads a directive whose options are all limits.
pub(crate) fn read<D: Directive>(
    directive: &Statement,
    limits: &mut [Limit<'_>],
    report: &mut Report,
) {
    directive.refuse_arguments(report);
    for line in &directive.lines {
        let mut known = limits.iter_mut();
        let Some(limit) = known.find(|limit| limit.option == line.name.text) else {
            directive.unknown_option(line, D::OPTIONS, report);
            continue;
        };
        let least = limit.least;
        let number = |text: &str| match text.parse::<u32>() {
            Ok(number) if number >= least => Ok(number),
            Ok(_) => Err(format!("less than {least}")),
            Err(error) => Err(error.to_string()),
        };
        let value = line.value("NUMBER", number, report);
        line.set(limit.value, value, report);
    }
}

/// Warns about blocks that limit listeners which they do not have.
pub(crate) fn check_scheme<D: Directive>(
    blocks: &[ServerBlock],
    scheme: Scheme,
    report: &mut Report,
) {
    for block in blocks.iter().filter(|block| block.has::<D>()) {
        if !block.zones.iter().any(|key| key.scheme == scheme) {
            let (word, scheme) = (D::WORD, scheme.as_str());
            let message =
                format!("{word} has no effect: no key of this block begins with {scheme}://");
            report.warn(
                &block.place,
                message,
                format!("write {scheme}://ZONE as a key, or remove it"),
            );
        }
    }
}

/// The most connections: the written number, or `default`. 0 means no limit.
pub(crate) fn connections(given: Option<u32>, default: usize) -> usize {
    match given {
        None => default,
        Some(0) => usize::MAX,
        Some(number) => usize::try_from(number).unwrap_or(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use server::Settings;

    use crate::config::tests::{config, faults, warnings};
    use crate::config::{Https3Limits, HttpsLimits, QuicLimits};

    fn text(directives: &str) -> String {
        format!("https://. https3://.:444 quic://. {{\n tls c k\n{directives}\n}}\n")
    }

    fn settings(directives: &str) -> Settings {
        let block = &config(&text(directives)).servers[0];
        let mut settings = Settings::default();
        block.get::<HttpsLimits>().unwrap().apply(&mut settings);
        block.get::<Https3Limits>().unwrap().apply(&mut settings);
        block.get::<QuicLimits>().unwrap().apply(&mut settings);
        settings
    }

    #[test]
    fn limits_of_encrypted_listeners_have_coredns_s_defaults_and_options() {
        let default = settings("https\nhttps3 {\n}\nquic");
        assert_eq!(default, Settings::default());
        let [https, https3, quic] = [default.https, default.https3, default.quic];
        assert_eq!((https.max_connections, https.max_streams), (200, 250));
        assert_eq!((https3.max_connections, https3.max_streams), (200, 256));
        assert_eq!((quic.max_connections, quic.max_streams), (200, 256));
        assert_eq!(default.quic_workers, 1024);
        let given = settings(
            "https {\n max_connections 7\n max_streams 6\n}\nhttps3 {\n max_connections 8\n max_streams 9\n}\n\
             quic {\n max_streams 10\n worker_pool_size 11\n max_connections 12\n}",
        );
        let [https, https3, quic] = [given.https, given.https3, given.quic];
        assert_eq!((https.max_connections, https.max_streams), (7, 6));
        assert_eq!((https3.max_connections, https3.max_streams), (8, 9));
        assert_eq!((quic.max_streams, given.quic_workers), (10, 11));
        assert_eq!(quic.max_connections, 12);
        let any = settings(
            "https {\n max_connections 0\n max_streams 0\n}\nhttps3 {\n max_connections 0\n max_streams 0\n}\n\
             quic {\n max_connections 0\n}",
        );
        let https = any.https;
        assert_eq!(
            (https.max_connections, https.max_streams),
            (usize::MAX, 250)
        );
        assert_eq!(any.quic.max_connections, usize::MAX);
        let https3 = any.https3;
        assert_eq!(
            (https3.max_connections, https3.max_streams),
            (usize::MAX, 100)
        );
    }

    #[test]
    fn faults_of_limits_say_where_they_are() {
        for (line, want) in [
            ("https 200", "1:7: https: '200' is one argument too many"),
            (
                "https {\n max_connections\n}",
                "2:2: max_connections needs an argument",
            ),
            (
                "https {\n max_connections -1\n}",
                "2:18: max_connections '-1': invalid digit found in string",
            ),
            (
                "https {\n worker_pool_size 1\n}",
                "2:2: https has no option 'worker_pool_size'",
            ),
            (
                "https3 {\n worker_pool_size 1\n}",
                "2:2: https3 has no option 'worker_pool_size'",
            ),
            (
                "quic {\n max_streams 0\n}",
                "2:14: max_streams '0': less than 1",
            ),
            (
                "quic {\n max_bytes 1\n}",
                "2:2: quic has no option 'max_bytes'",
            ),
        ] {
            assert_eq!(faults(line), [want], "{line}");
        }
    }

    #[test]
    fn limits_without_a_listener_are_warned_of() {
        for word in ["https", "https3", "quic"] {
            let said = warnings(&format!(". {{\n {word}\n}}\n"));
            let want = format!("{word} has no effect: no key of this block begins with {word}://");
            assert!(said.len() == 1 && said[0].contains(&want), "{said:?}");
        }
        assert!(warnings(&text("https\nhttps3\nquic")).is_empty());
    }
}

//! `log` and `errors`: the lines of both servers, and what differs in each run taken out of them.

use std::path::Path;
use std::time::Duration;

use regex::Regex;

use super::case::{Case, case, with};
use crate::support::process::{now, poll_for};

/// How long lines may take.
const PATIENCE: Duration = Duration::from_secs(8);

/// The sorted lines of a log that contain a text: as soon as there are so many, or what there is in the end.
pub fn lines(log: &Path, text: &str, count: usize) -> Vec<String> {
    let read = || {
        let all = std::fs::read_to_string(log).unwrap_or_default();
        let lines = all.lines().filter(|line| line.contains(text));
        let mut lines: Vec<String> = lines.map(normal).collect();
        lines.sort();
        lines
    };
    let enough = || (read().len() >= count).then_some(());
    let _came = poll_for(now() + PATIENCE, Duration::from_millis(20), enough).is_some();
    read()
}

/// A line with its level, without time, ports and durations.
fn normal(line: &str) -> String {
    let (level, text) = match line.strip_prefix('[') {
        Some(theirs) => theirs.split_once("] ").unwrap_or((theirs, "")),
        None => {
            let rest = line.split_once(' ').map_or(line, |it| it.1.trim_start());
            rest.split_once(' ').unwrap_or((rest, ""))
        }
    };
    let level = level.replace("WARNING", "WARN");
    let mut text = text.trim_start().to_owned();
    for (differs, word) in [
        (r"127\.0\.0\.1:\d+", "127.0.0.1:P"),
        (r"port=\d+", "port=P"),
        (r"\b[0-9]+\.[0-9]+s\b", "T"),
    ] {
        let differs = Regex::new(differs).expect("patterns of ours are right");
        text = differs.replace_all(&text, word).into_owned();
    }
    format!("{level} {text}")
}

/// What gives lines of all classes, for a name of the case.
macro_rules! kinds {
    ($word:literal) => {
        concat!(
            "a.",
            $word,
            ".test A\na.",
            $word,
            ".test AAAA +do\nA.",
            $word,
            ".TEST TXT +tcp\nnx.",
            $word,
            ".test A\n",
            "nodata.",
            $word,
            ".test A +e=4096\nnodatabare.",
            $word,
            ".test A\nservfail.",
            $word,
            ".test A\nrefused.",
            $word,
            ".test A\nformerr.",
            $word,
            ".test A\nrich.",
            $word,
            ".test MX +e=1232\ncname.",
            $word,
            ".test A +cd +ad\n",
            "a.",
            $word,
            ".test A CH\na.",
            $word,
            ".test HTTPS +nord\n",
        )
    };
}

/// All cases. Each has a word of its own in its names.
pub const CASES: &[Case] = &[
    case(
        "log every field",
        "log . \"{remote} port={port} {>id} {>opcode} {type} {class} {name} {proto} {size} {>do} {>bufsize} {rcode} {>rflags} took={duration} {local}\"\nforward . UP1",
        concat!(kinds!("fields"), "logged 13 fields.test"),
    ),
    case(
        "log sizes of replies",
        "log . \"{name} {size} {rsize}\"\nlog other.test\nforward . UP1",
        "a.plain.test A\na.plain.test TXT\nnx.plain.test A\nrich.plain.test MX\ncname.plain.test A\nbig.plain.test TXT +tcp\nservfail.plain.test A\nlogged 7 plain.test",
    ),
    case(
        "log sizes of replies with EDNS",
        "log . \"{name} {size} {rsize}\"\nforward . UP1",
        "a.ednssize.test A +e=1232\nlogged 1 ednssize.test != size: INFO a.ednssize.test. 44 64",
    ),
    case(
        "log in the common format",
        "log\nforward . UP1",
        concat!(kinds!("common"), "until a.test A\n"),
    ),
    case(
        "log metadata without metadata",
        "log . \"{name} [{/forward/upstream}] [{/none}] [{nothing}] [{}] [{>x}]\"\nforward . UP1",
        concat!(kinds!("nometa"), "logged 13 nometa.test"),
    ),
    case(
        "log metadata of the forwarder",
        "metadata\nlog . \"{name} [{/forward/upstream}]\"\nforward . UP1",
        concat!(kinds!("meta"), "logged 13 meta.test"),
    ),
    case(
        "log class and type",
        "metadata\nlog . \"{name} {/log/class} {/log/type}\"\nforward . UP1",
        concat!(kinds!("classes"), "logged 13 classes.test"),
    ),
    case(
        "log success",
        "log . \"{name} {rcode} one\" {\n class success\n}\nforward . UP1",
        concat!(
            kinds!("succ"),
            "a.succ.test A\nwait 200\nlogged 8 succ.test"
        ),
    ),
    case(
        "log denial",
        "log . \"{name} {rcode}\" {\n class denial\n}\nforward . UP1",
        concat!(kinds!("deni"), "wait 200\nlogged 2 deni.test"),
    ),
    case(
        "log error",
        "log . \"{name} {rcode}\" {\n class error\n}\nforward . UP1",
        concat!(kinds!("erro"), "wait 200\nlogged 3 erro.test"),
    ),
    case(
        "log denial and error",
        "log . \"{name} {rcode}\" {\n class denial error\n}\nforward . UP1",
        concat!(kinds!("deer"), "wait 200\nlogged 5 deer.test"),
    ),
    case(
        "log all classes",
        "log . \"{name} {rcode}\" {\n class all\n}\nforward . UP1",
        concat!(kinds!("every"), "wait 200\nlogged 13 every.test"),
    ),
    case(
        "log one zone",
        "log one.zonal.test \"{name} {rcode}\"\nforward . UP1",
        "a.one.zonal.test A\na.two.zonal.test A\none.zonal.test A\nxone.zonal.test A\nwait 200\nlogged 2 zonal.test",
    ),
    case(
        "log two rules",
        "log one.rules.test \"{name} first\" {\n class denial\n}\nlog . \"{name} second\"\nforward . UP1",
        "a.one.rules.test A\nnx.one.rules.test A\na.rules.test A\nwait 200\nlogged 2 rules.test",
    ),
    case(
        "log several names",
        "log one.names.test two.names.test \"{name} {type}\"\nforward . UP1",
        "a.one.names.test A\na.two.names.test AAAA\na.three.names.test A\nwait 200\nlogged 2 names.test",
    ),
    case(
        "log of a name only",
        "log common.test \"{common}\"\nlog combi.test \"{combined}\"\nforward . UP1",
        "a.other-name.test A\nwait 100\nlogged 0 other-name.test",
    ),
    case(
        "log of rewritten questions",
        "log . \"{name} {type} {rcode} {size} {rsize}\"\nrewrite name suffix .outer.rewri.test .inner.rewri.test answer auto\nforward . UP1",
        "a.outer.rewri.test A\nnx.outer.rewri.test A\nwait 100\nlogged 2 rewri.test",
    ),
    case(
        "log of kept answers",
        "cache 30\nlog . \"{name} {rcode} {rsize} {>rflags}\"\nforward . UP1",
        "a.kept.test A\na.kept.test A\na.kept.test A +do\nnx.kept.test A\nnx.kept.test A\nwait 100\nlogged 5 kept.test",
    ),
    case(
        "log of what acl refuses",
        "log . \"{name} {rcode} {>rflags}\"\nacl {\n block type TXT\n filter type MX\n}\nforward . UP1",
        "a.acled.test TXT +do\na.acled.test MX +do\na.acled.test TXT +e=1232 != opt-unasked: rcode 5 rd ? a.acled.test. TXT 1 opt rcode+0 do=false\na.acled.test A\nlogged 4 acled.test",
    ),
    case(
        "log of what acl drops",
        "log . \"{name} {rcode} {>rflags} {rsize} {>bufsize}\"\nacl {\n drop type TXT\n}\nforward . UP1",
        "a.dropped.test TXT +e=1232\na.dropped.test A\nlogged 2 dropped.test",
    ),
    case(
        "log of sizes over connections",
        "log . \"{name} {proto} {>bufsize}\"\nforward . UP1",
        "a.streamed.test A +tcp +e=1232\na.streamed.test A +tcp\na.streamed.test A +e=1400\nlogged 3 streamed.test",
    ),
    case(
        "log of large and cut replies",
        "log . \"{name} {rcode} {>rflags} {>bufsize} {proto}\"\nforward . UP1",
        "big.sizes.test TXT\nbig.sizes.test TXT +e=1232\nbig.sizes.test TXT +tcp\ntcset.sizes.test A\ntcset.sizes.test A +tcp\nbig.sizes.test TXT +e=100\nlogged 6 sizes.test",
    ),
    case(
        "log where nobody answers the name",
        "log . \"{name} {rcode} {>rflags} {rsize}\"\nforward fwd.test UP1",
        "a.nobody.test A\na.nobody.test A +e=1232\nlogged 2 nobody.test",
    ),
    with(
        "errors of an upstream that is gone",
        "dead",
        "errors\nforward . UP1 {\n max_connect_attempts 1\n}",
        "a.gone.test A\na.gone.test A +tcp\nlogged 2 gone.test",
    ),
    with(
        "errors of a silent upstream",
        "silent",
        "errors\nforward . UP1 {\n read_timeout 200ms\n max_connect_attempts 1\n}",
        "a.silent.test A\na.silent.test A +tcp\nlogged 2 silent.test",
    ),
    with(
        "errors of an upstream that closes",
        "ok",
        "errors\nforward . UP1 {\n force_tcp\n max_connect_attempts 1\n}",
        "a.closer.test A\nclose.closer.test A\nlogged 1 closer.test",
    ),
    with(
        "errors, all are down",
        "dead",
        "errors\nforward . UP1 {\n failfast_all_unhealthy_upstreams\n max_fails 1\n health_check 50ms\n}",
        "a.first.test A\nwait 1500\na.alldown.test A\nlogged 1 alldown.test",
    ),
    with(
        "errors to stdout",
        "dead",
        "errors stdout\nforward . UP1 {\n max_connect_attempts 1\n}",
        "a.stdout.test A\nlogged 1 stdout.test",
    ),
    with(
        "errors with a stack",
        "dead",
        "errors {\n stacktrace\n}\nforward . UP1 {\n max_connect_attempts 1\n}",
        "a.stack.test A\nlogged 1 stack.test",
    ),
    with(
        "errors of nobody",
        "ok",
        "errors\nforward fwd.test UP1",
        "a.nothing.test A\nwait 200\nlogged 0 nothing.test",
    ),
    with(
        "errors summed up",
        "dead",
        "errors {\n consolidate 1s \"^summed|.*connection refused$\"\n}\nforward . UP1 {\n max_connect_attempts 1\n}",
        "a.summed.test A\nb.summed.test A\nc.summed.test A\nlogged 1 summed",
    ),
    with(
        "errors summed up as warnings",
        "silent",
        "errors {\n consolidate 1s \"^warned|.* i/o timeout$\" warning\n}\nforward . UP1 {\n read_timeout 50ms\n max_connect_attempts 1\n}",
        "a.warned.test A\nb.warned.test A\nlogged 1 warned",
    ),
    with(
        "errors summed up as information",
        "silent",
        "errors {\n consolidate 1s \"^informed|^read udp .* i/o timeout$\" info\n}\nforward . UP1 {\n read_timeout 50ms\n max_connect_attempts 1\n}",
        "a.informed.test A\nb.informed.test A\nlogged 1 informed",
    ),
    with(
        "errors summed up, the first shown",
        "dead",
        "errors {\n consolidate 1s \"^shown.test|read: connection refused$\" error show_first\n}\nforward . UP1 {\n max_connect_attempts 1\n}",
        "a.shown.test A\nb.shown.test A\nc.shown.test A\nlogged 2 shown.test",
    ),
    with(
        "errors, one shown and none to sum up",
        "dead",
        "errors {\n consolidate 500ms \"^single.test|.*refused$\" warning show_first\n}\nforward . UP1 {\n max_connect_attempts 1\n}",
        "a.single.test A\nwait 1200\nlogged 1 single.test",
    ),
    with(
        "errors of two patterns",
        "dead",
        "errors {\n consolidate 1s \"^twice.test|^dial tcp\" warning\n consolidate 1s \"^other twice.test|refused\"\n}\nforward . UP1 {\n max_connect_attempts 1\n}",
        "a.twice.test A +tcp\nb.twice.test A\nc.twice.test A\nlogged 2 twice.test",
    ),
    with(
        "errors that no pattern fits",
        "dead",
        "errors {\n consolidate 1s \"never\" warning\n}\nforward . UP1 {\n max_connect_attempts 1\n}",
        "a.unfit.test A\nlogged 1 unfit.test",
    ),
];

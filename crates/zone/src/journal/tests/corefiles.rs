//! The Corefiles that were in use come back, each once, and the oldest go.

use super::*;

fn corefile(since_ms: u64, digest: &str, text: &str) -> KeptCorefile {
    KeptCorefile {
        since_ms,
        digest: digest.into(),
        text: text.into(),
    }
}

fn kept(bench: &mut Bench) -> Vec<KeptCorefile> {
    bench.journal().reader().corefiles().unwrap()
}

#[test]
fn each_corefile_is_kept_once_with_the_time_since_when_it_was_in_use() {
    let mut bench = Bench::new();
    assert_eq!(kept(&mut bench), []);
    // Larger than a part, and empty.
    let all = [
        corefile(1, "a", &"x".repeat(9000)),
        corefile(2, "b", ""),
        corefile(3, "a", "x"),
    ];
    for one in &all {
        bench.journal().note_corefile(one).unwrap();
        let again = KeptCorefile {
            since_ms: 99,
            ..one.clone()
        };
        bench.journal().note_corefile(&again).unwrap();
    }
    bench.open();
    assert_eq!(kept(&mut bench), all);
}

#[test]
fn of_a_thousand_and_five_corefiles_the_oldest_five_are_gone() {
    let mut bench = Bench::new();
    for number in 1..=1005 {
        let one = corefile(number, &number.to_string(), "x");
        bench.journal().note_corefile(&one).unwrap();
    }
    let kept = kept(&mut bench);
    let ends = (kept.len(), kept[0].since_ms, kept[999].since_ms);
    assert_eq!(ends, (1000, 6, 1005));
}

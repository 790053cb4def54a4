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
        bench.journal().note(Some(one), &[]).unwrap();
        let again = KeptCorefile {
            since_ms: 99,
            ..one.clone()
        };
        bench.journal().note(Some(&again), &[]).unwrap();
    }
    bench.open();
    assert_eq!(kept(&mut bench), all);
}

#[test]
fn the_oldest_corefiles_go_and_times_do_not_go_back() {
    let mut bench = Bench::new();
    for (number, since_ms) in [1, 2, 9, 4, 5, 12].into_iter().enumerate() {
        let one = corefile(since_ms, &number.to_string(), "x");
        let mut batch = Batch::default();
        bench.journal().put_corefile(&mut batch, &one, 4).unwrap();
        bench.journal().store.write(batch).unwrap();
    }
    let times: Vec<u64> = kept(&mut bench).iter().map(|it| it.since_ms).collect();
    assert_eq!(times, [9, 9, 9, 12]);
}

//! The Corefile is followed: when it is looked at, and what came of that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};

use crate::corefile::{self, Config};
use crate::ops::metrics::{self as m, Sample};

/// What came of reloading, for metrics.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    /// How many were refused.
    failed: AtomicU64,
    /// What is in use. Locked for one look or one write.
    used: Mutex<InUse>,
}

/// The configuration that is in use.
#[derive(Debug, Default)]
struct InUse {
    /// Its digest.
    digest: String,
    /// Whether it was reloaded; otherwise it is that of the start.
    is_reloaded: bool,
}

impl Reloads {
    /// Nothing was reloaded yet: this is in use since the start.
    pub(super) fn of(digest: &str) -> Self {
        Self {
            used: Mutex::new(InUse {
                digest: digest.to_owned(),
                is_reloaded: false,
            }),
            ..Self::default()
        }
    }

    /// What is to be taken into use, beside what is; `None` where the text is the same.
    pub(super) fn change(&self, digest: &str) -> Option<String> {
        let InUse { digest: used, .. } = &*self.used();
        (used != digest).then(|| format!("the Corefile, SHA512 {digest:.16}…, before {used:.16}…"))
    }

    /// A configuration was taken into use.
    pub(super) fn taken(&self, digest: &str) {
        *self.used() = InUse {
            digest: digest.to_owned(),
            is_reloaded: true,
        };
    }

    /// What is in use.
    fn used(&self) -> MutexGuard<'_, InUse> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One was refused.
    pub(super) fn refused(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// The values that are read at scrape.
    pub(super) fn samples(&self, out: &mut Vec<Sample>) {
        #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53")]
        let failed = self.failed.load(Ordering::Relaxed) as f64;
        out.push(Sample::new(m::RELOAD_FAILED, &[], failed));
        let used = self.used();
        if used.is_reloaded {
            let labels = ["sha512", &used.digest];
            out.push(Sample::new(m::RELOAD_VERSION, &labels, 1.0));
        }
    }
}

/// When the Corefile is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rhythm(Option<Duration>);

impl Rhythm {
    /// As a configuration says: of several blocks with `reload` the last counts. What is added or taken
    /// off for the jitter is drawn here, once.
    pub(super) fn of(config: &Config) -> Self {
        let blocks = config.servers.iter().rev();
        let mut reloads = blocks.filter_map(|block| block.operations.reload.as_ref());
        Self(reloads.next().map(drawn))
    }

    /// Waits until it is time; for ever where the Corefile is not followed.
    pub(super) async fn wait(self) {
        match self.0 {
            None => std::future::pending().await,
            Some(time) => tokio::time::sleep(time).await,
        }
    }
}

/// The interval, up to half the jitter more or less.
fn drawn(reload: &corefile::Reload) -> Duration {
    let mut drawn = [0; 4];
    // Without randomness all replicas look at the same time, and no harm is done.
    if SystemRandom::new().fill(&mut drawn).is_err() {
        return reload.interval;
    }
    let share = f64::from(u32::from_be_bytes(drawn)) / f64::from(u32::MAX);
    reload.interval - reload.jitter / 2 + reload.jitter.mul_f64(share)
}

/// What is shared about reloading.
pub(super) type ReloadsNow = Arc<Reloads>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corefile::{Overrides, parse_text};

    #[test]
    fn the_same_text_again_is_no_change_and_another_names_both() {
        let reloads = Reloads::of("1111111111111111aa");
        assert_eq!(reloads.change("1111111111111111aa"), None);
        let change = reloads.change("2222222222222222bb").unwrap();
        let want = "the Corefile, SHA512 2222222222222222…, before 1111111111111111…";
        assert_eq!(change, want);
        reloads.taken("2222222222222222bb");
        assert_eq!(reloads.change("2222222222222222bb"), None);
    }

    #[test]
    fn the_last_block_says_when_and_the_jitter_stays_within_its_bounds() {
        let text = "a {\n reload\n}\nb {\n reload 10s 4s\n}\nc {\n}\n";
        let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
        for _ in 0..100 {
            let Rhythm(Some(time)) = Rhythm::of(&loaded.config) else {
                panic!("it is followed");
            };
            assert!((8..=12).contains(&time.as_secs()), "{time:?}");
        }
        let none = parse_text("Corefile", "a {\n}\n", &Overrides::default(), &|_| None).unwrap();
        assert_eq!(Rhythm::of(&none.config), Rhythm(None));
    }
}

//! The Corefile is followed: when it is looked at, and what came of that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};

use crate::corefile::{self, Config};
use crate::ops::metrics::{self as m, Sample};

/// What came of reloading, for metrics.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    /// How many were refused.
    failed: AtomicU64,
    /// The digest of what was taken, once something was. Locked for one look or one write.
    taken: Mutex<Option<String>>,
    /// The digest of what is in use. Locked as the other.
    used: Mutex<String>,
}

impl Reloads {
    /// Nothing was reloaded yet: this is in use since the start.
    pub(super) fn of(digest: &str) -> Self {
        Self {
            used: Mutex::new(digest.to_owned()),
            ..Self::default()
        }
    }

    /// What is to be taken into use, beside what is; `None` where the text is the same.
    pub(super) fn change(&self, digest: &str) -> Option<String> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        (*used != digest).then(|| format!("the Corefile, SHA512 {digest:.16}…, before {used:.16}…"))
    }

    /// A configuration was taken into use.
    pub(super) fn taken(&self, digest: &str) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = Some(digest.to_owned());
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        digest.clone_into(&mut used);
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
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = &*taken {
            out.push(Sample::new(m::RELOAD_VERSION, &["sha512", digest], 1.0));
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

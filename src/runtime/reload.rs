//! Follows the Corefile: when it is read, and the counters of reloads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use directives::config::Config;
use ops::metrics as m;
use ops::metrics::Sample;
use ops::watch::FileWatch;
use ring::rand::{SecureRandom, SystemRandom};
use writer::change_of_corefile;
use zone::ZoneSet;
use zone::journal::serial_files::{with_sum, without_sum, write_durably};
use zone::journal::{Damage, FileFinding};

/// The file in the state folder that holds the digest.
const FILE: &str = "corefile";
/// Where it is written before it is renamed.
const NEXT: &str = "corefile.next";

/// The digits of a digest (SHA-512).
const DIGEST_DIGITS: usize = 128;

/// The digest that a file has; `None` when it is damaged. Older releases wrote it without a checksum.
fn digest_of(text: &str) -> Option<&str> {
    let line = text.trim_end();
    let is_hex = |text: &str| text.bytes().all(|octet| octet.is_ascii_hexdigit());
    let old = (line.len() == DIGEST_DIGITS).then_some(line);
    without_sum(line).or(old).filter(|digest| is_hex(digest))
}

/// Checks the file for an auditor.
pub(crate) fn check(state: &Path) -> io::Result<Option<FileFinding>> {
    let octets = match std::fs::read(state.join(FILE)) {
        Ok(octets) => octets,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_whole = digest_of(&String::from_utf8_lossy(&octets)).is_some();
    Ok((!is_whole).then(|| FileFinding {
        file: FILE,
        damage: Some(Damage::Changed),
        what: "the digest of the Corefile that was in use is not as it was written: whether the next start brings another Corefile \
               is not known"
            .to_owned(),
    }))
}

/// The reloads, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    /// How many were refused.
    failed: AtomicU64,
    /// Whether the last Corefile that was read is not in use.
    is_refused: AtomicBool,
    /// Locked for one read or one write.
    used: Mutex<InUse>,
    /// The state folder, in which its digest outlasts the process.
    state: PathBuf,
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
    /// Before the first reload. The configuration of the last run counts as in use, if it is known.
    pub(crate) fn of(state: &Path, digest: &str) -> Self {
        let before = std::fs::read_to_string(state.join(FILE)).ok();
        let before = before.and_then(|text| digest_of(&text).map(str::to_owned));
        Self {
            used: Mutex::new(InUse {
                digest: before.unwrap_or_else(|| digest.to_owned()),
                is_reloaded: false,
            }),
            state: state.to_owned(),
            ..Self::default()
        }
    }

    /// The change from the configuration in use to another; `None` if the text is the same.
    pub(crate) fn change(&self, digest: &str) -> Option<String> {
        let InUse { digest: used, .. } = &*self.used();
        (used != digest).then(|| change_of_corefile(digest, used))
    }

    /// The configuration of the start is in use.
    pub(crate) fn started(&self, digest: &str) {
        self.keep(digest, false);
    }

    /// A reloaded configuration is in use.
    pub(crate) fn taken(&self, digest: &str) {
        self.is_refused.store(false, Ordering::Relaxed);
        self.keep(digest, true);
    }

    /// Stores the digest in use, also for the next start.
    fn keep(&self, digest: &str, is_reloaded: bool) {
        let line = format!("{}\n", with_sum(digest));
        let is_kept = |kept: String| kept == line;
        if !std::fs::read_to_string(self.state.join(FILE)).is_ok_and(is_kept)
            && let Err(error) = write_durably(&self.state, FILE, NEXT, line.as_bytes())
        {
            tracing::warn!(
                %error,
                "the digest of the Corefile cannot be stored; the history may lack a change of it that comes with the next start"
            );
        }
        *self.used() = InUse {
            digest: digest.to_owned(),
            is_reloaded,
        };
    }

    fn used(&self) -> MutexGuard<'_, InUse> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A Corefile was refused.
    pub(crate) fn refused(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.is_refused.store(true, Ordering::Relaxed);
    }

    /// The values that are read at scrape.
    pub(crate) fn samples(&self, out: &mut Vec<Sample>) {
        #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53")]
        let failed = self.failed.load(Ordering::Relaxed) as f64;
        out.push(Sample::new(m::RELOAD_FAILED, &[], failed));
        let is_refused = f64::from(u8::from(self.is_refused.load(Ordering::Relaxed)));
        out.push(Sample::new(m::COREFILE_REFUSED, &[], is_refused));
        let used = self.used();
        if used.is_reloaded {
            let labels = ["sha512", &used.digest];
            out.push(Sample::new(m::RELOAD_VERSION, &labels, 1.0));
        }
    }
}

/// Logs the zones that come and go with a reload.
pub(crate) fn log_zones(before: &ZoneSet, after: &ZoneSet) {
    let only = |of: &ZoneSet, other: &ZoneSet| {
        let only = of.all().iter().filter(|it| other.get(it.apex()).is_none());
        let only: Vec<String> = only.map(|zone| zone.apex().to_string()).collect();
        only.join(" ")
    };
    let (added, removed) = (only(after, before), only(before, after));
    if !added.is_empty() {
        tracing::info!(zones = added, "the Corefile has new zones");
    }
    if !removed.is_empty() {
        tracing::warn!(
            zones = removed,
            "the Corefile has these zones no more: they are not answered, and the store keeps their history"
        );
    }
}

/// When the Corefile is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rhythm(Option<Duration>);

impl Rhythm {
    /// As a configuration says: of several blocks with `reload` the last counts. What is added or taken
    /// off for the jitter is drawn here, once.
    pub(crate) fn of(config: &Config) -> Self {
        let blocks = config.servers.iter().rev();
        let mut reloads = blocks.filter_map(|block| block.get::<directives::config::Reload>());
        Self(reloads.next().map(drawn))
    }

    /// Waits until the Corefile may have changed or the interval is over; for ever where it is not followed.
    pub(crate) async fn wait(self, corefile: &Path, watch: &mut FileWatch) {
        match self.0 {
            None => std::future::pending().await,
            Some(time) => watch.next([corefile], time).await,
        }
    }
}

/// The interval, up to half the jitter more or less.
fn drawn(reload: &directives::config::Reload) -> Duration {
    let mut drawn = [0; 4];
    // Without randomness all replicas look at the same time, and no harm is done.
    if SystemRandom::new().fill(&mut drawn).is_err() {
        return reload.interval;
    }
    let share = f64::from(u32::from_be_bytes(drawn)) / f64::from(u32::MAX);
    reload.interval - reload.jitter / 2 + reload.jitter.mul_f64(share)
}

pub(crate) type ReloadsNow = Arc<Reloads>;

#[cfg(test)]
mod tests {
    use super::*;
    use directives::config::{Overrides, parse_text};

    #[test]
    fn the_same_text_again_is_no_change_and_another_names_both() {
        let state = tempfile::tempdir().unwrap();
        let reloads = Reloads::of(state.path(), "1111111111111111aa");
        assert_eq!(reloads.change("1111111111111111aa"), None);
        let change = reloads.change("2222222222222222bb").unwrap();
        let want = "the Corefile, digest 2222222222222222…, before 1111111111111111…";
        assert_eq!(change, want);
        reloads.taken("2222222222222222bb");
        assert_eq!(reloads.change("2222222222222222bb"), None);
    }

    #[test]
    fn a_change_that_comes_with_a_start_is_named_once() {
        let state = tempfile::tempdir().unwrap();
        let change = |digest: &str| {
            let reloads = Reloads::of(state.path(), digest);
            let change = reloads.change(digest);
            reloads.started(digest);
            assert_eq!(reloads.change(digest), None);
            change
        };
        assert_eq!(change("1111111111111111aa"), None);
        let named = "the Corefile, digest 2222222222222222…, before 1111111111111111…";
        assert_eq!(change("2222222222222222bb").as_deref(), Some(named));
        assert_eq!(change("2222222222222222bb"), None);
        // A file that no server wrote is ignored.
        std::fs::write(state.path().join(FILE), "something else").unwrap();
        assert_eq!(change("2222222222222222bb"), None);
    }

    /// The mistake stays for hours, and the same text is not tried again.
    #[test]
    fn a_refused_corefile_is_a_metric_until_one_is_taken() {
        let state = tempfile::tempdir().unwrap();
        let reloads = Reloads::of(state.path(), "1111111111111111aa");
        let value = |metric: ops::metrics::Metric| {
            let mut samples = Vec::new();
            reloads.samples(&mut samples);
            let found = samples.iter().find(|it| it.metric.name == metric.name);
            found.map(|it| it.value)
        };
        assert_eq!(value(m::COREFILE_REFUSED), Some(0.0));
        reloads.refused();
        reloads.refused();
        assert_eq!(value(m::COREFILE_REFUSED), Some(1.0));
        assert_eq!(value(m::RELOAD_FAILED), Some(2.0));
        reloads.taken("1111111111111111aa");
        assert_eq!(value(m::COREFILE_REFUSED), Some(0.0), "it was put back");
        assert_eq!(value(m::RELOAD_FAILED), Some(2.0));
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

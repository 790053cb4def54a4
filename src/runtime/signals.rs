//! The signals that the process listens to.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Shut down: SIGTERM, SIGINT.
    End(&'static str),
    /// End at once: SIGQUIT.
    Quit,
    /// Reload the Corefile: SIGUSR1.
    Reload,
}

/// The signals.
pub(crate) struct Signals {
    /// SIGTERM.
    term: Signal,
    /// SIGINT.
    int: Signal,
    /// SIGQUIT.
    quit: Signal,
    /// SIGUSR1.
    reload: Signal,
    /// SIGHUP: ignored as in CoreDNS, so that a terminal that closes ends nothing.
    hang_up: Signal,
    /// SIGUSR1 came while only the end was awaited.
    put_off: bool,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(|error| Failure::running(error.to_string()));
        Ok(Self {
            term: on(SignalKind::terminate())?,
            int: on(SignalKind::interrupt())?,
            quit: on(SignalKind::quit())?,
            reload: on(SignalKind::user_defined1())?,
            hang_up: on(SignalKind::hangup())?,
            put_off: false,
        })
    }

    /// The next wish.
    pub(crate) async fn next(&mut self) -> Wish {
        if std::mem::take(&mut self.put_off) {
            return Wish::Reload;
        }
        self.heard().await
    }

    async fn heard(&mut self) -> Wish {
        loop {
            tokio::select! {
                _ = self.term.recv() => return Wish::End("SIGTERM"),
                _ = self.int.recv() => return Wish::End("SIGINT"),
                _ = self.quit.recv() => return Wish::Quit,
                _ = self.reload.recv() => return Wish::Reload,
                _ = self.hang_up.recv() => tracing::info!("SIGHUP is ignored; SIGUSR1 reloads"),
            }
        }
    }

    /// The next signal to end. One to reload is kept for later.
    pub(crate) async fn end(&mut self) -> Wish {
        loop {
            match self.heard().await {
                Wish::Reload => self.put_off = true,
                wish @ (Wish::End(_) | Wish::Quit) => return wish,
            }
        }
    }
}

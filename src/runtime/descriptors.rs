//! How many files and sockets the process may have open, and how many of them go to upstreams.

use directives::handlers::UpstreamSockets;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::Settings;

/// Descriptors of the store, certificates, watches, HTTP and the runtime, with room to spare.
const OF_THE_PROCESS: usize = 256;
/// The most sockets towards upstreams, however many descriptors there are: each waits with a buffer.
const MOST_UPSTREAM: usize = 16_384;
/// The usual limit, if the system has none.
const USUAL: usize = 1024;

/// Raises the limit of open files as far as the system allows.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let wanted = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::warn!(%error, ?current, "the limit of open files cannot be raised");
    }
}

/// The sockets towards upstreams, as the limit of open files allows. `others` are the connections beside those of DNS.
pub(crate) fn upstream_sockets(others: usize) -> UpstreamSockets {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.map_or(USUAL, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let connections = Settings::default().tcp.max_connections;
    UpstreamSockets::new(share(limit, connections.saturating_add(others)))
}

/// How many of so many descriptors may go to upstreams: what a listener full of connections and the process
/// leave, but never less than a quarter.
fn share(limit: usize, connections: usize) -> usize {
    let left = limit.saturating_sub(connections.saturating_add(OF_THE_PROCESS));
    left.max(limit / 4).min(MOST_UPSTREAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_the_store_keep_their_room() {
        assert_eq!(share(usize::MAX, 1000), MOST_UPSTREAM);
        assert_eq!(share(4096, 1000), 4096 - 1000 - OF_THE_PROCESS);
        assert_eq!(share(1024, 1000), 256);
    }
}

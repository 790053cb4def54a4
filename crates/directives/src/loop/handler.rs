//! `loop`: sends a question that nobody else asks to this server at the start. If it comes back through a forwarder,
//! queries go round and round, and the process ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dns::{Name, Response, Rtype};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Request};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::handlers::random_id;

const WORD: &str = "loop";
/// The most times that the question may arrive: once when it is sent, and once more if it comes back.
const MOST: u32 = 2;
/// The time for which asking is tried.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time for which a returning question is still expected after the reply.
const LOOKOUT: Duration = Duration::from_secs(2);

pub(crate) struct LoopHandler {
    /// The first zone of the block.
    zone: Name,
    /// The question's name.
    name: Name,
    /// The address that the block listens on.
    address: SocketAddr,
    /// The number of arrivals of the question; [`u32::MAX`] once the probe is over.
    seen: AtomicU32,
    /// The error message, once the question came too often.
    fault: OnceLock<String>,
    /// Wakes the background task then.
    found: Notify,
}

impl LoopHandler {
    /// The handler of a block with this first zone and this listener.
    pub(crate) fn new(zone: &Name, host: Option<IpAddr>, port: u16) -> Self {
        let number = || {
            let parts = [random_id(), random_id(), random_id(), random_id()];
            parts
                .iter()
                .fold(0_u64, |all, part| all << 16 | u64::from(*part))
                >> 2
        };
        let label = || number().to_string();
        // If the zone is too long for two more labels, the question is for the zone itself.
        let name = zone.child(&label()).and_then(|below| below.child(&label()));
        let host = match host {
            Some(IpAddr::V6(v6)) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            Some(IpAddr::V4(v4)) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            Some(host) => host,
            None => Ipv4Addr::LOCALHOST.into(),
        };
        Self {
            zone: zone.clone(),
            name: name.unwrap_or_else(|_| zone.clone()),
            address: SocketAddr::new(host, port),
            seen: AtomicU32::new(0),
            fault: OnceLock::new(),
            found: Notify::new(),
        }
    }

    fn is_off(&self) -> bool {
        self.seen.load(Ordering::Relaxed) == u32::MAX
    }

    /// Sends the question and waits for any reply.
    async fn ask(&self) -> std::io::Result<()> {
        let any: IpAddr = match self.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(self.address).await?;
        let id = random_id();
        let mut query = id.to_be_bytes().to_vec();
        query.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        query.extend_from_slice(self.name.as_wire());
        query.extend_from_slice(&Rtype::HINFO.0.to_be_bytes());
        query.extend_from_slice(&[0, 1]);
        socket.send(&query).await?;
        let mut buffer = [0; 512];
        loop {
            let length = socket.recv(&mut buffer).await?;
            if Response::decode(&buffer[..length]).is_ok_and(|response| response.id == id) {
                return Ok(());
            }
        }
    }

    /// Asks until there is a reply, and then waits for the question to come back.
    async fn probe(&self) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Ok(Ok(())) = timeout(LOOKOUT, self.ask()).await {
                break;
            }
            self.seen.store(0, Ordering::Relaxed);
            sleep(Duration::from_secs(1)).await;
        }
        // In both cases the handler ignores the question from then on.
        let _over = timeout_at(Instant::now() + LOOKOUT, std::future::pending::<()>())
            .await
            .is_err();
        self.seen.store(u32::MAX, Ordering::Relaxed);
    }

    /// Probes. If there is a loop it returns before it is cancelled, which ends the process.
    async fn watch(self: Arc<Self>, cancel: CancellationToken) {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = self.found.notified() => return,
            () = self.probe() => {}
        }
        cancel.cancelled().await;
    }
}

impl Handler for LoopHandler {
    fn name(&self) -> &'static str {
        WORD
    }

    fn is_probe(&self) -> bool {
        true
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        question.qtype != Rtype::HINFO || self.is_off() || question.name != self.name.as_wire()
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        if request.qtype == Rtype::HINFO && !self.is_off() && request.name == self.name {
            let seen = self.seen.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            if seen > MOST {
                let (zone, name) = (&self.zone, &self.name);
                let (client, address) = (request.origin.client, self.address);
                self.fault.get_or_init(|| {
                    format!(
                        "plugin/loop: Loop ({client} -> {address}) detected for zone \"{zone}\", see \
                         https://coredns.io/plugins/loop#troubleshooting. Query: \"HINFO {name}\""
                    )
                });
                self.found.notify_one();
                // The question goes round no more, and the process ends.
                return std::future::ready(Outcome::Dropped).boxed();
            }
        }
        next.run(request)
    }

    fn background(self: Arc<Self>, cancel: CancellationToken) -> Option<BoxFuture<'static, ()>> {
        Some(self.watch(cancel).boxed())
    }

    fn fault(&self) -> Option<String> {
        self.fault.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::testing::{Counting, ask, chain};

    #[test]
    fn the_third_time_the_question_comes_it_is_a_loop() {
        let probe = Arc::new(LoopHandler::new(&"t.".parse().unwrap(), None, 1));
        assert_eq!(probe.name.label_count(), 3);
        let fore = vec![Arc::clone(&probe) as Arc<dyn Handler>];
        let server = chain(fore, vec![Arc::new(Counting::default())]);
        for _ in 0..3 {
            assert!(ask(&server, "x.t. TYPE13").starts_with("NOERROR"));
        }
        let question = format!("{} TYPE13", probe.name);
        for _ in 0..2 {
            assert!(ask(&server, &question).starts_with("NOERROR"));
        }
        assert!(probe.found.notified().now_or_never().is_none());
        assert_eq!(probe.fault(), None);
        // From then on it goes no further, and the error is logged once.
        assert_eq!(ask(&server, &question), "dropped");
        assert!(probe.found.notified().now_or_never().is_some());
        let said = probe.fault().unwrap();
        let want = "plugin/loop: Loop (192.0.2.1:4000 -> 127.0.0.1:1) detected for zone \"t.\"";
        assert!(said.starts_with(want), "{said}");
        assert_eq!(ask(&server, &question), "dropped");
        assert_eq!(probe.fault(), Some(said));
    }
}

//! `health` asks itself, as CoreDNS does: how long its answer takes shows how busy the machine is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use corefile::{GoDuration, HttpAddress, HttpHost};
use ops::Clock;
use ops::metrics::Metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How often.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// From when on an answer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// The addresses of health, which a reload may change.
pub(crate) type HealthNow = Arc<ArcSwap<Vec<HttpAddress>>>;

/// Asks all health listeners every second until cancelled.
pub(crate) async fn run(
    addresses: HealthNow,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    cancel: CancellationToken,
) -> Result<(), std::convert::Infallible> {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            () = tokio::time::sleep(INTERVAL) => {}
        }
        for address in addresses.load_full().iter() {
            let start = clock.now();
            let asked = timeout(PATIENCE, ask(address)).await;
            let took = clock.now().saturating_duration_since(start);
            metrics.counts.health_seconds.observe(took.as_secs_f64());
            if !matches!(asked, Ok(Ok(()))) {
                metrics.counts.health_failures.inc();
                tracing::warn!("plugin/health: Local health request failed");
            } else if took > SLOW {
                let took = GoDuration(took);
                tracing::warn!("plugin/health: Local health request took more than 1s: {took}");
            }
        }
    }
}

/// Asks one listener.
async fn ask(address: &HttpAddress) -> std::io::Result<()> {
    let mut stream = match &address.host {
        // By address: a container image need not have a file that says where localhost is.
        HttpHost::Any => {
            let here = [
                IpAddr::from(Ipv4Addr::LOCALHOST),
                IpAddr::from(Ipv6Addr::LOCALHOST),
            ];
            let here = here.map(|ip| SocketAddr::new(ip, address.port));
            TcpStream::connect(&here[..]).await?
        }
        HttpHost::Address(ip) if ip.is_unspecified() => {
            let here = IpAddr::from(Ipv4Addr::LOCALHOST);
            TcpStream::connect(SocketAddr::new(here, address.port)).await?
        }
        HttpHost::Address(ip) => TcpStream::connect((*ip, address.port)).await?,
        HttpHost::Name(name) => TcpStream::connect((name.as_str(), address.port)).await?,
    };
    let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    if &head == b"HTTP/1.1 200" {
        Ok(())
    } else {
        Err(std::io::ErrorKind::InvalidData.into())
    }
}

//! Tests of encrypted connections, with listeners in this process: sharing, ends, silence and certificates.

use futures_util::future::join_all;
use ops::testing::soon;
use server::testing::{Running, Setup, run_also_on};
use server::{Listener, Proto, TlsIdentity, TlsMaterial};

use super::*;
use crate::config::handler_metrics;
use crate::forward::metrics::{PROXY_CONNECTION_HITS, PROXY_CONNECTION_MISSES};

/// The protocols whose connections carry many queries at once.
const SHARED: [Proto; 3] = [Proto::Https, Proto::Https3, Proto::Quic];
/// The answer of an upstream.
const ANSWER: &str = "NOERROR | a.t. 9 IN A 10.1.2.3";

/// Answers after a while or never, if the name says so.
struct Sluggish;

impl Handler for Sluggish {
    fn name(&self) -> &'static str {
        "sluggish"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, _next: Next) -> BoxFuture<'a, Outcome> {
        async {
            match request.name.to_string().split('.').next() {
                Some("slow") => tokio::time::sleep(Duration::from_millis(200)).await,
                Some("silent") => std::future::pending().await,
                _ => {}
            }
            let mut reply = Reply::empty("sluggish", Rcode::NOERROR, 0);
            let (rtype, rdata) = dns::Rdata::address([10, 1, 2, 3].into());
            reply.answers.push(dns::Record {
                owner: request.name.clone(),
                rtype,
                ttl: dns::Ttl::decode(9),
                rdata,
            });
            Outcome::Reply(reply)
        }
        .boxed()
    }
}

/// An upstream in this process.
struct Site {
    running: Running,
    proto: Proto,
    address: SocketAddr,
    /// Its TLS settings.
    over: UpstreamTls,
    metrics: HandlerMetrics,
}

impl Site {
    /// Starts an upstream that closes connections after this idle time.
    fn start(proto: Proto, idle: Duration) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["dns.test".to_owned()]).unwrap();
        let material = TlsMaterial {
            certificates: made.cert.pem().into_bytes(),
            key: made.signing_key.serialize_pem().into_bytes(),
            clients: None,
        };
        let mut setup = Setup::new(vec![]);
        setup.handlers[0] = vec![Arc::new(Sluggish)];
        setup.settings.tcp.idle_timeout = idle;
        setup.settings.tcp.first_request_timeout = idle;
        setup.tls = Some(Arc::new(TlsIdentity::new(&material).unwrap()));
        let listener = Listener::bind_encrypted(([127, 0, 0, 1], 0).into(), proto, &[]).unwrap();
        let address = listener.address();
        Self {
            running: run_also_on(&setup.server(), vec![listener]),
            proto,
            address,
            over: over(proto, made.cert.der().clone()),
            metrics: handler_metrics(),
        }
    }

    /// A handler that uses it.
    fn forward(&self, options: &str) -> ForwardHandler {
        let config = config(&format!("forward . 192.0.2.1 {{\n{options}\n}}"));
        let over = Some(self.over.clone());
        let upstream = Upstream::new(self.address, over, &config, &self.metrics);
        ForwardHandler::new(config, vec![upstream], false, &self.metrics)
    }

    /// The connections that it has accepted, and those that are open.
    fn connections(&self) -> (u64, u64) {
        let stats = &self.running.stats;
        match self.proto {
            Proto::Udp | Proto::Tcp | Proto::Tls | Proto::Https => {
                (stats.tcp_accepted.get(), stats.tcp_open.get())
            }
            Proto::Https3 | Proto::Quic => (stats.quic_accepted.get(), stats.quic_open.get()),
        }
    }

    /// Waits until it has no connection.
    async fn until_empty(&self) {
        soon(async {
            while self.connections().1 > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
}

/// The TLS settings for an upstream with this certificate.
fn over(proto: Proto, certificate: CertificateDer<'static>) -> UpstreamTls {
    let (protocol, offered) = match proto {
        Proto::Udp | Proto::Tcp | Proto::Tls => (Secured::Tls, "dot"),
        Proto::Https => (Secured::Https(https()), "h2"),
        Proto::Https3 => (Secured::Https3(https()), "h3"),
        Proto::Quic => (Secured::Quic, "doq"),
    };
    let mut config = trusting(certificate);
    config.alpn_protocols = vec![offered.into()];
    UpstreamTls {
        config: Arc::new(config),
        name: ServerName::try_from("dns.test").unwrap(),
        protocol,
    }
}

/// The answer to a question, through a handler.
async fn ask(server: &Arc<Router>, question: &str) -> String {
    text(
        &soon(Arc::clone(server).answer(&mut request(question))).await,
        1,
    )
}

#[tokio::test]
async fn queries_at_once_share_a_connection_while_it_takes_them() {
    for proto in SHARED {
        let site = Site::start(proto, Duration::from_secs(60));
        let server = chain(vec![], vec![Arc::new(site.forward("max_fails 0"))]);
        for (count, connections) in [(50, 1), (150, 2), (100, 2)] {
            let names = (0..count).map(|number| format!("slow.{number}.t."));
            let server = &server;
            let asked = names.map(|name| async move {
                let answer = ask(server, &format!("{name} A")).await;
                assert_eq!(answer, format!("NOERROR | {name} 9 IN A 10.1.2.3"));
            });
            join_all(asked).await;
            assert_eq!(site.connections().0, connections, "{proto:?} {count}");
        }
        let label = |name, value: &str| (name, value.to_owned());
        let labels = vec![
            label("proxy_name", "forward"),
            label("to", &site.address.to_string()),
            label("proto", proto.name()),
        ];
        let [hits, misses] = [PROXY_CONNECTION_HITS, PROXY_CONNECTION_MISSES]
            .map(|metric| site.metrics.counter(metric).get_or_create(&labels).get());
        assert_eq!((hits, misses), (298, 2), "{proto:?}");
    }
}

#[tokio::test]
async fn a_connection_that_the_upstream_closed_costs_no_attempt() {
    for proto in SHARED {
        let site = Site::start(proto, Duration::from_millis(50));
        let forward = site.forward("max_connect_attempts 1");
        let server = chain(vec![], vec![Arc::new(forward)]);
        for turn in 1..4 {
            assert_eq!(ask(&server, "a.t. A").await, ANSWER, "{proto:?}");
            assert_eq!(site.connections().0, turn, "{proto:?}");
            site.until_empty().await;
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_idle_for_too_long_is_closed() {
    for proto in SHARED {
        let site = Site::start(proto, Duration::from_secs(60));
        let forward = Arc::new(site.forward("expire 20ms"));
        let server = chain(vec![], vec![Arc::clone(&forward) as _]);
        assert_eq!(ask(&server, "a.t. A").await, ANSWER, "{proto:?}");
        assert_eq!(site.connections(), (1, 1), "{proto:?}");
        soon(async {
            while site.connections().1 > 0 {
                forward.upstreams[0].close_old();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_name_without_a_reply_costs_others_their_connection_only_if_they_have_none_either() {
    for proto in SHARED {
        let site = Site::start(proto, Duration::from_secs(60));
        let options = "max_connect_attempts 1\nread_timeout 1s";
        let server = alone(site.forward(options));
        let (silent, other) = tokio::join!(ask(&server, "silent.t. A"), ask(&server, "slow.t. A"));
        assert!(silent.ends_with("i/o timeout"), "{proto:?} {silent}");
        assert!(silent.starts_with("SERVFAIL: read "), "{proto:?} {silent}");
        assert!(other.starts_with("NOERROR"), "{proto:?} {other}");
        // A reply came since the silent query was sent: the connection is good.
        assert_eq!(ask(&server, "a.t. A").await, ANSWER, "{proto:?}");
        assert_eq!(site.connections().0, 1, "{proto:?}");
        let silent = ask(&server, "silent.t. A").await;
        assert!(silent.ends_with("i/o timeout"), "{proto:?} {silent}");
        assert_eq!(ask(&server, "a.t. A").await, ANSWER, "{proto:?}");
        assert_eq!(site.connections().0, 2, "{proto:?}");
    }
}

#[tokio::test]
async fn a_connection_that_was_given_up_does_not_come_back_with_a_late_reply() {
    for proto in SHARED {
        let site = Site::start(proto, Duration::from_secs(60));
        let forward = Arc::new(site.forward("max_connect_attempts 1"));
        let server = chain(vec![], vec![Arc::clone(&forward) as _]);
        let upstream = &forward.upstreams[0];
        let first = soon(upstream.connection(proto)).await.unwrap();
        let second = soon(upstream.connection(proto)).await.unwrap();
        upstream.give_up(&first, proto);
        upstream.keep(second, proto);
        assert_eq!(ask(&server, "a.t. A").await, ANSWER, "{proto:?}");
        assert_eq!(site.connections().0, 2, "{proto:?}");
    }
}

#[tokio::test]
async fn a_connection_is_shared_whatever_the_limits_of_idle_ones() {
    for proto in SHARED {
        let site = Site::start(proto, Duration::from_secs(60));
        let config = config("forward . 192.0.2.1 {\n max_idle_conns 1\n}");
        let over = Some(site.over.clone());
        let upstream = Upstream::new(site.address, over, &config, &site.metrics);
        // Half of the sockets are taken by the first connection.
        let upstream = upstream.with_sockets(&UpstreamSockets::new(2));
        let forward = ForwardHandler::new(config, vec![upstream], false, &site.metrics);
        let server = chain(vec![], vec![Arc::new(forward)]);
        let names = (0..150).map(|number| format!("slow.{number}.t. A"));
        let names: Vec<String> = names.collect();
        for answer in join_all(names.iter().map(|name| ask(&server, name))).await {
            assert!(answer.starts_with("NOERROR"), "{proto:?} {answer}");
        }
        assert_eq!(site.connections().0, 2, "{proto:?}");
    }
}

#[tokio::test]
async fn an_upstream_whose_certificate_is_not_trusted_gets_no_query() {
    for proto in [Proto::Tls, Proto::Https, Proto::Https3, Proto::Quic] {
        let mut site = Site::start(proto, Duration::from_secs(60));
        let own = site.over.clone();
        let other = rcgen::generate_simple_self_signed(vec!["dns.test".to_owned()]).unwrap();
        let other = over(proto, other.cert.der().clone());
        for (trusted, name, want) in [
            (other, "dns.test", "invalid peer certificate"),
            (
                own.clone(),
                "other.test",
                "invalid peer certificate: certificate not valid for name",
            ),
            (own, "dns.test", ANSWER),
        ] {
            site.over = UpstreamTls {
                name: ServerName::try_from(name).unwrap(),
                ..trusted
            };
            let options = "max_connect_attempts 1";
            let server = alone(site.forward(options));
            let answer = ask(&server, "a.t. A").await;
            assert!(answer.contains(want), "{proto:?} {answer}");
        }
    }
}

#[tokio::test]
async fn an_upstream_that_accepts_and_says_nothing_is_a_timeout_of_dialling() {
    let (socket, listener) = ops::testing::both_ways().await;
    let address = socket.local_addr().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["dns.test".to_owned()]).unwrap();
    tokio::time::pause();
    for (proto, network) in [
        (Proto::Tls, "tcp"),
        (Proto::Https, "tcp"),
        (Proto::Https3, "udp"),
        (Proto::Quic, "udp"),
    ] {
        let over = over(proto, made.cert.der().clone());
        let lines = "forward . 192.0.2.1 {\n max_connect_attempts 1\n}";
        let server = alone(forward(lines, &[address], Some(&over)));
        let began = Instant::now();
        let want = format!("SERVFAIL: dial {network} {address}: i/o timeout");
        assert_eq!(ask(&server, "a.t. A").await, want, "{proto:?}");
        assert!(began.elapsed() < Duration::from_secs(3), "{proto:?}");
    }
    drop(listener);
}

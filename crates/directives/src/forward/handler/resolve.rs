//! The addresses of an upstream that is written as a name: asks the resolvers that the Corefile names.

use std::net::{IpAddr, SocketAddr};

use dns::{Name, Response, Rtype, flags};
use ops::HandlerMetrics;
use server::Proto;
use server::message::CLASS_IN;

use crate::forward::handler::failure::AskError;
use crate::forward::handler::query::plain;
use crate::forward::handler::upstream::Upstream;
use crate::forward::metrics::METRICS;

/// The reason why a resolver gives no address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// The query failed.
    #[error(transparent)]
    Asked(#[from] AskError),
    /// The reply does not answer the question.
    #[error("resolver {0}: the reply is to another question")]
    Other(SocketAddr),
    /// The name has no address.
    #[error("no resolver has an address for it")]
    None,
}

/// Asks resolvers for the addresses of a name, one after the other. `config` has the settings.
///
/// # Errors
/// [`ResolveError`] of the last resolver, if none gives an address.
pub(crate) async fn resolve(
    name: &Name,
    resolvers: &[SocketAddr],
    config: &crate::config::Forward,
) -> Result<Vec<IpAddr>, ResolveError> {
    // These queries come from no client, so they are not counted.
    let uncounted = HandlerMetrics::new(METRICS.iter().copied());
    let mut why = ResolveError::None;
    for resolver in resolvers {
        let upstream = Upstream::new(*resolver, None, config, &uncounted);
        let mut found = Vec::new();
        for qtype in [Rtype::A, Rtype::AAAA] {
            match ask(&upstream, name, qtype).await {
                Ok(addresses) => found.extend(addresses),
                Err(error) => why = error,
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Err(why)
}

/// Asks one resolver for addresses of one type; over TCP if they do not fit a datagram.
async fn ask(upstream: &Upstream, name: &Name, qtype: Rtype) -> Result<Vec<IpAddr>, ResolveError> {
    let mut query = plain(name, qtype, CLASS_IN, flags::RD);
    let mut response = upstream.ask(&mut query, Proto::Udp).await?;
    if response.flags & flags::TC != 0 {
        response = upstream.ask(&mut query, Proto::Tcp).await?;
    }
    let question = response.question.as_ref().map(|it| (&it.0, it.1, it.2));
    if question != Some((name, qtype, CLASS_IN)) {
        return Err(ResolveError::Other(upstream.route.address));
    }
    Ok(addresses(&response, qtype))
}

/// The addresses of one type in an answer.
fn addresses(response: &Response, qtype: Rtype) -> Vec<IpAddr> {
    let answers = response.sections[0].iter();
    let fitting = answers.filter(|record| record.rtype == qtype);
    let address = |data: &[u8]| match <[u8; 4]>::try_from(data) {
        Ok(v4) => Some(IpAddr::from(v4)),
        Err(_) => <[u8; 16]>::try_from(data)
            .ok()
            .map(|it| IpAddr::from(it).to_canonical()),
    };
    fitting
        .filter_map(|record| address(record.rdata.as_octets()))
        .collect()
}

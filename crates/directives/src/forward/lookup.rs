//! Looks up the names of upstreams before the server starts.

use std::collections::HashSet;
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use dns::Name;
use futures_util::future::join_all;

use crate::config::Config;
use crate::forward::handler::resolve;
use crate::forward::resolved::{Resolved, Wanted};
use crate::forward::{Forward, TargetHost};
use crate::handlers::chain::BuildError;

/// Looks up the names of all upstreams of a configuration.
///
/// # Errors
/// When a name has no address.
pub async fn resolve_upstreams(config: &Config) -> Result<Resolved, BuildError> {
    let found = look_up_all(config, None).await.into_iter();
    let found = found.map(|(key, found)| Ok((key, found?)));
    Ok(Resolved(found.collect::<Result<_, BuildError>>()?))
}

/// The errors of all upstreams' names. Names whose addresses do not arrive in this time are among them.
pub async fn unresolved_upstreams(config: &Config, within: Duration) -> Vec<BuildError> {
    let found = look_up_all(config, Some(within)).await.into_iter();
    found.filter_map(|(_, found)| found.err()).collect()
}

/// Looks up the names of all upstreams of a configuration at once, each name one time. `within` is the time limit of
/// all.
async fn look_up_all(
    config: &Config,
    within: Option<Duration>,
) -> Vec<(Wanted, Result<Vec<IpAddr>, BuildError>)> {
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for forward in config
        .servers
        .iter()
        .flat_map(|block| block.all::<Forward>())
    {
        for target in &forward.targets {
            let TargetHost::Name(name) = &target.host else {
                continue;
            };
            let key = (name.clone(), forward.resolvers.clone());
            if !known.insert(key.clone()) {
                continue;
            }
            all.push(async move {
                let asked = look_up(name, target.port, forward);
                let found = match within {
                    None => asked.await,
                    Some(within) => tokio::time::timeout(within, asked)
                        .await
                        .unwrap_or_else(|late| Err(late.into())),
                };
                let what = format!("forward: no address of {name}");
                (
                    key,
                    found.map_err(|error| BuildError::new(&forward.place, what, error)),
                )
            });
        }
    }
    join_all(all).await
}

/// Looks up the name of an upstream: with the resolvers of the `forward`, or with the system's.
async fn look_up(
    name: &str,
    port: u16,
    forward: &Forward,
) -> Result<Vec<IpAddr>, Box<dyn Error + Send + Sync>> {
    if forward.resolvers.is_empty() {
        let found = tokio::net::lookup_host((name, port)).await?;
        return Ok(found.map(|address| address.ip()).collect());
    }
    let apex: Name = format!("{}.", name.trim_end_matches('.')).parse()?;
    Ok(resolve(&apex, &forward.resolvers, forward).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Overrides, parse_text};

    #[tokio::test(start_paused = true)]
    async fn each_name_without_an_address_is_a_problem_however_long_its_resolver_takes() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let resolver = silent.local_addr().unwrap();
        let options = format!("{{\n  resolver {resolver}\n }}");
        let text = format!(
            ". {{\n forward . a.test b.test 192.0.2.1 {options}\n forward z b.test c.test {options}\n}}\n"
        );
        let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
        let problems = unresolved_upstreams(&loaded.config, Duration::from_secs(1)).await;
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let want = [
            "2:2: forward: no address of a.test",
            "2:2: forward: no address of b.test",
            "5:2: forward: no address of c.test",
        ];
        assert_eq!(problems, want.map(|what| format!("Corefile:{what}")));
        assert!(resolve_upstreams(&loaded.config).await.is_err());
    }
}

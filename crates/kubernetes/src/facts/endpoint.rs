//! The endpoints of slices. There are more of them than of anything else, so the usual case takes little memory.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The addresses of one endpoint. A single address, the usual case, needs no allocation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Addresses(Number);

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Number {
    One(IpAddr),
    Many(Box<[IpAddr]>),
}

impl Deref for Addresses {
    type Target = [IpAddr];

    fn deref(&self) -> &[IpAddr] {
        match &self.0 {
            Number::One(address) => std::slice::from_ref(address),
            Number::Many(addresses) => addresses,
        }
    }
}

impl From<Vec<IpAddr>> for Addresses {
    fn from(addresses: Vec<IpAddr>) -> Self {
        Self(match *addresses {
            [one] => Number::One(one),
            _ => Number::Many(addresses.into()),
        })
    }
}

impl<const N: usize> From<[IpAddr; N]> for Addresses {
    fn from(addresses: [IpAddr; N]) -> Self {
        Vec::from(addresses).into()
    }
}

/// The names and topology zone of an endpoint; most endpoints have none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct EndpointNames {
    /// Its `hostname`.
    pub hostname: Option<Arc<str>>,
    /// The host name of an endpoint in an FQDN slice.
    pub fqdn: Option<Arc<str>>,
    /// `targetRef.name`, if endpoints are named after their pods and the name is one label.
    pub pod: Option<Arc<str>>,
    /// `zone`, in lower case, if names distinguish topology zones.
    pub zone: Option<Arc<str>>,
}

/// One ready endpoint of a slice (`conditions.ready` true or absent). Others are left out when the slice is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its addresses; empty in an FQDN slice.
    pub addresses: Addresses,
    names: Option<Box<EndpointNames>>,
}

impl Endpoint {
    /// An endpoint with addresses and names.
    #[must_use]
    pub fn new(addresses: impl Into<Addresses>, names: EndpointNames) -> Self {
        Self {
            addresses: addresses.into(),
            names: (names != EndpointNames::default()).then(|| Box::new(names)),
        }
    }

    /// An endpoint without names.
    #[must_use]
    pub fn at(addresses: impl Into<Addresses>) -> Self {
        Self {
            addresses: addresses.into(),
            names: None,
        }
    }

    fn name(&self, which: impl Fn(&EndpointNames) -> &Option<Arc<str>>) -> Option<&Arc<str>> {
        self.names.as_ref().and_then(|names| which(names).as_ref())
    }

    /// Its `hostname`.
    #[must_use]
    pub fn hostname(&self) -> Option<&Arc<str>> {
        self.name(|names| &names.hostname)
    }

    /// The host name of an endpoint in an FQDN slice.
    #[must_use]
    pub fn fqdn(&self) -> Option<&Arc<str>> {
        self.name(|names| &names.fqdn)
    }

    /// `targetRef.name`, if endpoints are named after their pods and the name is one label.
    #[must_use]
    pub fn pod(&self) -> Option<&Arc<str>> {
        self.name(|names| &names.pod)
    }

    /// `zone`, in lower case, if names distinguish topology zones.
    #[must_use]
    pub fn zone(&self) -> Option<&Arc<str>> {
        self.name(|names| &names.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_addresses_comes_back_in_order() {
        for count in 0..4_u8 {
            let given: Vec<IpAddr> = (0..count).map(|it| [10, 0, 0, it].into()).collect();
            assert_eq!(*Addresses::from(given.clone()), given);
        }
    }

    #[test]
    fn an_endpoint_without_names_is_the_same_however_it_is_made() {
        let address = [IpAddr::from([10, 0, 0, 1])];
        let named = Endpoint::new(address, EndpointNames::default());
        assert_eq!(named, Endpoint::at(address));
        let zone = Some("eu".into());
        let zoned = EndpointNames {
            zone,
            ..EndpointNames::default()
        };
        assert_eq!(
            Endpoint::new(address, zoned).zone().map(|it| &**it),
            Some("eu")
        );
    }

    #[test]
    fn most_endpoints_take_four_words() {
        assert_eq!(size_of::<Endpoint>(), 32);
    }
}

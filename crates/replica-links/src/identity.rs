//! Who a replica is to the others: certificates of one authority on both sides, with a name that all replicas of an installation have.
//!
//! The authority alone is not enough: that of a cluster signs certificates of other programs, too.

use arc_swap::ArcSwap;
use rustls::pki_types::{CertificateDer, ServerName};
use server::{MutualTls, TlsError, TlsMaterial};
use transfer::TlsPeer;

use std::sync::Arc;

/// The ALPN token of connections between replicas.
const TOKEN: &[u8] = b"zonewright-replica";

/// The certificates of this replica, and the name that its own and all others have.
#[derive(Debug)]
pub struct Identity {
    name: ServerName<'static>,
    current: ArcSwap<MutualTls>,
}

/// The reason why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Certificates, key or authorities cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The name is none that a certificate can have.
    #[error("\"{0}\" is not the name of a server")]
    Name(String),
}

impl Identity {
    /// An identity with this material, which has to have authorities.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn new(material: &TlsMaterial, name: &str) -> Result<Self, IdentityError> {
        let wrong = |_| IdentityError::Name(name.to_owned());
        Ok(Self {
            name: ServerName::try_from(name.to_owned()).map_err(wrong)?,
            current: ArcSwap::from_pointee(MutualTls::new(material, TOKEN)?),
        })
    }

    /// Replaces certificates, key and authorities for new connections.
    ///
    /// # Errors
    /// [`TlsError`]; then nothing changes.
    pub fn replace(&self, material: &TlsMaterial) -> Result<(), TlsError> {
        self.current
            .store(Arc::new(MutualTls::new(material, TOKEN)?));
        Ok(())
    }

    /// The current settings of TLS.
    pub(crate) fn tls(&self) -> Arc<MutualTls> {
        self.current.load_full()
    }

    /// The name of every replica.
    pub(crate) const fn name(&self) -> &ServerName<'static> {
        &self.name
    }

    /// Whether the certificate of a peer has the name, and not a wildcard for it.
    pub(crate) fn is_of_replica(&self, chain: Option<&[CertificateDer<'static>]>) -> bool {
        let peer = TlsPeer {
            has_dot: false,
            certificate: chain.and_then(|chain| chain.first()).cloned(),
        };
        peer.has_name(&self.name)
    }
}

//! The part of a listener that a reload exchanges.

use std::sync::Arc;

use server::TlsIdentity;

use crate::access::Access;
use crate::limits::Limits;

/// What a reload may change.
#[derive(Debug)]
pub struct Site {
    /// Certificate and key, and the authorities of clients.
    pub tls: Arc<TlsIdentity>,
    /// Who may read.
    pub access: Access,
    /// The limits.
    pub limits: Limits,
}

//! For tests: certificates, and clients that trust them.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::{TlsClients, TlsMaterial, certificates};

pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for a name.
    pub(crate) fn pair(&self, name: &str) -> Pair {
        self.numbered(name, None)
    }

    /// A certificate for a name, with this number or any.
    pub(crate) fn numbered(&self, name: &str, number: Option<u64>) -> Pair {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.serial_number = number.map(SerialNumber::from);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair {
            certificate,
            key: key.serialize_pem(),
        }
    }

    /// The list of revoked certificates, by their numbers, that ends with this year.
    pub(crate) fn revoked(&self, numbers: &[u64], year: i32) -> Vec<u8> {
        let revoked = numbers.iter().map(|number| RevokedCertParams {
            serial_number: SerialNumber::from(*number),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(year, 12, 31),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let signed = list.signed_by(&self.issuer).unwrap();
        signed.pem().unwrap().into_bytes()
    }

    /// The server's files, with a certificate of this authority.
    pub(crate) fn material(&self, name: &str, clients: Option<bool>) -> TlsMaterial {
        let Pair { certificate, key } = self.pair(name);
        TlsMaterial {
            certificates: certificate.into_bytes(),
            key: key.into_bytes(),
            clients: clients.map(|is_required| TlsClients {
                authorities: self.pem.clone().into_bytes(),
                revoked: None,
                is_required,
            }),
        }
    }

    /// A client that trusts this authority, with these ALPN tokens, and with a certificate if it has one.
    pub(crate) fn client(&self, alpn: &[&str], pair: Option<&Pair>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        for root in certificates(self.pem.as_bytes()).unwrap() {
            roots.add(root).unwrap();
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match pair {
            None => builder.with_no_client_auth(),
            Some(Pair { certificate, key }) => builder
                .with_client_auth_cert(
                    certificates(certificate.as_bytes()).unwrap(),
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        config.alpn_protocols = alpn.iter().map(|token| token.as_bytes().to_vec()).collect();
        config
    }
}

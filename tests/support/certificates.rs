//! Certificates for tests, made as they run, and a client that trusts them.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::secondary::Tls;

/// Certificates in files.
#[derive(Debug)]
pub struct Certificates {
    issuer: Issuer<'static, KeyPair>,
    pub folder: PathBuf,
}

impl Certificates {
    pub fn new(folder: PathBuf) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(
            folder.join("ca.pem"),
            params.self_signed(&key).unwrap().pem(),
        )
        .unwrap();
        Self {
            issuer: Issuer::new(params, key),
            folder,
        }
    }

    /// Writes a certificate for a name, in files of that name.
    pub fn write(&self, name: &str) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.serial_number = Some(serial_of(name));
        // With the CA's own subject, OpenSSL takes it for self-signed.
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        fs::write(self.file(name, "key"), key.serialize_pem()).unwrap();
        fs::write(self.file(name, "pem"), pem).unwrap();
    }

    /// Writes the list of revoked certificates, by their names, in place of the one before.
    pub fn revoke(&self, names: &[&str]) {
        let revoked = names.iter().map(|name| RevokedCertParams {
            serial_number: serial_of(name),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let pem = list.signed_by(&self.issuer).unwrap().pem().unwrap();
        fs::write(self.folder.join("crl.next"), pem).unwrap();
        let renamed = fs::rename(self.folder.join("crl.next"), self.folder.join("crl.pem"));
        renamed.unwrap();
    }

    pub fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{name}.{kind}"))
    }

    /// What a secondary with the certificate of this name needs.
    pub fn of_secondary(&self, name: &str, port: u16) -> Tls {
        Tls {
            port,
            name: "ns.example".to_owned(),
            ca: self.folder.join("ca.pem"),
            certificate: self.file(name, "pem"),
            key: self.file(name, "key"),
        }
    }

    /// The line `tls` of the Corefile, and its block.
    pub fn line(&self) -> String {
        format!(
            "    tls {} {} {} {{\n        client_auth verify_if_given\n    }}\n",
            self.file("ns.example", "pem").display(),
            self.file("ns.example", "key").display(),
            self.folder.join("ca.pem").display()
        )
    }

    /// A client's configuration that trusts these, with the token `dot`.
    pub fn client(&self) -> Arc<ClientConfig> {
        let pem = fs::read(self.folder.join("ca.pem")).unwrap();
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(&pem) {
            roots.add(root.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"dot".to_vec()];
        Arc::new(config)
    }
}

/// The number of the certificate of a name: its letters.
fn serial_of(name: &str) -> SerialNumber {
    SerialNumber::from(name.bytes().take(19).collect::<Vec<u8>>())
}

/// A connection over TLS to whoever shows a certificate for `ns.example`; the handshake is made with the first octets.
pub fn connect(
    config: &Arc<ClientConfig>,
    to: TcpStream,
) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("ns.example").unwrap();
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    StreamOwned::new(connection, to)
}

//! TLS: a certificate and its key, from PEM files.

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The files of a certificate.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate and those that sign it: PEM.
    pub certificate: PathBuf,
    /// Its key: PEM.
    pub key: PathBuf,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or has no certificate or key.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The key is not that of the certificate, or of a kind that is not supported.
    #[error("the certificate cannot be used: {0}")]
    Certificate(#[from] rustls::Error),
}

/// The certificate of a server, which is read again when it is renewed.
pub struct Certificate {
    files: TlsFiles,
    now: Mutex<TlsAcceptor>,
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// Says which file cannot be used.
    pub fn read(files: TlsFiles) -> Result<Self, TlsError> {
        let now = Mutex::new(files.acceptor()?);
        Ok(Self { files, now })
    }

    /// Reads the files again: connections from now on have what they say. If they cannot be used,
    /// what was read before stays.
    ///
    /// # Errors
    /// Says which file cannot be used.
    pub fn read_again(&self) -> Result<(), TlsError> {
        *self.now.lock() = self.files.acceptor()?;
        Ok(())
    }

    /// What new connections are accepted with.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.now.lock().clone()
    }
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// Says which file cannot be used.
    pub fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let certificates = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| TlsError::File { path: self.certificate.clone(), why: error.to_string() })?;
        if certificates.is_empty() {
            return Err(TlsError::File { path: self.certificate.clone(), why: "it has no certificate".to_owned() });
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| TlsError::File { path: self.key.clone(), why: error.to_string() })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

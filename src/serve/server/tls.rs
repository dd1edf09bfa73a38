//! TLS: a certificate and its key, from PEM files.

use parking_lot::Mutex;
use rustls::InconsistentKeys;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
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
    /// The key is not that of the certificate.
    #[error("the key {} is not that of the certificate {}", key.display(), certificate.display())]
    OtherKey {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        certificate: PathBuf,
    },
    /// The certificate or its key is of a kind that is not supported.
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
            .map_err(|error| unread(&self.certificate, &error, "certificate"))?;
        if certificates.is_empty() {
            return Err(TlsError::File {
                path: self.certificate.clone(),
                why: "it has no certificate in PEM".to_owned(),
            });
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unread(&self.key, &error, "private key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(|error| self.refused(error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn refused(&self, error: rustls::Error) -> TlsError {
        match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                TlsError::OtherKey { key: self.key.clone(), certificate: self.certificate.clone() }
            }
            error => TlsError::Certificate(error),
        }
    }
}

/// The error of a PEM file that cannot be read, or has no such item.
fn unread(path: &Path, error: &pem::Error, what: &str) -> TlsError {
    let why = match error {
        pem::Error::NoItemsFound => format!("it has no {what} in PEM"),
        pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    };
    TlsError::File { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn an_error_says_which_file_is_wrong_and_how() {
        let folder = tempfile::tempdir().unwrap();
        let made = || rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let (one, other) = (made(), made());
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let pem = |kind: &str, der: &[u8]| {
            format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
        };
        let certificate = file("c.pem", pem("CERTIFICATE", one.cert.der()));
        let key = file("k.pem", pem("PRIVATE KEY", &one.signing_key.serialize_der()));
        let strange = file("o.pem", pem("PRIVATE KEY", &other.signing_key.serialize_der()));
        let said = |certificate: &PathBuf, key: &PathBuf| {
            let files = TlsFiles { certificate: certificate.clone(), key: key.clone() };
            files.acceptor().err().map(|error| error.to_string().replace(folder.path().to_str().unwrap(), "F"))
        };
        let none = folder.path().join("none.pem");
        assert_eq!(said(&certificate, &key), None);
        assert_eq!(said(&certificate, &strange).unwrap(), "the key F/o.pem is not that of the certificate F/c.pem");
        assert_eq!(said(&certificate, &certificate).unwrap(), "F/c.pem: it has no private key in PEM");
        assert_eq!(said(&key, &key).unwrap(), "F/k.pem: it has no certificate in PEM");
        assert!(said(&certificate, &none).unwrap().starts_with("F/none.pem: No such file"));
    }
}

//! The certificates by which a server is trusted, besides those of the public authorities: those of
//! `--ca`, else of `WFHOST_CA`, else of the login to the server.

use super::host::any_registry;
use super::logins::Logins;
use crate::cli::report::error::{UserError, kind};
use crate::dispatch::http::{HttpConfig, no_answer, refused_certificate};
use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The variable that names a file of certificates.
const VARIABLE: &str = "WFHOST_CA";

/// Bytes of the file. Arbitrary: tens of certificates.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Certificates that are trusted, in PEM.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Authority {
    /// The text of the file.
    pub(in crate::cli) pem: String,
    /// Where it is from, for errors.
    origin: String,
}

impl Authority {
    /// The certificates that are trusted for a server, by its name in the logins: those of the flag
    /// or of the environment, or else those of its login.
    pub(in crate::cli) fn of(flag: Option<&Path>, server: &str) -> Result<Option<Self>, UserError> {
        let variable = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        match flag.map(Path::to_owned).or_else(variable) {
            Some(path) => Self::read(&path).map(Some),
            None => {
                let login = Logins::read()?.servers.remove(server);
                let pem = login.and_then(|login| login.ca);
                Ok(pem.map(|pem| Self { pem, origin: format!("the login to {server}") }))
            }
        }
    }

    fn read(path: &Path) -> Result<Self, UserError> {
        let mut pem = String::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut pem));
        let read = read.map_err(|error| UserError::new(kind::UNREADABLE, format!("{}: {error}", path.display())))?;
        if read as u64 > FILE_BYTES_MAX {
            let title = format!("{}: certificates have at most {FILE_BYTES_MAX} bytes", path.display());
            return Err(
                UserError::new(kind::USAGE, title).hint("name the certificate of the one that signed the server's")
            );
        }
        let authority = Self { pem, origin: path.display().to_string() };
        authority.certificates().map(|_| authority)
    }

    /// The certificates in DER.
    fn certificates(&self) -> Result<Vec<Vec<u8>>, UserError> {
        let unfit = |why: &str| {
            UserError::new(kind::USAGE, format!("{}: {why}", self.origin))
                .hint("--ca and WFHOST_CA name a PEM file with the certificate that signed the server's")
        };
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.pem.as_bytes()).collect();
        let found = found.map_err(|error| unfit(&error.to_string()))?;
        if found.is_empty() {
            return Err(unfit("it has no certificate in PEM"));
        }
        let mut roots = rustls::RootCertStore::empty();
        for certificate in &found {
            roots.add(certificate.clone()).map_err(|error| unfit(&format!("a certificate cannot be used: {error}")))?;
        }
        Ok(found.into_iter().map(|certificate| certificate.to_vec()).collect())
    }
}

/// The settings of a client that asks a server.
pub(in crate::cli) fn trusting(authority: Option<&Authority>) -> Result<HttpConfig, UserError> {
    let mut config = any_registry();
    config.roots = authority.map(Authority::certificates).transpose()?.unwrap_or_default();
    Ok(config)
}

/// Says why a server gave no answer, and what helps.
pub(in crate::cli) fn unanswered(error: &(dyn std::error::Error + 'static)) -> (String, Option<String>) {
    let Some(refused) = refused_certificate(error) else { return no_answer(error) };
    let (why, hint) = match refused {
        CertificateError::UnknownIssuer => (
            "nobody whom this machine trusts signed its certificate".to_owned(),
            "--ca FILE or WFHOST_CA names the certificate that signed it, a PEM file; `wfhost login --ca FILE` keeps it",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("its certificate has expired".to_owned(), "renew it, and send SIGHUP to the server")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            ("its certificate is for another name".to_owned(), "ask it by a name that its certificate has")
        }
        // A type of its own has this error of webpki, which is no dependency of ours.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => (
            "its certificate is that of an authority, and not of a server".to_owned(),
            "let the authority sign one for the server, or make one with `-addext basicConstraints=critical,CA:FALSE`",
        ),
        other => (format!("its certificate cannot be trusted: {other}"), "--ca FILE names the one that signed it"),
    };
    (why, Some(hint.to_owned()))
}

//! What SIGHUP asks for: the certificate and the folder of workflows are read again.

use super::life::{ServerNotice, deploy_folder};
use super::tls::Certificate;
use crate::serve::service::Service;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::Signal;

/// What a server reads again.
pub(super) struct Reload {
    pub(super) service: Arc<Service>,
    pub(super) certificate: Option<Arc<Certificate>>,
    pub(super) workflows: Option<PathBuf>,
    pub(super) tell: Arc<dyn Fn(ServerNotice<'_>) + Send + Sync>,
}

impl Reload {
    /// Reads all of it again at each signal, until the service drains. What cannot be read stays as
    /// it was.
    pub(super) async fn at_each(self, mut hangup: Signal) {
        let reload = Arc::new(self);
        loop {
            tokio::select! {
                asked = hangup.recv() => if asked.is_none() { return },
                () = reload.service.drained() => return,
            }
            let now = Arc::clone(&reload);
            // A defect in it is told by the runtime, and ends nothing else.
            let _ = tokio::task::spawn_blocking(move || now.read()).await;
        }
    }

    fn read(&self) {
        (self.tell)(ServerNotice::Reloading);
        if let Some(certificate) = &self.certificate
            && let Err(error) = certificate.read_again()
        {
            (self.tell)(ServerNotice::NotReloaded { why: &error.to_string() });
        }
        if let Some(folder) = &self.workflows
            && let Err(error) = deploy_folder(&self.service, folder, &self.tell)
        {
            (self.tell)(ServerNotice::NotReloaded { why: &error.to_string() });
        }
    }
}

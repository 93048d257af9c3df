//! The file of apps of the Pusher protocol: read at the start, again when it changes, and on
//! SIGHUP. A file that cannot be taken changes nothing: the apps that were read before stay.
//!
//! Cost: a `stat` a second.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::file_watch::{self, FileWatch, Stamps};
use auth::outgoing;
use dispatch::webhook::{WebhookUrl, WebhookUrlFault};
use engine::PusherApps;
use pusher::limits::APPS_FILE_BYTES_MAX;
use pusher::{App, Apps, AppsFault};
use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

/// Why the file of apps is not taken. No text tells what is in it.
#[derive(Debug, Error)]
pub enum AppsFileError {
    /// It cannot be read.
    #[error("cannot read {}: {error}; check --pusher-apps, owner and mode", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It says something wrong.
    #[error("{}, {fault}", path.display())]
    Fault {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        fault: AppsFault,
    },
    /// A webhook is at no address to which anything can be posted.
    #[error("{}: the \"url\" of a webhook of app {app}: {fault}", path.display())]
    Webhook {
        /// Which file.
        path: PathBuf,
        /// The id of the app.
        app: String,
        /// What is wrong.
        fault: WebhookUrlFault,
    },
    /// A webhook is at an address of https, and the system trusts no certificates.
    #[error(
        "{}: app {app} has a webhook of https, and this system trusts no certificates ({error}): \
         install ca-certificates, or name a file of them in SSL_CERT_FILE",
        path.display()
    )]
    Roots {
        /// Which file.
        path: PathBuf,
        /// The id of the app.
        app: String,
        /// What the system says.
        error: io::Error,
    },
}

/// What the apps must fit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AppsServer {
    /// Nobody but this machine can connect.
    pub(crate) is_loopback: bool,
    /// Streams need tokens.
    pub(crate) needs_tokens: bool,
}

/// The file, and the apps as they were read of it last.
#[derive(Debug)]
pub(crate) struct AppsFile {
    path: PathBuf,
    server: AppsServer,
    live: Arc<PusherApps>,
    /// What it looked like before it was read the first time.
    first_look: Stamps,
}

impl AppsFile {
    /// Reads the file the first time.
    pub(crate) fn load(path: PathBuf, server: AppsServer) -> Result<AppsFile, AppsFileError> {
        let first_look = file_watch::look(std::slice::from_ref(&path));
        let apps = read(&path, server)?;
        let live = Arc::new(PusherApps::new(apps).sharing_signed(server.needs_tokens));
        Ok(AppsFile { path, server, live, first_look })
    }

    /// The apps as they are now.
    pub(crate) fn live(&self) -> &Arc<PusherApps> {
        &self.live
    }

    /// Reads the file again whenever it has changed, until `stop`.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut watch = FileWatch::new(vec![self.path.clone()], self.first_look.clone());
        while watch.changed(&stop).await {
            self.reload().await;
        }
    }

    /// Reads the file again, and tells the log what has come of it.
    pub(crate) async fn reload(self: &Arc<Self>) {
        let file = Arc::clone(self);
        let read = spawn_blocking(move || read(&file.path, file.server));
        // Fails only while the runtime ends.
        let Ok(read) = read.await else { return };
        match read {
            Ok(apps) => {
                let count = apps.len();
                self.live.replace(apps);
                tracing::info!(
                    apps = count,
                    "{} was read: its apps are in use",
                    self.path.display()
                );
            }
            Err(error) => {
                let error = error.to_string();
                let fault = error.trim_end_matches('.');
                tracing::error!("{fault}; the apps that were read before stay in use");
            }
        }
    }
}

/// Reads the apps in the file. One that others can read is told, and taken, as a file of keys is.
fn read(path: &Path, server: AppsServer) -> Result<Apps, AppsFileError> {
    let read = || {
        let file = File::open(path)?;
        let mode = file.metadata()?.mode();
        let most = APPS_FILE_BYTES_MAX + 1;
        // Reserved at once, or growing leaves copies behind that nobody wipes.
        let length = file.metadata()?.len().min(most) as usize + 1;
        let mut text = Zeroizing::new(Vec::with_capacity(length));
        file.take(most).read_to_end(&mut text)?;
        Ok((text, mode))
    };
    let io_error = |error| AppsFileError::Io { path: path.to_owned(), error };
    let (text, mode) = read().map_err(io_error)?;
    if mode & 0o077 != 0 {
        let path = path.display();
        tracing::warn!(
            "others on this machine can read the secrets in {path}, and sign with them: chmod 600 \
             {path}"
        );
    }
    let apps = Apps::parse(&text, server.is_loopback);
    let apps = apps.map_err(|fault| AppsFileError::Fault { path: path.to_owned(), fault })?;
    for app in apps.iter() {
        check_webhooks(path, app)?;
    }
    Ok(apps)
}

/// Whether something can be posted to all webhooks of `app`. Certificates are read here: where
/// events are posted nothing may block.
fn check_webhooks(path: &Path, app: &App) -> Result<(), AppsFileError> {
    let (path, id) = (|| path.to_owned(), || app.id.clone());
    for webhook in &app.webhooks {
        // It says nothing of the address, which may have a secret.
        let url = webhook.url.parse::<WebhookUrl>();
        let url = url.map_err(|fault| AppsFileError::Webhook { path: path(), app: id(), fault })?;
        if url.is_https() {
            let read = outgoing::read_roots();
            read.map_err(|error| AppsFileError::Roots { path: path(), app: id(), error })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"[{"id":"1","key":"a","secret":"a-secret-of-some-length"}]"#;

    #[tokio::test]
    async fn apps_are_read_again_and_a_bad_file_leaves_those_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("apps.json");
        let missing = AppsFile::load(path.clone(), AppsServer::default()).unwrap_err().to_string();
        assert!(missing.contains("--pusher-apps"), "{missing}");
        std::fs::write(&path, ONE).unwrap();
        let file = Arc::new(AppsFile::load(path.clone(), AppsServer::default()).unwrap());
        assert!(file.live().by_key("a").is_some());
        let at = |url: &str| ONE.replace("\"}", &format!(r#"","webhooks":[{{"url":"{url}"}}]}}"#));
        let password = at("https://me:s3cret@a.test/");
        let short = ONE.replace("a-secret-of-some-length", "short");
        let id = ONE.replace("\"id\"", "\"it\"");
        let urls = ["ftp://a", "http://", "http://a b", "/hook", "http:///hook"].map(at);
        for url in urls.iter().chain([&password]) {
            std::fs::write(&path, url).unwrap();
            let refused = AppsFile::load(path.clone(), AppsServer::default()).unwrap_err();
            assert!(matches!(refused, AppsFileError::Webhook { .. }), "{url}: {refused}");
            assert!(!refused.to_string().contains("s3cret"), "{refused}");
        }
        for bad in ["", "{}", &id, &password, &urls[0], &short] {
            std::fs::write(&path, bad).unwrap();
            file.reload().await;
            assert!(file.live().by_key("a").is_some(), "{bad}");
        }
        assert!(AppsFile::load(path.clone(), AppsServer::default()).is_err());
        let local = AppsServer { is_loopback: true, ..AppsServer::default() };
        assert!(AppsFile::load(path.clone(), local).is_ok(), "this machine alone connects");
        std::fs::write(&path, ONE.replace("\"a\"", "\"b\"")).unwrap();
        file.reload().await;
        assert!(file.live().by_key("a").is_none() && file.live().by_key("b").is_some());
    }
}

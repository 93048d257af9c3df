//! What is kept of automatic certificates: the account with each directory, and the certificate
//! with its key. Only the server's user may read it, and a file is there whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use anyhow::{Context, Result};
use instant_acme::AccountCredentials;
use sha2::{Digest, Sha256};

use crate::certs::PairFiles;

const CERTIFICATE: &str = "certificate.pem";

/// A certificate and its key, in PEM.
pub(super) struct Made {
    pub(super) chain: String,
    pub(super) key: String,
}

/// A folder of these files.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
}

impl Store {
    pub(super) fn new(dir: PathBuf) -> Store {
        Store { dir }
    }

    /// The files of the certificate, which are one.
    fn certificate(&self) -> PairFiles {
        let path = self.dir.join(CERTIFICATE);
        PairFiles { certificate: path.clone(), key: path }
    }

    pub(super) fn certificate_if_there(&self) -> Option<PairFiles> {
        let files = self.certificate();
        files.certificate.exists().then_some(files)
    }

    pub(super) fn write_certificate(&self, made: &Made) -> Result<PairFiles> {
        self.write(CERTIFICATE, &format!("{}{}", made.key, made.chain))?;
        Ok(self.certificate())
    }

    /// The account with `directory`, if there is one.
    pub(super) fn account(&self, directory: &str) -> Result<Option<AccountCredentials>> {
        let path = self.dir.join(account_name(directory));
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let damaged =
            || format!("{} is damaged: remove it, and a new account is made", path.display());
        serde_json::from_slice(&text).map(Some).with_context(damaged)
    }

    pub(super) fn write_account(
        &self,
        directory: &str,
        account: &AccountCredentials,
    ) -> Result<()> {
        self.write(&account_name(directory), &serde_json::to_string(account)?)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let (path, new) = (self.dir.join(name), self.dir.join(format!("{name}.new")));
        let write = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            // One that a crash has left has the mode that it had.
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// An account belongs to one directory.
fn account_name(directory: &str) -> String {
    let digest = Sha256::digest(directory);
    let tag: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("account-{tag}.json")
}

//! What is kept of automatic certificates: the account with each directory, and the certificate
//! with its key. Only the server's user may read it, and a file is there whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use anyhow::{Context, Result};
use instant_acme::AccountCredentials;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::certs::PairFiles;

/// A certificate and its key, in PEM.
pub(super) struct Made {
    pub(super) chain: String,
    pub(super) key: Zeroizing<String>,
}

/// A folder of these files, as one directory of certificates has them: what is tried with one that
/// nobody trusts must not be taken for another's.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    /// Stands for the directory in their names.
    tag: String,
}

impl Store {
    pub(super) fn new(dir: PathBuf, directory: &str) -> Store {
        let digest = Sha256::digest(directory);
        Store { dir, tag: digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect() }
    }

    /// The files of the certificate, which are one.
    fn certificate(&self) -> PairFiles {
        let path = self.dir.join(self.certificate_name());
        PairFiles { certificate: path.clone(), key: path }
    }

    pub(super) fn certificate_if_there(&self) -> Option<PairFiles> {
        let files = self.certificate();
        files.certificate.exists().then_some(files)
    }

    pub(super) fn write_certificate(&self, made: &Made) -> Result<PairFiles> {
        let text = Zeroizing::new([made.key.as_str(), &made.chain].concat());
        self.write(&self.certificate_name(), &text)?;
        Ok(self.certificate())
    }

    fn certificate_name(&self) -> String {
        format!("certificate-{}.pem", self.tag)
    }

    fn account_name(&self) -> String {
        format!("account-{}.json", self.tag)
    }

    /// The account with the directory, if there is one.
    pub(super) fn account(&self) -> Result<Option<AccountCredentials>> {
        let path = self.dir.join(self.account_name());
        let text = match fs::read(&path) {
            Ok(text) => Zeroizing::new(text),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let damaged =
            || format!("{} is damaged: remove it, and a new account is made", path.display());
        serde_json::from_slice(&text).map(Some).with_context(damaged)
    }

    pub(super) fn write_account(&self, account: &AccountCredentials) -> Result<()> {
        let text = Zeroizing::new(serde_json::to_string(account)?);
        self.write(&self.account_name(), &text)
    }

    /// The directory does not know the account any more. It is kept under another name.
    pub(super) fn put_account_aside(&self) -> Result<()> {
        let path = self.dir.join(self.account_name());
        let aside = path.with_extension("json.unknown");
        fs::rename(&path, aside).with_context(|| format!("cannot rename {}", path.display()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_of_a_directory_to_try_with_is_no_other_ones() {
        let dir = tempfile::tempdir().unwrap();
        let store = |directory| Store::new(dir.path().to_owned(), directory);
        let made = Made { chain: "chain".into(), key: "key".to_owned().into() };
        let files = store("https://staging.example/directory").write_certificate(&made).unwrap();
        assert!(store("https://staging.example/directory").certificate_if_there().is_some());
        assert!(store("https://example/directory").certificate_if_there().is_none());
        assert_eq!(fs::read_to_string(files.key).unwrap(), "keychain");
    }

    #[test]
    fn account_that_the_directory_has_forgotten_makes_room_for_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path().to_owned(), "https://example/directory");
        store.write(&store.account_name(), "{}").unwrap();
        assert!(store.account().is_err(), "it is there, and none");
        store.put_account_aside().unwrap();
        assert!(store.account().unwrap().is_none());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "it is kept aside");
    }
}

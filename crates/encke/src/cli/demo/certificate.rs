//! `--tls`: a certificate of the demo's own, beside its graph, which its crowd trusts and nobody
//! else.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use load::{Trust, Version};
use rcgen::{CertifiedKey, generate_simple_self_signed};

/// Where the server is called by TLS: it stands on this machine.
pub(super) const NAME: &str = "localhost";

/// The files of the certificate.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    pub(super) file: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificate {
    /// Makes one, in a folder of `data`.
    pub(super) fn make(data: &Path) -> Result<Certificate> {
        let dir = data.join("demo-tls");
        let certificate = Certificate { file: dir.join("cert.pem"), key: dir.join("key.pem") };
        let names = [NAME, "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
        certificate.write(&dir, &cert.pem(), &signing_key.serialize_pem()).with_context(|| {
            format!("cannot write to {}; check its owner and free space", dir.display())
        })?;
        Ok(certificate)
    }

    fn write(&self, dir: &Path, certificate: &str, key: &str) -> std::io::Result<()> {
        fs::create_dir_all(dir)?;
        fs::write(&self.file, certificate)?;
        // One of an earlier demo goes with its rights.
        match fs::remove_file(&self.key) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(&self.key)?.write_all(key.as_bytes())
    }

    /// The crowd's trust in it.
    pub(super) fn trust(&self) -> Result<Trust> {
        let roots = server::roots(Some(&self.file))?;
        Ok(Trust::new(roots, Version::Tls13)?)
    }
}

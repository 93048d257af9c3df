//! An authority of a test's own, its certificates in files, and a client that trusts it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rcgen::{KeyUsagePurpose, date_time_ymd};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tempfile::TempDir;

use super::DEADLINE;

/// It signs, and its own certificate is in a file.
pub(crate) struct Authority {
    dir: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The files of one certificate.
pub(crate) struct Issued {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Issued {
    /// The options of `encke serve`.
    pub(crate) fn options(&self) -> [String; 2] {
        let Issued { certificate, key } = self;
        [format!("--tls-cert={}", certificate.display()), format!("--tls-key={}", key.display())]
    }
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        // Another name than every other's, by which clients look for who has signed.
        let name = dir.path().display().to_string();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { dir, issuer }
    }

    /// Its certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A certificate for `names`, good for long, in files that begin with `file`.
    pub(crate) fn issue(&self, file: &str, names: &[&str]) -> Issued {
        self.issue_until(file, names, 2100)
    }

    /// The same, good until the beginning of `year`.
    pub(crate) fn issue_until(&self, file: &str, names: &[&str], year: i32) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = |end: &str| self.dir.path().join(format!("{file}{end}"));
        let issued = Issued { certificate: path(".pem"), key: path(".key") };
        // As every program does that knows what it is: nobody sees half of one.
        for (path, text) in
            [(&issued.certificate, certificate.pem()), (&issued.key, key.serialize_pem())]
        {
            let new = path.with_extension("new");
            fs::write(&new, text).unwrap();
            fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
            fs::rename(&new, path).unwrap();
        }
        issued
    }
}

/// A client that speaks TLS with `address`, which it calls `name`, and trusts `ca`.
pub(crate) fn tls_client(
    address: SocketAddr,
    name: &'static str,
    ca: &Path,
) -> StreamOwned<ClientConnection, TcpStream> {
    let config = server::client_config(Some(ca), &["http/1.1"]).unwrap();
    let name = ServerName::try_from(name).unwrap();
    let connection = ClientConnection::new(Arc::clone(&config), name).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    StreamOwned::new(connection, socket)
}

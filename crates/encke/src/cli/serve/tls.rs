//! The options of `encke serve` that are about TLS.

use std::path::PathBuf;

use clap::Args;
use proto::request::host_name;
use server::{AcmeConfig, PairFiles};

use crate::cli::UsageError;
use crate::cli::names::Port;

/// Where TLS is spoken, and with which certificates.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsArgs {
    /// Address of the public port for TLS; `none` disables it.
    #[arg(long, value_name = "ADDRESS", default_value = "none")]
    pub(super) tls_listen: Port,
    /// Address of the API port for TLS; `none` disables it.
    #[arg(long, value_name = "ADDRESS", default_value = "none")]
    pub(super) tls_api: Port,
    /// Certificate chain in PEM, the server's own certificate first.
    ///
    /// Repeat the option for several names: a client gets the certificate of the name that it
    /// calls, or else the first. The file is read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    tls_cert: Vec<PathBuf>,
    /// Private key of the certificate, in PEM.
    ///
    /// Repeat it in the order of the certificates.
    #[arg(long, value_name = "FILE")]
    tls_key: Vec<PathBuf>,
    /// Name for which to get and renew a certificate automatically (ACME).
    ///
    /// One certificate has all names. With this option you agree to the terms of the directory.
    /// Repeat the option, or give a list with commas.
    #[arg(long, value_name = "NAME", value_parser = parse_domain, value_delimiter = ',')]
    acme_domain: Vec<String>,
    /// Mail address of the ACME account.
    ///
    /// The directory sends mail about the account there. Repeat the option for several.
    #[arg(long, value_name = "MAIL", value_parser = parse_mail)]
    acme_contact: Vec<String>,
    /// URL of the ACME directory.
    ///
    /// Default: that of Let's Encrypt.
    #[arg(long, value_name = "URL", default_value = LETS_ENCRYPT, value_parser = parse_directory)]
    acme_directory: String,
    /// Certificates (PEM) to trust the ACME directory by, instead of the system's.
    #[arg(long, value_name = "FILE")]
    acme_ca: Option<PathBuf>,
}

const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

impl TlsArgs {
    /// The files of the certificates.
    pub(super) fn pairs(&self) -> Result<Vec<PairFiles>, UsageError> {
        let (certificates, keys) = (self.tls_cert.len(), self.tls_key.len());
        if certificates != keys {
            return Err(UsageError(format!(
                "--tls-cert was given {} and --tls-key {}: each certificate needs its key, in the \
                 same order",
                times(certificates),
                times(keys),
            )));
        }
        let pairs = self.tls_cert.iter().zip(&self.tls_key);
        let pairs = pairs.map(|(certificate, key)| PairFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        });
        Ok(pairs.collect())
    }
}

impl TlsArgs {
    /// How certificates are asked for, if they are.
    pub(super) fn acme(&self) -> Result<Option<AcmeConfig>, UsageError> {
        if self.acme_domain.is_empty() {
            return Ok(None);
        }
        if self.tls_api.0.is_none() && self.tls_listen.0.is_none() {
            let none = "--acme-domain asks for certificates that nobody is shown: give \
                        --tls-listen or --tls-api an address";
            return Err(UsageError(none.to_owned()));
        }
        Ok(Some(AcmeConfig {
            domains: self.acme_domain.clone(),
            contacts: self.acme_contact.clone(),
            directory: self.acme_directory.clone(),
            ca: self.acme_ca.clone(),
        }))
    }
}

fn parse_domain(text: &str) -> Result<String, String> {
    match host_name(text) {
        Some(name) if name.contains('.') => Ok(name),
        _ => {
            Err("write a full name, such as push.example.org; no address, and no wildcard, which \
                  takes a proof through DNS"
                .to_owned())
        }
    }
}

fn parse_mail(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("mailto:").unwrap_or(text);
    match address.split_once('@') {
        Some((user, host)) if !user.is_empty() && !host.is_empty() => Ok(address.to_owned()),
        _ => Err("write an address, such as ops@example.org".to_owned()),
    }
}

fn parse_directory(text: &str) -> Result<String, String> {
    match text.starts_with("https://") {
        true => Ok(text.to_owned()),
        false => Err("write a URL that begins with https://".to_owned()),
    }
}

fn times(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

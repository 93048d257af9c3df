//! How a cluster's NATS is reached: addresses, credentials, certificates.
//!
//! Secrets stand in no `Debug`, no error and no log: they are taken out of the addresses before the
//! library sees those, since it writes addresses into its own log.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

use crate::limits::{
    ATTEMPT_TIMEOUT, CLUSTER_NAME_MAX, COMMANDS_WAITING_MAX, CONNECT_TIMEOUT, PING_INTERVAL,
    RECONNECT_PAUSE, SUBSCRIPTION_WAITING_MAX,
};

/// How to reach the NATS of a cluster, and what its log is to be.
#[derive(Clone, Debug)]
pub struct NatsConfig {
    /// Which cluster: letters, digits, `-` and `_`, at most 32. It names streams and subjects, so
    /// several clusters share a NATS.
    pub cluster: String,
    /// `nats://` or `tls://` addresses of its servers, one or more. Each may begin with
    /// `user:password@` or `token@`, the same in all that have one. TLS is a must at all of them
    /// where one has `tls://`, and with `roots` or `certificate`.
    pub urls: Vec<Url>,
    /// Who we are, unless the addresses say it.
    pub credentials: Credentials,
    /// A file of certificates (PEM) of whom to trust; without it whom the system trusts.
    pub roots: Option<PathBuf>,
    /// Files (PEM) with our own certificate and its key, for servers that ask for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// On how many servers the log is: 1, 3 or 5.
    pub replicas: usize,
    /// What NATS's own monitoring calls this connection.
    pub name: String,
    /// How long the first connection may take.
    pub connect_timeout: Duration,
}

impl NatsConfig {
    /// A configuration for the servers at `urls`, with a log on one server.
    pub fn new(cluster: &str, urls: impl IntoIterator<Item = impl Into<Url>>) -> NatsConfig {
        NatsConfig {
            cluster: cluster.to_owned(),
            urls: urls.into_iter().map(Into::into).collect(),
            credentials: Credentials::None,
            roots: None,
            certificate: None,
            replicas: 1,
            name: "encke".to_owned(),
            connect_timeout: CONNECT_TIMEOUT,
        }
    }

    /// What the library is told, or what is wrong.
    pub(crate) fn checked(&self) -> Result<(Vec<ServerAddr>, ConnectOptions), ConfigError> {
        if !is_cluster_name(&self.cluster) {
            return Err(ConfigError::Cluster(self.cluster.clone()));
        }
        if ![1, 3, 5].contains(&self.replicas) {
            return Err(ConfigError::Replicas(self.replicas));
        }
        if self.urls.is_empty() {
            return Err(ConfigError::NoUrl);
        }
        let mut addresses = Vec::new();
        let mut credentials = self.credentials.clone();
        for url in &self.urls {
            let (address, own) = url.parse()?;
            addresses.push(address);
            match own {
                Credentials::None => {}
                own if credentials == Credentials::None => credentials = own,
                own if credentials == own => {}
                _ => return Err(ConfigError::Ambiguous),
            }
        }
        let mut options = credentials.options()?;
        for path in [self.roots.as_ref(), self.certificate.as_ref().map(|(file, _)| file)] {
            path.map_or(Ok(()), |path| readable(path))?;
        }
        if let Some(roots) = &self.roots {
            options = options.add_root_certificates(roots.clone());
        }
        // Who says whom to trust means it: no password goes to somebody who offers no TLS.
        let is_secure = self.roots.is_some() || self.certificate.is_some();
        options = options.require_tls(is_secure || addresses.iter().any(ServerAddr::tls_required));
        if let Some((certificate, key)) = &self.certificate {
            readable(key)?;
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        let options = options
            .name(&self.name)
            .ping_interval(PING_INTERVAL)
            .connection_timeout(ATTEMPT_TIMEOUT)
            .reconnect_delay_callback(|attempts| match attempts {
                0 | 1 => Duration::ZERO,
                _ => RECONNECT_PAUSE,
            })
            .client_capacity(COMMANDS_WAITING_MAX)
            .subscription_capacity(SUBSCRIPTION_WAITING_MAX);
        Ok((addresses, options))
    }
}

fn is_cluster_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=CLUSTER_NAME_MAX).contains(&name.len()) && name.bytes().all(plain)
}

fn readable(path: &Path) -> Result<(), ConfigError> {
    let opened = std::fs::File::open(path);
    opened
        .map(drop)
        .map_err(|error| ConfigError::File { path: path.to_owned(), why: error.to_string() })
}

/// An address of a server, which may have a password in it and is shown without.
#[derive(Clone)]
pub struct Url(Zeroizing<String>);

impl<T: Into<String>> From<T> for Url {
    fn from(text: T) -> Url {
        Url(Zeroizing::new(text.into()))
    }
}

impl Url {
    /// The address alone, and who we are to say we are there.
    fn parse(&self) -> Result<(ServerAddr, Credentials), ConfigError> {
        let wrong = || ConfigError::Url(self.to_string());
        let address: ServerAddr = self.0.parse().map_err(|_| wrong())?;
        if address.is_websocket() || address.host().is_empty() {
            return Err(wrong());
        }
        let mut bare = address.into_inner();
        let decoded = |text: &str| {
            let text = percent_decode_str(text).decode_utf8().map_err(|_| wrong())?;
            Ok(Secret::from(text.into_owned()))
        };
        let credentials = match (bare.username(), bare.password()) {
            ("", None) => Credentials::None,
            (token, None) => Credentials::Token(decoded(token)?),
            (user, Some(password)) => Credentials::Password(
                percent_decode_str(user).decode_utf8().map_err(|_| wrong())?.into_owned(),
                decoded(password)?,
            ),
        };
        bare.set_username("").map_err(|()| wrong())?;
        bare.set_password(None).map_err(|()| wrong())?;
        Ok((ServerAddr::from_url(bare).map_err(|_| wrong())?, credentials))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whatever stands before the last `@` may be a secret, however wrong the address is.
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("nats", &self.0));
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        write!(f, "{scheme}://{host}")
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Who we are to the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Nobody in particular.
    #[default]
    None,
    /// A user and their password.
    Password(String, Secret),
    /// A token.
    Token(Secret),
    /// A credentials file, as `nsc` and the operators of NATS hand them out (JWT and key).
    File(PathBuf),
    /// The seed of a user's key (`SU…`).
    Nkey(Secret),
}

impl Credentials {
    fn options(&self) -> Result<ConnectOptions, ConfigError> {
        let options = ConnectOptions::new();
        Ok(match self {
            Credentials::None => options,
            Credentials::Password(user, password) => {
                options.user_and_password(user.clone(), password.0.to_string())
            }
            Credentials::Token(token) => options.token(token.0.to_string()),
            Credentials::Nkey(seed) => options.nkey(seed.0.to_string()),
            Credentials::File(path) => {
                let text = std::fs::read_to_string(path).map(Zeroizing::new);
                let text = text.map_err(|error| ConfigError::File {
                    path: path.clone(),
                    why: error.to_string(),
                })?;
                // The library's own words may quote the file.
                options.credentials(&text).map_err(|_| {
                    let why = "it is no credentials file of NATS (a JWT and a user's seed)";
                    ConfigError::File { path: path.clone(), why: why.to_owned() }
                })?
            }
        })
    }
}

/// What nobody may read by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Secret {
        Secret(Zeroizing::new(text.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// What is wrong with a [`NatsConfig`]. The operator has to act.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The cluster's name cannot be part of a subject.
    #[error("the cluster's name is {0:?}: take 1 to 32 letters, digits, `-` and `_`")]
    Cluster(String),
    /// JetStream has 1, 3 or 5 replicas.
    #[error("the log cannot be on {0} servers: take 1, 3 or 5")]
    Replicas(usize),
    /// There is no address.
    #[error("there is no address of a NATS server: give one, as in nats://host:4222")]
    NoUrl,
    /// An address is none.
    #[error("{0} is no address of a NATS server: write nats://host:4222 or tls://host:4222")]
    Url(String),
    /// Addresses, or an address and the configuration, have different credentials.
    #[error("there are different credentials for NATS: give one for all of its servers")]
    Ambiguous,
    /// A file cannot be read, or is not what it is to be.
    #[error("{}: {why}", .path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn passwords_are_taken_out_of_addresses() {
        let url = Url::from("nats://us%40er:pa%2Fss@host:4223");
        let (address, credentials) = url.parse().unwrap();
        assert_eq!(address.into_inner().as_str().trim_end_matches('/'), "nats://host:4223");
        assert_eq!(credentials, Credentials::Password("us@er".into(), "pa/ss".into()));
        let (_, credentials) = Url::from("tls://t0ken@host").parse().unwrap();
        assert_eq!(credentials, Credentials::Token("t0ken".into()));
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut config = NatsConfig::new("c", ["nats://user:geheim1@host:1", "geheim2@[::"]);
        config.credentials = Credentials::Nkey("geheim3".into());
        let shown = format!("{config:?} {}", config.checked().err().unwrap());
        assert!(!shown.contains("geheim"), "{shown}");
        assert!(shown.contains("nats://host:1"), "{shown}");
    }

    #[test]
    fn credentials_file_is_read_and_one_that_is_none_is_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("user.creds");
        let mut config = NatsConfig::new("c", ["nats://host"]);
        config.credentials = Credentials::File(path.clone());
        assert!(matches!(config.checked().err(), Some(ConfigError::File { .. })));
        let seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
        let file = |seed: &str| {
            format!(
                "-----BEGIN NATS USER JWT-----\neyJ0.eyJq.c2ln\n------END NATS USER JWT------\n\n\
                 -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
            )
        };
        std::fs::write(&path, file(seed)).unwrap();
        assert_eq!(config.checked().err(), None);
        std::fs::write(&path, file("SUgeheim")).unwrap();
        let error = config.checked().err().unwrap().to_string();
        assert!(error.contains("user.creds") && !error.contains("geheim"), "{error}");
    }

    /// What a server that offers no TLS hears first of one who has a password for it.
    async fn first_byte(change: impl FnOnce(&mut NatsConfig)) -> u8 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nats://user:hunter2@{}", listener.local_addr().unwrap());
        let mut config = NatsConfig::new("c", [url]);
        change(&mut config);
        let (addresses, options) = config.checked().unwrap();
        let connecting = tokio::spawn(options.connect(addresses));
        let (mut socket, _) = listener.accept().await.unwrap();
        let info = r#"INFO {"server_id":"x","version":"2.12.3","max_payload":1,"proto":1}"#;
        socket.write_all(format!("{info}\r\n").as_bytes()).await.unwrap();
        let first = socket.read_u8().await.unwrap();
        connecting.abort();
        first
    }

    #[tokio::test]
    async fn password_goes_to_nobody_without_tls_where_tls_is_meant() {
        let dir = tempfile::tempdir().unwrap();
        let own = rcgen::generate_simple_self_signed(["encke".to_owned()]).unwrap();
        let [roots, key] = ["roots.pem", "key.pem"].map(|name| dir.path().join(name));
        std::fs::write(&roots, own.cert.pem()).unwrap();
        std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
        assert_eq!(first_byte(|_| {}).await, b'C', "CONNECT");
        // A record of a handshake (RFC 8446, section 5.1).
        assert_eq!(first_byte(|config| config.roots = Some(roots.clone())).await, 22);
        let certificate = Some((roots.clone(), key));
        assert_eq!(first_byte(|config| config.certificate = certificate).await, 22);
        assert_eq!(first_byte(|config| config.urls.push("tls://127.0.0.1:1".into())).await, 22);
    }

    #[test]
    fn configurations_that_cannot_work_are_refused() {
        let refused = |cluster: &str, urls: &[&str]| {
            NatsConfig::new(cluster, urls.iter().copied()).checked().err().map(|e| e.to_string())
        };
        assert_eq!(refused("a-b_1", &["nats://host", "tls://host:1", "host:2"]), None);
        assert!(refused("a.b", &["nats://host"]).unwrap().contains("a.b"));
        assert!(refused("", &["nats://host"]).is_some());
        assert!(refused("c", &[]).is_some());
        assert!(refused("c", &["http://host"]).unwrap().contains("nats://host:4222"));
        assert!(refused("c", &["ws://host"]).is_some());
        let two = refused("c", &["nats://a:b@host", "nats://a:c@host2"]).unwrap();
        assert!(two.contains("different credentials"), "{two}");
        let mut config = NatsConfig::new("c", ["nats://host"]);
        config.replicas = 2;
        assert_eq!(config.checked().err(), Some(ConfigError::Replicas(2)));
        config.replicas = 3;
        config.roots = Some("/nowhere/roots.pem".into());
        assert!(config.checked().err().unwrap().to_string().contains("/nowhere/roots.pem"));
    }
}

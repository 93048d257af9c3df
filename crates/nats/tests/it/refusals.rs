//! What the operator must know: that NATS is not there, or not as it must be.

use std::net::SocketAddr;
use std::time::Duration;

use nats::{ConnectError, Credentials, LogError, NatsClient, NatsConfig};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use testing::{NatsServer, tried_again};
use tokio::time::timeout;

use crate::harness::{DEADLINE, programs};

const JETSTREAM: &str = "jetstream { store_dir: \"STORE\", max_file_store: 20GB }\n";

fn config(url: &str) -> NatsConfig {
    let mut config = NatsConfig::new("t", [url]);
    config.connect_timeout = DEADLINE;
    config
}

async fn refusal(config: NatsConfig) -> ConnectError {
    NatsClient::connect(config).await.err().expect("it must not connect")
}

/// The refusal of one that tries until its time is over. Where the machine stands still and nothing
/// has answered until then, it is given more, and that is told: no event says that it has been
/// refused once.
async fn refusal_after_a_while(mut config: NatsConfig) -> String {
    let mut told = String::new();
    for seconds in [2, 8, 32] {
        config.connect_timeout = Duration::from_secs(seconds);
        let error = refusal(config.clone()).await;
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
        told = error.to_string();
        if !told.contains("nothing has answered") {
            return told;
        }
        tried_again(&told);
    }
    panic!("{told}");
}

#[tokio::test]
async fn server_that_is_not_there_is_an_error_in_time() {
    // Once with a listener that says nothing, once without.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = SocketAddr::from(([127, 0, 0, 1], testing::free_port()));
    for address in [silent.local_addr().unwrap(), nobody] {
        let mut config = config(&format!("nats://me:geheim@{address}"));
        config.connect_timeout = Duration::from_millis(1500);
        let error = timeout(DEADLINE, refusal(config)).await.expect("it tries no longer than told");
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        assert!(!format!("{error} {error:?}").contains("geheim"), "{error:?}");
    }
}

#[tokio::test]
async fn credentials_are_tried_and_refused() {
    for program in programs() {
        let users = "authorization { users: [{ user: me, password: \"ge/heim\" }] }\n";
        let server = NatsServer::with_settings(&program, &format!("{users}{JETSTREAM}"));
        let address = server.address();
        let good = config(&format!("nats://me:ge%2Fheim@{address}"));
        assert!(NatsClient::connect(good).await.unwrap().make_log(1).await.is_ok());
        let mut good = config(&server.url());
        good.credentials = Credentials::Password("me".to_owned(), "ge/heim".into());
        assert!(NatsClient::connect(good).await.is_ok());
        for bad in [format!("nats://me:falsch@{address}"), server.url()] {
            let error = refusal(config(&bad)).await;
            assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("falsch"), "{error:?}");
        }

        let token = "authorization { token: \"t0ken\" }\n";
        let server = NatsServer::with_settings(&program, token);
        assert!(
            NatsClient::connect(config(&format!("nats://t0ken@{}", server.address())))
                .await
                .is_ok()
        );
        let error = refusal(config(&format!("nats://other@{}", server.address()))).await;
        assert!(matches!(error, ConnectError::Refused { .. }), "{error}");

        // A pair of keys of NATS's own examples.
        let seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
        let public = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
        let users = format!("authorization {{ users: [{{ nkey: {public} }}] }}\n");
        let server = NatsServer::with_settings(&program, &users);
        let mut keyed = config(&server.url());
        keyed.credentials = Credentials::Nkey(seed.into());
        assert!(NatsClient::connect(keyed).await.is_ok());
    }
}

#[tokio::test]
async fn tls_is_spoken_with_servers_that_are_trusted_and_know_us() {
    let Some(program) = testing::nats_current() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(path("ca.pem"), authority.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    for name in ["server", "node"] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(path(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    let at = |name: &str| path(name).display().to_string();
    let tls = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}\n",
        at("server.pem"),
        at("server.key"),
        at("ca.pem")
    );
    let server = NatsServer::with_settings(&program, &format!("{tls}{JETSTREAM}"));
    let url = format!("tls://localhost:{}", server.address().port());
    let mut trusted = config(&url);
    trusted.roots = Some(path("ca.pem"));
    // Without our certificate.
    refusal_after_a_while(trusted.clone()).await;
    trusted.certificate = Some((path("node.pem"), path("node.key")));
    assert!(NatsClient::connect(trusted.clone()).await.unwrap().make_log(1).await.is_ok());
    trusted.roots = Some(path("node.pem"));
    let error = refusal_after_a_while(trusted.clone()).await;
    assert!(error.contains("certificate"), "the reason is told: {error}");
    trusted.roots = Some(path("nothing.pem"));
    assert!(matches!(refusal(trusted).await, ConnectError::Config(_)));
}

#[tokio::test]
async fn jetstream_that_is_off_or_too_small_is_told_with_what_to_do() {
    for program in programs() {
        let server = NatsServer::with_settings(&program, "");
        let nats = NatsClient::connect(config(&server.url())).await.unwrap();
        let error = nats.make_log(1).await.unwrap_err();
        assert_eq!(error, LogError::NoJetStream);
        assert!(error.to_string().contains("store_dir"), "{error}");
        assert_eq!(nats.propose(0, "x".into()).await, Err(LogError::NoJetStream));

        let small = "jetstream { store_dir: \"STORE\", max_file_store: 1GB }\n";
        let server = NatsServer::with_settings(&program, small);
        let nats = NatsClient::connect(config(&server.url())).await.unwrap();
        let error = nats.make_log(1).await.unwrap_err();
        assert!(matches!(error, LogError::TooSmall(_)), "{error:?}");

        let server = NatsServer::start(&program);
        let mut three = config(&server.url());
        three.replicas = 3;
        let error = NatsClient::connect(three).await.unwrap().make_log(1).await.unwrap_err();
        assert!(matches!(error, LogError::TooFewServers { replicas: 3, .. }), "{error:?}");

        let tight = format!("max_payload: 65536\n{JETSTREAM}");
        let server = NatsServer::with_settings(&program, &tight);
        let nats = NatsClient::connect(config(&server.url())).await.unwrap();
        assert_eq!(nats.make_log(1).await.unwrap_err(), LogError::SmallPayload(65536));
    }
}

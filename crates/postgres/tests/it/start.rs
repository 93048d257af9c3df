//! Connecting: who makes the tables, who may not, TLS, passwords.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use postgres::{PostgresConfig, PostgresError, PostgresStore, SchemaFault, TlsMode};
use testing::postgres::Postgres;

use crate::support::{config, connect, pairs, run, server, stored};

#[test]
fn many_nodes_that_start_at_once_make_one_schema() {
    let Some(server) = server() else { return };
    run(async {
        let server = Arc::new(server);
        let nodes: Vec<_> = (0..8)
            .map(|_| {
                let server = server.clone();
                tokio::spawn(async move { connect(&server).await })
            })
            .collect();
        for (n, node) in nodes.into_iter().enumerate() {
            let node = node.await.unwrap();
            node.change(pairs(&[("1", &n.to_string())]), vec![]).await.unwrap();
            assert_eq!(stored(&node).await.0.version, n as u64 + 1);
        }
        let versions =
            "select string_agg(version::text, ',' order by version) from encke.migrations";
        // Nodes of version 2 can live with the third, and so on, and look for it in their way.
        assert_eq!(server.sql(versions).unwrap(), "-3,1,2");
        let fourth = "select max(greatest(abs(version), also)) from encke.migrations";
        assert_eq!(server.sql(fourth).unwrap(), "4");
    });
}

#[test]
fn schema_of_another_version_is_refused_with_what_to_do() {
    let Some(server) = server() else { return };
    run(async {
        let mut may_not = config(&server);
        may_not.migrate = false;
        let older = PostgresStore::connect(may_not).await.unwrap_err();
        assert_eq!(older, PostgresError::Schema(SchemaFault::Older { found: 0, known: 6 }));
        let mut elsewhere = config(&server);
        elsewhere.schema = "graph_2".into();
        let other = PostgresStore::connect(elsewhere).await.unwrap();
        other.change(pairs(&[("a", "b")]), vec![]).await.unwrap();
        assert_eq!(server.sql("select graph_2.change(array[['a', 'c']])").unwrap(), "2");
        assert_eq!(server.sql("select to_regnamespace('encke') is null").unwrap(), "t");
        connect(&server).await;
        // One that this program can live with, and one that it cannot.
        server.sql("update encke.migrations set later = 8 where version = -3").unwrap();
        connect(&server).await.change(pairs(&[("a", "b")]), vec![]).await.unwrap();
        server.sql("insert into encke.migrations (version) values (9)").unwrap();
        let newer = PostgresStore::connect(config(&server)).await.unwrap_err();
        assert_eq!(newer, PostgresError::Schema(SchemaFault::Newer { found: 9, known: 6 }));
        assert!(newer.to_string().contains("upgrade this node"));
    });
}

#[test]
fn application_with_no_right_but_change_can_change() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        server.sql("create role app login").unwrap();
        let as_app = |sql: &str| server.sql(&format!("set role app; {sql}"));
        assert!(as_app("select encke.change(array[['a', 'b']])").is_err());
        let grant =
            "grant usage on schema encke to app; grant execute on function encke.change to app";
        server.sql(grant).unwrap();
        as_app("select encke.change(array[['a', 'b']])").unwrap();
        assert!(as_app("delete from encke.subscriptions").is_err());
        assert_eq!(stored(&store).await.1, pairs(&[("a", "b")]));
        // Nor has who writes to an installed table.
        server
            .sql(
                "create table follows (a int, b int, primary key (a, b));
                 grant all on follows to app",
            )
            .unwrap();
        let [table, subscriber, subscribee] = ["follows", "a", "b"].map(str::to_owned);
        store.install(&postgres::Source { table, subscriber, subscribee }).await.unwrap();
        as_app("insert into follows values (1, 2)").unwrap();
        assert_eq!(stored(&store).await.1, pairs(&[("1", "2")]));
    });
}

#[test]
fn wrong_configurations_say_what_to_do_and_no_secret() {
    let Some(server) = server() else { return };
    run(async {
        let port = server.port();
        server.sql("create database latin encoding latin1 locale 'C' template template0").unwrap();
        for (url, why) in [
            (format!("postgresql://postgres:s3cret@127.0.0.1:{port}/latin"), "--encoding=UTF8"),
            (format!("postgresql://postgres:s3cret@127.0.0.1:{port}/nowhere"), "createdb"),
            (format!("postgresql://nobody:s3cret@127.0.0.1:{port}/postgres"), "pg_hba.conf"),
            (format!("postgresql://a:s3cret@127.0.0.1:{port}/postgres?sslmode=require"), "TLS"),
            ("postgresql://a:s3cret@127.0.0.1:1/x".to_owned(), "is away"),
        ] {
            let error =
                PostgresStore::connect(PostgresConfig::from_url(&url).unwrap()).await.unwrap_err();
            assert!(error.to_string().contains(why), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    });
}

#[test]
fn password_is_read_from_its_file_at_each_connect() {
    let Some(server) = server() else { return };
    run(async {
        server.sql("create role node superuser login password 'p1'").unwrap();
        let hba = "host all node all scram-sha-256\nhost all all all trust\n";
        std::fs::write(server.data().join("pg_hba.conf"), hba).unwrap();
        server.sql("select pg_reload_conf()").unwrap();
        let url = format!("postgresql://node@127.0.0.1:{}/postgres", server.port());
        let mut config = PostgresConfig::from_url(&url).unwrap();
        let missing = PostgresStore::connect(config.clone()).await.unwrap_err();
        assert!(
            matches!(missing, PostgresError::Unusable(_) | PostgresError::Away(_)),
            "{missing}"
        );
        config.password_file = Some(server.put_file("password", "p2\n"));
        let wrong = PostgresStore::connect(config.clone()).await.unwrap_err();
        assert!(matches!(wrong, PostgresError::Unusable(_)), "{wrong:?}");
        server.put_file("password", "p1\n");
        PostgresStore::connect(config.clone()).await.unwrap();
        let pass = server.put_file("pgpass", &format!("127.0.0.1:{}:*:node:p1\n", server.port()));
        (config.password_file, config.pass_file) = (None, Some(pass.clone()));
        PostgresStore::connect(config.clone()).await.unwrap();
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&pass, open).unwrap();
        let open = PostgresStore::connect(config).await.unwrap_err();
        assert!(open.to_string().contains("chmod"), "{open}");
    });
}

/// A server with a certificate for `db.test` by an authority of its own.
fn tls_server() -> Option<(Postgres, std::path::PathBuf)> {
    let mut server = server()?;
    let key = || rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(vec![]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let (authority_key, server_key) = (key(), key());
    let root = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&server_key, &issuer).unwrap().pem();
    let root = server.put_file("root.pem", &root);
    let paths = [
        ("ssl_cert_file", server.put_file("server.pem", &certificate)),
        ("ssl_key_file", server.put_file("server.key", &server_key.serialize_pem())),
    ];
    for (setting, path) in paths {
        server.sql(&format!("alter system set {setting} = '{}'", path.display())).unwrap();
    }
    server.sql("alter system set ssl = on").unwrap();
    server.stop();
    server.run();
    assert_eq!(server.sql("show ssl").unwrap(), "on");
    Some((server, root))
}

#[test]
fn tls_is_as_strict_as_its_mode() {
    let Some((server, root)) = tls_server() else { return };
    run(async {
        let port = server.port();
        let connected = async |host: &str, tls: TlsMode, root_file: Option<&std::path::PathBuf>| {
            let url = format!("postgresql://postgres@{host}:{port}/postgres");
            let mut config = PostgresConfig::from_url(&url).unwrap();
            (config.tls, config.root_file) = (tls, root_file.cloned());
            config.set_application_name(&format!("{tls:?}"));
            let store = PostgresStore::connect(config).await?;
            let sql = format!(
                "select bool_or(ssl) from pg_stat_ssl join pg_stat_activity using (pid)
                 where application_name = '{tls:?}'"
            );
            let encrypted = server.sql(&sql).unwrap() == "t";
            drop(store);
            Ok::<bool, PostgresError>(encrypted)
        };
        let (name, other) = ("localhost", "127.0.0.1");
        assert_eq!(connected(other, TlsMode::Disable, None).await, Ok(false));
        assert_eq!(connected(other, TlsMode::Prefer, None).await, Ok(true));
        assert_eq!(connected(other, TlsMode::Require, None).await, Ok(true));
        assert_eq!(connected(other, TlsMode::VerifyCa, Some(&root)).await, Ok(true));
        assert_eq!(connected(name, TlsMode::VerifyFull, Some(&root)).await, Ok(true));
        let foreign = server.put_file("other.pem", &{
            let key = rcgen::KeyPair::generate().unwrap();
            rcgen::CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap().pem()
        });
        for (host, tls, root) in [
            (other, TlsMode::VerifyFull, Some(&root)),
            (name, TlsMode::VerifyFull, Some(&foreign)),
            (name, TlsMode::VerifyCa, Some(&foreign)),
            (name, TlsMode::Require, Some(&foreign)),
        ] {
            let error = connected(host, tls, root).await.unwrap_err();
            assert!(error.to_string().contains("ertificate"), "{tls:?}: {error}");
        }
    });
}

#[test]
fn socket_in_a_folder_is_reached_whatever_is_asked_of_tls() {
    let folder = tempfile::tempdir().unwrap();
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let place = format!("unix_socket_directories={}", folder.path().display());
    let Some(server) = Postgres::start(&["fsync=off", &place]) else { return };
    run(async {
        for mode in ["disable", "prefer", "require"] {
            let (folder, port) = (folder.path().display(), server.port());
            let words = format!("host={folder} port={port} user=postgres sslmode={mode}");
            let store = PostgresStore::connect(PostgresConfig::from_url(&words).unwrap()).await;
            store.unwrap_or_else(|error| panic!("{mode}: {error}"));
        }
        // An address without a name.
        let words = format!("hostaddr=127.0.0.1 port={} user=postgres", server.port());
        let mut config = PostgresConfig::from_url(&words).unwrap();
        PostgresStore::connect(config.clone()).await.unwrap();
        config.tls = TlsMode::Require;
        let refused = PostgresStore::connect(config).await.unwrap_err();
        assert!(!refused.to_string().contains("invalid dns name"), "{refused}");
    });
}

/// The kernel takes connections for a process that stands still.
#[test]
fn silent_host_does_not_hide_the_next_one() {
    let Some(server) = server() else { return };
    run(async {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let hosts = format!("127.0.0.1:{port},127.0.0.1:{}", server.port());
        let url =
            format!("postgresql://postgres@{hosts}/postgres?sslmode=disable&connect_timeout=3");
        let store = PostgresStore::connect(PostgresConfig::from_url(&url).unwrap()).await.unwrap();
        store.change(pairs(&[("a", "b")]), vec![]).await.unwrap();
    });
}

//! What clients may call the server, from the options.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    names: NameArgs,
}

fn parse(args: &[&str]) -> Result<NameArgs, clap::Error> {
    Line::try_parse_from([&["x"], args].concat()).map(|line| line.names)
}

fn at(address: &str) -> ListenAddress {
    address.parse().unwrap()
}

#[test]
fn public_port_is_called_by_its_names_and_those_of_its_pages() {
    let names = parse(&[
        "--public-host=push.test",
        "--api-host=admin.test",
        "--allow-origin=https://app.test:8443",
    ])
    .unwrap();
    let url = "https://front.test/encke".parse().unwrap();
    let origins = names.origins(&[&at("localhost:8000"), &at("127.0.0.1:8001")], Some(&url));
    for host in ["push.test:8000", "admin.test", "app.test", "front.test", "10.0.0.1"] {
        assert!(origins.is_called(Some(host), None), "{host}");
    }
    assert!(!origins.is_called(Some("evil.test"), None));
    // A proxy may call the server otherwise than the page does.
    assert!(origins.allows("https://front.test", Some("127.0.0.1:8000")));
    assert!(!origins.allows("http://front.test", Some("127.0.0.1:8000")));
    let api = names.api_hosts(&[&at("127.0.0.1:8001")]);
    assert!(api.include("admin.test:8001") && !api.include("push.test"));
}

#[test]
fn address_given_by_name_makes_that_a_name_of_the_server() {
    let listen = at("http://localhost:8001");
    assert_eq!((listen.name.as_deref(), listen.address.port()), (Some("localhost"), 8001));
    assert_eq!(at("127.0.0.1:1").name, None);
    let named = ListenAddress { name: Some("encke.test".into()), ..listen };
    assert!(parse(&[]).unwrap().api_hosts(&[&named]).include("Encke.test:8001"));
}

#[test]
fn port_may_be_none() {
    assert_eq!("none".parse(), Ok(Port(None)));
    assert_eq!("https://127.0.0.1:1".parse::<Port>().unwrap().0, Some(at("127.0.0.1:1")));
    assert!("None".parse::<Port>().is_err());
}

#[test]
fn names_and_origins_are_passed_on_as_they_are() {
    let given = [
        "--allow-origin=https://a.test,https://B.test:443",
        "--public-host=*",
        "--api-host=a,b.test.",
    ];
    let names = parse(&given).unwrap();
    let options = names.options();
    assert_eq!(
        options,
        [
            "--allow-origin=https://a.test",
            "--allow-origin=https://b.test",
            "--public-host=*",
            "--api-host=a",
            "--api-host=b.test",
        ]
    );
    let again = parse(&options.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    assert_eq!(format!("{again:?}"), format!("{names:?}"));
}

#[test]
fn what_is_no_name_and_no_origin_is_refused() {
    for wrong in [
        "--allow-origin=example.org",
        "--allow-origin=https://example.org/",
        "--allow-origin=https://example.org/path",
        "--allow-origin=https://user@example.org",
        "--allow-origin=https://*.example.org",
        "--allow-origin=https://example.org:port",
        "--allow-origin=null",
        "--api-host=*",
        "--api-host=http://a.test",
        "--api-host=a.test:8001",
        "--public-host=127.0.0.1",
        "--public-host=",
    ] {
        assert!(parse(&[wrong]).is_err(), "{wrong}");
    }
}

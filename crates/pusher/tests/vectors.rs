//! The test vectors of the protocol, as an outside computation has made them.

use pusher::http::{ApiRefusal, SignedQuery, Signer};
use pusher::{Auth, Secret, Signed, SocketId, webhook};

const KEY: &str = "encke-app-key";
const SOCKET: SocketId = SocketId { first: 4711, second: 815 };
const NOW: u64 = 1_700_000_000;

fn secret() -> Secret {
    Secret::new(b"encke-app-secret")
}

/// Looks that what is signed is made and is taken.
fn holds(key: &str, secret: &Secret, socket: SocketId, what: Signed<'_>, signature: &str) {
    let auth = format!("{key}:{signature}");
    assert_eq!(what.auth(key, secret, socket), auth);
    assert!(Auth::parse(&auth).is_some_and(|auth| auth.is_of(secret, socket, what)));
}

#[test]
fn signatures_of_clients_are_those_of_the_vectors() {
    let channel = |channel, channel_data| Signed::Channel { channel, channel_data };
    let data = r#"{"user_id":"bob","user_info":{"name":"Bob"}}"#;
    let user = r#"{"id":"bob","watchlist":["rj","alice"]}"#;
    for (what, signature) in [
        (
            channel("private-rj", None),
            "424d0a2f473cb64ef59477a214453711e9b0380db8edbbf8fa47d90ce7fdfedd",
        ),
        (
            channel("presence-room-7", Some(data)),
            "f1df37707414b2f640790603e79eca92d76dd2466380e87b1737c563d2008f89",
        ),
        (
            channel("presence-room-7", None),
            "08a8804e028959dac0814c09decce43e599eeaeb50cbdebde5d97f478d0a1a73",
        ),
        (
            Signed::User { user_data: user },
            "8b7df2648557e2a06ca4ff83efd0e2f68ba55e9c5270c1031088cad0cefaeb41",
        ),
    ] {
        holds(KEY, &secret(), SOCKET, what, signature);
    }
}

#[test]
fn signatures_of_pushers_documentation_hold() {
    let (key, secret) = ("278d425bdf160c739803", Secret::new(b"7ad3773142a6692b25b8"));
    let socket = SocketId::parse("1234.1234").unwrap().unwrap();
    let private = Signed::Channel { channel: "private-foobar", channel_data: None };
    let signature = "58df8b0c36d6982b82c3ecf6b4662e34fe8c25bba48f5369f135bf843651c3a4";
    holds(key, &secret, socket, private, signature);
    let user = Signed::User { user_data: r#"{"id":"12345"}"# };
    let signature = "4708d583dada6a56435fb8bc611c77c359a31eebde13337c16ab43aa6de336ba";
    holds(key, &secret, socket, user, signature);
    let data = Some(r#"{"user_id":10,"user_info":{"name":"Mr. Channels"}}"#);
    let presence = Signed::Channel { channel: "presence-foobar", channel_data: data };
    let signature = "31935e7d86dba64c2a90aed31fdc61869f9b22ba9d8863bba239c03ca481bc80";
    holds(key, &secret, socket, presence, signature);
}

fn verify(method: &str, path: &str, query: &str, body: &[u8]) -> Result<(), ApiRefusal> {
    let secret = secret();
    let signer = Signer { key: KEY, secret: &secret, now: NOW };
    let query = SignedQuery::parse(query)?;
    query.verify_head(signer, method, path)?;
    query.verify_body(body)
}

#[test]
fn requests_of_the_vectors_are_taken() {
    let auth = "auth_key=encke-app-key&auth_timestamp=1700000000&auth_version=1.0";
    let body = concat!(
        r#"{"name":"new","channel":"private-rj","data":"{\"photo\":789}","socket_id":"4711.815","#,
        r#""info":"subscription_count"}"#,
    )
    .as_bytes();
    let trigger = format!(
        "{auth}&body_md5=826222257797388905066c974f50074f&auth_signature=\
         c0f82dff972a40b8a447a474b92cc927a4f4dee66b447b34404cacc8d211e500"
    );
    assert_eq!(verify("POST", "/apps/1/events", &trigger, body), Ok(()));
    let channels = format!(
        "{auth}&filter_by_prefix=presence-&info=user_count&auth_signature=\
         a2579f9455c985f2c92e9742fea165ec4c44b6cb9c64ad323e41b316c97f2856"
    );
    assert_eq!(verify("GET", "/apps/1/channels", &channels, b""), Ok(()));
    let python = format!(
        "{auth}&body_md5=d41d8cd98f00b204e9800998ecf8427e&auth_signature=\
         c10b1da0bce662e73b834beaf1063d48d43ccee0b393bcb6a50219b6a4f2a069"
    );
    let path = "/apps/1/channels/presence-room-7/users";
    assert_eq!(verify("GET", path, &python, b""), Ok(()));
    assert_eq!(verify("GET", "/apps/1/channels", &python, b""), Err(ApiRefusal::Signature));
}

#[test]
fn worked_example_of_pushers_documentation_is_taken() {
    let body = br#"{"name":"foo","channels":["project-3"],"data":"{\"some\":\"data\"}"}"#;
    let query = "auth_key=278d425bdf160c739803&auth_timestamp=1353088179&auth_version=1.0&\
                 body_md5=ec365a775a4cd0599faeb73354201b6f&auth_signature=\
                 da454824c97ba181a32ccc17a72625ba02771f50b50e1e7430e47a1f3f457e6c";
    let secret = Secret::new(b"7ad3773142a6692b25b8");
    let signer = Signer { key: "278d425bdf160c739803", secret: &secret, now: 1_353_088_179 };
    let query = SignedQuery::parse(query).unwrap();
    assert_eq!(query.verify_head(signer, "POST", "/apps/3/events"), Ok(()));
    assert_eq!(query.verify_body(body), Ok(()));
}

#[test]
fn webhook_is_the_vector_to_the_byte() {
    let occupied = webhook::WebhookEvent::ChannelOccupied { channel: "private-rj" };
    let head = webhook::body_head(1_700_000_000_000);
    let body = [&*head, &occupied.json(), webhook::BODY_TAIL].concat();
    assert_eq!(
        body,
        r#"{"time_ms":1700000000000,"events":[{"name":"channel_occupied","channel":"private-rj"}]}"#
    );
    let signature = "0eeb509a95194039aa3e8a816033fc137a443455934a69ffa9d3581ec6c5e082";
    assert_eq!(webhook::signature(&secret(), body.as_bytes()), signature);
}

//! One client, named by the first argument, reads the stream at the second argument. It prints each
//! event as a line of JSON, as the application has seen it.

use std::time::Duration;

use eventsource_client::Client as _;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

/// How long who reconnects by hand waits.
const PAUSE: Duration = Duration::from_millis(200);

fn print(id: Option<&str>, kind: Option<&str>, data: &str) {
    println!("{}", json!({ "id": id, "type": kind, "data": data }));
}

/// reqwest-eventsource reconnects by itself.
async fn reqwest_eventsource(url: &str) {
    let mut source = reqwest_eventsource::EventSource::get(url);
    while let Some(event) = source.next().await {
        match event {
            Ok(reqwest_eventsource::Event::Open) => {}
            Ok(reqwest_eventsource::Event::Message(event)) => {
                print(Some(&event.id), Some(&event.event), &event.data);
            }
            // It tells errors and goes on, unless it cannot.
            Err(error) => eprintln!("{error}"),
        }
    }
}

/// eventsource-client, LaunchDarkly's, reconnects by itself, ever slower unless told otherwise.
async fn eventsource_client(url: &str) {
    let options = eventsource_client::ReconnectOptions::reconnect(true).delay(PAUSE);
    let options = options.delay_max(PAUSE).retry_initial(true).build();
    let client = eventsource_client::ClientBuilder::for_url(url).expect("the address is one");
    let transport = launchdarkly_sdk_transport::HyperTransport::builder().build_http();
    let transport = transport.expect("plain HTTP takes nothing");
    let client = client.reconnect(options).build_with_transport(transport);
    let mut stream = client.stream();
    while let Some(event) = stream.next().await {
        match event {
            Ok(eventsource_client::SSE::Event(event)) => {
                print(event.id.as_deref(), Some(&event.event_type), &event.data);
            }
            Ok(_) => {}
            Err(error) => eprintln!("{error}"),
        }
    }
}

/// A client of WebSockets knows no place and does not reconnect, so the program does both by hand,
/// as docs/protocol.md describes.
async fn tungstenite(url: &str) {
    let url = url.replacen("http", "ws", 1);
    let mut place: Option<String> = None;
    loop {
        let query = place.as_ref().map(|place| format!("?last_event_id={place}"));
        let address = format!("{url}{}", query.unwrap_or_default());
        if let Ok((mut socket, _)) = tokio_tungstenite::connect_async(address).await {
            // Asks where the stream begins, so that a cut before the first event loses nothing.
            let _ = socket.send(Message::text(r#"{"ping":1}"#)).await;
            while let Some(Ok(message)) = socket.next().await {
                let Message::Text(text) = message else { continue };
                let message: Value = serde_json::from_str(&text).expect("it is JSON");
                let next = message["id"].as_str().or(message["ok"]["next"].as_str());
                place = next.map(Into::into).or(place);
                let kind = message.get("ok").map(|_| "next");
                print(next, message.get("gap").map(|_| "gap").or(kind), &text);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().expect("the name of a client, and an address");
    let (client, url) = (argument(), argument());
    match client.as_str() {
        "reqwest-eventsource" => reqwest_eventsource(&url).await,
        "eventsource-client" => eventsource_client(&url).await,
        "tungstenite" => tungstenite(&url).await,
        other => panic!("there is no client {other}"),
    }
}

//! Songs that are told to friends, by an Encke whose API takes its time.

use std::net::SocketAddr;
use std::sync::Arc;

use playdar::friends::{self, FriendsConfig};
use playdar::pipeline::Pipeline;
use serde_json::{Value, json};
use testing::DEADLINE;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::one_song;

/// An API that answers queries at once, and songs when it is let.
#[derive(Default)]
struct Api {
    /// What was posted, in the order in which it came.
    heard: watch::Sender<Vec<Value>>,
    answers_songs: watch::Sender<bool>,
}

impl Api {
    /// Begins to serve, and says where.
    async fn serve(self: &Arc<Api>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let api = self.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(api.clone().answer(BufReader::new(connection)));
            }
        });
        address
    }

    async fn answer(self: Arc<Api>, mut connection: BufReader<TcpStream>) {
        while let Some(event) = read(&mut connection).await {
            let is_song = event["data"]["_msgtype"] == "listening";
            self.heard.send_modify(|heard| heard.push(event));
            if is_song {
                let mut answers = self.answers_songs.subscribe();
                answers.wait_for(|answers| *answers).await.unwrap();
            }
            let body = "{\"delivered\":0}\n";
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    /// Waits until `count` messages of a kind came; their field `name`.
    async fn heard(&self, kind: &str, name: &str, count: usize) -> Vec<Value> {
        let of_kind = |heard: &Vec<Value>| -> Vec<Value> {
            let data = heard.iter().map(|event| &event["data"]);
            data.filter(|data| data["_msgtype"] == kind).map(|data| data[name].clone()).collect()
        };
        let mut heard = self.heard.subscribe();
        let came = timeout(DEADLINE, heard.wait_for(|heard| of_kind(heard).len() >= count)).await;
        of_kind(&came.expect("they come in time").unwrap())
    }
}

/// The event of a request; `None` at the connection's end.
async fn read(connection: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.ok()?;
    serde_json::from_slice(&body).ok()
}

/// Queries overtake the song whose answer takes long, the next song does not.
#[tokio::test]
async fn song_waits_until_the_one_before_it_is_answered() {
    let api = Arc::new(Api::default());
    let url = format!("http://{}", api.serve().await);
    let config = FriendsConfig {
        // Nobody is there.
        streams: "http://127.0.0.1:1".parse().unwrap(),
        api: url.parse().unwrap(),
        name: "alice".into(),
        key: None,
        token_file: None,
        base: None,
        // The song's answer is held for as long as the queries take.
        answer_timeout: DEADLINE,
    };
    let pipeline = Pipeline::new();
    let friends = friends::start(config, &pipeline).unwrap();
    let listens = friends.listens();
    for track in ["first", "second", "third"] {
        listens.send(json!({"_msgtype": "listening", "track": track})).await.unwrap();
    }
    assert_eq!(api.heard("listening", "track", 1).await, ["first"]);
    // What was to be posted beside the first song would be there before the last of these.
    for n in 1..=5 {
        pipeline.resolve(one_song::query(&format!("Q{n}"))).unwrap();
        api.heard("rq", "qid", n).await;
    }
    assert_eq!(api.heard("listening", "track", 1).await, ["first"]);
    api.answers_songs.send_replace(true);
    assert_eq!(api.heard("listening", "track", 3).await, ["first", "second", "third"]);
    friends.stop().await;
}

//! Songs as players fetch them, from the library and through the daemon.

use std::sync::Arc;

use playdar::model::{Found, Query};
use playdar::resolver::{Answers, Profile, Resolver};

use crate::live::Live;
use crate::one_song::{DEADLINE, query_for};

#[tokio::test]
async fn ranges_of_a_song_are_its_bytes() {
    let live = Live::start().await;
    let target = format!("/sid/{}", live.sid("Tone in MP3").await);
    let whole = std::fs::read(live.dir.path().join("music/tone.mp3")).unwrap();
    let length = whole.len();
    for (range, from, to) in
        [("0-3", 0, 3), ("100-", 100, length - 1), ("-5", length - 5, length - 1)]
    {
        let reply = live.ask("GET", &target, &[("Range", &format!("bytes={range}"))], "").await;
        assert_eq!((reply.status, &*reply.body), (206, &whole[from..=to]), "{range}");
        assert!(reply.has(&format!("content-range: bytes {from}-{to}/{length}")), "{}", reply.head);
    }
    let beyond = live.ask("GET", &target, &[("Range", &format!("bytes={length}-"))], "").await;
    assert_eq!(beyond.status, 416);
    assert!(beyond.has(&format!("content-range: bytes */{length}")), "{}", beyond.head);
    let head = live.ask("HEAD", &target, &[], "").await;
    assert!(head.status == 200 && head.body.is_empty(), "{head:?}");
    assert!(head.has(&format!("content-length: {length}")) && head.has("accept-ranges: bytes"));
    assert_eq!(live.get(&target).await.body, whole);
}

/// Answers every query with one result.
struct Foreign(Found);

impl Resolver for Foreign {
    fn profile(&self) -> Profile {
        let target_time = DEADLINE;
        Profile {
            name: "foreign".into(),
            weight: 101,
            target_time,
            is_local_only: false,
            preference: 1,
        }
    }

    fn ask(&self, query: &Arc<Query>, answers: &Answers) {
        answers.add(&query.qid, vec![self.0.clone()]);
    }
}

/// What the daemon answers for a song of this address and type.
async fn fetched(live: &Live, url: String, mimetype: &str) -> crate::live::Reply {
    live.daemon.pipeline().add(Arc::new(Foreign(Found {
        artist: "Mokele".to_owned(),
        track: "Elsewhere".to_owned(),
        mimetype: mimetype.to_owned(),
        score: Some(1.0),
        url: Some(url),
        ..Found::default()
    })));
    let qid = live.daemon.pipeline().resolve(query_for("", "Elsewhere")).unwrap();
    let sid = live.solved(&qid).await["results"][0]["sid"].as_str().unwrap().to_owned();
    live.ask("GET", &format!("/sid/{sid}"), &[("Range", "bytes=2-5")], "").await
}

#[tokio::test]
async fn song_of_another_daemon_passes_through_with_its_range() {
    let (near, far) = (Live::start().await, Live::start().await);
    let url = format!("http://{}/sid/{}", far.host(), far.sid("Tone in FLAC").await);
    let reply = fetched(&near, url, "").await;
    let whole = std::fs::read(far.dir.path().join("music/tone.flac")).unwrap();
    assert_eq!((reply.status, &*reply.body), (206, &whole[2..6]));
    assert!(reply.has("content-type: audio/flac"), "{}", reply.head);
}

#[tokio::test]
async fn neither_pages_nor_files_outside_the_library_are_served() {
    let live = Live::start().await;
    let page = fetched(&live, format!("http://{}/", live.host()), "text/html").await;
    assert!(page.has("content-type: application/octet-stream"), "{}", page.head);
    assert!(page.has("content-security-policy: default-src 'none'; sandbox"), "{}", page.head);
    let secret = live.dir.path().join("secret.mp3");
    std::fs::write(&secret, "secret").unwrap();
    for (url, status) in [
        (format!("file://{}", secret.display()), 404),
        ("file:///etc/passwd".to_owned(), 404),
        ("ftp://a.example/".to_owned(), 503),
        ("http://".to_owned(), 503),
        ("http://127.0.0.1:1/".to_owned(), 503),
    ] {
        let reply = fetched(&live, url.clone(), "audio/mpeg").await;
        assert_eq!(reply.status, status, "{url}");
    }
}

//! The library: files of each format, and what changes in the folder.

use std::fs;

use playdar::scanner::Scanned;
use tokio::time::timeout;

use crate::live::Live;
use crate::one_song::DEADLINE;

/// Waits for a walk after which the library has so many songs.
async fn walked(live: &Live, is_it: impl Fn(&Scanned) -> bool) -> Scanned {
    let mut scanned = live.daemon.scanned();
    let it = scanned.wait_for(|scanned| scanned.as_ref().is_some_and(&is_it));
    let it = timeout(DEADLINE, it).await.expect("it is seen in time").unwrap();
    it.unwrap()
}

#[tokio::test]
async fn each_format_is_read_with_its_names_and_length() {
    let live = Live::start().await;
    let first = walked(&live, |_| true).await;
    assert_eq!(first, Scanned { files: 6, read: 6, silent: 1, gone: 0 });
    for (format, mimetype) in [
        ("MP3", "audio/mpeg"),
        ("M4A", "audio/mp4"),
        ("OGG", "application/ogg"),
        ("Opus", "audio/ogg"),
        ("FLAC", "audio/flac"),
    ] {
        let qid = live.resolve(&format!("Tone in {format}"), "").await;
        let song = live.solved(&qid).await["results"][0].clone();
        assert_eq!((&song["mimetype"], &song["album"]), (&mimetype.into(), &"Samples".into()));
        assert_eq!((&song["duration"], &song["trackno"]), (&1.into(), &3.into()), "{song}");
        assert!(song["bitrate"].as_u64().unwrap() > 0, "{song}");
    }
}

#[tokio::test]
async fn changes_of_the_folder_are_seen_and_only_they_are_read() {
    let live = Live::start().await;
    let music = live.dir.path().join("music");
    let sid = live.sid("Tone in MP3").await;
    fs::create_dir(music.join("below")).unwrap();
    fs::copy(music.join("tone.mp3"), music.join("below/again.mp3")).unwrap();
    let more = walked(&live, |scanned| scanned.files == 7).await;
    assert!(more.read <= 1 && more.gone == 0, "{more:?}");
    fs::write(music.join("noise.mp3"), [0x5a; 3000]).unwrap();
    walked(&live, |scanned| scanned.files == 8).await;
    fs::remove_file(music.join("tone.mp3")).unwrap();
    walked(&live, |scanned| scanned.files == 7).await;
    assert_eq!(live.get(&format!("/sid/{sid}")).await.status, 404);
    assert_eq!(live.get("/api/?method=stat").await.json()["songs"], 5);
}

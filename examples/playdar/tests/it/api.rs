//! The API as its clients use it: the cases of the one test suite that there was (pyplaydar's),
//! and the sequences of Amarok, of Tomahawk and of playdar.js.

use serde_json::json;

use crate::live::Live;

#[tokio::test]
async fn stat_says_who_it_is() {
    let live = Live::start().await;
    let reply = live.get("/api/?method=stat").await;
    assert!(reply.has("content-type: application/json; charset=utf-8"), "{}", reply.head);
    let stat = reply.json();
    let known = ["name", "version", "authenticated", "hostname", "capabilities", "streams"];
    let streams = live.daemon.streams();
    let want =
        ["playdar".into(), "0.1.1".into(), true.into(), "here".into(), json!([]), streams.into()];
    assert_eq!(known.map(|name| stat[name].clone()), want);
    assert_eq!(stat["resolvers"][0]["weight"], 100);
    assert_eq!(stat["songs"], 5);
}

#[tokio::test]
async fn known_suite_passes() {
    let live = Live::start().await;
    let page = live.get("/").await;
    assert!(page.status == 200 && page.has("content-type: text/html; charset=utf-8"));
    for (target, status) in [
        ("/nothing", 404),
        ("/api/", 400),
        ("/api/?method=nothing", 404),
        ("/api/?method=resolve", 400),
        ("/api/?method=resolve&artist=&track=x", 400),
        ("/api/?method=resolve&artist=x", 400),
        ("/api/?method=get_results", 404),
        ("/api/?method=get_results&qid=none", 404),
        ("/api/?method=get_results_long&qid=none", 404),
        ("/api/?method=cancel&qid=none", 404),
        ("/api/?method=comet", 400),
        ("/sid/none", 404),
        ("/auth_1/", 404),
        ("/auth_1/?website=x", 404),
        ("/queries", 200),
        ("/queries/none", 404),
        ("/authcodes", 200),
        ("/settings/auth", 200),
        ("/lan/roster", 200),
    ] {
        assert_eq!(live.get(target).await.status, status, "{target}");
    }
    let wrong = live.ask("DELETE", "/api/", &[], "").await;
    assert!(wrong.status == 405 && wrong.head.contains("allow: "), "{}", wrong.head);
}

#[tokio::test]
async fn amarok_finds_and_plays() {
    let live = Live::start().await;
    assert_eq!(live.get("/api/?method=stat").await.json()["name"], "playdar");
    let target = "/api/?method=resolve&artist=Test%20Tones&album=Samples&track=Tone%20in%20MP3";
    let qid = live.get(target).await.json()["qid"].as_str().unwrap().to_owned();
    let results = live.solved(&qid).await;
    let first = &results["results"][0];
    let facts = ["artist", "track", "album", "mimetype", "source", "score", "duration"];
    let want = json!(["Test Tones", "Tone in MP3", "Samples", "audio/mpeg", "here", 1.0, 1]);
    assert_eq!(json!(facts.map(|name| first[name].clone())), want);
    assert!(first.get("url").is_none(), "{first}");
    let song = live.get(&format!("/sid/{}", first["sid"].as_str().unwrap())).await;
    assert_eq!((song.status, song.body.len() as u64), (200, first["size"].as_u64().unwrap()));
    assert!(song.has("content-type: audio/mpeg"), "{}", song.head);
}

#[tokio::test]
async fn tomahawk_polls_with_its_own_id_and_reads_both_spellings() {
    let live = Live::start().await;
    assert_eq!(live.resolve("Tone in OGG", "&qid=tomahawk-1").await, "tomahawk-1");
    live.solved("tomahawk-1").await;
    let before = live.get("/api/?method=get_results&qid=tomahawk-1").await.json();
    assert_eq!(live.resolve("Tone in OGG", "&qid=tomahawk-1").await, "tomahawk-1");
    let after = live.get("/api/?method=get_results&qid=tomahawk-1").await.json();
    assert_eq!(before, after, "the same id is the same query");
    let numbers = ["poll_interval", "poll_limit", "refresh_interval"].map(|name| &after[name]);
    assert_eq!(numbers, [1000, 6, 1000]);
    let query =
        ["qid", "artist", "album", "track", "solved"].map(|name| after["query"][name].clone());
    assert_eq!(json!(query), json!(["tomahawk-1", "Test Tones", "", "Tone in OGG", true]));
    assert_eq!((&after["qid"], &after["solved"]), (&json!("tomahawk-1"), &json!(true)));
    let cancelled = live.get("/api/?method=cancel&qid=tomahawk-1").await;
    assert_eq!(cancelled.json(), json!({"status": "OK"}));
    assert_eq!(live.get("/api/?method=get_results&qid=tomahawk-1").await.status, 404);
}

#[tokio::test]
async fn long_question_ends_by_its_time_out_where_nothing_solves_it() {
    let live = Live::start().await;
    let qid = live.resolve("Nothing of the kind", "").await;
    let results = live.get(&format!("/api/?method=get_results_long&qid={qid}&timeout=50")).await;
    let results = results.json();
    assert_eq!((&results["solved"], results.get("poll_limit")), (&json!(false), None));
    let target = format!("/api/?method=get_results_long&qid={qid}&timeout=soon");
    assert_eq!(live.get(&target).await.status, 400);
}

#[tokio::test]
async fn mimetypes_leave_out_what_cannot_be_played() {
    let live = Live::start().await;
    let qid = live.resolve("Tone in FLAC", "&mimetypes=audio/flac,audio/mpeg").await;
    let results = live.solved(&qid).await;
    let kinds = results["results"].as_array().unwrap().iter().map(|one| &one["mimetype"]);
    assert!(kinds.clone().all(|kind| kind == "audio/flac" || kind == "audio/mpeg"));
    assert_eq!(results["query"]["mimetypes"], json!(["audio/flac", "audio/mpeg"]));
}

#[tokio::test]
async fn quick_play_leads_to_the_best_result() {
    let live = Live::start().await;
    let reply = live.get("/quickplay/Test%20Tones/Samples/Tone%20in%20Opus").await;
    assert_eq!(reply.status, 302);
    assert!(reply.head.contains("location: /sid/"), "{}", reply.head);
    assert_eq!(live.get("/quickplay/Nobody/x/Nothing").await.status, 404);
}

//! What clients may send that mean no good: the daemon answers, and works afterwards.

use crate::live::Live;

#[tokio::test]
async fn fuzzed_requests_are_answered_and_break_nothing() {
    let live = Live::start().await;
    let mut random = fastrand::Rng::with_seed(testing::seed());
    let words = [
        "method=",
        "resolve",
        "get_results",
        "get_results_long",
        "comet",
        "cancel",
        "stat",
        "&",
        "&artist=",
        "&track=",
        "&album=",
        "&qid=",
        "&jsonp=",
        "&auth=",
        "&id=",
        "&mode=raw",
        "&timeout=1",
        "&mimetypes=",
        "a",
        "%00",
        "%FF",
        "%",
        "+",
        "=",
        "%22",
        "%3C",
        "..",
        "Ω",
        "%0d%0a",
        "/",
        "?",
        ",",
        "&comet=",
    ];
    let paths = ["/api/?", "/sid/", "/queries/", "/auth_1/?", "/quickplay/a/", "/comet?session="];
    for _ in 0..400 {
        let count = random.usize(1..12);
        let rest: String = (0..count).map(|_| words[random.usize(..words.len())]).collect();
        let target = format!("{}{rest}", paths[random.usize(..paths.len())]);
        // An opened comet does not end, so the daemon is asked to show its head alone.
        let method = if target.contains("comet") { "HEAD" } else { "GET" };
        let reply = live.ask(method, &target, &[], "").await;
        assert!((200..504).contains(&reply.status) && reply.status != 500, "{target}: {reply:?}");
        assert!(!reply.head.contains("\na:"), "{target} made a header");
    }
    assert_eq!(live.get("/api/?method=stat").await.status, 200);
}

#[tokio::test]
async fn text_of_a_query_is_text_in_every_page() {
    let live = Live::start().await;
    let script = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let target = format!("/api/?method=resolve&artist={script}&track={script}&qid=x");
    assert_eq!(live.get(&target).await.status, 200);
    for target in ["/queries", "/queries/x", "/api/?method=get_results&qid=x"] {
        let reply = live.get(target).await;
        assert!(reply.status == 200 && !reply.text().contains("<script>"), "{target}");
    }
    let cancelled = live.ask("POST", "/queries/x", &[], "cancel_query=1&qid=x").await;
    assert_eq!(cancelled.status, 303);
    assert_eq!(live.get("/queries/x").await.status, 404);
}

#[tokio::test]
async fn too_long_is_refused_and_too_many_take_the_place_of_the_oldest() {
    let live = Live::start().await;
    let long = "x".repeat(513);
    let target = format!("/api/?method=resolve&artist={long}&track=b");
    let reply = live.get(&target).await;
    assert!(reply.status == 400 && reply.text().contains("artist is too long"), "{reply:?}");
    let huge = format!("/api/?method=stat&x={}", "x".repeat(100_000));
    assert!([414, 431].contains(&live.get(&huge).await.status));
    let form = format!("revoke={}", "x".repeat(20_000));
    assert_eq!(live.ask("POST", "/authcodes", &[], &form).await.status, 413);
    let pipeline = live.daemon.pipeline();
    for n in 0..playdar::pipeline::QUERIES_MAX + 5 {
        let query = crate::one_song::query_for(&format!("q{n}"), "Nothing");
        pipeline.resolve(query).unwrap();
    }
    assert_eq!(pipeline.queries().len(), playdar::pipeline::QUERIES_MAX);
    assert_eq!(live.get("/api/?method=get_results&qid=q0").await.status, 404);
    for n in 0..300 {
        live.resolve("Nothing", &format!("&qid=c{n}&comet=c{n}")).await;
    }
    assert_eq!(live.get("/api/?method=stat").await.status, 200);
}

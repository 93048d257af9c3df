//! Tiers, scores, ends and bounds, with resolvers that answer at once, later or never.

use tokio::time::Instant;

use super::*;

/// Answers every query with the same results, or nothing.
struct Fixed {
    profile: Profile,
    found: Vec<Found>,
    asked: watch::Sender<usize>,
}

impl Resolver for Fixed {
    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn ask(&self, query: &Arc<Query>, answers: &Answers) {
        self.asked.send_modify(|asked| *asked += 1);
        answers.add(&query.qid, self.found.clone());
    }
}

fn resolver(name: &str, weight: u8, found: Vec<Found>) -> Arc<Fixed> {
    let profile = Profile {
        name: name.to_owned(),
        weight,
        target_time: Duration::from_millis(20),
        is_local_only: false,
        preference: weight,
    };
    Arc::new(Fixed { profile, found, asked: watch::Sender::new(0) })
}

fn found(track: &str, score: Option<f64>) -> Found {
    Found { artist: "Mokele".to_owned(), track: track.to_owned(), score, ..Found::default() }
}

fn query(qid: &str, is_local: bool) -> Query {
    Query {
        qid: qid.to_owned(),
        artist: "Mokele".to_owned(),
        track: "abcdefghij".to_owned(),
        is_local,
        ..Query::default()
    }
}

#[tokio::test(start_paused = true)]
async fn tier_of_less_weight_is_asked_after_the_target_time() {
    let pipeline = Pipeline::new();
    let low = resolver("low", 10, vec![found("abcdefghij", Some(0.7))]);
    pipeline.add(low.clone());
    pipeline.add(resolver("high", 90, vec![found("abcdefghiX", None)]));
    let begun = Instant::now();
    let qid = pipeline.resolve(query("q", true)).unwrap();
    low.asked.subscribe().wait_for(|asked| *asked == 1).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(20));
    let results = pipeline.results(&qid).unwrap();
    let scores: Vec<f64> = results.found.iter().filter_map(|found| found.score).collect();
    assert!((scores[0] - 0.9218).abs() < 5e-5 && scores[1] == 0.7, "{scores:?}");
    assert!(!results.is_solved);
}

#[tokio::test(start_paused = true)]
async fn solved_query_asks_no_further_tier() {
    let pipeline = Pipeline::new();
    let low = resolver("low", 10, Vec::new());
    pipeline.add(low.clone());
    pipeline.add(resolver("high", 90, vec![found("x", Some(0.99))]));
    let mut watch = {
        let qid = pipeline.resolve(query("q", true)).unwrap();
        pipeline.watch(&qid).unwrap()
    };
    assert_eq!(watch.next().await.unwrap().len(), 1);
    assert!(watch.progress().is_solved);
    assert!(timeout(Duration::from_secs(60), watch.next()).await.is_err());
    assert_eq!(*low.asked.borrow(), 0);
}

#[tokio::test(start_paused = true)]
async fn results_below_the_least_score_and_of_other_types_are_dropped() {
    let pipeline = Pipeline::new();
    let mut other_type = found("abcdefghij", Some(0.9));
    other_type.mimetype = "audio/flac".to_owned();
    let low = found("zzz", Some(0.59));
    pipeline.add(resolver("a", 90, vec![other_type, low, found("abcdefghij", Some(0.8))]));
    let asked = Query { mimetypes: vec!["audio/mpeg".to_owned()], ..query("q", true) };
    pipeline.resolve(asked).unwrap();
    let mut watch = pipeline.watch("q").unwrap();
    let told = watch.next().await.unwrap();
    assert_eq!((told.len(), told[0].score, told[0].preference), (1, Some(0.8), Some(90)));
    assert_eq!(pipeline.find_sid(&told[0].sid).unwrap().track, "abcdefghij");
}

#[tokio::test(start_paused = true)]
async fn known_query_is_not_asked_again_and_ends_with_its_life() {
    let pipeline = Pipeline::new();
    let only = resolver("a", 90, vec![found("abcdefghij", None)]);
    pipeline.add(only.clone());
    pipeline.resolve(query("q", true)).unwrap();
    let mut watch = pipeline.watch("q").unwrap();
    let sid = watch.next().await.unwrap()[0].sid.clone();
    pipeline.resolve(query("q", true)).unwrap();
    assert_eq!(*only.asked.borrow(), 1);
    tokio::time::advance(QUERY_LIFETIME / 2).await;
    assert!(pipeline.find_sid(&sid).is_some(), "somebody listens");
    tokio::time::advance(QUERY_LIFETIME / 2).await;
    assert!(pipeline.results("q").is_some(), "it was used half a life ago");
    tokio::time::advance(QUERY_LIFETIME).await;
    assert!(pipeline.results("q").is_none());
    assert!(watch.next().await.is_none() && pipeline.find_sid(&sid).is_none());
}

#[tokio::test(start_paused = true)]
async fn foreign_query_never_pushes_out_our_own() {
    let (queries, all_results, life) = (2, 10, QUERY_LIFETIME);
    let pipeline = Pipeline::bounded(Bounds { queries, all_results, life });
    pipeline.resolve(query("ours", true)).unwrap();
    pipeline.resolve(query("theirs", false)).unwrap();
    pipeline.resolve(query("theirs-2", false)).unwrap();
    assert!(pipeline.results("theirs").is_none());
    pipeline.resolve(query("ours-2", true)).unwrap();
    assert_eq!(pipeline.resolve(query("theirs-3", false)), Err(Refused::Full));
    tokio::time::advance(Duration::from_millis(1)).await;
    pipeline.results("ours").unwrap();
    pipeline.resolve(query("ours-3", true)).unwrap();
    assert!(pipeline.results("ours").is_some() && pipeline.results("ours-2").is_none());
}

#[tokio::test(start_paused = true)]
async fn results_keep_both_bounds() {
    let (queries, all_results, life) = (10, RESULTS_MAX + 5, QUERY_LIFETIME);
    let pipeline = Pipeline::bounded(Bounds { queries, all_results, life });
    pipeline.add(resolver("a", 90, vec![found("x", Some(0.7)); 1000]));
    pipeline.resolve(query("q1", true)).unwrap();
    let told = pipeline.watch("q1").unwrap().next().await.unwrap();
    assert_eq!(told.len(), RESULTS_MAX);
    tokio::time::advance(Duration::from_millis(1)).await;
    pipeline.resolve(query("q2", true)).unwrap();
    pipeline.watch("q2").unwrap().next().await.unwrap();
    assert!(pipeline.results("q1").is_none(), "the oldest made room");
    assert_eq!(pipeline.queries.sids_len(), RESULTS_MAX);
}

#[tokio::test(start_paused = true)]
async fn query_from_elsewhere_spares_those_for_this_machine() {
    let pipeline = Pipeline::new();
    let mut private = resolver("private", 90, vec![found("x", Some(0.9))]);
    Arc::get_mut(&mut private).unwrap().profile.is_local_only = true;
    pipeline.add(private.clone());
    let open = resolver("open", 10, Vec::new());
    pipeline.add(open.clone());
    pipeline.resolve(query("q", false)).unwrap();
    open.asked.subscribe().wait_for(|asked| *asked == 1).await.unwrap();
    assert_eq!(*private.asked.borrow(), 0);
    pipeline.remove("open");
    assert_eq!(pipeline.profiles().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn results_of_others_end_no_query_of_ours() {
    let (queries, all_results, life) = (10, 4, QUERY_LIFETIME);
    let pipeline = Pipeline::bounded(Bounds { queries, all_results, life });
    for (qid, is_local) in [("ours", true), ("theirs", false), ("ours-2", true)] {
        pipeline.resolve(query(qid, is_local)).unwrap();
        pipeline.queries.add(qid, vec![found("x", Some(0.7))], 0, false);
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let counts = || {
        ["ours", "theirs", "ours-2"]
            .map(|qid| pipeline.queries.results_after(qid, 0).map(|found| found.len()))
    };
    let answers = Answers { queries: Arc::downgrade(&pipeline.queries), preference: 0 };
    for left in [[Some(1), Some(1), Some(2)], [Some(1), None, Some(3)], [Some(1), None, Some(3)]] {
        answers.add_foreign("ours-2", vec![found("x", Some(0.7))]);
        assert_eq!(counts(), left);
    }
    pipeline.resolve(query("theirs", false)).unwrap();
    answers.add("ours-2", vec![found("x", Some(0.7))]);
    assert_eq!(counts(), [None, None, Some(4)], "what is found here makes room by age");
}

#[tokio::test(start_paused = true)]
async fn query_whose_life_is_over_ends_though_nobody_asks() {
    let pipeline = Pipeline::new();
    tokio::spawn(pipeline.expiry());
    pipeline.resolve(query("q", true)).unwrap();
    let mut watch = pipeline.watch("q").unwrap();
    let ended = timeout(QUERY_LIFETIME + 2 * EXPIRY_INTERVAL, watch.ended()).await;
    assert!(ended.is_ok(), "it lives on");
}

#[tokio::test(start_paused = true)]
async fn query_whose_life_is_over_is_neither_watched_nor_played() {
    let pipeline = Pipeline::new();
    pipeline.add(resolver("a", 90, vec![found("abcdefghij", None)]));
    pipeline.resolve(query("q", true)).unwrap();
    let sid = pipeline.watch("q").unwrap().next().await.unwrap()[0].sid.clone();
    tokio::time::advance(QUERY_LIFETIME).await;
    assert!(pipeline.find_sid(&sid).is_none() && pipeline.watch("q").is_none());
    pipeline.resolve(query("q-2", true)).unwrap();
    tokio::time::advance(QUERY_LIFETIME).await;
    assert!(pipeline.watch("q-2").is_none());
}

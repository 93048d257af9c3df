//! Messages that nobody stores.

use std::time::Duration;

use nats::Bytes;
use testing::NatsServer;
use tokio::time::{Instant, interval, timeout};

use crate::harness::{DEADLINE, connect, programs};

/// A subscription is known to the server as soon as one hears itself. However long that takes, what
/// was said meanwhile is less than any queue here has room for.
async fn hears_itself(nats: &nats::NatsClient, heard: &mut nats::Subscription, subject: &str) {
    let mut pace = interval(Duration::from_millis(10));
    loop {
        pace.tick().await;
        nats.publish_core(subject, "?".into()).await.unwrap();
        if let Ok(Some(_)) = timeout(Duration::from_secs(1), heard.next()).await {
            break;
        }
    }
    // What was published since comes before this.
    nats.publish_core(subject, "!".into()).await.unwrap();
    let last = async { while &heard.next().await.unwrap().bytes[..] != b"!" {} };
    timeout(DEADLINE, last).await.unwrap();
}

#[tokio::test]
async fn what_finds_its_queue_full_is_dropped_and_counted() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let (one, other) = (connect(&server, 1).await, connect(&server, 1).await);
        let mut heard = other.subscribe_core("count.*", 10).await.unwrap();
        hears_itself(&other, &mut heard, "count.0").await;
        for number in 0..30_u8 {
            one.publish_core("count.5", Bytes::from(vec![number])).await.unwrap();
        }
        let end = Instant::now() + DEADLINE;
        let mut pace = interval(Duration::from_millis(10));
        while other.counts().dropped < 20 && Instant::now() < end {
            pace.tick().await;
        }
        assert_eq!(other.counts().dropped, 20);
        for number in 0..10_u8 {
            let message = timeout(DEADLINE, heard.next()).await.unwrap().unwrap();
            assert_eq!((message.subject.as_str(), &message.bytes[..]), ("count.5", &[number][..]));
        }
        assert_eq!(other.counts().slow_consumer, 0);
    }
}

/// True from the answer on with which `enough` have come that `counts` is true of.
fn after(enough: usize, counts: impl Fn(&Bytes) -> bool) -> impl FnMut(&Bytes) -> bool {
    let mut counted = 0;
    move |answer| {
        counted += usize::from(counts(answer));
        counted >= enough
    }
}

#[tokio::test]
async fn question_gathers_the_answers_of_all() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let asker = connect(&server, 1).await;
        // That nobody is there is known at once: an hour is not waited for.
        let hour = Duration::from_secs(3600);
        let asking = asker.ask("ask", "?".into(), hour, |_| true);
        let alone = timeout(DEADLINE, asking).await.unwrap();
        assert_eq!(alone.unwrap().len(), 0);
        let mut nodes = Vec::new();
        for number in 0..5_u8 {
            let nats = connect(&server, 1).await;
            let mut questions = nats.subscribe_core("ask", 16).await.unwrap();
            hears_itself(&nats, &mut questions, "ask").await;
            nodes.push(tokio::spawn(async move {
                while let Some(question) = questions.next().await {
                    let answer = [&[number], &question.bytes[..]].concat();
                    nats.answer(&question, answer.into()).await.unwrap();
                }
            }));
        }
        let asking = asker.ask("ask", "x".into(), hour, after(5, |_| true));
        let answers = timeout(DEADLINE, asking).await.unwrap();
        let mut answers = answers.unwrap();
        answers.sort();
        let expected: Vec<Bytes> = (0..5_u8).map(|number| vec![number, b'x'].into()).collect();
        assert_eq!(answers, expected);
        // Of four that count the last is the fifth at the latest.
        let asking = asker.ask("ask", "y".into(), hour, after(4, |answer| answer[0] != 0));
        let answers = timeout(DEADLINE, asking).await.unwrap().unwrap();
        let counted = answers.iter().filter(|answer| answer[0] != 0).count();
        assert_eq!((counted, (4..=5).contains(&answers.len())), (4, true), "{answers:?}");
        // A sixth never comes: what has come is given when the time is over.
        let (start, wait) = (Instant::now(), Duration::from_secs(5));
        let heard = asker.ask("ask", "x".into(), wait, after(6, |_| true)).await.unwrap();
        assert_eq!((heard.len(), start.elapsed() >= wait), (5, true));
        nodes.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

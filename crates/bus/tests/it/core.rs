//! Messages that nobody stores.

use std::time::Duration;

use bus::Bytes;
use testing::NatsServer;
use tokio::time::{Instant, interval, timeout};

use crate::harness::{LONG, connect, programs};

/// A subscription is known to the server as soon as one hears itself.
async fn hears_itself(bus: &bus::Bus, heard: &mut bus::Subscription, subject: &str) {
    let mut pace = interval(Duration::from_millis(10));
    loop {
        pace.tick().await;
        bus.publish_core(subject, "?".into()).await.unwrap();
        if let Ok(Some(_)) = timeout(Duration::from_millis(50), heard.next()).await {
            break;
        }
    }
    while timeout(Duration::from_millis(100), heard.next()).await.is_ok() {}
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
        let end = Instant::now() + LONG;
        let mut pace = interval(Duration::from_millis(10));
        while other.counts().dropped < 20 && Instant::now() < end {
            pace.tick().await;
        }
        assert_eq!(other.counts().dropped, 20);
        for number in 0..10_u8 {
            let message = timeout(LONG, heard.next()).await.unwrap().unwrap();
            assert_eq!((message.subject.as_str(), &message.bytes[..]), ("count.5", &[number][..]));
        }
        assert_eq!(other.counts().slow_consumer, 0);
    }
}

#[tokio::test]
async fn question_gathers_the_answers_of_all() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let asker = connect(&server, 1).await;
        let wait = Duration::from_millis(250);
        let start = Instant::now();
        assert_eq!(asker.ask("ask", "?".into(), LONG, 1).await.unwrap().len(), 0);
        assert!(start.elapsed() < LONG / 2, "nobody is there: that is known at once");
        let mut nodes = Vec::new();
        for number in 0..5_u8 {
            let bus = connect(&server, 1).await;
            let mut questions = bus.subscribe_core("ask", 16).await.unwrap();
            hears_itself(&bus, &mut questions, "ask").await;
            nodes.push(tokio::spawn(async move {
                while let Some(question) = questions.next().await {
                    let answer = [&[number], &question.bytes[..]].concat();
                    bus.answer(&question, answer.into()).await.unwrap();
                }
            }));
        }
        let mut answers = asker.ask("ask", "x".into(), LONG, 5).await.unwrap();
        answers.sort();
        let expected: Vec<Bytes> = (0..5_u8).map(|number| vec![number, b'x'].into()).collect();
        assert_eq!(answers, expected);
        let start = Instant::now();
        assert_eq!(asker.ask("ask", "x".into(), wait, 6).await.unwrap().len(), 5);
        assert!(start.elapsed() >= wait);
        nodes.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

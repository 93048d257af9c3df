//! How much waits for a receiver that is silent.

use engine::PusherApps;
use pusher::Apps;

use super::*;

fn apps(more: &str) -> Apps {
    let app = format!(r#"[{{"id":"1","key":"key","secret":"a-secret-of-some-length"{more}}}]"#);
    Apps::parse(app.as_bytes(), true).unwrap()
}

fn hooks(more: &str) -> Arc<PusherHooks> {
    PusherHooks::new(Arc::new(PusherApps::new(apps(more))))
}

#[tokio::test]
async fn burst_waits_for_a_silent_receiver_up_to_the_bound_of_its_backlog() {
    // Nobody accepts there; and the task that posts has no turn as long as nothing is awaited.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let hooks = hooks(&format!(r#","webhooks":[{{"url":"{url}"}}]"#));
    let app = hooks.apps.by_key("key").unwrap().app;
    let event = WebhookEvent::ChannelOccupied { channel: "a" };
    for _ in 0..5_000 {
        hooks.push(&app, &event);
    }
    let counts = &hooks.counts;
    assert_eq!((counts.dropped.read(), counts.backlog.read()), (0, 5_000));
    for _ in 0..65_536 {
        hooks.push(&app, &event);
    }
    assert_eq!((counts.dropped.read(), counts.backlog.read()), (5_000, 65_536));
    hooks.queues().clear();
    until(|| counts.backlog.read() == 0).await;
}

/// Waits until the task that posts has seen something.
async fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + testing::DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "nothing comes of it");
        yield_now().await;
    }
}

//! What is told and kept over a reload of the apps, and what waits for a receiver that is silent.

use engine::{Engine, EngineConfig, Guest, PusherApps, SentToChannel};
use hub::{ConnectionId, Epoch, IdText, Names, Tag};
use pusher::Apps;

use super::super::SAID_BYTES_MAX;
use super::super::queue::HookQueue;
use super::*;
use crate::captured_log::CapturedLog;

/// What makes an app one with a webhook, at which nobody listens.
const WITH_WEBHOOK: &str = r#","client_events":true,"webhooks":[{"url":"http://127.0.0.1:9/"}]"#;

const CHANNEL: &str = "#c1:private-a";

fn apps(more: &str) -> Apps {
    let app = format!(r#"[{{"id":"1","key":"key","secret":"a-secret-of-some-length"{more}}}]"#);
    Apps::parse(app.as_bytes(), true).unwrap()
}

fn hooks(more: &str) -> Arc<PusherHooks> {
    PusherHooks::new(Arc::new(PusherApps::new(apps(more))))
}

struct World {
    hooks: Arc<PusherHooks>,
    router: Arc<Router>,
    guest: Guest,
    names: Arc<Names>,
    _engine: Engine,
}

fn world(more: &str) -> World {
    let mut config = EngineConfig::new("127.0.0.1:0".parse().unwrap());
    (config.workers, config.guest) = (1, true);
    let hooks = hooks(more);
    config.pusher = Some(Arc::clone(&hooks.apps));
    let names = Arc::new(Names::new([7; 16]));
    let epoch = Epoch::begin(Tag::of(7), 0, 1_000_000);
    let mut engine = Engine::prepare(config, epoch, Arc::clone(&names)).unwrap();
    let (guest, router) = (engine.take_guest().unwrap(), Arc::clone(engine.router()));
    World { hooks, router, guest, names, _engine: engine }
}

fn said() -> SentToChannel {
    SentToChannel {
        key: CHANNEL.into(),
        name: "client-typing".into(),
        from: None,
        own: ConnectionId::of_bits(1).unwrap(),
    }
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
        hooks.push(&app, HookScope::Node, &event);
    }
    let counts = &hooks.counts;
    assert_eq!((counts.dropped.read(), counts.backlog.read()), (0, 5_000));
    for _ in 0..65_536 {
        hooks.push(&app, HookScope::Node, &event);
    }
    assert_eq!((counts.dropped.read(), counts.backlog.read()), (5_000, 65_536));
    hooks.queues().clear();
    until(|| counts.backlog.read() == 0).await;
}

/// Fills what may wait for the only webhook.
fn fill(hooks: &PusherHooks, scope: HookScope) {
    let app = hooks.apps.by_key("key").unwrap().app;
    let event = WebhookEvent::ChannelOccupied { channel: "x" };
    (0..65_536).for_each(|_| hooks.push(&app, scope, &event));
}

#[tokio::test]
async fn full_webhook_is_told_once_it_has_room_who_is_there_then() {
    let World { hooks, router, guest, names, _engine } = world(WITH_WEBHOOK);
    let mut teller = HookTeller::new(&hooks, &router, None);
    fill(&hooks, HookScope::Node);
    let counts = &hooks.counts;
    assert_eq!((counts.dropped.read(), counts.backlog.read()), (0, 65_536));
    let key = IdText::of_key(CHANNEL).unwrap();
    let id = guest.login(0, 1, key, []).unwrap().unwrap();
    let note = ChannelNote { channel: id, member: Id::NONE, change: ChannelChange::Came };
    names.acquire_id(id);
    teller.note(note);
    note.release(&names);
    teller.look().await;
    assert_eq!((counts.dropped.read(), hooks.told_later.read()), (1, 0), "there is no room");
    hooks.queues().values().for_each(HookQueue::take_all);
    teller.look().await;
    teller.look().await;
    assert_eq!((counts.backlog.read(), hooks.told_later.read()), (1, 1), "it is told once");
}

#[tokio::test]
async fn what_a_full_webhook_has_refused_is_not_taken_before_it_was_told_later() {
    let hooks = hooks(WITH_WEBHOOK);
    let app = hooks.apps.by_key("key").unwrap().app;
    fill(&hooks, HookScope::Cluster);
    hooks.push(&app, HookScope::Cluster, &WebhookEvent::ChannelVacated { channel: "a" });
    hooks.push(&app, HookScope::Cluster, &WebhookEvent::CacheMiss { channel: "b" });
    assert_eq!(hooks.counts.dropped.read(), 2);
    let marks = hooks.marks("1");
    let take = || hooks.queues().values().for_each(HookQueue::take_all);
    take();
    assert!(!hooks.is_taken("1", &marks), "nobody knows that it has gone");
    let told = |subject: &Subject| {
        assert_eq!(&**subject, "a~");
        false
    };
    for key in hooks.with_refused() {
        while hooks.tell_refused(&key, &app, told) {}
    }
    assert_eq!(hooks.counts.backlog.read(), 1, "a miss of a cache is lost");
    assert!(!hooks.is_taken("1", &marks), "it waits");
    take();
    assert!(hooks.is_taken("1", &marks) && hooks.with_refused().is_empty());
}

/// A node that ends gives all up that is not told yet.
#[tokio::test]
async fn webhook_that_is_still_to_be_told_what_it_refused_holds_up_the_end() {
    let hooks = hooks(WITH_WEBHOOK);
    let app = hooks.apps.by_key("key").unwrap().app;
    fill(&hooks, HookScope::Cluster);
    hooks.push(&app, HookScope::Cluster, &WebhookEvent::ChannelVacated { channel: "a" });
    let take = || hooks.queues().values().for_each(HookQueue::take_all);
    take();
    assert!(hooks.counts.backlog.read() == 0 && !hooks.is_empty());
    hooks.with_refused().iter().for_each(|key| while hooks.tell_refused(key, &app, |_| false) {});
    assert!(!hooks.is_empty(), "it waits");
    take();
    assert!(hooks.is_empty());
}

#[tokio::test]
async fn webhook_that_has_its_url_twice_is_told_later_what_either_of_both_wants() {
    let url = "http://127.0.0.1:9/";
    let hooks = hooks(&format!(
        r#","webhooks":[{{"url":"{url}","event_types":["client_event"]}},
                        {{"url":"{url}","event_types":["channel_occupied"]}}]"#
    ));
    let app = hooks.apps.by_key("key").unwrap().app;
    fill(&hooks, HookScope::Node);
    hooks.push(&app, HookScope::Node, &WebhookEvent::ChannelOccupied { channel: "a" });
    hooks.queues().values().for_each(HookQueue::take_all);
    hooks.with_refused().iter().for_each(|key| while hooks.tell_refused(key, &app, |_| true) {});
    assert_eq!((hooks.counts.backlog.read(), hooks.told_later.read()), (1, 1));
}

#[tokio::test]
async fn log_of_a_full_webhook_names_its_host_and_no_secret_of_its_url() {
    let (log, _guard) = CapturedLog::start();
    let hooks = hooks(r#","webhooks":[{"url":"http://127.0.0.1:9/s3cret?k=s3cret"}]"#);
    fill(&hooks, HookScope::Node);
    let app = hooks.apps.by_key("key").unwrap().app;
    hooks.push(&app, HookScope::Node, &WebhookEvent::ChannelOccupied { channel: "a" });
    let log = log.text();
    assert!(log.contains("the webhook of app 1 at 127.0.0.1:9 is full"), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
}

/// Somebody who waits for the list of a presence channel, and is refused, is no member.
#[tokio::test(start_paused = true)]
async fn member_that_only_waited_for_a_list_is_told_to_nobody() {
    let World { hooks, router, names, _engine: engine, .. } = world(WITH_WEBHOOK);
    let watches = engine.watches().cloned();
    let mut teller = HookTeller::new(&hooks, &router, watches.clone());
    let (watches, member) = (watches.unwrap(), Key { space: Space::Member, app: "", name: "bob" });
    let key = |key: &str| names.acquire(IdText::of_key(key).unwrap());
    let ids = (key("#c1:presence-a"), key(&member.text()));
    let note = || ChannelNote { channel: ids.0, member: ids.1, change: ChannelChange::Waited };
    let app = hooks.apps.by_key("key").unwrap().app;
    hooks.rooms.want("1");
    // It is there as long as it waits.
    for is_there in [true, false] {
        match is_there {
            true => watches.members().join(ids.0, ids.1, None),
            false => watches.members().leave_at_once(ids.0, ids.1),
        }
        teller.note(note());
        tokio::time::advance(Duration::from_secs(60)).await;
        teller.look().await;
        assert_eq!(hooks.counts.backlog.read(), 0, "it has neither come nor gone");
        teller.put_change(&hooks.rooms, ids, ChannelChange::Waited, &app);
        assert!(hooks.rooms.all().is_empty(), "{:?}", hooks.rooms.all());
    }
}

/// Waits until the task that posts has seen something.
async fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + testing::DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "nothing comes of it");
        yield_now().await;
    }
}

#[tokio::test]
async fn what_was_said_before_a_reload_opens_no_webhook_that_is_removed() {
    let World { hooks, router, _engine, .. } = world(WITH_WEBHOOK);
    let mut teller = HookTeller::new(&hooks, &router, None);
    hooks.client_event(&said(), "1");
    teller.look().await;
    assert_eq!(hooks.queues().len(), 1);
    hooks.client_event(&said(), "2");
    hooks.apps.replace(apps(""));
    teller.look().await;
    assert!(hooks.queues().is_empty());
}

#[tokio::test]
async fn name_of_a_channel_whose_count_nobody_wants_any_more_is_given_back() {
    let World { hooks, router, guest, names, _engine } = world(r#","subscription_count":true"#);
    let mut teller = HookTeller::new(&hooks, &router, None);
    let key = IdText::of_key(CHANNEL).unwrap();
    let id = guest.login(0, 1, key, []).unwrap().unwrap();
    names.acquire_id(id);
    let note = ChannelNote { channel: id, member: Id::NONE, change: ChannelChange::Came };
    teller.note(note);
    note.release(&names);
    teller.look().await;
    hooks.apps.replace(apps(""));
    teller.look().await;
    guest.logout(0, 1, id);
    assert!(names.is_empty(), "{:?}", names.text(id));
}

#[tokio::test]
async fn what_clients_say_before_the_next_look_is_bounded_however_short_it_is() {
    let World { hooks, router, _engine, .. } = world(WITH_WEBHOOK);
    for data in ["1".to_owned(), format!("\"{}\"", "x".repeat(1 << 20))] {
        let dropped = hooks.counts.dropped.read();
        while hooks.counts.dropped.read() == dropped {
            hooks.client_event(&said(), &data);
        }
        let bytes_of = |said: &ClientHookEvent| size_of::<ClientHookEvent>() + said.json.len();
        let bytes: usize = hooks.said().events.iter().map(bytes_of).sum();
        assert!((SAID_BYTES_MAX / 2..=SAID_BYTES_MAX).contains(&bytes), "{bytes}");
        HookTeller::new(&hooks, &router, None).look().await;
        assert!(hooks.said().events.is_empty());
    }
}

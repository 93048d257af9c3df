//! What listeners hear of an engine's own guest, with a clock that stands until all is done.

use engine::{Engine, EngineConfig, Guest};
use hub::{Epoch, Id, IdText, Names, Tag};
use tokio::time::{Duration, Instant, interval, timeout};

use super::*;
use crate::barrier::Barrier;

const GRACE: Duration = Duration::from_secs(5);

struct World {
    presence: Arc<Presence>,
    guest: Guest,
    names: Arc<Names>,
    barrier: Arc<Barrier>,
    stop: CancellationToken,
    _engine: Engine,
}

fn world() -> World {
    let mut config = EngineConfig::new("127.0.0.1:0".parse().unwrap());
    (config.workers, config.guest) = (1, true);
    let names = Arc::new(Names::new([7; 16]));
    let epoch = Epoch::begin(Tag::of(7), 0, 1_000_000);
    let mut engine = Engine::prepare(config, epoch, Arc::clone(&names)).unwrap();
    let (guest, stop, barrier) =
        (engine.take_guest().unwrap(), CancellationToken::new(), Barrier::new());
    let presence = Presence::new(Arc::clone(engine.router()), &stop);
    tokio::spawn(run(Arc::clone(&presence), Arc::clone(&barrier), GRACE));
    World { presence, guest, names, barrier, stop, _engine: engine }
}

impl World {
    fn login(&self, slot: usize, text: &str) -> Id {
        self.guest.login(slot, 1, IdText::parse(text).unwrap(), []).unwrap().unwrap()
    }

    fn logout(&self, slot: usize, id: Id) {
        self.guest.logout(slot, 1, id);
    }

    fn listen(&self) -> Subscriber {
        self.presence.listen(Kind::Api).unwrap()
    }
}

/// The events that come within `time`, as JSON.
async fn within(subscriber: &mut Subscriber, time: Duration) -> Vec<String> {
    let (until, mut all) = (Instant::now() + time, Vec::new());
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match timeout(left, subscriber.recv()).await {
            Ok(Notification::Batch(batch)) => {
                let lines = String::from_utf8(batch.lines().to_vec()).unwrap();
                all.extend(lines.lines().map(str::to_owned));
            }
            Ok(Notification::Behind) => all.push("behind".into()),
            Ok(Notification::Over) => {
                all.push("over".into());
                return all;
            }
            Err(_) => return all,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn id_is_online_with_its_first_connection_and_offline_after_its_last_one() {
    let world = world();
    let mut subscriber = world.listen();
    let bob = world.login(1, "bob");
    world.login(2, "bob");
    world.login(3, "7");
    let mut notification = within(&mut subscriber, Duration::from_secs(1)).await;
    notification.sort_unstable();
    assert_eq!(notification, [r#"{"online":"7"}"#, r#"{"online":"bob"}"#]);
    world.logout(1, bob);
    assert!(within(&mut subscriber, 2 * GRACE).await.is_empty(), "it has another one");
    world.logout(2, bob);
    let begun = Instant::now();
    assert!(within(&mut subscriber, Duration::from_millis(4_900)).await.is_empty());
    assert_eq!(world.presence.report().waiting, 1);
    let notification = within(&mut subscriber, Duration::from_secs(1)).await;
    assert_eq!(notification, [r#"{"offline":"bob"}"#], "the name is known although nobody has it");
    assert!(begun.elapsed() >= GRACE);
    assert_eq!((world.names.len(), world.presence.report().waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn client_that_is_back_within_the_grace_is_nothing() {
    let world = world();
    let mut subscriber = world.listen();
    for _ in 0..20 {
        let bob = world.login(1, "bob");
        let _ = within(&mut subscriber, Duration::from_secs(1)).await;
        world.logout(1, bob);
        let _ = within(&mut subscriber, Duration::from_millis(4_500)).await;
    }
    let report = world.presence.report();
    assert_eq!((report.online, report.offline), (1, 0));
    assert_eq!(within(&mut subscriber, GRACE).await, [r#"{"offline":"bob"}"#]);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_at_once_are_all_told_and_more_than_fits_is_told_as_lost() {
    let world = world();
    let mut subscriber = world.listen();
    (0..10_000).for_each(|n| _ = world.login(n, &n.to_string()));
    let notification = within(&mut subscriber, Duration::from_secs(1)).await;
    assert_eq!((notification.len(), world.presence.report().lost), (10_000, 0));
    // Nobody has taken any of these when the last one comes.
    (10_000..210_000).for_each(|n| _ = world.login(n, &n.to_string()));
    let notification = within(&mut subscriber, Duration::from_secs(10)).await;
    let report = world.presence.report();
    assert!(report.lost > 0 && report.online + report.lost == 210_000, "{report:?}");
    assert!(notification.contains(&r#"{"lost":true}"#.to_owned()));
}

/// Nobody looks in between, as the clock stands: all would be in one list.
#[tokio::test(start_paused = true)]
async fn channels_that_come_and_go_take_no_room_of_ids() {
    let world = world();
    let mut subscriber = world.listen();
    let key = IdText::of_key("#c1:news").unwrap();
    for _ in 0..2_000 {
        let id = world.guest.login(1, 1, key, []).unwrap().unwrap();
        world.guest.logout(1, 1, id);
    }
    world.login(2, "7");
    assert_eq!(within(&mut subscriber, Duration::from_secs(1)).await, [r#"{"online":"7"}"#]);
    assert_eq!(world.presence.report().lost, 0);
}

#[tokio::test(start_paused = true)]
async fn listener_that_is_too_slow_is_told_and_costs_nobody_else() {
    let world = world();
    let (mut slow, mut quick) = (world.listen(), world.listen());
    let mut notification = 0;
    for round in 0..400 {
        let ids: Vec<Id> = (0..10).map(|n| world.login(n, &format!("{round}:{n}"))).collect();
        notification += within(&mut quick, Duration::from_millis(100)).await.len();
        ids.into_iter().enumerate().for_each(|(n, id)| world.logout(n, id));
    }
    notification += within(&mut quick, 2 * GRACE).await.len();
    assert_eq!(notification, 2 * 4_000, "whoever reads hears all");
    let late = within(&mut slow, Duration::from_secs(1)).await;
    assert_eq!((&*late[0], world.presence.report().behind), ("behind", 1));
    assert!(late.len() > 100, "it goes on with what is kept");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_noted_or_kept_while_nobody_listens() {
    let world = world();
    let mut subscriber = world.listen();
    let bob = world.login(1, "bob");
    let _ = within(&mut subscriber, Duration::from_secs(1)).await;
    world.logout(1, bob);
    let _ = within(&mut subscriber, Duration::from_secs(1)).await;
    assert_eq!(world.presence.report().waiting, 1);
    drop(subscriber);
    let mut looks = interval(Duration::from_millis(10));
    let forgotten = async {
        while world.presence.report().waiting > 0 {
            looks.tick().await;
        }
    };
    timeout(Duration::from_secs(1), forgotten).await.unwrap();
    assert_eq!((world.names.len(), world.presence.report().waiting), (0, 0));
    let zoe = world.login(1, "zoe");
    let mut subscriber = world.listen();
    assert!(within(&mut subscriber, 2 * GRACE).await.is_empty(), "who was there is not told");
    world.logout(1, zoe);
    assert_eq!(within(&mut subscriber, 2 * GRACE).await, [r#"{"offline":"zoe"}"#]);
}

#[tokio::test(start_paused = true)]
async fn listeners_hear_that_it_is_over_and_there_are_not_too_many() {
    let world = world();
    let mut subscribers: Vec<Subscriber> = (0..Kind::Api.most()).map(|_| world.listen()).collect();
    assert!(world.presence.listen(Kind::Api).is_none());
    assert!(world.presence.listen(Kind::Erlang).is_some(), "other kinds have their own places");
    subscribers.truncate(1);
    assert!(!world.barrier.is_closed());
    world.stop.cancel();
    assert_eq!(within(&mut subscribers[0], GRACE).await, ["over"]);
    assert_eq!(world.presence.report().listeners, [1, 0, 0]);
}

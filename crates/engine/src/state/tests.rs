//! What is written of a connection is read: by this version, and what one before has written.

use super::*;

/// What version 1 has written: one of everything that can be written.
const VERSION_1: &[u8] = include_bytes!("states-1.cbor");

fn bytes(text: &str) -> Option<ByteVec> {
    Some(text.as_bytes().to_vec().into())
}

/// The connections that [`VERSION_1`] was written of.
fn of_version_1() -> Vec<ConnState> {
    let silent = ConnState {
        descriptor: 17,
        phase: Phase::Stream,
        marks: 33,
        transport: Some(0),
        id: Some(123),
        active_ms: -4_200,
        more: None,
        connection_id: None,
    };
    let grant = GrantState {
        subject: Some("bob".into()),
        ids: vec!["chess".into(), "news".into()],
        prefixes: vec!["room:".into()],
        expires: Some(1_900_000_000),
        issued: Some(1_800_000_000),
        token: Some("t1".into()),
        ids_max: Some(9),
        connections_max: Some(3),
        talk: None,
    };
    let partial = PartialState {
        reader: vec![1, 2, 3].into(),
        bytes: b"{\"log".to_vec().into(),
        since_ms: -300,
    };
    let secured = Secured {
        keys: Some(vec![7; 104].into()),
        faulty: false,
        sealed: bytes("\x17\x03\x03"),
        text: bytes("GET"),
        unsent: bytes("sealed"),
        owes_byte: true,
    };
    let all = More {
        reason: Some("slow_reader".into()),
        ids: vec!["bob".into(), "room:7".into()],
        messages: Some(4),
        expires_ms: Some(60_000),
        session: Some((1, 2, 3)),
        grant: Some(grant),
        unread: bytes("GET /str"),
        partial: Some(partial),
        unsent: bytes("data: x\n\n"),
        after: Some(u64::MAX),
        asks: true,
        origin: Some("https://example.org".into()),
        token_asked: true,
        source: Some(1 << 63),
        trust: Some(2),
        secured: Some(secured),
        // Of later versions.
        subject: None,
        info: None,
        watches: Vec::new(),
        past: None,
        pusher: None,
        subscriber: None,
    };
    let busy = ConnState {
        descriptor: 70_000,
        phase: Phase::Ending,
        more: Some(Box::new(all)),
        ..ConnState::default()
    };
    let phases = [
        Phase::Head,
        Phase::Handshake,
        Phase::Held,
        Phase::Poll,
        Phase::HeldPoll,
        Phase::Between,
        Phase::Lingering,
    ];
    let others = phases.map(|phase| ConnState { phase, ..ConnState::default() });
    [silent, busy].into_iter().chain(others).collect()
}

fn read(bytes: &[u8]) -> Vec<ConnState> {
    ConnState::read_all(bytes).map(|state| state.expect("a state")).collect()
}

#[test]
fn what_version_1_has_written_is_read() {
    let mut written = Vec::new();
    of_version_1().iter().for_each(|state| state.write(&mut written));
    if std::env::var_os("ENCKE_WRITE_STATES").is_some() {
        std::fs::write("src/state/states-1.cbor", &written).unwrap();
    }
    assert_eq!(read(VERSION_1), of_version_1());
    assert_eq!(read(&written), of_version_1());
}

#[test]
fn grant_comes_out_of_its_state_as_it_went_in() {
    let list = |texts: &[&str]| hub::IdPatterns::parse(texts.iter().map(|&id| id.into())).unwrap();
    let paths = |texts: &[&str]| {
        hub::IdPatterns::parse_paths(texts.iter().map(|&path| path.into())).unwrap()
    };
    let talk = hub::TalkGrant {
        send: list(&["room:*", "lobby"]),
        members: list(&["*"]),
        history: list(&["a**"]),
        read: paths(&["run/7", "jobs/*"]),
        write: paths(&["run/7"]),
        info: Some(hub::Info::new("[1]")),
    };
    let grant = hub::Grant {
        subject: Some("bob".into()),
        ids: list(&["x*", "y", "z**"]),
        talk: Some(talk.into()),
        expires: Some(1),
        issued: Some(2),
        token: Some("t".into()),
        ids_max: Some(3),
        connections_max: Some(4),
        claims: None,
    };
    let state = GrantState::of(&grant);
    assert_eq!(
        (&state.ids[..], &state.prefixes[..]),
        (&["y".into()][..], &["x".into(), "z*".into()][..])
    );
    assert_eq!(state.into_grant(), grant);
}

#[test]
fn past_comes_out_of_its_state_as_it_went_in() {
    let id = |number| Id::integer(number).unwrap();
    let text = |id: Id| id.as_integer().map(|number| number.to_string());
    let find = |text: &str| Id::integer(text.parse().ok()?);
    let floors = Wanted::Above([(id(7), 1 << 59), (id(8), 3)].into());
    let wanted = [Wanted::Since, Wanted::Earliest, Wanted::Last(50), floors];
    let told = [PlaceStyle::InHead, PlaceStyle::InLine, PlaceStyle::InBlock, PlaceStyle::InMessage];
    for (wanted, told) in wanted.into_iter().zip(told) {
        let past = Past { begun: 1 << 61, wanted, told };
        let state = ConnState {
            more: Some(Box::new(More {
                past: Some(PastState::of(&past, 1 << 60, text)),
                ..More::default()
            })),
            ..ConnState::default()
        };
        let mut written = Vec::new();
        state.write(&mut written);
        let read = read(&written).remove(0).more.unwrap().past.unwrap();
        assert_eq!((read.after, read.into_past(find)), (1 << 60, past));
    }
}

/// A later version writes more.
#[test]
fn what_is_not_known_is_skipped() {
    let mut whole = Vec::new();
    ConnState { descriptor: 5, ..ConnState::default() }.write(&mut whole);
    // One entry more in the map, which stands for all that may come.
    whole[0] += 1;
    whole.extend([0x18, 200, 0x82, 0x61, b'a', 0xf5]);
    assert_eq!(ConnState::read_all(&whole).next().flatten().unwrap().descriptor, 5);
}

#[test]
fn what_is_no_state_is_none_and_nothing_panics() {
    let mut random = crate::sim::Random::of_test();
    for _ in 0..20_000 {
        let mut bytes = VERSION_1.to_vec();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] = random.below(256) as u8;
        }
        bytes.truncate(random.below(bytes.len() + 1));
        ConnState::read_all(&bytes).for_each(drop);
    }
    assert_eq!(ConnState::read_all(&[0xff]).next(), Some(None));
}

#[test]
fn what_one_is_at_its_app_comes_out_of_its_state_as_it_went_in() {
    let pusher = PusherState {
        app: "key".into(),
        user: Some(("bob".into(), Some("{}".into()), vec!["rj".into()])),
        seats: vec![("#c1:presence-a".into(), "#m:bob".into(), None)],
        missed: vec![("#c1:rj".into(), 7)],
        pending: vec![("#c1:a".into(), true)],
    };
    let more = More { pusher: Some(pusher), ..More::default() };
    let state = ConnState { more: Some(Box::new(more)), ..ConnState::default() };
    let mut written = Vec::new();
    state.write(&mut written);
    assert_eq!(read(&written), [state]);
}

/// What version 5 writes of streams of the hub.
const VERSION_5: &[u8] = include_bytes!("states-5.cbor");

#[test]
fn what_version_5_has_written_of_the_hub_is_read() {
    let head =
        HeadState { before: b"HTTP/1.1 200 OK".to_vec().into(), is_v1: true, asked: "#7".into() };
    let subscriber = SubscriberState {
        keys: vec!["#t:a".into(), "#g12*:template a{b}".into(), "#r:template a{b}".into()],
        has_token: true,
        hears_subscriptions: true,
        payload: Some("{\"u\":7}".into()),
        name: Some((u64::MAX, 7)),
        head: Some(head),
    };
    let of = |subscriber| {
        let more =
            More { ids: vec!["bob".into()], subscriber: Some(subscriber), ..More::default() };
        ConnState { more: Some(Box::new(more)), ..ConnState::default() }
    };
    let states = [of(subscriber), of(SubscriberState::default())];
    let mut written = Vec::new();
    states.iter().for_each(|state| state.write(&mut written));
    if std::env::var_os("ENCKE_WRITE_STATES").is_some() {
        std::fs::write("src/state/states-5.cbor", &written).unwrap();
    }
    assert_eq!(read(VERSION_5), states);
    assert_eq!(read(&written), states);
    assert!(states[0].is_of_hub() && states[0].lists().eq([(12, "#g12*:template a{b}")]));
    assert!(!ConnState::default().is_of_hub());
}

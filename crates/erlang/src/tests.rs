//! Our node over real sockets: against foreign nodes, and against nodes that do not do their part.

use std::future::pending;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use testing::DEADLINE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, interval, timeout};

use crate::handshake::{self, ConnectError, Introduction, flag};
use crate::limits::{HANDSHAKES_MAX, LARGE_FRAME_TIME_MAX};
use crate::{End, Node, NodeConfig, Session};

const COOKIE: &str = "a-secret";

/// A time that no test waits for.
const NEVER: Duration = Duration::from_secs(3600);

/// Nobody has an epmd here.
const NO_EPMD: u16 = 1;

fn config() -> NodeConfig {
    NodeConfig {
        name: "encke@127.0.0.1".into(),
        cookie: COOKIE.into(),
        listen: None,
        port: 0,
        epmd: NO_EPMD,
        tick_time: NEVER,
        setup_timeout: NEVER,
        queue_bytes_max: 16 << 20,
        nodes_max: 100,
    }
}

async fn start(config: NodeConfig) -> (Arc<Node>, Receiver<Session>) {
    Node::start(config).await.unwrap()
}

fn introduction(name: &str) -> Introduction {
    Introduction { flags: flag::OURS, creation: 7, name: name.into() }
}

async fn connected(node: &Node) -> TcpStream {
    TcpStream::connect((Ipv4Addr::LOCALHOST, node.listens().port())).await.unwrap()
}

/// Plays the handshake of the node `name`.
async fn enter(node: &Node, name: &str, cookie: &str) -> Result<TcpStream, ConnectError> {
    let mut stream = connected(node).await;
    let theirs = introduction(name);
    let entering = handshake::connect(&mut stream, &theirs, cookie, node.name());
    timeout(DEADLINE, entering).await.expect("nobody keeps it out").map(|_| stream)
}

async fn session(sessions: &mut Receiver<Session>) -> Session {
    timeout(DEADLINE, sessions.recv()).await.unwrap().unwrap()
}

/// Asks again and again until it is so.
async fn wait_for(what: &str, ready: impl Fn() -> bool) {
    let waiting = async {
        for pause in testing::pauses() {
            if ready() {
                break;
            }
            let _ = timeout(pause, pending::<()>()).await;
        }
    };
    timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

/// Waits until the other side has closed.
async fn wait_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end too.
    let _ = timeout(DEADLINE, stream.read_to_end(&mut rest)).await.expect("it is closed");
}

#[tokio::test]
async fn foreign_nodes_that_say_nothing_keep_no_node_out() {
    let (node, mut sessions) = start(config()).await;
    let mut silent = Vec::new();
    for _ in 0..HANDSHAKES_MAX + 10 {
        silent.push(connected(&node).await);
    }
    enter(&node, "a@h", COOKIE).await.unwrap();
    assert_eq!(session(&mut sessions).await.peer().name(), "a@h");
    assert!(node.refused() >= 10, "{}", node.refused());
    wait_closed(&mut silent[0]).await;
}

#[tokio::test]
async fn half_a_handshake_ends_in_time() {
    let (node, _sessions) =
        start(NodeConfig { setup_timeout: Duration::from_millis(50), ..config() }).await;
    let whole = introduction("a@h").to_bytes();
    let whole = [&(whole.len() as u16).to_be_bytes()[..], &whole].concat();
    let halves = [&b""[..], b"\xff", &whole[..20], &whole];
    for (n, half) in (1..).zip(halves) {
        let mut stream = connected(&node).await;
        stream.write_all(half).await.unwrap();
        wait_closed(&mut stream).await;
        wait_for("it is counted", || node.refused() == n).await;
    }
    // Longer than any message of the handshake: not waited for.
    let mut stream = connected(&node).await;
    stream.write_all(b"\xff\xff").await.unwrap();
    wait_closed(&mut stream).await;
    assert!(node.peers().is_empty());
}

#[tokio::test]
async fn foreign_node_keeps_no_name_from_its_node() {
    let (node, mut sessions) = start(config()).await;
    // It says that it is the node, hears that it may go on, and does not.
    let message = introduction("pages@h").to_bytes();
    let mut foreign = connected(&node).await;
    let framed = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
    foreign.write_all(&framed).await.unwrap();
    let mut status = [0; 5];
    foreign.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"\0\x03sok");
    let error = enter(&node, "pages@h", "another-cookie").await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused), "{error}");
    enter(&node, "pages@h", COOKIE).await.unwrap();
    let first = session(&mut sessions).await;
    // The node comes back before its end is known: the old connection ends, and only then.
    let error = enter(&node, "pages@h", "another-cookie").await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused), "{error}");
    assert!(first.peer().is_open());
    enter(&node, "pages@h", COOKIE).await.unwrap();
    let second = session(&mut sessions).await;
    assert_eq!(first.peer().ended().await, End::Superseded);
    drop(first);
    assert_eq!(node.peer("pages@h").map(|peer| peer.number()), Some(second.peer().number()));
}

#[tokio::test]
async fn nodes_are_so_many_at_most() {
    let (node, mut sessions) = start(NodeConfig { nodes_max: 2, ..config() }).await;
    let _streams = [enter(&node, "a@h", COOKIE).await, enter(&node, "b@h", COOKIE).await];
    let first = session(&mut sessions).await;
    let error = enter(&node, "c@h", COOKIE).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotAllowed), "{error}");
    assert!(matches!(node.connect("d@127.0.0.1").await, Err(ConnectError::NotAllowed)));
    drop(first);
    enter(&node, "c@h", COOKIE).await.unwrap();
}

#[tokio::test]
async fn node_that_takes_nothing_is_ended_though_its_queue_has_room() {
    // A machine that stands still makes it silent, too: then it has more time.
    let mut ends = Vec::new();
    for tick_time in [400, 2_000, 10_000].map(Duration::from_millis) {
        ends.push(end_of_one_that_takes_nothing(tick_time).await);
        if ends.last() == Some(&End::Slow) {
            return;
        }
    }
    panic!("{ends:?}");
}

/// How a node ends that ticks and takes nothing.
async fn end_of_one_that_takes_nothing(tick_time: Duration) -> End {
    let (node, mut sessions) = start(NodeConfig { tick_time, ..config() }).await;
    // Little room on the way, so that most of it waits.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream =
        socket.connect((Ipv4Addr::LOCALHOST, node.listens().port()).into()).await.unwrap();
    let ours = introduction("a@h");
    handshake::connect(&mut stream, &ours, COOKIE, node.name()).await.unwrap();
    let mut session = session(&mut sessions).await;
    let peer = Arc::clone(session.peer());
    assert!(peer.send(|out| out.resize(12 << 20, 0)));
    // It is not silent.
    let ticking = async {
        let mut rounds = interval(tick_time / 8);
        while stream.write_all(&[0; 4]).await.is_ok() {
            rounds.tick().await;
        }
    };
    let reading = async {
        loop {
            if let Err(end) = session.read().await {
                return end;
            }
        }
    };
    tokio::select! {
        end = timeout(DEADLINE, reading) => end.expect("it is ended"),
        () = ticking => peer.ended().await,
    }
}

/// It keeps the place of all, and says a word now and then or nothing at all.
#[tokio::test]
async fn large_frame_that_does_not_come_ends_its_node() {
    let (node, mut sessions) = start(config()).await;
    let mut stream = enter(&node, "a@h", COOKIE).await.unwrap();
    let mut session = session(&mut sessions).await;
    let head = [&(20_u32 << 20).to_be_bytes()[..], &[0; 64 << 10]].concat();
    stream.write_all(&head).await.unwrap();
    let places = Arc::clone(session.large_frames());
    tokio::select! {
        incoming = session.read() => panic!("it is whole: {incoming:?}"),
        () = wait_for("it has the place", || places.available_permits() == 0) => {}
    }
    tokio::time::pause();
    let begun = Instant::now();
    assert_eq!(session.read().await.unwrap_err(), End::Slow);
    assert!(
        begun.elapsed() <= LARGE_FRAME_TIME_MAX + Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    drop(session);
    assert_eq!(places.available_permits(), 1);
}

#[tokio::test]
async fn epmd_that_says_nothing_is_asked_again() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let epmd = listener.local_addr().unwrap().port();
    let setup_timeout = Duration::from_millis(100);
    let (node, _sessions) = start(NodeConfig { epmd, setup_timeout, ..config() }).await;
    let _silent = timeout(DEADLINE, listener.accept()).await.unwrap().unwrap();
    let (again, _) = timeout(DEADLINE, listener.accept()).await.unwrap().unwrap();
    assert!(!node.is_registered());
    // Whom it asks too late for the node it answers the next time.
    let answering = async {
        let mut asked = vec![again];
        loop {
            // ALIVE2_X_RESP, no error, a creation.
            let _ = asked.last_mut().unwrap().write_all(&[118, 0, 0, 0, 0, 4]).await;
            asked.push(listener.accept().await.unwrap().0);
        }
    };
    tokio::select! {
        () = wait_for("it is registered", || node.is_registered()) => {}
        () = answering => {}
    }
}

#[tokio::test]
async fn node_that_gives_up_leaves_port_and_name_to_another_and_keeps_its_sessions() {
    let epmd = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let config = NodeConfig { epmd: epmd.local_addr().unwrap().port(), ..config() };
    let (node, mut sessions) = start(config.clone()).await;
    let (mut registered, _) = timeout(DEADLINE, epmd.accept()).await.unwrap().unwrap();
    // ALIVE2_X_RESP, without an error.
    registered.write_all(&[118, 0, 0, 0, 0, 9]).await.unwrap();
    wait_for("it is registered", || node.is_registered()).await;
    let mut stream = enter(&node, "one@127.0.0.1", COOKIE).await.unwrap();
    let session = session(&mut sessions).await;
    node.give_up().await;
    assert!(!node.is_registered());
    wait_closed(&mut registered).await;
    let successor = NodeConfig { port: node.listens().port(), ..config };
    let (_successor, _sessions) = start(successor).await;
    assert!(session.peer().is_open());
    drop(session);
    wait_closed(&mut stream).await;
}

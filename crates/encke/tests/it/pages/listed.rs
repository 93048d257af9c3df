//! What runs each block of the pages.

/// What runs a block.
pub(super) enum By {
    /// A test beside this file, which types it as it stands.
    Followed,
    /// A test of this file, which reads it from the page and runs it.
    Read(&'static str),
    /// A test of this file does the same with ports and names of its own; it has these words.
    Like(&'static str, &'static str),
    /// A test of this file starts the programs of the example, with ports of its own.
    Example(&'static str),
    /// There is nothing to run: a message, an answer, a picture, variables for another program.
    Shown,
    /// It is not run, for this reason.
    Not(&'static str),
}

use By::{Example, Followed, Like, Not, Read, Shown};

const JS: &str = "clients/js/test/package.test.ts";
const E2E: &str = "clients/js/e2e/examples.test.ts";
const PYTHON: &str = "clients/python/tests/test_examples.py";
const GO: &str = "clients/go/readme_test.go";
const ERLANG: &str = "crates/encke/tests/it/erlang/client.rs";
const KETAMA: &str = "clients/erlang/test/ketama_test.erl";
const MERCURE: &str = "clients/js/e2e/mercure.test.ts";
const PUSHER: &str = "clients/js/e2e/pusher.test.ts";
const ROOMS: &str = "clients/js/e2e/rooms.test.ts";
const SOCKET_IO: &str = "clients/js/e2e/socketio.test.ts";
const OTHERS: &str = "it is the code of another library, which the page leaves";

/// The pages of README, Start and Build, and their blocks in order.
pub(super) const LISTED: &[(&str, &[By])] = &[
    (
        "README.md",
        &[
            Like("xtask/src/ci.rs", "\"demo\", \"--seconds=8\""),
            Shown,
            Like("xtask/src/package/trial/deb.rs", "encke listen bob; encke send bob hello"),
            Followed,
            Followed,
            Followed,
            Shown,
            Read(E2E),
            Read(PYTHON),
            Followed,
            Read(ERLANG),
        ],
    ),
    ("docs/index.md", &[Followed]),
    (
        "docs/install.md",
        &[
            Like("xtask/src/ci.rs", "\"package\", \"--check\""),
            Like("xtask/src/package/trial/deb.rs", "encke listen bob; encke send bob hello"),
            Not("a service manager as process 1 is not there; its trial starts the service itself"),
            Like("xtask/src/package/trial/rest.rs", "cargo"),
            Not("there is no container engine; `xtask/src/package/trial/image.rs` runs the image"),
            Followed,
        ],
    ),
    (
        "docs/tutorial.md",
        &[Followed, Followed, Followed, Followed, Read(E2E), Followed, Followed, Followed],
    ),
    ("docs/concepts.md", &[Shown, Shown, Shown, Shown]),
    (
        "docs/moving.md",
        &[
            Not(OTHERS),
            Read(E2E),
            Not(OTHERS),
            Read(SOCKET_IO),
            Not(OTHERS),
            Read(SOCKET_IO),
            Not(OTHERS),
            Read(E2E),
        ],
    ),
    ("docs/backends.md", &[Shown, Followed, Read(E2E), Read(PYTHON), Read(PYTHON), Read(PYTHON)]),
    (
        "docs/pusher.md",
        &[
            Followed,
            Followed,
            Like("examples/echo/room.js", "new Echo("),
            Like(PUSHER, "new Pusher("),
            Like("compat/pusher-node/app.js", "new Pusher("),
            Shown,
            Not("it takes two machines; `pusher/nodes.rs` starts both on one"),
            Shown,
            Like(PUSHER, "encke/pusher"),
            Like(PUSHER, "encke:gap"),
            Shown,
            Not("it takes an app with `ids`; `pusher/shared_ids.rs` does that"),
        ],
    ),
    (
        "docs/mercure.md",
        &[
            Followed,
            Followed,
            Like(MERCURE, "EventSource"),
            Followed,
            Shown,
            Shown,
            Like("crates/encke/tests/it/mercure/graph.rs", "encke:bob"),
            Shown,
            Shown,
            Like(MERCURE, "gap"),
            Like("crates/encke/tests/it/mercure/kept.rs", "--keep"),
            Like("crates/encke/tests/it/mercure/v1.rs", "--mercure-issuer"),
            Shown,
        ],
    ),
    ("docs/publish.md", &[Shown, Shown, Followed]),
    ("docs/past.md", &[Followed, Shown, Followed, Followed]),
    ("docs/keep.md", &[Followed, Followed, Followed, Followed]),
    ("docs/presence.md", &[Shown, Followed, Followed, Shown, Followed]),
    (
        "docs/members.md",
        &[
            Shown,
            Shown,
            Like("crates/encke/tests/it/polled_members.rs", "members_after"),
            Followed,
            Shown,
        ],
    ),
    (
        "docs/streams.md",
        &[
            Followed,
            Followed,
            Followed,
            Followed,
            Followed,
            Like("crates/encke/tests/it/durable_events.rs", "--streams-events"),
            Shown,
            Like("crates/encke/tests/it/durable.rs", "Stream-Forked-From"),
            Followed,
            Followed,
        ],
    ),
    ("examples/chat/README.md", &[Example(ROOMS)]),
    ("examples/cursors/README.md", &[Example(ROOMS)]),
    ("examples/dashboard/README.md", &[Example("clients/js/e2e/live.test.ts")]),
    ("examples/answers/README.md", &[Example("clients/js/e2e/answers.test.ts")]),
    (
        "examples/notifications/README.md",
        &[
            Example("clients/js/e2e/notifications.test.ts"),
            Example("clients/js/e2e/notifications.test.ts"),
        ],
    ),
    ("examples/assistant/README.md", &[Example("clients/js/e2e/assistant.test.ts")]),
    (
        "examples/job/README.md",
        &[
            Example("clients/js/e2e/job.test.ts"),
            Example("clients/js/e2e/job.test.ts"),
            Example("clients/js/e2e/job.test.ts"),
        ],
    ),
    (
        "examples/echo/README.md",
        &[Example("clients/js/e2e/echo.test.ts"), Example("clients/js/e2e/echo.test.ts")],
    ),
    ("examples/mercure/README.md", &[Example(MERCURE), Example(MERCURE)]),
    ("examples/socketio/README.md", &[Example(SOCKET_IO)]),
    (
        "clients/js/README.md",
        &[
            Read(JS),
            Followed,
            Read(JS),
            Read(JS),
            Read(JS),
            Read(JS),
            Read(JS),
            Read(JS),
            Read(JS),
            Read(JS),
            Read(JS),
            Read(JS),
            Read(JS),
            Read(JS),
            Read(JS),
        ],
    ),
    (
        "clients/python/README.md",
        &[
            Read(PYTHON),
            Read(PYTHON),
            Read(PYTHON),
            Read(PYTHON),
            Read(PYTHON),
            Read(PYTHON),
            Read(PYTHON),
        ],
    ),
    ("clients/go/README.md", &[Read(GO), Shown, Read(GO), Read(GO), Read(GO)]),
    ("clients/erlang/README.md", &[Read(ERLANG), Like(ERLANG, "application:start(encke)")]),
    (
        "docs/erlang.md",
        &[Like("crates/encke/tests/it/erlang/talking.rs", "any"), Read(ERLANG), Read(ERLANG)],
    ),
    (
        "docs/ketama.md",
        &[
            Followed,
            Like(KETAMA, "open_port"),
            Followed,
            Like(KETAMA, "ketama:getserver"),
            Like("crates/ketama/src/lib.rs", "Continuum::new(&parse("),
        ],
    ),
];

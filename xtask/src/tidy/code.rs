//! Rules about what code may do where.

use super::tree::{Fault, File, Tree};

/// Where `unsafe` may stand: a folder or a file, and why.
const UNSAFE: [(&str, &str); 2] = [
    ("crates/sys/", "the thin coat around Linux"),
    ("crates/graph/src/map.rs", "mapping the store's file"),
];

/// How `unsafe` begins where it is code and not a word in a sentence.
const UNSAFE_CODE: [&str; 5] =
    ["unsafe {", "unsafe fn ", "unsafe impl ", "unsafe trait ", "unsafe extern "];

/// Lines above an `unsafe` within which its promise stands.
const SAFETY_WITHIN: usize = 4;

/// Which files and folders may sleep, and why: time itself is what they wait for, or something
/// without a bell, that is the kernel, a disk, another process, or a counter of the data plane, for
/// which a bell would cost each connection. Everybody else waits for an event, with a deadline.
/// This list only shrinks.
const SLEEPERS: [(&str, &str); 34] = [
    ("compat/rust/src/main.rs", "a pause between two tries to connect"),
    ("crates/erlang/src/epmd.rs", "pauses between tries: an epmd that is not there has no bell"),
    ("crates/erlang/src/listener.rs", "descriptors that are free again have no bell"),
    ("crates/encke/benches/attacks/", "who attacks keeps a pace, and looks at figures in between"),
    ("crates/encke/benches/limit/", "a sender keeps a rate, and a runtime that rings is not here"),
    ("crates/encke/benches/nodes/", "loads last, and neither other processes nor figures ring"),
    ("crates/encke/benches/streams/", "loads keep a pace, and a disk that writes has no bell"),
    ("crates/encke/benches/upgrade/", "loads last, and neither other processes nor figures ring"),
    (
        "crates/encke/tests/it/cluster/nemesis/",
        "faults last, and servers that are back do not ring",
    ),
    ("crates/encke/src/cli/demo/", "users keep a pace; neither processes nor counters ring"),
    ("crates/encke/src/client/stream/follow.rs", "a pause between two tries to connect"),
    ("crates/encke/src/ketama/list.rs", "a file that changes rings nobody on every file system"),
    ("crates/graph/src/lock.rs", "a file's lock is waited for with an end, which no call has"),
    ("crates/dispatch/src/posting.rs", "a full mailbox has no bell for when it has room again"),
    ("crates/gateway/src/lib.rs", "pauses between tries: a node that is not there has no bell"),
    ("crates/server/src/listener.rs", "connections have a pace, and free descriptors no bell"),
    ("crates/httpd/src/tls.rs", "handshakes have a pace"),
    ("crates/server/src/epoch.rs", "numbers are reserved by the clock"),
    ("crates/dispatch/src/idempotency/mod.rs", "keys are forgotten by the clock"),
    ("crates/auth/src/token_", "a full mailbox has no bell, and a file is written at a pace"),
    ("crates/dispatch/src/cluster/", "chores and leases go by the clock; NATS away has no bell"),
    ("crates/server/src/memory.rs", "memory is given back by the clock"),
    ("crates/server/src/ending.rs", "workers count connections, and the last one rings nobody"),
    ("crates/server/src/passing/", "late ones have their time; free descriptors have no bell"),
    (
        "crates/dispatch/src/successor/requests.rs",
        "a socket that another process binds has no bell",
    ),
    ("crates/server/src/takeover.rs", "workers count what they have received, and ring nobody"),
    ("crates/server/src/upgrade/", "neither workers' counters nor another process ring"),
    ("crates/server/src/resumes", "reads have a pace, and events are forgotten by the clock"),
    ("crates/postgres/src/", "neither a changed row nor a table that others use has a bell"),
    (
        "crates/postgres/tests/it/crash.rs",
        "a server is killed at some moment, and tried until back",
    ),
    ("crates/rig/src/waiting.rs", "the one place where tests and starters look again and again"),
    ("crates/testing/src/relay.rs", "a slow network is one that waits"),
    ("crates/load/src/flood/mod.rs", "the crowd's threads count, and ring nobody"),
    ("crates/auth/src/keys/file.rs", "servers look at the file by the clock; all have, then"),
];

/// Calls that take an address of our own.
const BINDERS: [&str; 4] = ["bind(", "claim(", "bind_in_group(", "EngineConfig::new("];

/// Options of the program that take an address of our own.
const LISTEN_OPTIONS: [&str; 2] = ["--listen", "--api"];

/// Crates from which nothing reaches the world.
const PURE: [&str; 7] = [
    "crates/client/src/",
    "crates/cluster/src/",
    "crates/hub/src/",
    "crates/mercure/src/",
    "crates/proto/src/",
    "crates/pusher/src/",
    "crates/tls/src/",
];

/// The modules of `std` through which it would.
const WORLD: [&str; 8] = [
    "std::fs",
    "std::io",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::env",
    "std::time::Instant",
];

/// The line up to its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

pub(super) fn unsafe_places(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.rust() {
        let allowed = UNSAFE.iter().any(|(place, _)| file.path.starts_with(place));
        let mut promise = 0;
        for (number, line) in file.lines() {
            if line.contains("SAFETY:") {
                promise = number;
            }
            if !UNSAFE_CODE.iter().any(|start| code(line).contains(start)) {
                continue;
            }
            if !allowed {
                faults.push(file.fault(number, "unsafe code belongs into crates/sys"));
            } else if promise == 0 || number - promise > SAFETY_WITHIN {
                faults
                    .push(file.fault(number, "say in a // SAFETY: comment who keeps the promise"));
            }
        }
    }
    faults
}

pub(super) fn sleeps(tree: &Tree) -> Vec<Fault> {
    let awake = |file: &&File| !SLEEPERS.iter().any(|(path, _)| file.path.starts_with(path));
    let mut faults = Vec::new();
    for file in tree.rust().filter(awake) {
        for (number, line) in file.lines() {
            if is_sleep(line) {
                let what = "wait for an event with a deadline, or list the file in tidy/code.rs";
                faults.push(file.fault(number, what));
            }
        }
    }
    faults
}

fn is_sleep(line: &str) -> bool {
    ["thread::sleep(", "time::sleep(", " sleep("].iter().any(|call| code(line).contains(call))
}

pub(super) fn fixed_ports(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.rust() {
        let from = file.tests_from();
        let drives_program = file.path.contains("/tests/");
        for (number, line) in file.lines().filter(|(number, _)| *number >= from) {
            let binds = BINDERS.iter().any(|call| line.contains(call));
            let listens = LISTEN_OPTIONS.iter().any(|option| line.contains(option));
            if (binds || drives_program && listens) && has_port(code(line)) {
                let what = "two runs of this test cannot share the port: take port 0";
                faults.push(file.fault(number, what));
            }
        }
    }
    faults
}

/// Whether an address with a port other than 0 stands in the line, as `…:8000"`.
fn has_port(line: &str) -> bool {
    line.match_indices(':').any(|(at, _)| {
        let rest = &line[at + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && rest[digits..].starts_with('"') && rest[..digits].bytes().any(|b| b != b'0')
    })
}

pub(super) fn pure_crates(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let pure = |file: &&File| PURE.iter().any(|place| file.path.starts_with(place));
    for file in tree.rust().filter(pure) {
        let tests = file.tests_from();
        for (number, line) in file.lines().take_while(|(number, _)| *number < tests) {
            if let Some(module) = WORLD.iter().find(|module| code(line).contains(*module)) {
                let what = format!("{module} has no place here: let the caller hand in the value");
                faults.push(file.fault(number, what));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rule: fn(&Tree) -> Vec<Fault>, path: &str, text: &str) -> usize {
        rule(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn unsafe_is_caught_outside_its_places_and_without_a_promise() {
        let promised = "// SAFETY: it is so.\nunsafe { call() }\n";
        assert_eq!(faults(unsafe_places, "crates/sys/src/a.rs", promised), 0);
        assert_eq!(faults(unsafe_places, "crates/engine/src/a.rs", promised), 1);
        assert_eq!(faults(unsafe_places, "crates/sys/src/a.rs", "unsafe { call() }\n"), 1);
        assert_eq!(faults(unsafe_places, "crates/hub/src/a.rs", "//! Not unsafe { at all\n"), 0);
    }

    #[test]
    fn sleep_is_caught() {
        assert_eq!(faults(sleeps, "a/tests/b.rs", "    std::thread::sleep(MOMENT);\n"), 1);
        assert_eq!(faults(sleeps, "a/src/b.rs", "    tokio::time::sleep(MOMENT).await;\n"), 1);
        assert_eq!(faults(sleeps, "a/src/b.rs", "    // thread::sleep( would be wrong\n"), 0);
    }

    #[test]
    fn list_of_sleepers_only_shrinks() {
        let listed = SLEEPERS.len();
        assert!(listed <= 34, "wait for an event instead");
    }

    #[test]
    fn who_does_not_sleep_any_more_is_not_listed() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        for (place, _) in SLEEPERS {
            let mut files = tree.rust().filter(|file| file.path.starts_with(place));
            let does = files.any(|file| file.lines().any(|(_, line)| is_sleep(line)));
            assert!(does, "{place} does not sleep: take it out of the list");
        }
    }

    #[test]
    fn fixed_port_is_caught_in_tests_only() {
        let bind = "TcpListener::bind(\"127.0.0.1:8000\")\n";
        assert_eq!(faults(fixed_ports, "a/tests/b.rs", bind), 1);
        assert_eq!(faults(fixed_ports, "a/src/b.rs", bind), 0);
        assert_eq!(faults(fixed_ports, "a/tests/b.rs", "bind(\"127.0.0.1:0\")\n"), 0);
        assert_eq!(faults(fixed_ports, "a/tests/b.rs", "[\"--listen\", \"[::1]:8000\"]\n"), 1);
        assert_eq!(faults(fixed_ports, "a/tests/b.rs", "parse(\"127.0.0.1:8000\")\n"), 0);
    }

    #[test]
    fn io_in_a_pure_crate_is_caught_but_for_its_tests() {
        let text = "//! x\nuse std::fs::File;\n";
        assert_eq!(faults(pure_crates, "crates/proto/src/a.rs", text), 1);
        assert_eq!(faults(pure_crates, "crates/engine/src/a.rs", text), 0);
        let tested = "//! x\n#[cfg(test)]\nmod tests {\n    use std::thread;\n}\n";
        assert_eq!(faults(pure_crates, "crates/hub/src/a.rs", tested), 0);
    }
}

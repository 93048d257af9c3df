//! A server whose streams need tokens, and attacks on whoever verifies these.
//!
//! A signature costs some 40 µs, a secret's two. So the innocent have tokens by a secret, and the
//! attackers by ES256, each another one, that nobody has seen before.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::clients::Target;
use crate::harness::{Signer, TOKEN_SECRET, Wire, get, in_seconds, signed};

/// Connects a second of all attackers.
const CONNECTS_PER_SECOND: u32 = 10_000;
const THREADS: u32 = 8;

/// The keys of a server.
pub(crate) struct Setup {
    dir: TempDir,
}

impl Setup {
    /// With a key pair of its own.
    pub(crate) fn make() -> Setup {
        let setup = Setup { dir: tempfile::tempdir().unwrap() };
        let signer = Signer::new("attacks");
        signer.write_pem(&setup.dir.path().join("public.pem"));
        fs::write(setup.signing_key(), signer.to_bytes()).unwrap();
        setup
    }

    /// What the server is told.
    pub(crate) fn options(&self) -> [String; 2] {
        let public = self.dir.path().join("public.pem");
        [format!("--token-key={TOKEN_SECRET}"), format!("--token-key={}", public.display())]
    }

    /// What the innocent put behind their paths.
    pub(crate) fn query(&self) -> String {
        let claims = json!({ "exp": in_seconds(3600), "encke": { "ids": ["*"] } });
        format!("?token={}", signed(&claims))
    }

    /// The file with the private key.
    pub(crate) fn signing_key(&self) -> String {
        self.dir.path().join("private").display().to_string()
    }
}

/// Clients with good tokens, each with a new one.
pub(crate) fn new_ones(target: &Target) {
    let signer = Signer::of("attacks", &fs::read(&target.file).unwrap());
    connect_with(target, &signer, "200");
}

/// Clients with tokens that another key has signed.
pub(crate) fn bad_ones(target: &Target) {
    connect_with(target, &Signer::new("attacks"), "401");
}

/// Connects at a steady pace, each with a token by `signer`, and reads the answer's `status`.
fn connect_with(target: &Target, signer: &Signer, status: &str) {
    let pause = Duration::from_secs(1) * THREADS / CONNECTS_PER_SECOND;
    let start = Instant::now();
    let ask = |thread: u32| {
        let mut connects = 0;
        while !target.is_over() {
            let due = start + pause * connects + pause * thread / THREADS;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let claims = json!({
                "sub": "x", "exp": in_seconds(60), "jti": format!("{thread}-{connects}"),
            });
            let token = format!("Authorization: Bearer {}", signer.signed(&claims));
            connects += 1;
            let Ok(mut wire) = Wire::try_connect(target.listen) else { continue };
            let asked = wire.try_send(get("/stream", &[&token]));
            if let Ok(head) = asked.and_then(|()| wire.try_head()) {
                assert!(head.status.to_string() == status || head.status == 503, "{}", head.text);
            }
            wire.reset();
        }
        connects
    };
    let connects: u32 = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || ask(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("  {:.0} connects/s", f64::from(connects) / start.elapsed().as_secs_f64());
}

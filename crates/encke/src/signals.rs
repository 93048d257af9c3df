//! SIGTERM and SIGINT: the first asks for an end in order, the second ends at once. SIGHUP, to a
//! server: read again what can be replaced. SIGUSR2, to a server: start the program anew, and leave
//! everything to that.

use std::future::pending;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a command.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// From now on these signals no longer end the process by themselves. To be called within a
    /// runtime.
    pub(crate) fn new() -> Result<Signals> {
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: None,
        })
    }

    /// Listens for them and for SIGHUP, which ends a program whose terminal is closed; unless it
    /// was started so that it outlives that (nohup(1)). To be called within a runtime.
    pub(crate) fn with_hangup() -> Result<Signals> {
        let signals = Signals::new()?;
        let is_ignored = sys::signals::is_ignored(SignalKind::hangup().as_raw_value());
        let hangup = if is_ignored.context("cannot read /proc/self; see that /proc is mounted")? {
            None
        } else {
            Some(Signals::hangups()?)
        };
        Ok(Signals { hangup, ..signals })
    }

    /// Waits for the next signal and returns the exit code that tells of it (128 and its number).
    pub(crate) async fn next(&mut self) -> i32 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = hangup => 129,
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }

    /// From now on SIGHUP, which ends a program whose terminal is gone, comes here instead. To be
    /// called within a runtime.
    pub(crate) fn hangups() -> Result<Signal> {
        listen(SignalKind::hangup())
    }

    /// From now on SIGUSR2, which ends a program that does not know it, comes here instead. To be
    /// called within a runtime.
    pub(crate) fn upgrades() -> Result<Signal> {
        listen(SignalKind::user_defined2())
    }

    /// From now on a signal ends the process at once.
    pub(crate) fn end_at_next(mut self) {
        tokio::spawn(async move {
            let code = self.next().await;
            std::process::exit(code);
        });
    }
}

/// From now on signals of that kind come here.
fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).context(
        "cannot listen for signals; see that no filter of system calls (seccomp) forbids sigaction",
    )
}

//! Waiting for the end of what the demo has started ([`OwnChild`]), beside all else that it does.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rig::{OwnChild, Server};
use tokio::time::{sleep, timeout};

/// How often it is looked whether something has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until `child` has ended by itself.
pub(super) async fn ended(child: &mut OwnChild) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Ends the input of `child`, and waits until it has ended; `None` when that takes longer than
/// `within`.
pub(super) async fn end(child: &mut OwnChild, within: Duration) -> io::Result<Option<ExitStatus>> {
    child.end_input();
    timeout(within, ended(child)).await.ok().transpose()
}

/// Ends `server`, which is called `name`, and waits until it has ended.
///
/// # Errors
/// It has not `within` that time, and is killed when it is dropped.
pub(super) async fn end_server(server: &mut Server, name: &str, within: Duration) -> Result<()> {
    server.end();
    let gone = async {
        while !server.has_ended()? {
            sleep(LOOK_EVERY).await;
        }
        io::Result::Ok(())
    };
    let seconds = within.as_secs();
    match timeout(within, gone).await {
        Ok(gone) => gone.with_context(|| cannot(&format!("watch {name}"))),
        Err(_) => bail!(
            "{name} did not end within {seconds} s and was killed; see whether this machine is \
             overloaded or its disk hangs"
        ),
    }
}

/// What is told where a child cannot be waited for: nobody is told of its end who ignores that
/// (signal(7)), and programs inherit it.
pub(super) fn cannot(what: &str) -> String {
    format!("cannot {what}; see that whoever has started this demo did not ignore SIGCHLD")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rig::AtDrop;

    use super::*;

    #[tokio::test]
    async fn end_of_input_is_waited_for_with_a_bound() {
        let start = |script| {
            let mut command = Command::new("sh");
            OwnChild::spawn(command.args(["-c", script]), AtDrop::Kill).unwrap()
        };
        let mut child = start("read -r _; exit 3");
        let status = end(&mut child, testing::DEADLINE).await.unwrap();
        assert_eq!(status.unwrap().code(), Some(3));
        let mut child = start("while :; do sleep 1; done");
        assert!(end(&mut child, Duration::ZERO).await.unwrap().is_none());
    }
}

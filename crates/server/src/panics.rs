//! A panic anywhere ends the process.
//!
//! A worker that panics does so by itself (`engine`). On the control plane tokio would keep the
//! panic to its task. The server would go on without the one that answers resumes, accepts API
//! connections or talks to an Erlang node, and its clients would wait and not know. They reconnect
//! when the process is gone. A hook sees every panic of every thread and task, of ours and of the
//! libraries', wherever it was spawned.

use std::panic;
use std::process;

/// From now on the process ends by SIGABRT once a panic has been told on standard error.
pub fn end_process_on_panic() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        tell(panic);
        process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Says to the test program that it is the process which shall end.
    const CHILD: &str = "ENCKE_TEST_PANIC";

    /// In the child: panics in a task of a runtime that goes on.
    fn panic_in_a_task() {
        end_process_on_panic();
        let runtime = crate::runtime().unwrap();
        runtime.block_on(async {
            // Its end is what nobody waits for.
            drop(tokio::spawn(async { panic!("a task of the control plane") }));
            std::future::pending::<()>().await;
        });
    }

    #[test]
    fn panic_of_a_task_ends_the_process() {
        if std::env::var_os(CHILD).is_some() {
            return panic_in_a_task();
        }
        let name = "panics::tests::panic_of_a_task_ends_the_process";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([name, "--exact", "--nocapture"]).env(CHILD, "1");
        let output = child.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "SIGABRT: {told}");
        assert!(told.contains("a task of the control plane"), "{told}");
    }
}

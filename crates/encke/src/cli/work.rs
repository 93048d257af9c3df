//! Work that takes a while and blocks: how far it is, and what a signal does to it.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::oneshot;

use super::client::runtime;
use crate::console::tell;
use crate::signals::Signals;
use crate::threads;

/// Time between two lines where there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(5);

/// Does `work` on a thread of its own and waits for it, or for a signal. What is not done then ends
/// with the process: `work` leaves nothing half done that others would take for whole.
pub(crate) fn unless_stopped<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            result = on_own_thread(work) => result,
            _ = signals.next() => bail!("stopped before it was done"),
        }
    })
}

/// Does `work` on a thread for which, unlike a runtime's, the end of the process does not wait.
pub(crate) async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, result) = oneshot::channel();
    let run = move || {
        // Fails only when nobody waits any more.
        let _ = done.send(work());
    };
    threads::start("work", run)?;
    result.await.context("the command failed; its error is above")?
}

/// How far a piece of work is: a bar on a terminal, a line now and then elsewhere. On standard
/// error, so that standard output can be a file.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    name: &'static str,
    line_at: Instant,
}

impl Progress {
    /// Work that is called `name`, with nothing done.
    pub(crate) fn new(name: &'static str) -> Progress {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let template = "{msg:12} {wide_bar} {percent:>3} %  {elapsed}";
            bar.set_style(ProgressStyle::with_template(template).expect("the template is valid"));
            bar.set_message(name);
            bar
        });
        Progress { bar, name, line_at: Instant::now() + LINE_PERIOD }
    }

    /// So much is done of so much; a total of 0 is unknown.
    pub(crate) fn set(&mut self, name: &'static str, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            if name != self.name {
                bar.set_message(name);
            }
            bar.set_length(total.max(done));
            bar.set_position(done);
        } else if Instant::now() >= self.line_at {
            self.line_at = Instant::now() + LINE_PERIOD;
            match total {
                0 => tell(format!("{name}: {done}")),
                total => tell(format!("{name}: {:.0} %", 100.0 * done as f64 / total as f64)),
            }
        }
        self.name = name;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_is_told_as_a_failure() {
        let told = on_own_thread(|| -> Result<()> { panic!("of a test") }).await.unwrap_err();
        assert_eq!(told.to_string(), "the command failed; its error is above");
        assert_eq!(on_own_thread(|| Ok(7)).await.unwrap(), 7);
    }
}

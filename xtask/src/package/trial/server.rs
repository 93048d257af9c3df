//! What trials have in common: processes that end with them, and the questions that they ask.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::super::{done, output};

/// How long anything may take. On a machine that does much else beside, seconds become many.
pub(super) const DEADLINE: Duration = Duration::from_secs(180);

/// A child that ends with its trial, however that ends.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn spawn(command: &mut Command) -> anyhow::Result<Process> {
        let name = command.get_program().to_string_lossy().into_owned();
        Ok(Process(command.spawn().with_context(|| format!("{name} does not start"))?))
    }

    /// `command`, whose lines are read.
    pub(super) fn heard(command: &mut Command) -> anyhow::Result<Process> {
        Process::spawn(command.stdout(Stdio::piped()))
    }

    /// Waits for a line of its output with `word` in it.
    pub(super) fn line_with(&mut self, word: &str) -> anyhow::Result<String> {
        let lines = BufReader::new(self.0.stdout.as_mut().context("its lines are read")?).lines();
        for line in lines {
            let line = line?;
            if line.contains(word) {
                return Ok(line);
            }
        }
        bail!("{word:?} was not heard before the end")
    }

    /// Under which user it runs, by number.
    pub(super) fn user(&self) -> anyhow::Result<u32> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let user = line.and_then(|line| line.split_whitespace().next()).context("it has a user")?;
        Ok(user.parse()?)
    }

    /// Sends the signal of that name, such as `TERM`.
    pub(super) fn signal(&self, name: &str) -> anyhow::Result<()> {
        done(Command::new("kill").args(["-s", name, &self.0.id().to_string()]))
    }

    /// Ends it as service managers and containers do, which it takes well.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.signal("TERM")?;
        self.ended()
    }

    /// Waits for its end, which is a good one.
    pub(super) fn ended(mut self) -> anyhow::Result<()> {
        let status = self.0.wait()?;
        ensure!(status.code() == Some(0), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until one connection is logged in as `id`.
pub(super) fn wait_online(id: &str) -> anyhow::Result<()> {
    let until = Instant::now() + DEADLINE;
    let url = format!("http://127.0.0.1:8001/connections/{id}");
    loop {
        let answer = output(Command::new("curl").args(["--silent", "--max-time", "30", &url]));
        match answer {
            Ok(answer) if answer.trim() == r#"{"connections":1}"# => return Ok(()),
            Err(error) if Instant::now() > until => return Err(error),
            answer => ensure!(Instant::now() < until, "{id} is not online: {answer:?}"),
        }
    }
}

/// `program` in `root` as `user` (`user:group`), with no other variables than these.
pub(super) fn chroot(root: &Path, user: &str, program: &[&str]) -> anyhow::Result<Command> {
    // Its own path, since the variables are those of the program.
    let places = ["/usr/sbin/chroot", "/usr/bin/chroot"];
    let chroot = places.iter().find(|path| Path::new(path).exists());
    let mut command = Command::new(chroot.context("chroot is missing")?);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
    command.arg(format!("--userspec={user}")).arg(root).args(program);
    Ok(command)
}

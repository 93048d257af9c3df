//! What commands say on standard output and standard error, and how they log.

use std::io::{self, ErrorKind, IsTerminal, Write};

use thiserror::Error;
use tracing::level_filters::LevelFilter;

/// Standard output cannot be written any more.
#[derive(Debug, Error)]
pub(crate) enum OutputError {
    /// Whoever read it has enough (`encke listen 1 | head`): a good end.
    #[error("nobody reads standard output any more")]
    Closed,
    /// Anything else, such as a full disk.
    #[error("cannot write to standard output: {0}")]
    Write(io::Error),
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> OutputError {
        match error.kind() {
            ErrorKind::BrokenPipe => OutputError::Closed,
            _ => OutputError::Write(error),
        }
    }
}

/// Prints `line` on standard output, at once, also into a pipe.
pub(crate) fn say(line: impl AsRef<str>) -> Result<(), OutputError> {
    say_bytes(line.as_ref().as_bytes())
}

/// Prints `line` and a line end on standard output, at once.
pub(crate) fn say_bytes(line: &[u8]) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    out.write_all(line)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints `line` on standard output: on a terminal in place of the last one that was printed so,
/// elsewhere as a line of its own.
pub(crate) fn say_over(line: &str) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        drop(out);
        return say(line);
    }
    // Back to the line's start, and clear what the last one left (ECMA-48, EL).
    write!(out, "\r{line}\x1b[K")?;
    Ok(out.flush()?)
}

/// Ends the line that [`say_over`] keeps printing over.
pub(crate) fn end_over() -> Result<(), OutputError> {
    if io::stdout().is_terminal() { say("") } else { Ok(()) }
}

/// Prints `line` on standard error. When that is gone too, there is nobody left to tell.
pub(crate) fn tell(line: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", line.as_ref());
}

/// Logs from `level` on go to standard error; a panic is told in one line there.
pub(crate) fn start_logging(level: LevelFilter) {
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or("no text");
        tell(format!("encke: an error of the program itself, please report it: {text} ({place})"));
    }));
}

//! What commands say on standard output and standard error, and how they log.

mod errors;

use std::borrow::Cow;
use std::future::pending;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use anyhow::Result;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use thiserror::Error;
use tokio::sync::oneshot;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use errors::Errors;

use crate::threads;

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

/// `text` as a shell takes it for one word (POSIX, Shell Command Language, section 2.2.2).
pub(crate) fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', "'\\''"))),
    }
}

/// Prints `line` and a line end on standard output, at once.
pub(crate) fn say_bytes(line: &[u8]) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    out.write_all(line)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Waits until nobody reads standard output any more. Who writes there seldom would not notice.
pub(crate) async fn unread() -> Result<()> {
    let (done, closed) = oneshot::channel();
    // A file is read by somebody for ever, so the thread may never end: nobody waits for it.
    let wait = move || {
        if sys::pipe::wait_unread(&io::stdout()).is_ok() {
            let _ = done.send(());
        }
    };
    threads::start("unread", wait)?;
    if closed.await.is_err() {
        pending::<()>().await;
    }
    Err(OutputError::Closed.into())
}

/// What went wrong, and why, cause by cause. A cause that the sentence before it has told already
/// is not told again.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// A line on standard output that is kept up to date: on a terminal one line, cut to its width, and
/// elsewhere a new line each time.
pub(crate) struct LiveLine {
    bar: Option<ProgressBar>,
}

impl LiveLine {
    pub(crate) fn new() -> LiveLine {
        let bar = io::stdout().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            bar.with_style(ProgressStyle::with_template("{wide_msg}").expect("it is valid"))
        });
        LiveLine { bar }
    }

    /// Shows `line`.
    pub(crate) fn set(&self, line: String) -> Result<(), OutputError> {
        match &self.bar {
            Some(bar) => bar.set_message(line),
            None => say(line)?,
        }
        Ok(())
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Prints `line` on standard error. When that is gone too, there is nobody left to tell.
pub(crate) fn tell(line: impl AsRef<str>) {
    let _ = Errors.write_all(format!("{}\n", printable(line.as_ref())).as_bytes());
}

/// `text` with its control characters as escapes, but for line ends: what another program said must
/// not steer the terminal (ECMA-48, section 5).
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match steers(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// What is logged at `level`. The client of NATS writes what it sends into its most detailed level,
/// passwords too, so nobody sees that one.
fn logged(level: LevelFilter) -> Targets {
    Targets::new().with_default(level).with_target("async_nats", level.min(LevelFilter::DEBUG))
}

/// What a line of the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// An object of JSON.
    Json,
}

/// The level from which on is logged, which may be set anew, and the form.
static LOG: OnceLock<(reload::Handle<Targets, Registry>, LogFormat)> = OnceLock::new();

/// A writer of lines of the log, each of which stays one: what a client has sent may stand in it,
/// and must not begin another. The library shows the other control characters by itself.
struct LogLines<W>(W);

impl<W: Write> Write for LogLines<W> {
    /// The library writes a line at a time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        if !text.iter().any(|byte| b"\r\n".contains(byte)) {
            self.0.write_all(line)?;
            return Ok(line.len());
        }
        let mut shown = Vec::with_capacity(line.len() + 16);
        for &byte in text {
            match byte {
                b'\n' | b'\r' => shown.extend(byte.escape_ascii()),
                _ => shown.push(byte),
            }
        }
        shown.extend(&line[text.len()..]);
        self.0.write_all(&shown)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Logs from `level` on go to standard error; a panic is told in one line there.
pub(crate) fn start_logging(level: LevelFilter, format: LogFormat) {
    let (filter, handle) = reload::Layer::new(logged(level));
    let log = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_ansi(format == LogFormat::Text && io::stderr().is_terminal())
        .with_writer(|| LogLines(Errors))
        // A log that nobody reads any more is no reason to end.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => log.with(lines).init(),
        LogFormat::Json => log.with(lines.json().flatten_event(true)).init(),
    }
    // It is done once.
    let _ = LOG.set((handle, format));
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or("no text");
        complain(&format!("an error of the program itself, please report it: {text} ({place})"));
    }));
}

/// Logs from `level` on from now on.
pub(crate) fn set_log_level(level: LevelFilter) {
    if let Some((handle, _)) = LOG.get() {
        // Fails only where there is no log any more.
        let _ = handle.modify(|filter| *filter = logged(level));
    }
}

/// Tells why the program ends, whatever the level of the log, and in its form.
pub(crate) fn complain(text: &str) {
    tell(in_form("ERROR", text));
}

/// What is told in the place of so many lines of the log.
fn lost_lines(lost: u64) -> String {
    let text = format!("{lost} lines of this log were lost, since nobody read it");
    in_form("WARN", &text) + "\n"
}

/// `text` in the form of the log.
fn in_form(level: &str, text: &str) -> String {
    match LOG.get() {
        Some((_, LogFormat::Json)) => {
            let mut stamp = String::new();
            // It writes into memory.
            let _ = SystemTime.format_time(&mut Writer::new(&mut stamp));
            let line = json!({ "timestamp": stamp, "level": level, "message": text });
            escaped(&line.to_string())
        }
        _ => format!("encke: {text}"),
    }
}

/// `json` with the control characters that JSON leaves in its strings as it escapes others (RFC
/// 8259, section 7), so that it is JSON still where they steer no terminal.
pub(crate) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c.is_control() {
            true => out += &format!("\\u{:04x}", u32::from(c)),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_to_nats_is_never_logged() {
        let trace = logged(LevelFilter::TRACE);
        assert!(trace.would_enable("encke", &tracing::Level::TRACE));
        assert!(trace.would_enable("async_nats::connection", &tracing::Level::DEBUG));
        assert!(!trace.would_enable("async_nats::connection", &tracing::Level::TRACE));
        let warn = logged(LevelFilter::WARN);
        assert!(!warn.would_enable("async_nats::connection", &tracing::Level::INFO));
    }

    #[test]
    fn line_of_the_log_stays_one_whatever_stands_in_it() {
        for (line, shown) in [
            ("INFO a\n", "INFO a\n"),
            ("INFO a\nERROR b\r\n\n", "INFO a\\nERROR b\\r\\n\n"),
            ("ä\n\u{2028}", "ä\\n\u{2028}"),
            ("", ""),
        ] {
            let mut written = LogLines(Vec::new());
            written.write_all(line.as_bytes()).unwrap();
            assert_eq!(written.0, shown.as_bytes(), "{line:?}");
        }
    }

    #[test]
    fn line_of_json_is_one_whatever_it_tells() {
        let text = "two\nlines \x1b[2J \u{9b}31m \x7f \"ä\" \\ 漢";
        let line = escaped(&json!({ "message": text }).to_string());
        assert_eq!(printable(&line), line);
        assert!(!line.contains(char::is_control), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["message"], text);
    }

    #[test]
    fn control_characters_are_shown_and_do_nothing() {
        for (text, shown) in [
            ("two\nlines, ä 漢", "two\nlines, ä 漢"),
            ("\x1b[2Jgone\r", "\\u{1b}[2Jgone\\r"),
            ("\u{9b}31m\x07\x7f", "\\u{9b}31m\\u{7}\\u{7f}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
    #[test]
    fn what_is_to_be_typed_is_quoted_where_a_shell_would_cut_it() {
        for (text, word) in [
            ("/var/lib/encke-data", "/var/lib/encke-data"),
            ("--token-issuer=https://a.b/", "--token-issuer=https://a.b/"),
            ("my data", "'my data'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}

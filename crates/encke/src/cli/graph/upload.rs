//! `encke graph load --api`: a file of pairs into a running server, as a stream of JSON lines.
//!
//! A file is read twice: once to find malformed lines before anything is stored, once to send it.
//! Standard input can be read only once, so there the good lines are stored even when there are
//! malformed ones. Loading again does no harm: adding is idempotent.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Result, bail};
use axum::body::Body;
use backend::graph::{LineError, LoadOptions, LoadReport, Malformed, OwnedId, Pair};
use bytes::Bytes;
use futures_util::stream;
use hub::IdText;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::load::open;
use crate::cli::client::runtime;
use crate::cli::work::Progress;
use crate::client::{ApiClient, ServerUrl};
use crate::serve::signals::Signals;

/// Bytes of a piece of the stream.
const PIECE_BYTES: usize = 64 * 1024;

/// Pieces that wait to be sent.
const PIECES_MAX: usize = 4;

/// The longest line, as for a load into a data directory.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Malformed lines that are named; all are counted.
const MALFORMED_NAMED_MAX: usize = 20;

#[derive(Deserialize)]
struct Added {
    added: u64,
}

pub(super) fn run(file: &Path, api: &ServerUrl, options: LoadOptions) -> Result<LoadReport> {
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            done = upload(file, api, options) => done,
            _ = signals.next() => bail!("stopped before it was done; some pairs are stored"),
        }
    });
    // The reading thread may wait for a standard input that never ends.
    runtime.shutdown_background();
    done
}
async fn upload(file: &Path, api: &ServerUrl, options: LoadOptions) -> Result<LoadReport> {
    let mut client = ApiClient::connect(api).await?;
    let name = file.display().to_string();
    if file != Path::new("-") && !options.skip_malformed {
        let input = open(file)?;
        let checked = tokio::task::spawn_blocking(move || read(input, options, &mut |_| true));
        refuse(&name, &checked.await??.malformed)?;
    }
    let (pieces, queue) = mpsc::channel::<Bytes>(PIECES_MAX);
    let input = open(file)?;
    let reading = tokio::task::spawn_blocking(move || {
        read(input, options, &mut |piece| pieces.blocking_send(piece.to_vec().into()).is_ok())
    });
    let body = stream::unfold(queue, |mut queue| async {
        let piece = queue.recv().await?;
        Some((Ok::<_, std::io::Error>(piece), queue))
    });
    let answer = client.post_lines("/subscriptions/add", Body::from_stream(body)).await;
    let Found { pairs, malformed } = reading.await??;
    let Added { added } = answer?;
    if !options.skip_malformed {
        refuse(&name, &malformed)?;
    }
    Ok(LoadReport { pairs, added, malformed })
}

/// What a reading found.
struct Found {
    pairs: u64,
    malformed: Malformed,
}

/// Says which lines are malformed.
fn refuse(name: &str, malformed: &Malformed) -> Result<()> {
    if malformed.count == 0 {
        return Ok(());
    }
    let lines = if malformed.count == 1 { "line" } else { "lines" };
    let mut text =
        format!("{name} has {} malformed {lines}; correct or skip them:", malformed.count);
    for (number, error) in &malformed.first {
        text += &format!("\n{name}:{number}: {error}");
    }
    match malformed.count - malformed.first.len() as u64 {
        0 => bail!("{text}"),
        more => bail!("{text}\nand {more} more"),
    }
}

/// Reads all lines of `input` and hands them as JSON lines to `send`, piece by piece, as long as it
/// wants more. Malformed lines are noted and left out.
fn read(
    (input, bytes): (Box<dyn Read + Send>, u64),
    options: LoadOptions,
    send: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<Found> {
    let mut input = BufReader::with_capacity(PIECE_BYTES, input);
    let mut progress = Progress::new("reading");
    let mut found = Found { pairs: 0, malformed: Malformed::default() };
    let (mut line, mut piece) = (Vec::new(), Vec::new());
    let (mut number, mut done) = (0, 0);
    let mut wanted = true;
    while wanted {
        line.clear();
        let len = (&mut input).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)? as u64;
        number += 1;
        done += len;
        let parsed = if len > LINE_BYTES_MAX { Err(LineError::TooLong) } else { parse(&line) };
        match parsed {
            Ok(Some(pair)) => {
                found.pairs += 1;
                push(&pair, options.both, &mut piece);
            }
            Ok(None) => {}
            Err(error) => {
                found.malformed.count += 1;
                if found.malformed.first.len() < MALFORMED_NAMED_MAX {
                    found.malformed.first.push((number, error));
                }
            }
        }
        let last = len == 0;
        if piece.len() >= PIECE_BYTES || last {
            wanted = (piece.is_empty() || send(&piece)) && !last;
            piece.clear();
            progress.set("reading", done, bytes);
        }
    }
    Ok(found)
}

fn parse(line: &[u8]) -> Result<Option<Pair>, LineError> {
    let text = str::from_utf8(line).map_err(|_| LineError::NotText)?;
    let mut fields = text.split_ascii_whitespace();
    let Some(first) = fields.next().filter(|first| !first.starts_with('#')) else {
        return Ok(None);
    };
    match (fields.next(), fields.count()) {
        (Some(second), 0) => Ok(Some(Pair::parse(first, second)?)),
        (None, _) => Err(LineError::Fields(1)),
        (Some(_), more) => Err(LineError::Fields(2 + more)),
    }
}

/// Appends the pair as a line of JSON, and the other way round when asked for.
fn push(pair: &Pair, both: bool, out: &mut Vec<u8>) {
    let (a, b) = (json(&pair.subscriber), json(&pair.subscribee));
    out.extend_from_slice(format!("{{\"subscriber\":{a},\"subscribee\":{b}}}\n").as_bytes());
    if both {
        out.extend_from_slice(format!("{{\"subscriber\":{b},\"subscribee\":{a}}}\n").as_bytes());
    }
}

fn json(id: &OwnedId) -> String {
    match id.as_text() {
        IdText::Integer(id) => id.to_bits().to_string(),
        IdText::Name(name) => Value::from(name).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn lines(text: &'static str, both: bool) -> (String, Found) {
        let mut sent = Vec::new();
        let options = LoadOptions { both, skip_malformed: false };
        let input = Box::new(Cursor::new(text.as_bytes()));
        let found = read((input, 0), options, &mut |piece| {
            sent.extend_from_slice(piece);
            true
        });
        (String::from_utf8(sent).unwrap(), found.unwrap())
    }

    #[test]
    fn pairs_become_lines_of_json() {
        let (sent, found) = lines("# friends\n1 2\n\nbob\t\"rj\"", false);
        let expected = "{\"subscriber\":1,\"subscribee\":2}\n\
                        {\"subscriber\":\"bob\",\"subscribee\":\"\\\"rj\\\"\"}\n";
        assert_eq!((sent.as_str(), found.pairs, found.malformed.count), (expected, 2, 0));
        assert_eq!(lines("1 2\n", true).0.lines().count(), 2);
    }

    #[test]
    fn malformed_lines_are_named() {
        let (_, found) = lines("1 2\n3\n4 5 6\na/b c\n7 8", false);
        let numbers: Vec<u64> = found.malformed.first.iter().map(|(number, _)| *number).collect();
        assert_eq!((found.pairs, numbers), (2, vec![2, 3, 4]));
        assert!(refuse("x", &found.malformed).unwrap_err().to_string().contains("x:3:"));
    }
}

//! `encke graph load --api`: a file of pairs into a running server, as a stream of JSON lines.
//!
//! A file is read twice: once to find malformed lines before anything is stored, once to send it.
//! Standard input can be read only once, so there the good lines are stored even when there are
//! malformed ones. Loading again does no harm: adding is idempotent.

use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use graph::{LoadOptions, LoadReport, Malformed, for_each_line};
use hub::IdText;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::input::{self, Input};
use crate::cli::client::runtime;
use crate::cli::work::Progress;
use crate::client::{ApiClient, ServerUrl};
use crate::signals::Signals;

/// Bytes of a piece of the stream.
const PIECE_BYTES: usize = 64 * 1024;

/// Pieces that wait to be sent.
const PIECES_MAX: usize = 4;

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
    let cannot = || format!("cannot read {name}; see that it is a file of text");
    if file != Path::new("-") && !options.skip_malformed {
        let input = input::open(file)?;
        let checked = tokio::task::spawn_blocking(move || read(input, options, &mut |_| true));
        refuse(&name, &checked.await?.with_context(cannot)?.malformed)?;
    }
    let (pieces, queue) = mpsc::channel::<Bytes>(PIECES_MAX);
    let input = input::open(file)?;
    let reading = tokio::task::spawn_blocking(move || {
        read(input, options, &mut |piece| pieces.blocking_send(piece.to_vec().into()).is_ok())
    });
    let body = stream::unfold(queue, |mut queue| async {
        let piece = queue.recv().await?;
        Some((Ok::<_, io::Error>(piece), queue))
    });
    let answer = client.post_lines("/subscriptions/add", Body::from_stream(body)).await;
    let Found { pairs, malformed } = reading.await?.with_context(cannot)?;
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
    ensure!(malformed.count == 0, "{}", malformed.complaint(name));
    Ok(())
}

/// Reads all lines of `input` and hands them as JSON lines to `send`, piece by piece, until it
/// wants no more. Malformed lines are noted and left out.
fn read(
    (mut input, bytes): Input,
    options: LoadOptions,
    send: &mut dyn FnMut(&[u8]) -> bool,
) -> io::Result<Found> {
    let mut progress = Progress::new("reading");
    let mut found = Found { pairs: 0, malformed: Malformed::default() };
    let (mut piece, mut number) = (Vec::new(), 0);
    let unwanted = || io::Error::from(ErrorKind::BrokenPipe);
    let done = for_each_line(&mut input, |line, done| {
        number += 1;
        match line {
            Ok(Some((subscriber, subscribee))) => {
                found.pairs += 1;
                push(subscriber, subscribee, &mut piece);
                if options.both {
                    push(subscribee, subscriber, &mut piece);
                }
            }
            Ok(None) => {}
            Err(error) => found.malformed.note(number, error),
        }
        if piece.len() >= PIECE_BYTES {
            progress.set("reading", done, bytes);
            let wanted = send(&piece);
            piece.clear();
            return if wanted { Ok(()) } else { Err(unwanted()) };
        }
        Ok(())
    });
    match done {
        Ok(()) => {}
        // The server has answered before its time; the answer says why.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(found),
        Err(error) => return Err(error),
    }
    if !piece.is_empty() {
        send(&piece);
    }
    Ok(found)
}

/// Appends the pair as a line of JSON.
fn push(subscriber: IdText<'_>, subscribee: IdText<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"subscriber\":");
    push_id(subscriber, out);
    out.extend_from_slice(b",\"subscribee\":");
    push_id(subscribee, out);
    out.extend_from_slice(b"}\n");
}

fn push_id(id: IdText<'_>, out: &mut Vec<u8>) {
    let written = match id {
        IdText::Integer(id) => serde_json::to_writer(out, &id.to_bits()),
        IdText::Name(name) => serde_json::to_writer(out, name),
    };
    written.expect("memory takes everything");
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

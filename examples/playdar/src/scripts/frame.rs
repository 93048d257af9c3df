//! The frames of a script: the length of what follows, in 4 bytes, the most significant one first,
//! and then one JSON object.
//!
//! The original drops a script that sends more than [`FRAME_BYTES_MAX`], and the libraries that
//! scripts are written with stop at more than that too, so it holds in both directions.

use std::io::{self, ErrorKind};
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// What stands behind the length, at most.
pub(super) const FRAME_BYTES_MAX: usize = 4096;

/// How long a frame may take from its length to its end. Between frames a script may be silent for
/// ever: it says something only when it is asked.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no more frame to be had of a script.
#[derive(Debug, Error)]
pub(super) enum FrameError {
    #[error(
        "it wrote a frame of {0} bytes, and at most {FRAME_BYTES_MAX} are allowed: let it send \
         fewer results in one frame, and nothing but frames on standard output"
    )]
    TooLong(u32),
    #[error("it ended, or closed its output, in the middle of a frame")]
    CutOff,
    #[error("it began a frame and did not end it within {FRAME_TIMEOUT:?}: it is to flush each")]
    Late,
    #[error("its output cannot be read: {0}")]
    Io(io::Error),
}

/// The body of the next frame; `None` at the end of the output.
pub(super) async fn read(
    input: &mut (impl AsyncRead + Unpin),
) -> Result<Option<Vec<u8>>, FrameError> {
    let mut head = [0; 4];
    if input.read(&mut head[..1]).await.map_err(FrameError::Io)? == 0 {
        return Ok(None);
    }
    let rest = async {
        input.read_exact(&mut head[1..]).await.map_err(broken)?;
        let length = u32::from_be_bytes(head);
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        if bytes > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        let mut body = vec![0; bytes];
        input.read_exact(&mut body).await.map_err(broken)?;
        Ok(Some(body))
    };
    timeout(FRAME_TIMEOUT, rest).await.unwrap_or(Err(FrameError::Late))
}

fn broken(error: io::Error) -> FrameError {
    match error.kind() {
        ErrorKind::UnexpectedEof => FrameError::CutOff,
        _ => FrameError::Io(error),
    }
}

/// `message` as a frame; `None` where it is too long for one.
pub(super) fn encode(message: &impl Serialize) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).ok()?;
    let length = frame.len() - 4;
    if length > FRAME_BYTES_MAX {
        return None;
    }
    frame[..4].copy_from_slice(&u32::try_from(length).ok()?.to_be_bytes());
    Some(frame)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn frames_are_read_as_they_were_written_wherever_they_are_cut() {
        let (one, two) = (json!({"a": "é"}), json!({}));
        let whole = [encode(&one).unwrap(), encode(&two).unwrap()].concat();
        for cut in 0..=whole.len() {
            let (mut script, mut input) = tokio::io::duplex(whole.len());
            script.write_all(&whole[..cut]).await.unwrap();
            let rest = whole[cut..].to_vec();
            let writing = tokio::spawn(async move { script.write_all(&rest).await.unwrap() });
            for wanted in [&one, &two] {
                let body = read(&mut input).await.unwrap().unwrap();
                assert_eq!(&serde_json::from_slice::<serde_json::Value>(&body).unwrap(), wanted);
            }
            assert!(read(&mut input).await.unwrap().is_none());
            writing.await.unwrap();
        }
    }

    #[tokio::test]
    async fn frame_of_more_than_the_original_took_is_refused_before_it_is_read() {
        let mut exact = 4096_u32.to_be_bytes().to_vec();
        exact.extend([b' '; 4096]);
        assert_eq!(read(&mut exact.as_slice()).await.unwrap().unwrap().len(), 4096);
        for length in [4097, 1 << 20, u32::MAX] {
            let head = length.to_be_bytes();
            let error = read(&mut head.as_slice()).await.unwrap_err();
            assert!(matches!(error, FrameError::TooLong(told) if told == length), "{error}");
        }
        assert!(encode(&json!("x".repeat(4094))).is_some());
        assert!(encode(&json!("x".repeat(4095))).is_none());
    }

    #[tokio::test]
    async fn end_within_a_frame_is_told_from_the_end_between_two() {
        for cut in 1..6 {
            let frame = [0, 0, 0, 2, b'{', b'}'];
            let error = read(&mut &frame[..cut]).await.unwrap_err();
            assert!(matches!(error, FrameError::CutOff), "{cut}: {error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frame_that_does_not_come_whole_is_not_waited_for() {
        let (mut script, mut input) = tokio::io::duplex(16);
        script.write_all(&[0, 0, 0, 9, b'{']).await.unwrap();
        let error = read(&mut input).await.unwrap_err();
        assert!(matches!(error, FrameError::Late), "{error}");
    }
}

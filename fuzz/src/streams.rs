//! What a client reads: anything that a server, ours or another, may send.

use client::{BodyLength, Progress, StreamDecoder, StreamError, response_head};
use proto::Transport;

type Heard = (Vec<(Option<Vec<u8>>, Vec<u8>, Vec<u8>)>, Result<Progress, StreamError>);

/// A response head and a body under a transport and a framing that the first byte chooses: the
/// same events however the bytes are split.
pub fn client_stream(data: &[u8]) {
    let Some((choice, wire)) = data.split_first() else { return };
    // A head that is whole stays what it is when more comes behind it.
    if let Ok(Some(head)) = response_head(wire) {
        assert_eq!(response_head(&wire[..head.head_len]), Ok(Some(head)));
    }
    let transport = Transport::ALL[usize::from(choice % 4)];
    let body = match choice / 4 % 3 {
        0 => BodyLength::Chunked,
        1 => BodyLength::Known(u64::from(choice / 12)),
        _ => BodyLength::UntilClose,
    };
    let whole = hear(transport, body, wire, wire.len().max(1));
    for piece_len in [1, 2, 3, wire.len() / 2 + 1] {
        let split = hear(transport, body, wire, piece_len);
        assert_eq!(split, whole, "{transport:?}, {body:?}, {piece_len} bytes at a time");
    }
}

fn hear(transport: Transport, body: BodyLength, wire: &[u8], piece_len: usize) -> Heard {
    let mut decoder = StreamDecoder::new(transport, body);
    let mut events = Vec::new();
    let mut progress = Ok(Progress::More);
    for piece in wire.chunks(piece_len) {
        progress = decoder.feed(piece, |event| {
            events.push((event.id.map(<[u8]>::to_vec), event.name.to_vec(), event.data.to_vec()));
        });
        if progress != Ok(Progress::More) {
            break;
        }
    }
    (events, progress)
}

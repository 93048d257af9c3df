//! Frames of a WebSocket as a client of a benchmark reads them.

/// First byte of a text message in one frame.
pub(crate) const TEXT: u8 = 0x81;

/// The first frame of a server in `bytes`, its text if it has one, and what stands behind it (RFC
/// 6455, section 5.2). `None` where it is not whole.
pub(crate) fn message(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (&first, &len) = (bytes.first()?, bytes.get(1)?);
    let (head, len) = match len {
        126 => (4, u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?) as usize),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize),
        len => (2, usize::from(len)),
    };
    let payload = bytes.get(head..head + len)?;
    Some(((first == TEXT).then_some(payload), &bytes[head + len..]))
}

//! What a lane and the control plane tell each other, in one message each.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

use engine::limits::LANE_MESSAGE_BYTES;
use smallvec::SmallVec;
use sys::passing;

/// A connection that goes to a lane.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) id: u64,
    pub(super) peer: IpAddr,
    /// `None` when there was no descriptor for it: then it is closed.
    pub(super) socket: Option<OwnedFd>,
}

/// What becomes of it.
#[derive(Debug)]
pub(super) struct Return {
    pub(super) id: u64,
    /// `None` when the client is gone.
    pub(super) given_back: Option<GivenBack>,
}

/// A connection that a lane does not want any more.
#[derive(Debug)]
pub(crate) struct GivenBack {
    pub(super) socket: OwnedFd,
    /// A send of it was answered there.
    pub(crate) has_served: bool,
    /// Of the last answer, what is not sent yet.
    pub(crate) unsent: Vec<u8>,
    /// What was read and not dealt with.
    pub(crate) unread: Vec<u8>,
}

impl GivenBack {
    /// One that a lane has not looked at.
    pub(super) fn untouched(socket: OwnedFd) -> GivenBack {
        GivenBack { socket, has_served: false, unsent: Vec::new(), unread: Vec::new() }
    }
}

const LEASE_BYTES: usize = 24;
const RETURN_BYTES: usize = 13;

const _: () = {
    assert!(LEASE_BYTES == size_of::<u64>() + size_of::<Ipv6Addr>());
    assert!(RETURN_BYTES == size_of::<u64>() + size_of::<u32>() + size_of::<bool>());
};

/// The most that may come back with a connection.
pub(super) const REST_BYTES_MAX: usize = LANE_MESSAGE_BYTES - RETURN_BYTES;

impl Lease {
    pub(super) fn send(&self, to: &impl AsFd) -> io::Result<()> {
        let sockets: SmallVec<[_; 1]> = self.socket.iter().map(AsFd::as_fd).collect();
        let peer = match self.peer {
            IpAddr::V4(peer) => peer.to_ipv6_mapped(),
            IpAddr::V6(peer) => peer,
        };
        let (id, peer) = (self.id.to_le_bytes(), peer.octets());
        let parts = [&id[..], &peer].map(IoSlice::new);
        passing::send(to, &parts, &sockets).map(drop)
    }

    /// The next one; `WouldBlock` when there is none.
    pub(super) fn receive(from: &impl AsFd) -> io::Result<Lease> {
        let (mut bytes, mut sockets) = ([0; LEASE_BYTES], Vec::new());
        match passing::receive(from, &mut bytes, &mut sockets) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            // The bytes are here.
            Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(error),
            _ => {}
        }
        let id = u64::from_le_bytes(array(&bytes));
        let peer = IpAddr::from(Ipv6Addr::from(array::<16>(&bytes[8..]))).to_canonical();
        Ok(Lease { id, peer, socket: sockets.pop() })
    }
}

impl Return {
    pub(super) fn send(&self, to: &impl AsFd) -> io::Result<()> {
        let id = self.id.to_le_bytes();
        let Some(GivenBack { socket, has_served, unsent, unread }) = &self.given_back else {
            return passing::send(to, &[IoSlice::new(&id)], &[]).map(drop);
        };
        debug_assert!(unsent.len() + unread.len() <= REST_BYTES_MAX, "the end would be cut off");
        let (len, has_served) = ((unsent.len() as u32).to_le_bytes(), [u8::from(*has_served)]);
        let parts = [&id[..], &len, &has_served, unsent, unread].map(IoSlice::new);
        passing::send(to, &parts, &[socket.as_fd()]).map(drop)
    }

    /// The next one; `buffer` has room for the longest.
    pub(super) fn receive(from: &impl AsFd, buffer: &mut [u8]) -> io::Result<Return> {
        let mut sockets = Vec::new();
        let len = match passing::receive(from, buffer, &mut sockets) {
            // No message is empty: the other end is closed.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => len,
            // There was no descriptor for it, so it is closed; the bytes are here.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => 0,
            Err(error) => return Err(error),
        };
        let id = u64::from_le_bytes(array(buffer));
        let Some(socket) = sockets.pop() else { return Ok(Return { id, given_back: None }) };
        let unsent_len = u32::from_le_bytes(array(&buffer[8..])) as usize;
        let has_served = buffer[RETURN_BYTES - 1] != 0;
        let rest = buffer.get(RETURN_BYTES..len).unwrap_or_default();
        let (unsent, unread) = rest.split_at(unsent_len.min(rest.len()));
        let (unsent, unread) = (unsent.to_vec(), unread.to_vec());
        Ok(Return { id, given_back: Some(GivenBack { socket, has_served, unsent, unread }) })
    }
}

/// The first bytes of those: messages come whole.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_and_come_back_with_all_that_is_theirs() {
        let (control, lane) = passing::message_pair(2 * LANE_MESSAGE_BYTES).unwrap();
        let socket = || std::fs::File::open("/dev/null").unwrap().into();
        for peer in ["127.0.0.2", "2001:db8::7"] {
            let peer: IpAddr = peer.parse().unwrap();
            let sent = Lease { id: 1 << 40, peer, socket: Some(socket()) };
            sent.send(&control).unwrap();
            let lease = Lease::receive(&lane).unwrap();
            assert_eq!((lease.id, lease.peer), (1 << 40, peer));
            assert!(lease.socket.is_some());
        }
        assert_eq!(Lease::receive(&lane).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let mut buffer = vec![0; LANE_MESSAGE_BYTES];
        for (unsent, unread) in [(0, 0), (3, 0), (0, 5), (1_000, REST_BYTES_MAX - 1_000)] {
            let (unsent, unread) = (vec![b'a'; unsent], vec![b'b'; unread]);
            let has_served = !unsent.is_empty();
            let given_back = GivenBack { socket: socket(), has_served, unsent, unread };
            let sent = Return { id: 7, given_back: Some(given_back) };
            sent.send(&lane).unwrap();
            let Return { id, given_back } = Return::receive(&control, &mut buffer).unwrap();
            let (got, sent) = (given_back.unwrap(), sent.given_back.unwrap());
            assert_eq!((id, got.has_served), (7, sent.has_served));
            assert_eq!((got.unsent, got.unread), (sent.unsent, sent.unread));
        }
        Return { id: 8, given_back: None }.send(&lane).unwrap();
        let closed = Return::receive(&control, &mut buffer).unwrap();
        assert!(closed.id == 8 && closed.given_back.is_none());
        drop(lane);
        let end = Return::receive(&control, &mut buffer).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof, "no message of the connection 0");
        let (control, lane) = passing::message_pair(LANE_MESSAGE_BYTES).unwrap();
        drop(control);
        assert_eq!(Lease::receive(&lane).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

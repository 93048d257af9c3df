//! What there is of TLS on a connection goes to another process: its keys, and what is under way.

use minicbor::bytes::ByteVec;

use super::{FAULTY, Numbered, Tls, TlsPhase};
use crate::sockets::Unwritable;
use crate::state::Secured;

impl<S: Numbered> Tls<S> {
    /// What there is of the socket with that number; nothing where it does not speak TLS.
    pub(super) fn secured(&self, number: u32) -> Result<Option<Secured>, Unwritable> {
        let keys = self.places.look_at(number).filter(|keys| keys.are_set() || keys.note != 0);
        let Some(keys) = keys else { return Ok(None) };
        let mut secured = Secured::default();
        secured.keys = keys.are_set().then(|| keys.write_down().to_vec().into());
        secured.faulty = keys.note & FAULTY != 0;
        let Some(under) = self.under_way.get(&number) else { return Ok(Some(secured)) };
        let bytes = |bytes: &[u8]| (!bytes.is_empty()).then(|| ByteVec::from(bytes.to_vec()));
        match under.phase {
            TlsPhase::Handshaking(_) => return Err(Unwritable),
            // What has come of its hello, be it looked at or not.
            TlsPhase::Hello => secured.sealed = bytes(&[&under.sealed[..], &under.text].concat()),
            TlsPhase::Done => {
                secured.sealed = bytes(&under.sealed);
                secured.text = bytes(&under.text[under.taken..]);
                secured.unsent = bytes(&under.unsent[under.sent..]);
                secured.owes_byte = under.owes_byte;
            }
        }
        Ok(Some(secured))
    }

    /// Goes on with what another process had of it. Whether something of it is to be read that the
    /// kernel does not report.
    pub(super) fn go_on(&mut self, number: u32, owner: u32, mut secured: Secured) -> bool {
        let bytes = |bytes: &mut Option<ByteVec>| bytes.take().map(Vec::from).unwrap_or_default();
        let (sealed, text) = (bytes(&mut secured.sealed), bytes(&mut secured.text));
        let (unsent, owes_byte) = (bytes(&mut secured.unsent), secured.owes_byte);
        let faulty = secured.faulty;
        let keys = secured.keys.as_ref();
        if !keys.is_some_and(|keys| self.places.make(number).read_back(keys)) {
            let begun = sealed;
            if faulty {
                self.places.make(number).note = FAULTY;
            } else {
                self.wait_for_hello(number, owner, &begun);
            }
            return !begun.is_empty();
        }
        self.places.make(number).note = if faulty { FAULTY } else { 0 };
        let has_input = !sealed.is_empty() || !text.is_empty();
        if has_input || !unsent.is_empty() || owes_byte {
            let under = self.begin(number);
            (under.phase, under.owner) = (TlsPhase::Done, owner);
            (under.sealed, under.text, under.taken) = (sealed, text, 0);
            (under.unsent, under.sent, under.owes_byte) = (unsent, 0, owes_byte);
        }
        has_input
    }
}

//! What nodes say to each other outside of the log. Any of it may be lost, doubled or late.
//!
//! ```text
//! u8 format=1 | u8 kind | varint epoch | body, all numbers varints
//! B beat:    incarnation or 0, nonce, applied, read, chain at read or none, streams
//! C counts:  from, then until the end: sequence, how many, each count
//! N need:    from, then until the end: sequence
//! A ask:     nonce
//! V view:    at, chain, members: incarnation, name, address, nonce, last batch
//! ```

use crate::limits::{MEMBERS_MAX, RECORD_EVENTS_MAX};
use crate::record::{FORMAT, check_format};
use crate::roster::Member;
use crate::wire::{Malformed, Reader, put_text, put_varint, sequence};

/// A message and the epoch that it is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) epoch: u64,
    pub(crate) said: MessageBody,
}

/// What a message says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum MessageBody {
    Beat(Beat),
    Counts { from: u64, records: Vec<Counted> },
    Need { from: u64, sequences: Vec<u64> },
    Ask { nonce: u64 },
    View(View),
}

/// A node lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Beat {
    /// 0 while it is no member.
    pub(crate) incarnation: u64,
    pub(crate) nonce: u64,
    pub(crate) applied: u64,
    pub(crate) read: u64,
    /// The sum over the log at `read`.
    pub(crate) chain: Option<u64>,
    pub(crate) streams: u64,
}

/// To how many connections a node has posted each event of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    pub(crate) sequence: u64,
    pub(crate) counts: Vec<u32>,
}

/// The view behind the record `at`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct View {
    pub(crate) at: u64,
    pub(crate) chain: u64,
    pub(crate) members: Vec<Member>,
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, mut out) = (self.said.kind(), Vec::new());
        out.extend_from_slice(&[FORMAT, kind]);
        put_varint(&mut out, self.epoch);
        self.said.encode(&mut out);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
        let mut from = Reader::new(bytes);
        check_format(from.u8()?, FORMAT)?;
        let (kind, epoch) = (from.u8()?, from.varint()?);
        let said = MessageBody::decode(kind, &mut from)?;
        from.end()?;
        Ok(Message { epoch, said })
    }
}

impl MessageBody {
    fn kind(&self) -> u8 {
        match self {
            MessageBody::Beat(_) => b'B',
            MessageBody::Counts { .. } => b'C',
            MessageBody::Need { .. } => b'N',
            MessageBody::Ask { .. } => b'A',
            MessageBody::View(_) => b'V',
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            MessageBody::Beat(beat) => beat.encode(out),
            MessageBody::Counts { from, records } => {
                put_varint(out, *from);
                for Counted { sequence, counts } in records {
                    debug_assert!(counts.len() <= RECORD_EVENTS_MAX, "nobody would read it");
                    put_varint(out, *sequence);
                    put_varint(out, counts.len() as u64);
                    counts.iter().for_each(|&count| put_varint(out, u64::from(count)));
                }
            }
            MessageBody::Need { from, sequences } => {
                put_varint(out, *from);
                sequences.iter().for_each(|&sequence| put_varint(out, sequence));
            }
            MessageBody::Ask { nonce } => put_varint(out, *nonce),
            MessageBody::View(view) => view.encode(out),
        }
    }

    fn decode(kind: u8, from: &mut Reader<'_>) -> Result<MessageBody, Malformed> {
        Ok(match kind {
            b'B' => MessageBody::Beat(Beat::decode(from)?),
            b'C' => {
                let (sender, mut records) = (from.varint()?, Vec::new());
                while !from.is_empty() {
                    let (sequence, count) = (from.varint()?, from.items(RECORD_EVENTS_MAX)?);
                    let counts = (0..count).map(|_| count_of(from)).collect::<Result<_, _>>()?;
                    records.push(Counted { sequence, counts });
                }
                MessageBody::Counts { from: sender, records }
            }
            b'N' => {
                let (sender, mut sequences) = (from.varint()?, Vec::new());
                while !from.is_empty() {
                    sequences.push(from.varint()?);
                }
                MessageBody::Need { from: sender, sequences }
            }
            b'A' => MessageBody::Ask { nonce: from.varint()? },
            b'V' => MessageBody::View(View::decode(from)?),
            _ => return Err(Malformed::Unknown),
        })
    }
}

fn count_of(from: &mut Reader<'_>) -> Result<u32, Malformed> {
    u32::try_from(from.varint()?).map_err(|_| Malformed::Number)
}

impl Beat {
    fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.incarnation, self.nonce, self.applied, self.read] {
            put_varint(out, number);
        }
        out.push(u8::from(self.chain.is_some()));
        out.extend_from_slice(&self.chain.unwrap_or_default().to_be_bytes());
        put_varint(out, self.streams);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Beat, Malformed> {
        let [incarnation, nonce, applied, read] =
            [from.varint()?, from.varint()?, sequence(from.varint()?)?, sequence(from.varint()?)?];
        let chain = (from.flag()?, from.u64()?);
        let chain = chain.0.then_some(chain.1);
        Ok(Beat { incarnation, nonce, applied, read, chain, streams: from.varint()? })
    }
}

impl View {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.at);
        out.extend_from_slice(&self.chain.to_be_bytes());
        put_varint(out, self.members.len() as u64);
        for member in &self.members {
            put_varint(out, member.incarnation);
            put_text(out, &member.name);
            put_text(out, &member.address);
            put_varint(out, member.nonce);
            put_varint(out, member.last_batch);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<View, Malformed> {
        let at = sequence(from.varint()?)?;
        let (chain, count) = (from.u64()?, from.items(MEMBERS_MAX)?);
        let mut members: Vec<Member> = Vec::new();
        for _ in 0..count {
            let member = Member {
                incarnation: from.varint()?,
                name: from.text()?,
                address: from.text()?,
                nonce: from.varint()?,
                last_batch: from.varint()?,
            };
            // They are searched for by incarnation, and who joins later has a greater one.
            let grows = members.last().is_none_or(|last| last.incarnation < member.incarnation);
            if !grows || member.incarnation > at {
                return Err(Malformed::Number);
            }
            members.push(member);
        }
        Ok(View { at, chain, members })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let beat =
            Beat { incarnation: 5, nonce: 1 << 60, applied: 9, read: 10, chain: None, streams: 3 };
        let member = |incarnation, name: &str| Member {
            incarnation,
            name: name.into(),
            address: "10.0.0.1:8002".into(),
            nonce: 7,
            last_batch: 300,
        };
        let view = View { at: 90, chain: 1, members: vec![member(3, "a"), member(40, "b")] };
        let counted = |sequence| Counted { sequence, counts: vec![0, 1, u32::MAX] };
        let said = [
            MessageBody::Beat(beat),
            MessageBody::Beat(Beat { chain: Some(u64::MAX), ..beat }),
            MessageBody::Counts { from: 5, records: vec![counted(1), counted(1 << 40)] },
            MessageBody::Need { from: 5, sequences: vec![3, 1 << 50] },
            MessageBody::Ask { nonce: 99 },
            MessageBody::View(view),
        ];
        said.into_iter().map(|said| Message { epoch: 300, said }).collect()
    }

    #[test]
    fn message_comes_back_as_it_was_and_cut_it_is_another_or_none() {
        for message in messages() {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));
            for end in 0..bytes.len() {
                assert_ne!(Message::decode(&bytes[..end]).as_ref(), Ok(&message));
            }
        }
    }

    #[test]
    fn view_of_a_member_that_joins_behind_its_place_is_none() {
        let view = |at| {
            let member = Member {
                incarnation: 91,
                name: "a".to_owned(),
                address: String::new(),
                nonce: 1,
                last_batch: 0,
            };
            Message {
                epoch: 1,
                said: MessageBody::View(View { at, chain: 1, members: vec![member] }),
            }
        };
        assert_eq!(Message::decode(&view(91).encode()), Ok(view(91)));
        assert_eq!(Message::decode(&view(90).encode()), Err(Malformed::Number));
    }

    #[test]
    fn damaged_messages_never_panic_and_have_one_form() {
        let mut random = fastrand::Rng::with_seed(7);
        let good: Vec<Vec<u8>> = messages().iter().map(Message::encode).collect();
        for _ in 0..50_000 {
            let mut bytes = random.choice(&good).unwrap().clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                if random.bool() {
                    bytes[at] = random.u8(..)
                } else {
                    bytes.insert(at, random.u8(..))
                }
            }
            if let Ok(Message { said: MessageBody::Beat(Beat { chain: None, .. }), .. }) =
                Message::decode(&bytes)
            {
                // Where there is no sum its eight bytes say nothing.
                continue;
            }
            if let Ok(message) = Message::decode(&bytes) {
                assert_eq!(message.encode(), bytes);
            }
        }
    }
}

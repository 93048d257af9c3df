//! What nodes tell each other once they are connected: control messages, and the messages of
//! processes that some of them carry.
//!
//! A frame has its length in four bytes before it, and is empty when it is a tick. We do not offer
//! the atom cache, so each has the old form: the byte 112, the control message, and the message.
//! Standard: "Distribution Protocol", section "Protocol between Connected Nodes", in the
//! documentation of ERTS.
//!
//! Of what processes may do to one another Encke needs a part. Its own processes never end before
//! their node does, and then the other node tells all who are linked to or monitor them. So a link
//! with one of them, or a monitor, asks for nothing to be kept.

#[cfg(test)]
mod tests;

use std::num::NonZeroU64;

use crate::term::{Atom, Malformed, Pid, Reference, Term, VERSION, View, write};

/// The byte before the control message where no atom cache is in use.
const PASS_THROUGH: u8 = 112;

/// The numbers of control messages.
mod op {
    pub(super) const LINK: i64 = 1;
    pub(super) const SEND: i64 = 2;
    pub(super) const REG_SEND: i64 = 6;
    pub(super) const SEND_TT: i64 = 12;
    pub(super) const REG_SEND_TT: i64 = 16;
    pub(super) const MONITOR_P: i64 = 19;
    pub(super) const DEMONITOR_P: i64 = 20;
    pub(super) const MONITOR_P_EXIT: i64 = 21;
    pub(super) const SEND_SENDER: i64 = 22;
    pub(super) const SEND_SENDER_TT: i64 = 23;
    pub(super) const PAYLOAD_MONITOR_P_EXIT: i64 = 28;
    pub(super) const ALIAS_SEND: i64 = 33;
    pub(super) const UNLINK_ID: i64 = 35;
    pub(super) const UNLINK_ID_ACK: i64 = 36;
}

/// What a node tells us.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Control<'a> {
    /// A message to one of our processes.
    Send(Pid<'a>),
    /// A message to the process of that name.
    SendToName(Atom<'a>),
    /// A process wants to know when ours, a pid or a name, is gone.
    Monitor {
        /// The process that wants to know.
        from: Pid<'a>,
        /// Ours, as it was named.
        to: Term<'a>,
        /// What to say it with.
        reference: Term<'a>,
    },
    /// A process that we monitor is gone, and its reference.
    Down(Reference<'a>),
    /// A link is taken back, which must be acknowledged.
    Unlink {
        /// What to acknowledge it with.
        id: Term<'a>,
        /// The process that was linked.
        from: Pid<'a>,
        /// Ours.
        to: Pid<'a>,
    },
    /// Something that asks for nothing: links, exits of linked processes, monitors taken back.
    Other,
}

/// A control message with the message that it carries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Message<'a> {
    /// What the message asks for or tells.
    pub control: Control<'a>,
    /// What is sent, if anything is.
    pub payload: Option<Term<'a>>,
}

impl<'a> Message<'a> {
    /// Reads a frame that is no tick.
    pub fn read(frame: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let mut rest = frame.strip_prefix(&[PASS_THROUGH]).ok_or(Malformed::Control)?;
        let control = Control::of(standing_alone(&mut rest)?)?;
        let payload = if rest.is_empty() { None } else { Some(standing_alone(&mut rest)?) };
        Ok(Message { control, payload })
    }
}

/// What is enough of a frame for [`caller`]: a control message and the `From` of a call, each with
/// the longest names of nodes.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;

/// The `From` of the `gen_server` call that a frame carries which begins with `head`, if it is one:
/// whom to tell that the rest is not read.
pub fn caller(head: &[u8]) -> Option<Term<'_>> {
    /// The first bytes of a tuple of three, which a call is: `{'$gen_call', From, Request}`.
    const CALL: [u8; 3] = [VERSION, 104, 3];
    let mut rest = head.strip_prefix(&[PASS_THROUGH])?;
    let control = Control::of(standing_alone(&mut rest).ok()?).ok()?;
    if !matches!(control, Control::Send(_) | Control::SendToName(_)) {
        return None;
    }
    rest = rest.strip_prefix(&CALL)?;
    let tag = Term::read(&mut rest).ok()?;
    tag.atom().filter(|tag| tag.is("$gen_call"))?;
    Term::read(&mut rest).ok()
}

fn standing_alone<'a>(bytes: &mut &'a [u8]) -> Result<Term<'a>, Malformed> {
    *bytes = bytes.strip_prefix(&[VERSION]).ok_or(Malformed::Control)?;
    Term::read(bytes)
}

impl<'a> Control<'a> {
    fn of(term: Term<'a>) -> Result<Control<'a>, Malformed> {
        let View::Tuple(mut elements) = term.view() else { return Err(Malformed::Control) };
        let mut next = || elements.next().ok_or(Malformed::Control);
        let View::Integer(operation) = next()?.view() else { return Err(Malformed::Control) };
        Ok(match operation {
            op::SEND | op::SEND_TT | op::SEND_SENDER | op::SEND_SENDER_TT => {
                next()?;
                Control::Send(pid(next()?)?)
            }
            op::REG_SEND | op::REG_SEND_TT => {
                next()?;
                next()?;
                Control::SendToName(next()?.atom().ok_or(Malformed::Control)?)
            }
            op::MONITOR_P => Control::Monitor {
                from: pid(next()?)?,
                to: only(next()?, |to| matches!(to, View::Atom(_) | View::Pid(_)))?,
                reference: only(next()?, |reference| matches!(reference, View::Reference(_)))?,
            },
            op::MONITOR_P_EXIT | op::PAYLOAD_MONITOR_P_EXIT => {
                next()?;
                next()?;
                let View::Reference(reference) = next()?.view() else {
                    return Err(Malformed::Control);
                };
                Control::Down(reference)
            }
            op::UNLINK_ID => Control::Unlink {
                id: only(next()?, is_whole)?,
                from: pid(next()?)?,
                to: pid(next()?)?,
            },
            op::LINK | op::DEMONITOR_P => Control::Other,
            _ => Control::Other,
        })
    }
}

fn pid(term: Term<'_>) -> Result<Pid<'_>, Malformed> {
    term.pid().ok_or(Malformed::Control)
}

/// What is sent back as it came, in bytes: a reference and the longest name of a node.
const SENT_BACK_BYTES_MAX: usize = 2 * 1024;

/// The term, which is to be sent back, if it is what it must be and has no needless length.
fn only(term: Term<'_>, is_good: impl FnOnce(View<'_>) -> bool) -> Result<Term<'_>, Malformed> {
    let is_short = term.bytes().len() <= SENT_BACK_BYTES_MAX;
    if is_short && is_good(term.view()) { Ok(term) } else { Err(Malformed::Control) }
}

fn is_whole(view: View<'_>) -> bool {
    matches!(view, View::Integer(_) | View::Big(..))
}

/// Appends a frame: its length, and what `write` writes.
fn frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    out.push(PASS_THROUGH);
    write::version(out);
    write(out);
    let len = u32::try_from(out.len() - start - 4).expect("our frames are bounded");
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

/// Appends a message to a process of the node `node`; `payload` is its term, whole.
pub fn send(out: &mut Vec<u8>, node: &str, to: [u32; 3], payload: &[u8]) {
    frame(out, |out| {
        write::tuple(out, 3);
        write::integer(out, op::SEND);
        write::atom(out, "");
        write::pid(out, node, to);
        write::version(out);
        out.extend_from_slice(payload);
    });
}

/// Appends a message from our process `from` to the process of the name `to`.
pub fn send_to_name(
    out: &mut Vec<u8>,
    from: OwnPid<'_>,
    to: &str,
    payload: impl FnOnce(&mut Vec<u8>),
) {
    frame(out, |out| {
        write::tuple(out, 4);
        write::integer(out, op::REG_SEND);
        from.write(out);
        write::atom(out, "");
        write::atom(out, to);
        write::version(out);
        payload(out);
    });
}

/// Appends what makes the node `node` say when one of its processes is gone.
pub fn monitor(out: &mut Vec<u8>, from: OwnPid<'_>, node: &str, to: [u32; 3], reference: [u32; 3]) {
    watch(out, op::MONITOR_P, from, node, to, reference);
}

/// Appends that we do not want to know it any more.
pub fn demonitor(
    out: &mut Vec<u8>,
    from: OwnPid<'_>,
    node: &str,
    to: [u32; 3],
    reference: [u32; 3],
) {
    watch(out, op::DEMONITOR_P, from, node, to, reference);
}

fn watch(
    out: &mut Vec<u8>,
    operation: i64,
    from: OwnPid<'_>,
    node: &str,
    to: [u32; 3],
    reference: [u32; 3],
) {
    frame(out, |out| {
        write::tuple(out, 4);
        write::integer(out, operation);
        from.write(out);
        write::pid(out, node, to);
        write::reference(out, from.node, from.creation, reference);
    });
}

/// Appends a link of our process with one of the node `node`, which ends with ours then: when the
/// connection does.
pub fn link(out: &mut Vec<u8>, from: OwnPid<'_>, node: &str, to: [u32; 3]) {
    frame(out, |out| {
        write::tuple(out, 3);
        write::integer(out, op::LINK);
        from.write(out);
        write::pid(out, node, to);
    });
}

/// Appends that we take the link back; `id` tells it from others.
pub fn unlink(out: &mut Vec<u8>, id: NonZeroU64, from: OwnPid<'_>, node: &str, to: [u32; 3]) {
    frame(out, |out| {
        write::tuple(out, 4);
        write::integer(out, op::UNLINK_ID);
        write::natural(out, id.get());
        from.write(out);
        write::pid(out, node, to);
    });
}

/// Appends that there is no process `ours`, to one that wants to know when it is gone.
pub fn no_process(out: &mut Vec<u8>, ours: Term<'_>, from: Pid<'_>, reference: Term<'_>) {
    frame(out, |out| {
        write::tuple(out, 5);
        write::integer(out, op::MONITOR_P_EXIT);
        out.extend_from_slice(ours.bytes());
        write::pid(out, &from.node.text(), [from.id, from.serial, from.creation]);
        out.extend_from_slice(reference.bytes());
        write::atom(out, "noproc");
    });
}

/// Appends that a link is gone, to the process `from` that took it back.
pub fn unlinked(out: &mut Vec<u8>, id: Term<'_>, from: Pid<'_>, to: Pid<'_>) {
    frame(out, |out| {
        write::tuple(out, 4);
        write::integer(out, op::UNLINK_ID_ACK);
        out.extend_from_slice(id.bytes());
        for pid in [to, from] {
            write::pid(out, &pid.node.text(), [pid.id, pid.serial, pid.creation]);
        }
    });
}

/// One of our processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnPid<'a> {
    /// Our node's name.
    pub node: &'a str,
    /// Which incarnation of it this is.
    pub creation: u32,
    /// Which process.
    pub id: u32,
}

impl OwnPid<'_> {
    /// Appends its term.
    pub fn write(self, out: &mut Vec<u8>) {
        write::pid(out, self.node, [self.id, 0, self.creation]);
    }
}

/// The longest tag of a call, in bytes. `gen_server` and its like make one of a reference and an
/// atom, of a hundred bytes and twice a node's name; calls that wait keep theirs.
const TAG_BYTES_MAX: usize = 4 * 1024;

/// Where the answer to a call goes, kept until there is one: the start of its frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplyTo(Box<[u8]>);

impl ReplyTo {
    /// The `From` of a `gen_server` call, `{Pid, Tag}`. A tag `[alias | Reference]` is answered to
    /// the alias, which goes when the caller has given up, so that no answer comes too late. `None`
    /// for what is none, or has a tag of more than 4 KiB.
    pub fn of(from: Term<'_>, ours: OwnPid<'_>) -> Option<ReplyTo> {
        let [pid, tag] = from.tuple()?;
        if tag.bytes().len() > TAG_BYTES_MAX {
            return None;
        }
        let Pid { node, id, serial, creation } = pid.pid()?;
        let mut out = vec![PASS_THROUGH, VERSION];
        write::tuple(&mut out, 3);
        if let View::List(mut elements, alias) = tag.view()
            && let (Some(first), View::Reference(_)) = (elements.next(), alias.view())
            && first.atom().is_some_and(|atom| atom.is("alias"))
        {
            write::integer(&mut out, op::ALIAS_SEND);
            ours.write(&mut out);
            out.extend_from_slice(alias.bytes());
        } else {
            write::integer(&mut out, op::SEND);
            write::atom(&mut out, "");
            write::pid(&mut out, &node.text(), [id, serial, creation]);
        }
        write::version(&mut out);
        write::tuple(&mut out, 2);
        out.extend_from_slice(tag.bytes());
        Some(ReplyTo(out.into_boxed_slice()))
    }

    /// Appends the answer that `reply` writes.
    pub fn answer(&self, out: &mut Vec<u8>, reply: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend([0; 4]);
        out.extend_from_slice(&self.0);
        reply(out);
        let len = u32::try_from(out.len() - start - 4).expect("our frames are bounded");
        out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }
}

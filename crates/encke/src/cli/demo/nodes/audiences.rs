//! Who is to hear what: the friends graph once more, as the demo itself knows it and not as a node
//! says.

use anyhow::Result;

use rig::oracle::{Audience, Expected};

use super::super::friends::Friends;

/// What is known of an event beside what becomes of it: whom it is about.
#[derive(Debug)]
pub(super) struct SentEvent {
    pub(super) subject: u32,
    /// When it was to be sent.
    pub(super) intended_ns: u64,
    /// Which comings and goings were before it; `None` if somebody was away.
    pub(super) quiet: Option<u64>,
}

/// The audience of each user.
pub(super) struct Audiences(Vec<Vec<u32>>);

impl Audiences {
    /// Those of a graph. Blocks while it is made.
    pub(super) fn of(friends: &Friends) -> Result<Audiences> {
        // Everybody hears what is about themselves.
        let mut audiences: Vec<Vec<u32>> = (0..friends.users).map(|user| vec![user]).collect();
        let lines = friends.lines()?;
        for (subscriber, subscribee) in pairs(&lines) {
            let (subscriber, subscribee) = (subscriber.parse::<u32>()?, subscribee.parse::<u32>()?);
            audiences[subscribee as usize].push(subscriber);
            if friends.both {
                audiences[subscriber as usize].push(subscribee);
            }
        }
        audiences.iter_mut().for_each(|audience| audience.sort_unstable());
        Ok(Audiences(audiences))
    }

    /// How many users there are.
    pub(super) fn users(&self) -> u32 {
        self.0.len() as u32
    }

    /// How many are to hear of `subject`.
    fn len(&self, subject: u32) -> u32 {
        self.0[subject as usize].len() as u32
    }

    /// Whether `listener` is one of them.
    fn has(&self, subject: u32, listener: u32) -> bool {
        self.0[subject as usize].binary_search(&listener).is_ok()
    }
}

/// The pairs in what [`Friends::lines`] has made.
pub(super) fn pairs(lines: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let lines = str::from_utf8(lines).expect("the graph is digits").lines();
    lines.map(|line| line.split_once(' ').expect("a line has two ids"))
}

impl Audience for Audiences {
    type Event = SentEvent;

    fn expected(&self, event: &SentEvent, listener: usize) -> Expected {
        let is_one = u32::try_from(listener).is_ok_and(|id| self.has(event.subject, id));
        if is_one { Expected::Must } else { Expected::MustNot }
    }

    fn count(&self, event: &SentEvent) -> u32 {
        self.len(event.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audience_is_the_subject_and_who_follows_it() {
        let friends = Friends::new(3, 1, false);
        let one_way = Audiences::of(&friends).unwrap();
        // Three users and two friendships, the second newcomer's with either of those before.
        assert_eq!((0..3).map(|user| one_way.len(user)).sum::<u32>(), 5);
        assert!(one_way.has(1, 0) && !one_way.has(0, 1) && one_way.has(2, 2));
        let both = Audiences::of(&Friends::new(3, 1, true)).unwrap();
        assert_eq!((0..3).map(|user| both.len(user)).sum::<u32>(), 7);
        assert!(both.has(0, 1) && both.has(1, 0));
    }
}

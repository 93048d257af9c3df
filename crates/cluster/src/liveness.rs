//! Which members live: by their beats, measured in our own.
//!
//! A node hears its own beats, too. A member is silent when so many of ours have come back since
//! it was last heard: then beats work, and ours take the same way. So neither a pause of this
//! process nor a cut of its connection, nor one of NATS, makes others look dead.

use std::collections::{BTreeMap, VecDeque};

use crate::limits::{BEAT_MS, LAG_MAX_MS, RANK_MS, SILENT_BEATS};
use crate::message::Beat;
use crate::record::LeaveReason;
use crate::roster::Member;

/// Beats in a row that must say that a member is behind: one alone may be an old one.
const SLOW_BEATS: u32 = 4;
/// Places in the log that are remembered: one a beat, for a bit longer than the greatest lag.
const SAMPLES: usize = (LAG_MAX_MS / BEAT_MS) as usize + 8;
const _: () = {
    assert!(SAMPLES as u64 * BEAT_MS > LAG_MAX_MS, "a lag would never be seen");
};

/// What is known of a member.
#[derive(Debug, Default)]
struct MemberLiveness {
    /// How many of our beats had come back then.
    echoes: u32,
    /// Beats in a row that were too far behind.
    slow: u32,
    /// Since when it is to be declared gone.
    suspect_since_ms: Option<u64>,
    /// A sum over the log further than we have read.
    claim: Option<(u64, u64)>,
}

/// What is known of all members.
#[derive(Debug)]
pub(crate) struct Liveness {
    echoes: u32,
    last_echo_ms: Option<u64>,
    heard: BTreeMap<u64, MemberLiveness>,
    /// When we had read up to where.
    samples: VecDeque<(u64, u64)>,
    next_beat_ms: u64,
    last_ms: u64,
}

impl Liveness {
    pub(crate) fn new(now_ms: u64) -> Liveness {
        Liveness {
            echoes: 0,
            last_echo_ms: None,
            heard: BTreeMap::new(),
            samples: VecDeque::new(),
            next_beat_ms: now_ms,
            last_ms: now_ms,
        }
    }

    /// Whether a beat is due. Remembers where we are.
    pub(crate) fn beat_is_due(&mut self, now_ms: u64, read: u64) -> bool {
        if now_ms.saturating_sub(self.last_ms) > 4 * BEAT_MS {
            // We stood still: what we hear now is old, and says nothing about how far others are.
            self.samples.clear();
            self.heard.values_mut().for_each(|heard| heard.slow = 0);
        }
        self.last_ms = now_ms;
        if now_ms < self.next_beat_ms {
            return false;
        }
        self.next_beat_ms = now_ms + BEAT_MS;
        debug_assert!(
            self.samples.back().is_none_or(|&(_, before)| before <= read),
            "the first place behind another is searched for"
        );
        self.samples.push_back((now_ms, read));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        true
    }

    /// A beat of ours has come back.
    pub(crate) fn echo(&mut self, now_ms: u64) {
        self.echoes += 1;
        self.last_echo_ms = Some(now_ms);
    }

    /// Whether beats have worked since `since_ms`.
    pub(crate) fn has_echo_since(&self, since_ms: u64) -> bool {
        self.last_echo_ms.is_some_and(|echo_ms| echo_ms >= since_ms)
    }

    /// There is a new member.
    fn sign(&mut self, incarnation: u64) {
        let heard = self.heard.entry(incarnation).or_default();
        heard.echoes = self.echoes;
    }

    /// Something of a member was read in the log.
    pub(crate) fn sign_of(&mut self, incarnation: u64) {
        if let Some(heard) = self.heard.get_mut(&incarnation) {
            heard.echoes = self.echoes;
        }
    }

    /// A member's beat. `read` is how far we have read.
    pub(crate) fn beat(&mut self, now_ms: u64, beat: &Beat, read: u64) {
        let Some(heard) = self.heard.get_mut(&beat.incarnation) else { return };
        debug_assert!(heard.echoes <= self.echoes);
        heard.echoes = self.echoes;
        let passed = self.samples.iter().find(|(_, read)| *read > beat.applied);
        let behind = passed.is_some_and(|(at_ms, _)| at_ms + LAG_MAX_MS < now_ms);
        heard.slow = if behind { heard.slow + 1 } else { 0 };
        // The older claim is kept until we are there: newer ones run away from us.
        if let Some(chain) = beat.chain.filter(|_| beat.read > read && heard.claim.is_none()) {
            heard.claim = Some((beat.read, chain));
        }
    }

    /// The sums that members have said for what we have now read, `read` being the last.
    pub(crate) fn claims(&mut self, read: u64) -> Vec<(u64, u64)> {
        let claims = self.heard.values_mut().filter_map(|heard| {
            let (at, _) = heard.claim?;
            if at <= read { heard.claim.take() } else { None }
        });
        claims.collect()
    }

    /// The view is another one.
    pub(crate) fn view(&mut self, members: &[Member]) {
        let is_member = |incarnation: &u64| {
            members.binary_search_by_key(incarnation, |member| member.incarnation).is_ok()
        };
        self.heard.retain(|incarnation, _| is_member(incarnation));
        let new = members.iter().map(|member| member.incarnation);
        let new: Vec<u64> = new.filter(|new| !self.heard.contains_key(new)).collect();
        new.into_iter().for_each(|incarnation| self.sign(incarnation));
        debug_assert_eq!(self.heard.len(), members.len(), "each member is heard, and nobody else");
    }

    /// Whom `me` is to declare gone now: whoever is first in the view does so at once, the others
    /// one after the other in case that it does not.
    pub(crate) fn gone(&mut self, now_ms: u64, me: u64) -> Vec<(u64, LeaveReason)> {
        let (mut gone, mut rank) = (Vec::new(), 0);
        let others = self.heard.iter_mut().filter(|&(&incarnation, _)| incarnation != me);
        let mut suspects = Vec::new();
        for (&incarnation, heard) in others {
            let silent = self.echoes.saturating_sub(heard.echoes) >= SILENT_BEATS;
            if !silent && heard.slow < SLOW_BEATS {
                heard.suspect_since_ms = None;
                rank += u64::from(incarnation < me);
                continue;
            }
            let since_ms = *heard.suspect_since_ms.get_or_insert(now_ms);
            let reason = if silent { LeaveReason::Silent } else { LeaveReason::Slow };
            suspects.push((incarnation, since_ms, reason));
        }
        for (incarnation, since_ms, reason) in suspects {
            debug_assert!(incarnation != me && rank < self.heard.len() as u64);
            if since_ms + rank * RANK_MS <= now_ms {
                gone.push((incarnation, reason));
            }
        }
        gone
    }

    /// When the next beat is due.
    pub(crate) fn deadline(&self) -> u64 {
        self.next_beat_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(incarnation: u64) -> Member {
        let name = incarnation.to_string();
        Member { incarnation, name, address: String::new(), nonce: incarnation, last_batch: 0 }
    }

    fn beat(incarnation: u64, applied: u64) -> Beat {
        Beat { incarnation, nonce: 0, applied, read: applied, chain: Some(1), streams: 0 }
    }

    fn liveness() -> Liveness {
        let mut liveness = Liveness::new(0);
        liveness.view(&[member(1), member(2), member(3)]);
        liveness
    }

    #[test]
    fn member_is_silent_in_so_many_beats_of_ours_and_not_in_time() {
        let mut liveness = liveness();
        (0..SILENT_BEATS - 1).for_each(|_| liveness.echo(1));
        liveness.beat(1, &beat(2, 0), 0);
        assert_eq!(liveness.gone(60_000, 1), []);
        liveness.echo(60_000);
        assert_eq!(liveness.gone(60_000, 1), [(3, LeaveReason::Silent)]);
        liveness.beat(60_000, &beat(3, 0), 0);
        assert_eq!(liveness.gone(60_000, 1), []);
    }

    #[test]
    fn who_is_not_the_first_that_lives_waits_for_those_before_it() {
        let mut liveness = liveness();
        (0..SILENT_BEATS).for_each(|_| liveness.echo(1));
        liveness.sign(1);
        assert_eq!(liveness.gone(100, 2), []);
        assert_eq!(liveness.gone(100 + RANK_MS, 2), [(3, LeaveReason::Silent)]);
        // Without the first one nobody is waited for.
        (0..SILENT_BEATS).for_each(|_| liveness.echo(1));
        assert_eq!(liveness.gone(300, 2).len(), 2);
    }

    #[test]
    fn member_that_is_far_behind_for_long_is_slow_but_not_after_a_pause_of_ours() {
        let mut liveness = liveness();
        let mut now_ms = 0;
        for _ in 0..LAG_MAX_MS / BEAT_MS + SLOW_BEATS as u64 {
            assert_eq!(liveness.gone(now_ms, 1), []);
            liveness.beat_is_due(now_ms, now_ms + 10);
            (2..=3).for_each(|member| liveness.beat(now_ms, &beat(member, 5), 10));
            now_ms += BEAT_MS;
        }
        liveness.beat(now_ms, &beat(2, now_ms), 10);
        liveness.beat(now_ms, &beat(3, 5), 10);
        assert_eq!(liveness.gone(now_ms, 1), [(3, LeaveReason::Slow)]);
        liveness.beat_is_due(now_ms + 5_000, now_ms);
        (0..4).for_each(|_| liveness.beat(now_ms + 5_000, &beat(3, 5), 10));
        assert_eq!(liveness.gone(now_ms + 5_000, 1), []);
    }

    #[test]
    fn sum_of_another_is_remembered_until_we_are_there() {
        let mut liveness = liveness();
        liveness.beat(0, &beat(2, 50), 10);
        liveness.beat(0, &beat(2, 60), 10);
        assert_eq!(liveness.claims(49), []);
        assert_eq!(liveness.claims(55), [(50, 1)]);
        assert_eq!(liveness.claims(70), []);
    }
}

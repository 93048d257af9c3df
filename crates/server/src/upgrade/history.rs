//! This is the memory of what was sent, from one process to the other. Its events go in parts while
//! more are sent. When nobody sends any more the rest goes, and what it has forgotten.

use anyhow::{Context, Result, ensure};
use engine::{History, Router};
use hub::{ConnectionId, LeftOut, LineForm, Remembered};
use serde::{Deserialize, Serialize};
use sys::clock;

use super::conversation::{Broken, Conversation};
use super::messages::{EVENT_PARTS_VERSION, EVENT_SENDER_VERSION, EVENT_TWO_LEFT_OUT_VERSION};
use super::messages::{EvictedRange, EvictedRule, HistoryPart, ServingMessage};

/// Bytes of the lines in a part, at most by one event more. The memory is locked for as long as
/// they are copied, some 0.2 ms.
const PART_BYTES: usize = 256 << 10;

/// An event, as it is told.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    number: u64,
    line: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    /// The id of the connection that does not hear it, by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    except: Option<u64>,
    /// The number of a second connection that does not hear it.
    #[serde(skip_serializing_if = "Option::is_none")]
    except_too: Option<u64>,
    age_ms: u64,
    lost: u64,
}

/// How far a memory has been sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// The number of the last event that was sent.
    known: u64,
    /// The number of the last one that was left out: the successor would not understand it.
    left_out: u64,
    /// The version of the conversation.
    version: u32,
}

impl Sent {
    /// What is forgotten, when nobody sends any more. Up to what was left out nothing can be
    /// relied on, so that whoever was before that is told of a gap.
    pub(crate) fn evicted_range(self, router: &Router) -> EvictedRange {
        let range = router.history().map(History::evicted_range).unwrap_or_default();
        let range = if self.version < EVENT_PARTS_VERSION { without_rules(range) } else { range };
        let hub::EvictedRange { floor, evicted_floor, evicted, rules } = range;
        let rules = rules.into_iter().map(|hub::EvictedRule { pattern, evicted_floor, last }| {
            EvictedRule { pattern, evicted_floor, last }
        });
        let floor = floor.max(self.left_out);
        EvictedRange { floor, evicted_floor, evicted, rules: rules.collect() }
    }

    /// Of `part`, what is understood in `version` of the conversation.
    fn understood(&mut self, part: Vec<Remembered>, version: u32) -> Vec<Event> {
        let is_understood = |event: &Remembered| version >= first_version(event);
        let (events, others): (Vec<_>, Vec<_>) = part.into_iter().partition(is_understood);
        self.left_out = self.left_out.max(others.last().map_or(0, |event| event.number));
        events.into_iter().map(Event::from).collect()
    }
}

/// What is told to a program that knows of no rules: that of no subject anything is sure up to the
/// last event that any has lost. It forgets all up to there.
fn without_rules(range: hub::EvictedRange) -> hub::EvictedRange {
    if range.rules.is_empty() {
        return range;
    }
    let evicted_floor = range.last();
    hub::EvictedRange { evicted_floor, evicted: Vec::new(), rules: Vec::new(), ..range }
}

/// Sends what is remembered of events and was not sent yet, in `version` of the conversation.
pub(crate) async fn send(
    successor: &mut Conversation,
    router: &Router,
    sent: &mut Sent,
    version: u32,
) -> Result<(), Broken> {
    let Some(history) = router.history() else { return Ok(()) };
    sent.version = version;
    loop {
        let part = history.dump(sent.known, PART_BYTES, clock::monotonic_ms());
        let Some(last) = part.last() else { return Ok(()) };
        sent.known = last.number;
        let events = sent.understood(part, version);
        let json = serde_json::to_vec(&events);
        let json = json.map_err(|error| Broken::Words(error.to_string()))?;
        successor.say(&ServingMessage::History(HistoryPart { events: events.len() })).await?;
        successor.say_bytes(&json).await?;
        // Requests are answered in between: they are on the same thread.
        tokio::task::yield_now().await;
    }
}

/// Remembers the events of a part. A memory that is off here takes nothing.
pub(crate) fn take(router: &Router, bytes: &[u8]) -> Result<()> {
    let Some(history) = router.history() else { return Ok(()) };
    let events: Vec<Event> =
        serde_json::from_slice(bytes).context("the history that has come is none")?;
    let now_ms = clock::monotonic_ms();
    for event in events {
        let number = event.number;
        let taken = history.take_over(event.into(), now_ms);
        ensure!(taken, "the history that has come is none: event {number}");
    }
    Ok(())
}

/// Forgets the same.
pub(crate) fn forget(router: &Router, evicted_range: EvictedRange) {
    let EvictedRange { floor, evicted_floor, evicted, rules } = evicted_range;
    if let Some(history) = router.history() {
        let rules = rules.into_iter().map(|EvictedRule { pattern, evicted_floor, last }| {
            hub::EvictedRule { pattern, evicted_floor, last }
        });
        let rules = rules.collect();
        let evicted_range = hub::EvictedRange { floor, evicted_floor, evicted, rules };
        history.take_over_evicted(evicted_range, clock::monotonic_ms());
    }
}

impl From<Remembered> for Event {
    fn from(remembered: Remembered) -> Event {
        let Remembered { number, line, subject, except, age_ms, lost, .. } = remembered;
        let mut ids = except.iter().map(ConnectionId::bits);
        let (except, except_too) = (ids.next(), ids.next());
        Event { number, line, subject, except, except_too, age_ms, lost }
    }
}

impl From<Event> for Remembered {
    fn from(event: Event) -> Remembered {
        let Event { number, line, subject, except, except_too, age_ms, lost } = event;
        let ids = except.into_iter().chain(except_too);
        let except = ids.filter_map(ConnectionId::of_bits).collect::<LeftOut>();
        Remembered { number, line, subject, form: LineForm::default(), except, age_ms, lost }
    }
}

/// The first version of the conversation in which such an event is understood.
fn first_version(event: &Remembered) -> u32 {
    match event.form {
        _ if event.except.count() > 1 => EVENT_TWO_LEFT_OUT_VERSION,
        LineForm::Plain => 1,
        LineForm::WithParts => EVENT_PARTS_VERSION,
        LineForm::WithSender => EVENT_SENDER_VERSION,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_knows_of_no_rules_relies_on_nothing_up_to_the_last_loss() {
        let rule = |pattern: &str, evicted_floor, last| hub::EvictedRule {
            pattern: pattern.into(),
            evicted_floor,
            last,
        };
        let rules = vec![rule("", 30, 80), rule("a*", 5, 20)];
        let range = hub::EvictedRange {
            floor: 2,
            evicted_floor: 30,
            evicted: vec![(1, 20), (2, 80)],
            rules,
        };
        let told =
            hub::EvictedRange { floor: 2, evicted_floor: 80, ..hub::EvictedRange::default() };
        assert_eq!(without_rules(range), told);
        let alike = hub::EvictedRange { evicted: vec![(1, 20)], ..told };
        assert_eq!(without_rules(alike.clone()), alike);
    }

    #[test]
    fn program_of_an_earlier_version_is_told_of_a_gap_in_place_of_what_it_does_not_know() {
        let part = || {
            let event = |number, form| {
                let line = format!("line {number}");
                let except = ConnectionId::of_bits(number).into();
                Remembered { number, line, subject: None, form, except, age_ms: 0, lost: 0 }
            };
            let forms = [LineForm::Plain, LineForm::WithParts, LineForm::WithSender];
            let numbers = [3, 5, 6, 8].into_iter();
            let mut part: Vec<_> = numbers
                .zip(forms.into_iter().cycle())
                .map(|(number, form)| event(number, form))
                .collect();
            let two = event(9, LineForm::Plain);
            let except = two.except.and(ConnectionId::of_bits(1).unwrap());
            part.push(Remembered { except, ..two });
            part
        };
        let cases = [
            (1, &[3, 8][..], 9),
            (2, &[3, 5, 8], 9),
            (3, &[3, 5, 6, 8], 9),
            (4, &[3, 5, 6, 8, 9], 0),
        ];
        for (version, numbers, left_out) in cases {
            let mut sent = Sent::default();
            let events = sent.understood(part(), version);
            let whole =
                events.iter().all(|event| event.except_too == (event.number == 9).then_some(1));
            assert!(whole);
            assert!(events.iter().map(|event| event.number).eq(numbers.iter().copied()));
            assert_eq!(sent.left_out, left_out);
            assert_eq!(sent.understood(Vec::new(), version).len(), 0);
            assert_eq!(sent.left_out, left_out);
        }
    }
}

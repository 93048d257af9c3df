//! Resumes that read from the archive: their questions are answered on threads that may wait for a
//! disk, while all others go on.
//!
//! A resume takes one of [`SEATS`] with its first question, and has it until it has its end. So the
//! events that are read for clients, which nobody else holds, are those of so many at a time. Each
//! has at most a window of its client and the answer to one question. Further ones wait, in order.
//!
//! Those that go through all updates for a pattern have seats of their own, so that nobody who
//! looks up what it follows waits behind them. One of them reads at a time, and rests as long as it
//! has read: in each ring they take half a processor at most, however many there are.

use std::collections::{HashMap, VecDeque};
use std::iter;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use engine::{ArchiveAnswer, ArchiveQuestion, Resuming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{Id, JoinError, JoinSet, spawn_blocking};
use tokio::time::sleep;

/// Resumes of either ring that may have a part of what they answer from the archive at one time.
const SEATS: usize = 8;

/// Of those that go through all updates, as many read at one time.
const SCANS: usize = 1;

/// As many may wait for a seat; the clients of further ones are told of a gap. Each has what memory
/// had for it, a window at most, of which it counts the places alone: 4 KB. They do not count among
/// those under way: nobody waits behind them.
const SCANS_WAITING_MAX: usize = 4096;

/// How long to wait before it is asked again what another process has. It is over when that process
/// goes on for this one, or has failed to.
const CLOSED_PAUSE: Duration = Duration::from_millis(20);

/// How often it is said at most that the archive cannot be read.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// A resume under way, with its seat if it has one.
pub(super) struct Under<'r> {
    pub(super) resuming: Resuming<'r>,
    seat: Option<OwnedSemaphorePermit>,
    /// Whether that is one of those who go through all updates.
    is_scanning: bool,
}

/// Seats, and those that wait for one.
struct Seats<T> {
    seats: Arc<Semaphore>,
    waiting: VecDeque<T>,
    /// Whether one still wants its answer.
    is_waiting: fn(&T) -> bool,
}

impl Under<'_> {
    fn is_waiting(&self) -> bool {
        self.resuming.is_waiting()
    }
}

impl<'r> From<Resuming<'r>> for Under<'r> {
    fn from(resuming: Resuming<'r>) -> Under<'r> {
        Under { resuming, seat: None, is_scanning: false }
    }
}

/// Which task has read, and what, unless the thread has come to grief.
type Answered = Result<(Id, Result<ArchiveAnswer, JoinError>), JoinError>;

/// Reads the answer where it holds up nobody.
async fn answer_of(
    question: ArchiveQuestion,
    scans: Arc<Semaphore>,
) -> Result<ArchiveAnswer, JoinError> {
    // Nobody closes it.
    let turn = match question.is_scan() {
        true => scans.acquire_owned().await.ok(),
        false => None,
    };
    let began = Instant::now();
    let answer = spawn_blocking(move || question.read()).await?;
    if let Some(turn) = turn {
        let taken = began.elapsed();
        tokio::spawn(async move {
            sleep(taken).await;
            drop(turn);
        });
    }
    if answer.is_closed() {
        sleep(CLOSED_PAUSE).await;
    }
    Ok(answer)
}

/// Those that read, or wait for a seat.
pub(super) struct Reads<'r> {
    pages: Seats<Under<'r>>,
    scanning: Seats<Under<'r>>,
    /// Whose turn it is to go through all updates.
    scans: Arc<Semaphore>,
    reading: HashMap<Id, Under<'r>>,
    answers: JoinSet<Result<ArchiveAnswer, JoinError>>,
    said: Option<Instant>,
}

impl<T> Seats<T> {
    fn new(is_waiting: fn(&T) -> bool) -> Seats<T> {
        Seats { seats: Arc::new(Semaphore::new(SEATS)), waiting: VecDeque::new(), is_waiting }
    }

    /// The next one that has a seat now, and that.
    fn seat(&mut self) -> Option<(T, OwnedSemaphorePermit)> {
        if self.waiting.is_empty() {
            return None;
        }
        let seat = Arc::clone(&self.seats).try_acquire_owned().ok()?;
        // Who has hung up takes nobody's turn.
        let next = iter::from_fn(|| self.waiting.pop_front()).find(self.is_waiting);
        Some((next?, seat))
    }

    /// Whether so many wait, but for those who have hung up.
    fn is_full(&mut self, most: usize) -> bool {
        if self.waiting.len() >= most {
            self.waiting.retain(self.is_waiting);
        }
        self.waiting.len() >= most
    }
}

impl<'r> Reads<'r> {
    pub(super) fn new() -> Reads<'r> {
        Reads {
            pages: Seats::new(Under::is_waiting),
            scanning: Seats::new(Under::is_waiting),
            scans: Arc::new(Semaphore::new(SCANS)),
            reading: HashMap::new(),
            answers: JoinSet::new(),
            said: None,
        }
    }

    /// How many there are, but for those that wait to go through all updates.
    pub(super) fn len(&self) -> usize {
        self.pages.waiting.len() + self.reading.len()
    }

    /// The next step of this one needs an answer of the archive. It is given back where too many
    /// wait: it answers without.
    pub(super) fn begin(&mut self, mut under: Under<'r>) -> Option<Under<'r>> {
        // Which patterns there are is known once its place is.
        let is_scanning = under.resuming.has_patterns();
        if under.seat.is_some() && under.is_scanning == is_scanning {
            self.ask(under);
            return None;
        }
        (under.seat, under.is_scanning) = (None, is_scanning);
        if is_scanning && self.scanning.is_full(SCANS_WAITING_MAX) {
            under.resuming.give_up();
            return Some(under);
        }
        let room = if is_scanning { &mut self.scanning } else { &mut self.pages };
        under.resuming.shrink();
        room.waiting.push_back(under);
        self.seat_waiting();
        None
    }

    /// Those that have an answer, one after the other; nobody waits for it here.
    pub(super) fn next(&mut self) -> Option<Under<'r>> {
        // Others may have come to their end meanwhile, and left their seats.
        self.seat_waiting();
        let answered = self.answers.try_join_next_with_id()?;
        self.answered(answered)
    }

    /// Waits for the next answer. `None` resolves at once, where none is under way.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Under<'r>>> {
        self.seat_waiting();
        match self.answers.poll_join_next_with_id(context) {
            Poll::Ready(Some(answered)) => Poll::Ready(self.answered(answered)),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }

    fn seat_waiting(&mut self) {
        while let Some((under, seat)) = self.pages.seat().or_else(|| self.scanning.seat()) {
            self.ask(Under { seat: Some(seat), ..under });
        }
    }

    fn ask(&mut self, mut under: Under<'r>) {
        let Some(question) = under.resuming.question() else {
            debug_assert!(false, "a step said that there is something to read");
            return;
        };
        let task = self.answers.spawn(answer_of(question, Arc::clone(&self.scans)));
        self.reading.insert(task.id(), under);
    }

    fn answered(&mut self, answered: Answered) -> Option<Under<'r>> {
        let id = answered.as_ref().map_or_else(JoinError::id, |&(id, _)| id);
        let mut under = self.reading.remove(&id)?;
        let failed = match answered.and_then(|(_, answer)| answer) {
            Ok(answer) => {
                let failed = answer.failed().map(ToString::to_string);
                under.resuming.tell(answer);
                failed
            }
            Err(error) => {
                under.resuming.give_up();
                Some(error.to_string())
            }
        };
        failed.inspect(|error| self.say(error));
        Some(under)
    }

    /// Clients are told of a gap; the operator hears why, once in a while.
    fn say(&mut self, error: &str) {
        let now = Instant::now();
        if self.said.is_none_or(|said| now - said >= SAY_EVERY) {
            self.said = Some(now);
            tracing::error!("{error}; clients that come back are told of a gap");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// Those that wait, with what they are called and whether somebody wants the answer.
    fn waiting(list: &[(u32, bool)]) -> Seats<(u32, bool)> {
        let mut seats = Seats::new(|&(_, is_waiting): &(u32, bool)| is_waiting);
        seats.waiting.extend(list);
        seats
    }

    #[test]
    fn who_has_hung_up_takes_no_seat_and_nobodys_turn() {
        let list: Vec<_> = (0..100).map(|nth| (nth, nth % 10 == 9)).collect();
        let mut seats = waiting(&list);
        let taken: Vec<_> = iter::from_fn(|| seats.seat()).collect();
        let nths: Vec<u32> = taken.iter().map(|((nth, _), _)| *nth).collect();
        assert_eq!(nths, Vec::from_iter((0..SEATS as u32).map(|nth| nth * 10 + 9)));
        drop(taken);
        assert_eq!(iter::from_fn(|| seats.seat()).count(), 2, "those that are left");
        assert_eq!(seats.seats.available_permits(), SEATS, "none is lost with those who went");
    }

    /// Those that wait have seats while some are free, in their order, however others come and go.
    #[test]
    fn seats_are_taken_in_order_and_come_back_by_seed() {
        testing::seeded(200, |rng| {
            type One = (u32, Rc<Cell<bool>>);
            let mut seats = Seats::new(|one: &One| one.1.get());
            let (mut taken, mut came, mut last) = (Vec::new(), Vec::<One>::new(), 0);
            for number in 1..200 {
                match rng.u8(..4) {
                    0 | 1 => {
                        came.push((number, Rc::new(Cell::new(true))));
                        seats.waiting.extend(came.last().cloned());
                    }
                    2 if !came.is_empty() => came[rng.usize(..came.len())].1.set(false),
                    _ if !taken.is_empty() => drop(taken.swap_remove(rng.usize(..taken.len()))),
                    _ => {}
                }
                while let Some(((number, wants), seat)) = seats.seat() {
                    assert!(wants.get() && number > last, "{number} behind {last}");
                    last = number;
                    taken.push(seat);
                }
                let waiting = came.iter().filter(|one| one.0 > last && one.1.get()).count();
                assert!(taken.len() <= SEATS && (waiting == 0 || taken.len() == SEATS));
                assert_eq!(seats.seats.available_permits(), SEATS - taken.len());
                let most = rng.usize(1..20);
                assert_eq!(seats.is_full(most), waiting >= most);
            }
        });
    }

    #[test]
    fn who_has_hung_up_keeps_nobody_out() {
        let mut seats = waiting(&[(1, false), (2, true), (3, false)]);
        assert!(!seats.is_full(3), "two of them have gone");
        assert_eq!(Vec::from_iter(&seats.waiting), [&(2, true)]);
        seats.waiting.extend([(4, true), (5, true)]);
        assert!(seats.is_full(3));
    }
}

//! Questions of workers to the control plane: bounded queues of them, and who takes them.
//!
//! A worker waits for nobody. What it cannot answer within its turn it asks here, and goes on; the
//! answer comes by mail. The queue has a bound on its questions and one on their bytes, for all
//! clients together: past either the client is answered at once. Those who ask bound what one
//! client has waiting.
//!
//! The one that takes the questions may be a task, which is woken as senders are that wait for
//! receipts (a worker must not wake a task itself, see [`Replies`]). Or it is a thread, which is
//! unparked.
//!
//! Cost: two additions and a place in a queue for a question, and a wake where nobody is awake.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::thread::Thread;

use atomic_waker::AtomicWaker;
use crossbeam_queue::SegQueue;
use hub::ConnRef;
use sync::replies::Replies;

/// What can be asked.
pub trait Question {
    /// The bytes that it keeps beside its own size.
    fn bytes(&self) -> usize {
        0
    }
}

/// The connection that asks, and whether it still wants the answer.
#[derive(Clone, Debug)]
pub struct Asker {
    pub(crate) conn: ConnRef,
    /// Gone when the connection is, or no longer waits for an answer.
    pub(crate) client: Weak<()>,
}

impl Asker {
    /// Whom to tell.
    pub fn conn(&self) -> ConnRef {
        self.conn
    }

    /// Whether it is what a connection waits for that keeps `client`.
    pub(crate) fn is(&self, client: &Arc<()>) -> bool {
        std::ptr::eq(self.client.as_ptr(), Arc::as_ptr(client))
    }

    /// Whether somebody still wants the answer.
    pub fn is_waiting(&self) -> bool {
        self.client.strong_count() > 0
    }
}

/// How many questions may wait, and how many bytes of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuestionBounds {
    pub(crate) questions: usize,
    pub(crate) bytes: usize,
}

/// Who takes the questions.
#[derive(Debug)]
enum Receiver {
    /// A task of the control plane, and where its waker goes.
    Task { listener: AtomicWaker, replies: Arc<Replies> },
    /// A thread, once it has begun.
    Thread(OnceLock<Thread>),
}

/// Questions in the order in which they came.
#[derive(Debug)]
pub struct Questions<Q> {
    queue: SegQueue<Q>,
    bounds: QuestionBounds,
    /// Relaxed, both: bounds on memory, good to within what workers ask at once.
    waiting: AtomicUsize,
    bytes: AtomicUsize,
    receiver: Receiver,
}

impl<Q: Question> Questions<Q> {
    /// Those that a task takes.
    pub(crate) fn for_task(bounds: QuestionBounds, replies: Arc<Replies>) -> Questions<Q> {
        Questions::new(bounds, Receiver::Task { listener: AtomicWaker::new(), replies })
    }

    /// Those that a thread takes, which is to [say so](Questions::set_thread).
    pub(crate) fn for_thread(bounds: QuestionBounds) -> Questions<Q> {
        Questions::new(bounds, Receiver::Thread(OnceLock::new()))
    }

    fn new(bounds: QuestionBounds, receiver: Receiver) -> Questions<Q> {
        let (waiting, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Questions { queue: SegQueue::new(), bounds, waiting, bytes, receiver }
    }

    /// From now on `thread` takes them, unless another one does.
    pub(crate) fn set_thread(&self, thread: Thread) {
        if let Receiver::Thread(receiver) = &self.receiver {
            // There is one for as long as the process lives.
            let _ = receiver.set(thread);
        }
    }

    /// Asks. `false` when too many wait, or no thread has begun to take them.
    pub(crate) fn push(&self, question: Q) -> bool {
        let is_taken = match &self.receiver {
            Receiver::Task { .. } => true,
            Receiver::Thread(receiver) => receiver.get().is_some(),
        };
        let waiting = self.waiting.load(Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed) + question.bytes();
        let has_room = waiting < self.bounds.questions && bytes <= self.bounds.bytes;
        if is_taken && has_room {
            self.push_anyway(question);
        }
        is_taken && has_room
    }

    /// Asks what has waited elsewhere, and was counted there.
    pub(crate) fn push_anyway(&self, question: Q) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(question.bytes(), Ordering::Relaxed);
        self.queue.push(question);
        match &self.receiver {
            Receiver::Task { listener, replies } => {
                if let Some(listener) = listener.take() {
                    replies.post(listener);
                }
            }
            // A futex, no descriptor: so a worker may do it. It costs a call only when the other
            // sleeps.
            Receiver::Thread(receiver) => receiver.get().into_iter().for_each(Thread::unpark),
        }
    }

    /// The next question, if there is one. A thread that finds none parks, and is woken by the
    /// next.
    pub fn take(&self) -> Option<Q> {
        let question = self.take_and_count()?;
        self.done(1, question.bytes());
        Some(question)
    }

    /// The next question, which goes on counting as one that waits until it is
    /// [done](Questions::done).
    pub fn take_and_count(&self) -> Option<Q> {
        self.queue.pop()
    }

    /// So many that were taken, of so many bytes, do not wait any more.
    pub fn done(&self, questions: usize, bytes: usize) {
        self.waiting.fetch_sub(questions, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether there is one to take.
    pub fn is_any_to_take(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Waits until there is one. For a task.
    pub fn poll_any(&self, context: &mut Context<'_>) -> Poll<()> {
        self.listen(context);
        if self.is_any_to_take() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits for the next question. For a task.
    pub fn poll_take(&self, context: &mut Context<'_>) -> Poll<Q> {
        self.listen(context);
        self.take().map_or(Poll::Pending, Poll::Ready)
    }

    fn listen(&self, context: &Context<'_>) {
        match &self.receiver {
            Receiver::Task { listener, .. } => listener.register(context.waker()),
            Receiver::Thread(_) => debug_assert!(false, "a thread takes these questions"),
        }
    }

    /// Whether those that wait no more have given back the bytes that they counted for.
    #[cfg(test)]
    pub(crate) fn counts_truly(&self) -> bool {
        self.waiting() > 0 || self.bytes.load(Ordering::Relaxed) == 0
    }

    /// Has no place for another one from now on.
    #[cfg(test)]
    pub(crate) fn fill(&self) {
        self.waiting.fetch_add(self.bounds.questions, Ordering::Relaxed);
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;

    impl Question for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    /// How often a task was woken.
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const BOUNDS: QuestionBounds = QuestionBounds { questions: 3, bytes: 10 };

    fn for_task() -> (Questions<usize>, Arc<Replies>) {
        let replies = Arc::new(Replies::new().unwrap());
        (Questions::for_task(BOUNDS, Arc::clone(&replies)), replies)
    }

    #[test]
    fn questions_have_a_bound_in_number_and_one_in_bytes() {
        let (questions, _replies) = for_task();
        assert!(questions.push(10) && !questions.push(1), "there is no room for a byte");
        assert!(questions.push(0) && questions.push(0) && !questions.push(0));
        assert_eq!((questions.take(), questions.waiting()), (Some(10), 2));
        assert!(questions.push(10));
        assert_eq!(questions.take_and_count(), Some(0));
        assert!(!questions.push(0), "what was taken counts until it is done");
        questions.done(1, 0);
        assert!(questions.push(0));
        questions.push_anyway(7);
        assert_eq!(std::iter::from_fn(|| questions.take()).collect::<Vec<_>>(), [0, 10, 0, 7]);
        assert_eq!((questions.waiting(), questions.bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn task_that_waits_is_woken_by_the_next_question_through_the_bell() {
        let (questions, replies) = for_task();
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        assert_eq!(questions.poll_take(&mut context), Poll::Pending);
        assert!(questions.push(1) && questions.push(2));
        assert_eq!(woken.0.load(Ordering::Relaxed), 0, "a worker wakes no task itself");
        replies.wake_senders();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert_eq!(questions.poll_take(&mut context), Poll::Ready(1));
        assert_eq!(questions.poll_any(&mut context), Poll::Ready(()));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "no worker, but whoever takes the questions")]
    fn questions_for_a_thread_need_one_that_takes_them() {
        let questions = Questions::<usize>::for_thread(BOUNDS);
        assert!(!questions.push(1), "nobody is there");
        questions.set_thread(std::thread::current());
        assert!(questions.push(1));
        // It is unparked, so this does not wait.
        std::thread::park();
        assert_eq!(questions.take(), Some(1));
    }
}

//! How a worker's answer reaches the control plane.
//!
//! A worker has a private descriptor table (see `sys::table`), and waking an async task may write to
//! a descriptor of the runtime: on a worker's thread that number would be another file, at worst a
//! client's socket. So a worker never wakes a task itself. It puts the task's waker into a queue and
//! unparks the relay, a thread of the control plane, which wakes the task.
//!
//! Cost: one allocation and one thread switch for a receipt that is not ready at once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

use crossbeam_queue::SegQueue;
use engine::Receipt;

/// The way to the relay's thread. The last one to go ends it.
#[derive(Clone)]
pub(super) struct Relay(Arc<Owner>);

struct Owner {
    link: Arc<Link>,
    thread: Thread,
}

/// What workers and the relay's thread share.
#[derive(Default)]
struct Link {
    /// As long as the number of tasks that wait, which the API bounds.
    wakers: SegQueue<Option<Waker>>,
}

impl Relay {
    /// Starts the thread.
    pub(super) fn start() -> std::io::Result<Relay> {
        let link = Arc::new(Link::default());
        let shared = Arc::clone(&link);
        let run = move || {
            loop {
                match shared.wakers.pop() {
                    Some(Some(waker)) => waker.wake(),
                    Some(None) => return,
                    // A token that came before makes this return at once, so no waker is missed.
                    None => thread::park(),
                }
            }
        };
        let thread = thread::Builder::new().name("relay".into()).spawn(run)?.thread().clone();
        Ok(Relay(Arc::new(Owner { link, thread })))
    }

    /// Waits until all workers have answered, and returns the count.
    pub(super) async fn count(&self, receipt: &mut Receipt) -> u32 {
        std::future::poll_fn(|context| {
            if let Some(count) = receipt.ready() {
                return std::task::Poll::Ready(count);
            }
            let call = Call { relay: self.clone(), waker: context.waker().clone() };
            let waker = Waker::from(Arc::new(call));
            Pin::new(&mut *receipt).poll(&mut Context::from_waker(&waker))
        })
        .await
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.link.wakers.push(None);
        self.thread.unpark();
    }
}

/// A task that is to be woken, by way of the relay.
struct Call {
    relay: Relay,
    waker: Waker,
}

impl Wake for Call {
    fn wake(self: Arc<Call>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Call>) {
        let Owner { link, thread } = &*self.relay.0;
        link.wakers.push(Some(self.waker.clone()));
        thread.unpark();
    }
}

//! Messages between nodes that nobody stores: those that come, on one channel, and those that go,
//! one after the other. What finds no room is dropped, as what the network loses.

use bytes::Bytes;
use cluster::CoreSubject;
use nats::NatsClient;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Messages that wait to be sent or to be read. They are a few hundred bytes, at most 64 KiB.
const WAITING_MAX: usize = 4096;

/// What a question about one id is asked under.
pub(super) const BEAT: &str = "beat";
pub(super) const ASK: &str = "ask";

/// All messages of a node.
pub(super) struct Messages {
    nats: NatsClient,
    outgoing: mpsc::Sender<(String, Vec<u8>)>,
    into: mpsc::Sender<Bytes>,
    pub(super) incoming: mpsc::Receiver<Bytes>,
    /// Those that are for one incarnation of this node.
    own: Vec<AbortHandle>,
}

impl Messages {
    pub(super) fn new(nats: &NatsClient) -> Messages {
        let (outgoing, mut queue) = mpsc::channel::<(String, Vec<u8>)>(WAITING_MAX);
        let sending = nats.clone();
        tokio::spawn(async move {
            while let Some((subject, bytes)) = queue.recv().await {
                // Who is not there hears nothing: the node counts on that.
                let _ = sending.publish_core(&subject, bytes.into()).await;
            }
        });
        let (into, incoming) = mpsc::channel(WAITING_MAX);
        let messages = Messages { nats: nats.clone(), outgoing, into, incoming, own: Vec::new() };
        messages.listen(BEAT.to_owned());
        messages.listen(ASK.to_owned());
        messages
    }

    /// From now on this node is the one with `incarnation`.
    pub(super) fn listen_as(&mut self, incarnation: u64) {
        self.own.drain(..).for_each(|task| task.abort());
        for of in ["count", "need"] {
            let task = self.listen(format!("{of}.{incarnation}"));
            self.own.push(task);
        }
    }

    pub(super) fn send(&self, to: CoreSubject, bytes: Vec<u8>) {
        let subject = match to {
            CoreSubject::All => BEAT.to_owned(),
            CoreSubject::Ask => ASK.to_owned(),
            CoreSubject::Count(incarnation) => format!("count.{incarnation}"),
            CoreSubject::Need(incarnation) => format!("need.{incarnation}"),
        };
        let _ = self.outgoing.try_send((subject, bytes));
    }

    fn listen(&self, subject: String) -> AbortHandle {
        let (nats, into) = (self.nats.clone(), self.into.clone());
        let task = tokio::spawn(async move {
            loop {
                let Ok(mut subscription) = nats.subscribe_core(&subject, WAITING_MAX).await else {
                    tokio::time::sleep(nats::ACK_TIMEOUT).await;
                    continue;
                };
                while let Some(message) = subscription.next().await {
                    if into.send(message.bytes).await.is_err() {
                        return;
                    }
                }
            }
        });
        task.abort_handle()
    }
}

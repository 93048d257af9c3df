//! This is what the hub knows, from one process to the other. Topics and ids of publishers go in
//! parts while more is published. When nobody publishes any more it tells what has changed since,
//! and who is subscribed. Its streams go with all others.

use anyhow::{Result, ensure};
use engine::Router;
use sys::clock;
use topics::{TopicsDumped, TopicsPart};

use super::conversation::{Broken, Conversation};
use super::messages::{HUB_VERSION, ServingMessage};

/// Bytes of the texts in a part, or a little more. The tables are locked for as long as they are
/// copied.
const PART_BYTES: usize = 256 << 10;

/// Sends what is known of topics and was not sent yet, to one who understands it.
pub(crate) async fn send(
    successor: &mut Conversation,
    router: &Router,
    sent: &mut TopicsDumped,
    version: u32,
) -> Result<(), Broken> {
    let Some(topics) = router.topics().filter(|_| version >= HUB_VERSION) else { return Ok(()) };
    while let Some(part) = topics.dump(sent, PART_BYTES, clock::monotonic_ms()) {
        if !part.is_empty() {
            successor.say(&ServingMessage::Hub(part)).await?;
        }
        // Requests are answered in between: they are on the same thread.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Takes a part over. Where no hub is served nothing is taken.
pub(crate) fn take(router: &Router, part: TopicsPart) -> Result<()> {
    let Some(topics) = router.topics() else { return Ok(()) };
    let taken = topics.take_over(part, clock::monotonic_ms());
    ensure!(taken, "what has come of the hub's topics is none");
    Ok(())
}

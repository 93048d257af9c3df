//! What the tests of `tests/it/upgrade` stand on.

#[path = "../../tests/it/upgrade/killing.rs"]
mod killing;
#[path = "../../tests/it/upgrade/kind.rs"]
mod kind;
#[path = "../../tests/it/upgrade/listeners.rs"]
mod listeners;
#[path = "../../tests/it/upgrade/records.rs"]
mod records;
#[path = "../../tests/it/upgrade/senders.rs"]
mod senders;
#[path = "../../tests/it/upgrade/served.rs"]
mod served;
#[path = "../../tests/it/upgrade/subscriber.rs"]
mod subscriber;

pub(crate) use killing::Killing;
pub(crate) use senders::{Sender, Sent, Traffic, WAYS};
pub(crate) use served::{Upgraded, servers_on};
pub(crate) use subscriber::{Kind, Subscriber};

//! A server of a few shards under fake networks, put together as `start` does it under a kernel.

use std::sync::Arc;

use hub::{ConnRef, Directory, Epoch, EventIds, Followers, Names};

use super::net::Net;
use crate::account::Account;
use crate::config::EngineConfig;
use crate::counters::Counters;
use crate::mailbox::Mailbox;
use crate::places::Places;
use crate::receipt::Receipt;
use crate::replies::Replies;
use crate::resume::Resumes;
use crate::router::{Router, Sending, Step};
use crate::shard::{Shard, Shared};

pub(super) const SHARDS: usize = 2;

/// A budget that nobody spends.
pub(super) const UNBOUNDED: u32 = u32::MAX / 2;

/// One life of the server, but for the router, from which sends and resumes borrow.
pub(super) struct Server {
    pub(super) mailboxes: Arc<[Arc<Mailbox>]>,
    pub(super) directory: Arc<Directory>,
    pub(super) resumes: Arc<Resumes>,
    pub(super) event_ids: Arc<EventIds>,
    pub(super) counters: Vec<Arc<Counters>>,
    pub(super) nets: Vec<Net>,
    pub(super) shards: Vec<Shard<Net>>,
    pub(super) account: Arc<Account>,
    pub(super) backlog_bytes_max: usize,
}

/// The defaults, for an address that nobody listens at.
pub(super) fn config() -> EngineConfig {
    EngineConfig::new("127.0.0.1:0".parse().unwrap())
}

/// Steps a send to its end, for which there is room.
pub(super) fn posted(sending: &mut Sending<'_>, followers: &dyn Followers) -> Receipt {
    loop {
        match sending.step(followers).unwrap() {
            Step::Posted(receipt) => return receipt,
            Step::More => {}
            Step::MailboxFull => panic!("a box of thousands is full"),
        }
    }
}

impl Server {
    /// A server whose events have the numbers of `epoch`.
    pub(super) fn start(names: Arc<Names>, config: EngineConfig, epoch: Epoch) -> (Router, Server) {
        let directory = Arc::new(Directory::default());
        let mailboxes: Arc<[_]> = (0..SHARDS).map(|_| Arc::new(Mailbox::new().unwrap())).collect();
        let replies = Arc::new(Replies::new().unwrap());
        let resumes = Arc::new(Resumes::new(replies.clone()));
        let event_ids = Arc::new(EventIds::new(epoch));
        let account = Arc::new(Account::new(config.buffered_bytes_max));
        let places = Arc::new(Places::new(config.connections_max));
        let (mut nets, mut shards, mut counters) = (Vec::new(), Vec::new(), Vec::new());
        for worker in 0..SHARDS {
            let (net, counted) = (Net::default(), Arc::new(Counters::default()));
            let shared = Shared {
                names: names.clone(),
                directory: directory.clone(),
                counters: counted.clone(),
                places: places.clone(),
                account: account.clone(),
                event_ids: event_ids.clone(),
                resumes: resumes.clone(),
                slots_max: ConnRef::SLOTS_MAX,
            };
            let mut shard = Shard::new(worker, net.clone(), config.clone(), shared);
            shard.set_work_per_turn(UNBOUNDED);
            shards.push(shard);
            nets.push(net);
            counters.push(counted);
        }
        let router = Router::new(
            names,
            directory.clone(),
            mailboxes.clone(),
            replies,
            event_ids.clone(),
            config.history,
        );
        let server = Server {
            mailboxes,
            directory,
            resumes,
            event_ids,
            counters,
            nets,
            shards,
            account,
            backlog_bytes_max: config.backlog_bytes_max,
        };
        (router, server)
    }
}

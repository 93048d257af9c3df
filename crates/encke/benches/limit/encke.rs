//! Encke's data plane as a child: workers, router and directory, without the API in front.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ::engine::{
    Engine, EngineConfig, Outgoing, ResumeStep, Resumes, Resuming, Router, Step, TlsConfig,
};
use graph::Graph;
use graph::GraphOptions;
use hub::{Epoch, Followers, FollowersError, HistoryLimits, Id, Names};
use hub::{Nobody, SLICE_MAX, Tag};
use proto::Transport;

use crate::Plan;
use crate::child::Server;

pub(crate) struct Encke {
    engine: Engine,
    is_tls: bool,
    /// The payload of events that have no time: a JSON text.
    data: String,
    /// The friends graph of the paced run.
    graph: Option<Graph>,
    /// All are logged in as the celebrity, whom nobody follows.
    one_id: bool,
}

/// A subject that all follow. Who of them is online is the directory's to say.
struct Everybody {
    users: u64,
}

/// Whom all follow, or are logged in as.
pub(crate) const CELEBRITY: u64 = 1 << 40;

impl Encke {
    pub(crate) fn start(
        plan: &Plan,
        graph: Option<&Path>,
        tls: Option<TlsConfig>,
    ) -> Result<Encke, Box<dyn std::error::Error>> {
        let graph = graph.map(|dir| Graph::open(dir, &GraphOptions::default())).transpose()?;
        let names = match &graph {
            Some(graph) => Arc::clone(graph.names()),
            None => Arc::new(Names::new([0; 16])),
        };
        let mut config = EngineConfig::new("127.0.0.1:0".parse()?);
        config.workers = plan.workers;
        let is_tls = tls.is_some();
        config.tls = tls;
        // The bare loop sends none; for a million they would be 33,333 writes a second.
        config.settings.keepalive_ms = 0;
        if plan.forget {
            config.history = HistoryLimits::OFF;
        }
        let engine = Engine::start(config, Epoch::begin(Tag::of(0), 0, 0), names)?;
        if plan.transport == Transport::Poll {
            let (router, resumes) = (Arc::clone(engine.router()), Arc::clone(engine.resumes()));
            thread::spawn(move || answer(&router, &resumes));
        }
        let data = format!("\"{}\"", "x".repeat(plan.payload.saturating_sub(2)));
        Ok(Encke { engine, is_tls, data, graph, one_id: plan.one_id })
    }

    fn send(&self, about: u64, data: &str, followers: &dyn Followers) {
        send(self.engine.router(), about, data, followers);
    }

    /// Those who hear what all are to hear.
    fn everybody(&self) -> Everybody {
        Everybody { users: if self.one_id { 0 } else { self.open() } }
    }
}

fn send(router: &Router, about: u64, data: &str, followers: &dyn Followers) {
    let Ok(outgoing) = Outgoing::new(&about.to_string(), data) else { return };
    let mut sending = router.send(outgoing);
    loop {
        match sending.step(followers) {
            Ok(Step::More) => {}
            Ok(Step::MailboxFull) => thread::yield_now(),
            Ok(Step::Posted(_) | Step::Stale | Step::NotKept) | Err(_) => return,
        }
    }
}

/// The control plane's part in polls: tells each what it has missed, here nothing.
fn answer(router: &Router, resumes: &Resumes) {
    loop {
        let Some(mut resuming) =
            resumes.small().take().and_then(|resume| Resuming::begin(router, resume))
        else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        loop {
            match resuming.step(&Nobody) {
                ResumeStep::More => {}
                ResumeStep::Wait => thread::yield_now(),
                ResumeStep::Done => break,
                ResumeStep::Read => unreachable!("nothing is kept on disk"),
            }
        }
    }
}

impl Server for Encke {
    fn port(&self) -> u16 {
        let tls = self.engine.tls_address().filter(|_| self.is_tls);
        tls.unwrap_or_else(|| self.engine.address()).port()
    }

    fn polls(&self) -> u64 {
        self.engine.snapshot().whole().streams_open[Transport::Poll.index()]
    }

    fn broadcast(&mut self, events: u64) {
        let everybody = self.everybody();
        for _ in 0..events {
            self.send(CELEBRITY, &self.data, &everybody);
        }
    }

    fn open(&self) -> u64 {
        self.engine.snapshot().whole().connections_open
    }

    fn to_all(&self) -> Box<dyn FnOnce() + Send> {
        let (router, everybody) = (Arc::clone(self.engine.router()), self.everybody());
        let data = self.data.clone();
        Box::new(move || send(&router, CELEBRITY, &data, &everybody))
    }

    fn unicast(&mut self, events: u64) {
        let users = self.open();
        for event in 0..events {
            self.send(event.wrapping_mul(0x9e37_79b9_7f4a_7c15) % users, &self.data, &Nobody);
        }
    }

    fn publish(&mut self, about: u64, data: &str) {
        match &self.graph {
            Some(graph) => self.send(about, data, graph),
            None => self.send(about, data, &Nobody),
        }
    }
}

impl Followers for Everybody {
    fn slice(
        &self,
        _: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        let first = after.and_then(Id::as_integer).map_or(0, |last| last + 1);
        let end = self.users.min(first + SLICE_MAX as u64);
        (first..end).filter_map(Id::integer).for_each(visit);
        Ok((end < self.users).then(|| Id::integer(end - 1)).flatten())
    }

    fn slice_of_following(
        &self,
        _: Id,
        _: Option<Id>,
        _: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        Ok(None)
    }
}

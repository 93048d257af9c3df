//! Makes the pages of events that clients read, and gives them to their connections.
//!
//! A page is made as the API makes it, as large as its connection can take. Those who read share
//! the rate of their token with what they send by request.
//!
//! Cost: a task for each page until its worker has it. [`READS_AT_ONCE`] are made at one time, and
//! those that wait for a worker are bounded with the reads ([`HistoryReads`]).

use std::future::poll_fn;
use std::sync::Arc;

use dispatch::past::Reader;
use dispatch::posting::say;
use engine::{Answers, DirectMessage, HistoryRead, HistoryReads};
use hub::IdText;
use proto::Problem;
use tokio::sync::Semaphore;

use crate::api::{Api, query_of};
use crate::token_rates::TokenRates;

/// Pages that are made at one time; further ones wait in their queue.
const READS_AT_ONCE: usize = 16;

/// Who makes the pages.
pub(crate) struct PageMaker {
    api: Arc<Api>,
    reads: Arc<HistoryReads>,
    answers: Answers,
    rates: Arc<TokenRates>,
}

impl PageMaker {
    pub(crate) fn new(
        api: Arc<Api>,
        reads: Arc<HistoryReads>,
        answers: Answers,
        rates: Arc<TokenRates>,
    ) -> Arc<PageMaker> {
        Arc::new(PageMaker { api, reads, answers, rates })
    }

    /// Makes what is asked for, for as long as the runtime lives.
    pub(crate) async fn run(self: Arc<PageMaker>) {
        let places = Arc::new(Semaphore::new(READS_AT_ONCE));
        loop {
            poll_fn(|context| self.reads.poll_any(context)).await;
            // It is never closed.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Some(read) = self.reads.take() else { continue };
            let maker = Arc::clone(&self);
            tokio::spawn(async move {
                let page = maker.page(&read).await;
                // A worker whose mailbox is full holds up nobody else's pages.
                drop(place);
                say(&maker.answers, read.conn(), DirectMessage::Page(Box::new(page))).await;
            });
        }
    }

    async fn page(&self, read: &HistoryRead) -> Result<Box<str>, Problem> {
        self.rates.take(read.grant(), read.limits(), Problem::history_busy)?;
        let id = IdText::parse(read.id()).map_err(|error| Problem::bad_id(error.to_string()))?;
        let query = query_of(read.query())?;
        let page = self.api.events_page(id, &query, read.bytes_max(), Reader::Client).await?;
        Ok(page.into())
    }
}

//! Asks a server for its figures, again and again, also past its restarts.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use figures::run::{Reading, Row};

use crate::client::{ApiClient, ServerUrl};

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// One server's figures over time.
pub(crate) struct Sampler {
    url: ServerUrl,
    started: Instant,
    client: Option<ApiClient>,
    before: Option<Reading>,
}

impl Sampler {
    /// Begins a run of the server whose API is at `url`: time counts from now.
    pub(crate) fn new(url: ServerUrl) -> Sampler {
        Sampler { url, started: Instant::now(), client: None, before: None }
    }

    /// The row of this moment.
    ///
    /// # Errors
    /// The server does not answer, or not what was asked for. The next try connects anew, and what
    /// it learns has no rates, since nobody knows what was in between.
    pub(crate) async fn row(&mut self) -> Result<Row> {
        let reading = match tokio::time::timeout(ANSWER_TIMEOUT, self.read()).await {
            Ok(reading) => reading,
            Err(_) => Err(anyhow!(
                "no answer from {} within {ANSWER_TIMEOUT:?}; look at its log",
                self.url
            )),
        };
        match reading {
            Ok(reading) => {
                let row = reading.row(self.seconds(), sys::clock::unix_ms(), self.before.as_ref());
                self.before = Some(reading);
                Ok(row)
            }
            Err(error) => {
                self.client = None;
                self.before = None;
                Err(error)
            }
        }
    }

    /// The row of a moment at which the server did not answer.
    pub(crate) fn gap(&self) -> Row {
        Row::unknown(self.seconds(), sys::clock::unix_ms())
    }

    async fn read(&mut self) -> Result<Reading> {
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(ApiClient::connect(&self.url).await?),
        };
        client.get("/stats").await
    }

    fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

//! What ends against its will is begun again, with pauses that grow while it does not last.

use std::time::Duration;

use anyhow::Result;
use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// A run that lasted for so long was a good one: the pauses begin anew.
const STEADY: Duration = Duration::from_secs(60);

/// As Encke's own clients pause, from half a second to a minute, with a random part as long on top
/// of each, so that those whom one shortage ended do not all come back at one moment.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(500))
    .with_max_delay(Duration::from_secs(60))
    .without_max_times()
    .with_jitter();

/// Runs `run` again and again until `stop`, or until it ends without an error; `what` names it in
/// the log.
pub(crate) async fn keep_up<F>(what: &str, stop: &CancellationToken, mut run: impl FnMut() -> F)
where
    F: Future<Output = Result<()>>,
{
    let mut pauses = PAUSES.build();
    while !stop.is_cancelled() {
        let begun = Instant::now();
        let Err(error) = run().await else { return };
        if begun.elapsed() >= STEADY {
            pauses = PAUSES.build();
        }
        let pause = pauses.next().unwrap_or(STEADY);
        tracing::warn!("{what} is away and comes back in {pause:.1?}: {error:#}");
        // The word to stop is the only thing that ends a pause before its time.
        let _ = timeout(pause, stop.cancelled()).await;
    }
}

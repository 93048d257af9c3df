//! Keeps a script up: one run after the other, with pauses that grow while it does not last.

use std::path::PathBuf;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{Names, process};
use crate::pipeline::Pipeline;

/// A run that lasted for so long was a good one: the pauses begin anew.
const STEADY: Duration = Duration::from_secs(60);

/// From half a second to a minute, with a random part as long on top of each, so that scripts which
/// a machine's shortage ended do not all come back at one moment.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(500))
    .with_max_delay(Duration::from_secs(60))
    .without_max_times()
    .with_jitter();

/// Runs the program at `path` until `stop`.
pub(super) async fn keep_up(
    path: PathBuf,
    pipeline: Pipeline,
    names: Names,
    stop: CancellationToken,
) {
    let mut pauses = PAUSES.build();
    while !stop.is_cancelled() {
        let begun = Instant::now();
        let Err(error) = process::run(&path, &pipeline, &names, &stop).await else { return };
        if begun.elapsed() >= STEADY {
            pauses = PAUSES.build();
        }
        let pause = pauses.next().unwrap_or(STEADY);
        let path = path.display();
        tracing::warn!("the script {path} is away and comes back in {pause:.1?}: {error:#}");
        // The word to stop is the only thing that ends a pause before its time.
        let _ = timeout(pause, stop.cancelled()).await;
    }
}

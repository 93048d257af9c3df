//! Says that clients were refused for want of descriptors: at most once a minute, however many
//! there were. Workers only count ([`engine::WorkerSnapshot::shortages`]); they must not wait for a
//! log.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use dispatch::log_interval::LogInterval;
use engine::Engine;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often it is looked whether there was any.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks and warns for as long as the runtime lives.
pub(super) async fn warn(engine: Arc<RwLock<Engine>>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut logged, mut warnings) = (0, LogInterval::default());
    loop {
        looks.tick().await;
        // While the engine is drained its lock is taken, and nobody is accepted any more.
        let Ok(met) = engine.try_read().map(|engine| engine.snapshot().whole().shortages) else {
            continue;
        };
        if met > logged && warnings.due(Instant::now()).is_some() {
            tracing::warn!(
                "the kernel gave no descriptor or memory for another client ({met} since start): a \
                 worker is full before its time, and clients may be answered 503; look at ulimit \
                 -n, fs.file-max and free memory (encke tune)"
            );
            logged = met;
        }
    }
}

//! Options of events that stay: `--keep`, `--log-bytes` and `--log-sync`.

use std::str::FromStr;

use anyhow::Result;
use archive::{KeepRule, KeepRules};
use clap::{Args, ValueEnum};
use hub::HistoryLimits;
use server::KeepConfig;

use super::UsageError;
use crate::units::{parse_bytes, parse_lifetime};

/// The least log that is of use: some segments of events must fit.
const LOG_BYTES_MIN: usize = 1 << 20;

/// Which events stay on disk.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Events that stay")]
pub(crate) struct KeepArgs {
    /// Rule for which events are kept on disk, such as '*=7d' or 'room:*=30d,1000,10MiB'.
    ///
    /// PATTERN is an id or a topic of the Mercure hub, or the beginning of some with a * behind it;
    /// AGE has s, m, h or d. COUNT and BYTES are bounds for each id. Repeat the option, up to 32
    /// times: the first rule that fits an id counts. Kept events survive a restart: a client that
    /// comes back hears what it missed. What no rule keeps is remembered in memory alone.
    #[arg(long, value_name = "PATTERN=AGE[,COUNT][,BYTES]")]
    keep: Vec<Keep>,
    /// Disk space for all kept events together.
    ///
    /// When it is used up, the oldest events are dropped.
    #[arg(long, value_name = "BYTES", default_value = "10GiB", value_parser = parse_log_bytes)]
    log_bytes: usize,
    /// When kept events are written to the disk for sure.
    ///
    /// With `group` this is within about a second, and at once for events that are sent with
    /// "durable": their sends wait for it. With `always` all sends of kept events wait for it.
    #[arg(long, value_name = "WHEN", value_enum, default_value = "group")]
    log_sync: LogSync,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LogSync {
    Group,
    Always,
}

impl KeepArgs {
    /// Which events are kept, if any are: by a server with this memory, in a cluster or not.
    pub(crate) fn config(&self, history: HistoryLimits) -> Result<Option<KeepConfig>> {
        if self.keep.is_empty() {
            return Ok(None);
        }
        let refused = |why: &str| Err(UsageError(why.to_owned()).into());
        if !history.is_on() {
            return refused(
                "--keep needs a server that remembers: set none of --history-events, \
                 --history-seconds and --history-bytes to 0",
            );
        }
        let rules = KeepRules::new(self.keep.iter().map(|keep| keep.rule.clone()).collect());
        Ok(Some(KeepConfig {
            rules: rules.map_err(|error| UsageError(format!("--keep: {error}")))?,
            bytes_max: self.log_bytes as u64,
            always_durable: self.log_sync == LogSync::Always,
        }))
    }
}

/// One rule as it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Keep {
    rule: KeepRule,
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Keep, String> {
        let form = "write it as PATTERN=AGE[,COUNT][,BYTES], such as room:*=7d,1000,10MiB";
        // An id may have both signs.
        let (pattern, much) = text.rsplit_once('=').ok_or(form)?;
        let mut parts = much.split(',').map(str::trim);
        let age = parts.next().filter(|age| !age.is_empty()).ok_or(form)?;
        let age_ms = parse_lifetime(age)?.as_millis() as u64;
        let (mut events_max, mut bytes_max) = (None, None);
        for part in parts {
            let is_count = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            match (is_count, events_max, bytes_max) {
                (true, None, None) => {
                    let wrong =
                        |_| format!("{part:?} is no number of events: write a whole number");
                    events_max = Some(part.parse().map_err(wrong)?);
                }
                (_, _, None) => bytes_max = Some(parse_bytes(part)? as u64),
                _ => return Err(form.into()),
            }
        }
        let rule = KeepRule::new(pattern.trim(), age_ms);
        let rule = rule.and_then(|rule| rule.with_bounds(events_max, bytes_max));
        Ok(Keep { rule: rule.map_err(|error| error.to_string())? })
    }
}

fn parse_log_bytes(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    if bytes < LOG_BYTES_MIN {
        return Err(format!("write at least {LOG_BYTES_MIN} bytes: some events must fit"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_a_pattern_an_age_and_perhaps_bounds() {
        let day = 86_400_000;
        for (text, pattern, age_ms, events, bytes) in [
            ("*=7d", "*", 7 * day, None, None),
            ("a=b,c=1d,1000", "a=b,c", day, Some(1000), None),
            ("room:*=1h,1000,10MiB", "room:*", 3_600_000, Some(1000), Some(10 << 20)),
            ("room:* = 30s, 1KiB", "room:*", 30_000, None, Some(1024)),
            ("r=1m,5,700", "r", 60_000, Some(5), Some(700)),
            ("https://a.test/?a=1#b*=1m", "https://a.test/?a=1#b*", 60_000, None, None),
        ] {
            let Keep { rule } = text.parse().unwrap();
            assert_eq!((rule.pattern(), rule.age_ms_max), (pattern.into(), age_ms), "{text}");
            assert_eq!((rule.events_max, rule.bytes_max), (events, bytes), "{text}");
        }
        for text in [
            "",
            "a",
            "a=",
            "=7d",
            "a b=7d",
            "a=0s",
            "a=7d,",
            "a=7d,0",
            "a=7d,x",
            "a=-1d",
            "a=7d,1,2,3",
            "a=7d,1KiB,5",
            "a=7d,5,0",
        ] {
            assert!(text.parse::<Keep>().is_err(), "{text}");
        }
    }
}

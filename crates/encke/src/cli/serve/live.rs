//! What SIGHUP makes of options that have changed in the file of settings: those that a running
//! server can go by count from then on, the others are named.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Settings;
use proto::request::Hosts;
use server::Server;

use super::ServeArgs;
use crate::cli::names::ListenAddress;
use crate::cli::parse_serve;
use crate::console;
use crate::settings;

/// The options that count at once: those of [`settings()`], and three of the program itself. Of the
/// others tables, threads or ports were made.
pub(super) const LIVE: [&str; 12] = [
    "allow-origin",
    "api-host",
    "client-payload",
    "client-send",
    "client-send-rate",
    "grace",
    "head-timeout",
    "keepalive",
    "log-level",
    "max-connections-per-id",
    "max-message",
    "public-host",
];

/// What a server goes by that was started with `started`, when the options are `args`: at its start
/// these are the same ones. And what its API is called then.
pub(super) fn settings(args: &ServeArgs, started: &ServeArgs) -> (Settings, Hosts) {
    let apis: Vec<&ListenAddress> = started.apis().collect();
    let listened: Vec<_> = started.streams().chain(started.apis()).collect();
    let limits = &args.limits;
    let settings = Settings {
        origins: limits.names.origins(&listened, started.public_url.as_ref()),
        keepalive_ms: limits.keepalive.as_millis() as u64,
        head_timeout_ms: limits.head_timeout.as_millis() as u64,
        connections_per_id_max: args.address_limits.connections_per_id(),
        message_bytes_max: limits.max_message,
        client_sends: args.client_sends.limits(),
    };
    (settings, limits.names.api_hosts(&apis))
}

/// The options of a server that runs.
pub(super) struct LiveSettings {
    /// With which it was started.
    started: ServeArgs,
    /// The settings as they were written, with the common options.
    read_first: Written,
    /// As they were written when they were read last.
    read_last: Written,
    grace: Duration,
}

impl LiveSettings {
    /// Of a server that is started with `args`, for which `read` was read.
    pub(super) fn new(args: &ServeArgs, read: &settings::Settings) -> LiveSettings {
        LiveSettings {
            started: args.clone(),
            read_first: written(read),
            read_last: written(read),
            grace: args.grace,
        }
    }

    /// How long the end may take now.
    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    /// Reads all again, has `server` go by it, and tells the log what has changed.
    pub(super) fn reload(&mut self, server: &Server) {
        let (args, level, read) = match parse_serve() {
            Ok(read) => read,
            Err(error) => {
                // The first line says it; behind it stands how the command is used.
                let text = console::told(&error);
                let why = text.lines().next().unwrap_or_default();
                return tracing::error!("all settings stay as they are: {why}");
            }
        };
        let read = written(&read);
        console::set_log_level(level.into());
        self.tell(&read);
        self.read_last = read;
        self.grace = args.grace;
        let (settings, api_hosts) = settings(&args, &self.started);
        server.set(settings, api_hosts);
    }

    /// What has changed. Values of options that count are told; of the others some are secret.
    fn tell(&self, read: &Written) {
        let (mut changed, mut later) = (false, Vec::new());
        for (option, is) in read {
            let is_live = LIVE.contains(&option.as_str());
            let before = if is_live { &self.read_last } else { &self.read_first };
            let Some(was) = before.get(option).filter(|was| *was != is) else { continue };
            match is_live {
                true => tracing::info!("--{option} is {} now, it was {}", shown(is), shown(was)),
                false => later.push(format!("--{option}")),
            }
            changed |= is_live;
        }
        if !later.is_empty() {
            let options = later.join(", ");
            tracing::warn!("changed, but in use only from the next start on: {options}");
        }
        if !changed {
            tracing::info!("no option has changed that counts at once");
        }
    }
}

/// Every option, by its name, as it was written or stands by default.
type Written = BTreeMap<String, Option<Vec<String>>>;

fn written(settings: &settings::Settings) -> Written {
    settings.list().into_iter().map(|it| (it.name().to_owned(), it.values)).collect()
}

fn shown(values: &Option<Vec<String>>) -> String {
    values.as_ref().map_or_else(|| "not given".to_owned(), |values| values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::program;
    use crate::settings::Environment;

    fn read(args: &[&str]) -> Written {
        let args = ["encke", "serve"].iter().chain(args).map(Into::into);
        let args: Vec<_> = args.collect();
        written(&settings::read(&program(), &args, &Environment::default()).unwrap())
    }

    #[test]
    fn options_that_count_at_once_are_options() {
        let options = read(&[]);
        for name in LIVE {
            assert!(options.contains_key(name), "--{name}");
        }
    }

    #[test]
    fn values_are_those_of_the_line_and_of_the_defaults() {
        let all = read(&["--allow-origin=https://a.test,https://b.test", "--log-level=debug"]);
        assert_eq!(shown(&all["allow-origin"]), "https://a.test,https://b.test");
        assert_eq!(shown(&all["log-level"]), "debug");
        assert_eq!(shown(&all["keepalive"]), "30");
        assert_eq!(shown(&read(&[])["allow-origin"]), "not given");
    }
}

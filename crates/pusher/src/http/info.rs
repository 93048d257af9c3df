//! Which attributes of channels are asked for.

use super::query::SignedQuery;
use super::refusal::ApiRefusal;
use crate::channel::{Access, Channel};

/// Attributes of channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Info {
    /// How many users are in it: of presence channels.
    pub user_count: bool,
    /// How many connections hear it: of all others.
    pub subscription_count: bool,
    /// The last event that it keeps: of cache channels.
    pub cache: bool,
}

impl Info {
    /// Reads a list with commas. No text asks for nothing.
    ///
    /// # Errors
    /// There is no such attribute.
    pub fn parse(list: &str) -> Result<Info, ApiRefusal> {
        let mut info = Info::default();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "user_count" => info.user_count = true,
                "subscription_count" => info.subscription_count = true,
                "cache" => info.cache = true,
                _ => return Err(ApiRefusal::Info(name.chars().take(64).collect())),
            }
        }
        Ok(info)
    }

    /// Those that the channel can have. A trigger asks for all of many channels of all kinds.
    pub fn of_channel(self, channel: Channel<'_>) -> Info {
        let is_presence = channel.access() == Access::Presence;
        Info {
            user_count: self.user_count && is_presence,
            subscription_count: self.subscription_count && channel.has_subscription_count(),
            cache: self.cache && channel.is_cached(),
        }
    }

    /// Whether nothing is asked for.
    pub fn is_empty(self) -> bool {
        self == Info::default()
    }

    fn first(self) -> &'static str {
        match self {
            Info { user_count: true, .. } => "user_count",
            Info { subscription_count: true, .. } => "subscription_count",
            Info { .. } => "cache",
        }
    }
}

/// What `GET /channels` asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelsQuery {
    /// What the names of the channels begin with; empty for all.
    pub prefix: String,
    /// Whether the users of each are counted.
    pub user_count: bool,
}

impl ChannelsQuery {
    /// Reads the query.
    ///
    /// # Errors
    /// It asks for what not all of those channels have.
    pub fn parse(query: &SignedQuery) -> Result<ChannelsQuery, ApiRefusal> {
        let prefix = query.value("filter_by_prefix").unwrap_or_default().to_owned();
        let Info { user_count, .. } = match Info::parse(query.value("info").unwrap_or_default())? {
            info @ Info { subscription_count: false, cache: false, .. } => info,
            info => {
                return Err(ApiRefusal::Info(Info { user_count: false, ..info }.first().into()));
            }
        };
        match !user_count || prefix.starts_with("presence-") {
            true => Ok(ChannelsQuery { prefix, user_count }),
            false => Err(ApiRefusal::Info("user_count".into())),
        }
    }
}

/// What `GET /channels/{name}` asks for.
///
/// # Errors
/// It asks for what this channel cannot have.
pub fn channel_info(query: &SignedQuery, channel: Channel<'_>) -> Result<Info, ApiRefusal> {
    let asked = Info::parse(query.value("info").unwrap_or_default())?;
    let has = asked.of_channel(channel);
    if asked == has {
        return Ok(asked);
    }
    let missing = Info {
        user_count: asked.user_count && !has.user_count,
        subscription_count: asked.subscription_count && !has.subscription_count,
        cache: asked.cache && !has.cache,
    };
    Err(ApiRefusal::Info(missing.first().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_those_that_a_channel_can_have() {
        let asked = |channel, info: &str| {
            let query = SignedQuery::parse(&format!("info={info}")).unwrap();
            channel_info(&query, Channel::parse(channel).unwrap())
        };
        for (channel, info) in [
            ("presence-a", "user_count"),
            ("a", "subscription_count"),
            ("cache-a", "subscription_count,cache"),
            ("presence-cache-a", "cache,user_count"),
            ("a", ""),
            ("#server-to-user-bob", "subscription_count"),
        ] {
            assert_eq!(asked(channel, info), Info::parse(info), "{channel} {info}");
        }
        for (channel, info, named) in [
            ("a", "user_count", "user_count"),
            ("presence-a", "user_count,subscription_count", "subscription_count"),
            ("presence-a", "user_count,cache", "cache"),
            ("a", "cache", "cache"),
            ("a", "users", "users"),
        ] {
            assert_eq!(asked(channel, info), Err(ApiRefusal::Info(named.into())), "{info}");
        }
    }

    #[test]
    fn users_are_counted_of_presence_channels_alone() {
        let parse = |query| ChannelsQuery::parse(&SignedQuery::parse(query).unwrap());
        let query = parse("filter_by_prefix=presence-r&info=user_count").unwrap();
        assert_eq!((query.prefix.as_str(), query.user_count), ("presence-r", true));
        assert_eq!(parse("").unwrap(), ChannelsQuery { prefix: String::new(), user_count: false });
        for bad in [
            "info=user_count",
            "filter_by_prefix=presence&info=user_count",
            "info=subscription_count",
            "filter_by_prefix=presence-&info=user_count,cache",
            "info=x",
        ] {
            assert_eq!(parse(bad).unwrap_err().status(), 400, "{bad}");
        }
    }
}

//! Which call a method and a path are.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::refusal::ApiRefusal;
use crate::channel::{Channel, is_user_id};

/// What is asked of an app. The texts are decoded and well formed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call<'p> {
    /// To send one event.
    Events,
    /// To send several events.
    BatchEvents,
    /// To send one event in the way of old libraries: its name in the query, its data the body.
    ChannelEvents(Cow<'p, str>),
    /// Which channels have subscribers.
    Channels,
    /// What one channel is like.
    Channel(Cow<'p, str>),
    /// Who is in a presence channel.
    ChannelUsers(Cow<'p, str>),
    /// To end the connections of a user.
    TerminateConnections(Cow<'p, str>),
    /// How many connections there are: an addition of Reverb.
    Connections,
}

/// A request, but for its query and its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route<'p> {
    /// The app's id. `None` in the way in which Python's library ends connections: the app is
    /// that of `auth_key`.
    pub app_id: Option<&'p str>,
    /// What is asked.
    pub call: Call<'p>,
}

impl<'p> Route<'p> {
    /// The call at `path`, as it came.
    ///
    /// # Errors
    /// There is none, or not by this method, or of a channel or a user that cannot be.
    pub fn of(method: &str, path: &'p str) -> Result<Route<'p>, ApiRefusal> {
        let path = path.strip_prefix('/').ok_or(ApiRefusal::NoSuchPath)?;
        let parts: Vec<&str> = path.splitn(6, '/').collect();
        let (app_id, rest) = match parts.as_slice() {
            ["apps", app_id, rest @ ..] => (Some(*app_id), rest),
            rest @ ["users", ..] => (None, rest),
            _ => return Err(ApiRefusal::NoSuchPath),
        };
        let (wanted, call) = call(rest)?;
        match method == wanted {
            true => Ok(Route { app_id, call }),
            false => Err(ApiRefusal::Method(wanted)),
        }
    }
}

/// The call at the parts of a path behind the app, and its method.
fn call<'p>(parts: &[&'p str]) -> Result<(&'static str, Call<'p>), ApiRefusal> {
    Ok(match parts {
        ["events"] => ("POST", Call::Events),
        ["batch_events"] => ("POST", Call::BatchEvents),
        ["channels"] => ("GET", Call::Channels),
        ["connections"] => ("GET", Call::Connections),
        ["channels", name] => ("GET", Call::Channel(channel(name)?)),
        ["channels", name, "users"] => ("GET", Call::ChannelUsers(channel(name)?)),
        ["channels", name, "events"] => ("POST", Call::ChannelEvents(channel(name)?)),
        ["users", id, "terminate_connections"] => {
            let id = decoded(id).filter(|id| is_user_id(id)).ok_or(ApiRefusal::UserId)?;
            ("POST", Call::TerminateConnections(id))
        }
        _ => return Err(ApiRefusal::NoSuchPath),
    })
}

fn channel(name: &str) -> Result<Cow<'_, str>, ApiRefusal> {
    let name = decoded(name).ok_or(ApiRefusal::NoSuchPath)?;
    Channel::parse(&name)?;
    Ok(name)
}

fn decoded(part: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(part).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::ChannelFault;

    #[test]
    fn paths_are_calls_by_one_method_each() {
        for (method, path, call) in [
            ("POST", "/apps/1/events", Call::Events),
            ("POST", "/apps/1/batch_events", Call::BatchEvents),
            ("GET", "/apps/1/channels", Call::Channels),
            ("GET", "/apps/1/connections", Call::Connections),
            ("GET", "/apps/1/channels/presence-a", Call::Channel("presence-a".into())),
            ("GET", "/apps/1/channels/a%3Db", Call::Channel("a=b".into())),
            ("GET", "/apps/1/channels/a/users", Call::ChannelUsers("a".into())),
            ("POST", "/apps/1/channels/a/events", Call::ChannelEvents("a".into())),
            (
                "POST",
                "/apps/1/users/b%20c/terminate_connections",
                Call::TerminateConnections("b c".into()),
            ),
        ] {
            assert_eq!(Route::of(method, path), Ok(Route { app_id: Some("1"), call }), "{path}");
            let other = if method == "GET" { "POST" } else { "GET" };
            assert_eq!(Route::of(other, path), Err(ApiRefusal::Method(method)), "{path}");
            assert_eq!(Route::of("DELETE", path).unwrap_err().status(), 405);
        }
    }

    #[test]
    fn pythons_library_ends_connections_without_an_app() {
        let route = Route::of("POST", "/users/bob/terminate_connections").unwrap();
        assert_eq!(route.app_id, None);
        assert_eq!(route.call, Call::TerminateConnections("bob".into()));
    }

    #[test]
    fn what_is_no_call_is_refused() {
        for path in [
            "",
            "/",
            "apps/1/events",
            "/apps",
            "/apps/1",
            "/apps/1/",
            "/apps/1/events/",
            "/apps/1/channels/a/b",
            "/apps/1/channels/a/users/b/c/d",
            "/apps/1/channels/%ff",
            "/events",
            "/users/bob",
            "/apps/1/users/bob",
        ] {
            assert_eq!(Route::of("POST", path), Err(ApiRefusal::NoSuchPath), "{path}");
        }
        let named = Route::of("GET", "/apps/1/channels/a%20b");
        assert_eq!(named, Err(ApiRefusal::Channel(ChannelFault::Character)));
        let long = format!("/apps/1/users/{}/terminate_connections", "a".repeat(129));
        assert_eq!(Route::of("POST", &long), Err(ApiRefusal::UserId));
    }
}

//! An event as a client of streams writes it: one of the API, and whether it is to come back, and
//! to which connection not.

use std::borrow::Cow;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess};

use hub::ConnectionId;

use super::event_body::{self, EventBody};

/// The members that the API does not have.
const ECHO: &str = "echo";
const CONNECTION: &str = "connection";

/// An event as a client of streams writes it.
#[derive(Debug)]
pub(super) struct ClientEventBody<'a> {
    pub(super) event: EventBody<'a>,
    /// Whether the connection that sends it hears it too.
    pub(super) echo: bool,
    /// What it says of the stream of whoever sends it, if it says something: which connection that
    /// is, unless the text is no connection's id.
    pub(super) connection: Option<Option<ConnectionId>>,
}

/// The members of a client's alone.
#[derive(Default)]
struct ClientMembers {
    echo: Option<bool>,
    connection: Option<Connection>,
}

/// What stands in [`CONNECTION`].
struct Connection(Option<ConnectionId>);

impl<'de> Deserialize<'de> for Connection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Connection, D::Error> {
        event_body::connection(deserializer, CONNECTION).map(Connection)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ClientEventBody<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ClientEventBody<'a>, D::Error> {
        deserializer.deserialize_map(Visitor)
    }
}

struct Visitor;

impl<'de> serde::de::Visitor<'de> for Visitor {
    type Value = ClientEventBody<'de>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ClientEventBody<'de>, A::Error> {
        let mut members = ClientMembers::default();
        let others = WithoutClients { map, members: &mut members };
        let event = EventBody::deserialize(MapAccessDeserializer::new(others))?;
        let ClientMembers { echo, connection } = members;
        let connection = connection.map(|Connection(id)| id);
        Ok(ClientEventBody { event, echo: echo.unwrap_or_default(), connection })
    }
}

/// The members of an object but for those of clients alone.
struct WithoutClients<'e, A> {
    map: A,
    members: &'e mut ClientMembers,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutClients<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.map.next_key::<Cow<'de, str>>()? {
            let ClientMembers { echo, connection } = &mut *self.members;
            let (named, is_second) = match &*name {
                ECHO => (ECHO, echo.replace(self.map.next_value()?).is_some()),
                CONNECTION => (CONNECTION, connection.replace(self.map.next_value()?).is_some()),
                _ => return seed.deserialize(name.into_deserializer()).map(Some),
            };
            if is_second {
                return Err(A::Error::duplicate_field(named));
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<(bool, &str)> {
        let body: ClientEventBody<'_> = serde_json::from_str(json).ok()?;
        let hub::Payload::Json(data) = body.event.payload().ok()? else { return None };
        Some((body.echo, &json[json.find(data)?..][..data.len()]))
    }

    #[test]
    fn client_says_which_stream_is_its_own() {
        let connection = |json: &str| {
            let body = serde_json::from_str::<ClientEventBody<'_>>(json);
            body.map(|body| body.connection).map_err(|error| error.to_string())
        };
        let own = ConnectionId::of_bits(7);
        let known = r#"{"connection":"0000000000000007","about":1,"data":2}"#;
        assert_eq!(connection(known), Ok(Some(own)));
        assert_eq!(connection(r#"{"about":1,"data":2,"connection":"x"}"#), Ok(Some(None)));
        assert_eq!(connection(r#"{"about":1,"data":2}"#), Ok(None));
        let error = connection(r#"{"about":1,"data":2,"connection":7}"#).unwrap_err();
        assert!(error.contains("a connection's id in \"connection\""), "{error}");
        let twice = r#"{"about":1,"data":2,"connection":"x","connection":"x"}"#;
        assert!(connection(twice).unwrap_err().contains("duplicate field `connection`"));
    }

    #[test]
    fn client_says_whether_it_hears_what_it_sends() {
        assert_eq!(read(r#"{"echo":true,"about":1,"data":2.50}"#), Some((true, "2.50")));
        assert_eq!(
            read(r#"{"about":1,"ech\u006f":false,"data":{"x" :1}}"#),
            Some((false, "{\"x\" :1}"))
        );
        assert_eq!(read(r#"{"about":1,"data":2}"#), Some((false, "2")));
        for bad in [
            r#"{"about":1,"data":2,"echo":1}"#,
            r#"{"about":1,"data":2,"echo":null}"#,
            r#"{"about":1,"data":2,"echo":true,"echo":true}"#,
            r#"{"about":1,"data":2,"x":true}"#,
            r#"{"about":1,"data":2,"from":"bob"}"#,
            "[1,2]",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}

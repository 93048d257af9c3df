//! An event as a client of streams writes it: one of the API, and whether it is to come back.

use std::borrow::Cow;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess};

use super::event_body::EventBody;

/// The member that the API does not have.
const ECHO: &str = "echo";

/// An event as a client of streams writes it.
#[derive(Debug)]
pub(super) struct ClientEventBody<'a> {
    pub(super) event: EventBody<'a>,
    /// Whether the connection that sends it hears it too.
    pub(super) echo: bool,
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
        let mut echo = None;
        let others = WithoutEcho { map, echo: &mut echo };
        let event = EventBody::deserialize(MapAccessDeserializer::new(others))?;
        Ok(ClientEventBody { event, echo: echo.unwrap_or_default() })
    }
}

/// The members of an object but for [`ECHO`].
struct WithoutEcho<'e, A> {
    map: A,
    echo: &'e mut Option<bool>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutEcho<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.map.next_key::<Cow<'de, str>>()? {
            if name != ECHO {
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
            if self.echo.replace(self.map.next_value()?).is_some() {
                return Err(A::Error::duplicate_field(ECHO));
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

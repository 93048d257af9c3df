//! What is asked and what is found, with bounds on both.
//!
//! Everything that comes from a client, a datagram, a script or a friend becomes one of these two
//! types or an [`Invalid`]; so the bounds stand here alone.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// Bytes of one field of a query. Titles have some 20; what is longer is no title.
pub const FIELD_BYTES_MAX: usize = 512;

/// Bytes of a query's or a result's own id. UUIDs have 36.
pub const ID_BYTES_MAX: usize = 64;

/// Types that one query may ask for.
pub const MIMETYPES_MAX: usize = 16;

/// Bytes of one result as JSON: what a frame of a script may have at most.
pub const FOUND_BYTES_MAX: usize = 4096;

/// Why a query or a result is refused; its text goes to whoever sent it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Invalid {
    /// A field that must be there is empty or missing.
    #[error("{0} is missing: give it, and not empty")]
    Missing(&'static str),
    /// A field is too long or has control characters.
    #[error("{0} is too long or has control characters: give at most {1} bytes of plain text")]
    Field(&'static str, usize),
    /// An id has other characters than ids have.
    #[error("{0} is no id: give 1 to {ID_BYTES_MAX} letters, digits, '-', '_' or '.'")]
    Id(&'static str),
    /// The whole of a result is too long.
    #[error("a result has at most {FOUND_BYTES_MAX} bytes")]
    TooLong,
    /// A query asks for more types than there are.
    #[error("mimetypes has more than {MIMETYPES_MAX} types: name fewer")]
    Mimetypes,
    /// A field has another type of JSON than it must.
    #[error("{0} has the wrong type")]
    Type(&'static str),
}

/// What somebody wants to hear.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "QueryFields")]
pub struct Query {
    /// The query's own id: its sender's or one of ours.
    pub qid: String,
    /// Who plays.
    pub artist: String,
    /// The title.
    pub track: String,
    /// On which album, if that matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub album: Option<String>,
    /// The types that the asker can play; empty for any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mimetypes: Vec<String>,
    /// Whether it was asked on this machine. What is read from elsewhere never says so itself.
    #[serde(skip)]
    pub is_local: bool,
}

/// A query as JSON has it, before it is checked. Fields that we do not know are for others.
#[derive(Deserialize)]
struct QueryFields {
    #[serde(default)]
    qid: String,
    #[serde(default)]
    artist: String,
    #[serde(default)]
    track: String,
    #[serde(default)]
    album: Option<String>,
    #[serde(default)]
    mimetypes: Vec<String>,
}

impl TryFrom<QueryFields> for Query {
    type Error = Invalid;

    fn try_from(asked: QueryFields) -> Result<Query, Invalid> {
        let QueryFields { qid, artist, track, album, mimetypes } = asked;
        let query = Query { qid, artist, track, album, mimetypes, is_local: false };
        query.checked()
    }
}

impl Query {
    /// The query with its fields trimmed, if it keeps the bounds; an empty `qid` gets one of ours.
    pub fn checked(mut self) -> Result<Query, Invalid> {
        if self.qid.is_empty() {
            self.qid = new_id();
        }
        check_id("qid", &self.qid)?;
        self.artist = field("artist", &self.artist)?;
        self.track = field("track", &self.track)?;
        self.album = match self.album.as_deref().map(str::trim) {
            None | Some("") => None,
            Some(album) => Some(field("album", album)?),
        };
        if self.mimetypes.len() > MIMETYPES_MAX {
            return Err(Invalid::Mimetypes);
        }
        for mimetype in &mut self.mimetypes {
            *mimetype = field("mimetypes", mimetype)?;
        }
        Ok(self)
    }

    /// Whether the asker can play this type. One that is not told may be any.
    pub fn takes(&self, mimetype: &str) -> bool {
        let any = self.mimetypes.is_empty() || mimetype.is_empty();
        any || self.mimetypes.iter().any(|one| one == "*/*" || one.eq_ignore_ascii_case(mimetype))
    }
}

/// Where a song can be heard.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Found {
    /// The result's own id, under which `/sid/` plays it; empty until the pipeline gives one.
    pub sid: String,
    /// Who plays.
    pub artist: String,
    /// The title.
    pub track: String,
    /// The album, or nothing.
    pub album: String,
    /// The type of the content, or nothing where that is not known.
    pub mimetype: String,
    /// How well it answers the query, 0 to 1; the pipeline scores what has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
    /// In kbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bitrate: Option<u64>,
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Whose song it is: a name of a daemon or of a service.
    pub source: String,
    /// Which of two equal scores goes first; the pipeline gives the resolver's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preference: Option<i64>,
    /// Where the content is read from. For the daemon alone: clients never see it.
    #[serde(skip)]
    pub url: Option<String>,
    /// Fields that we do not know; they pass through.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl TryFrom<Map<String, Value>> for Found {
    type Error = Invalid;

    fn try_from(mut map: Map<String, Value>) -> Result<Found, Invalid> {
        let bytes = serde_json::to_string(&map).map_or(usize::MAX, |text| text.len());
        if bytes > FOUND_BYTES_MAX {
            return Err(Invalid::TooLong);
        }
        let sid = text(&mut map, "sid")?;
        if !sid.is_empty() {
            check_id("sid", &sid)?;
        }
        let url = text(&mut map, "url")?;
        if url.chars().any(char::is_control) {
            return Err(Invalid::Field("url", FOUND_BYTES_MAX));
        }
        Ok(Found {
            sid,
            artist: field("artist", &text(&mut map, "artist")?)?,
            track: field("track", &text(&mut map, "track")?)?,
            album: plain("album", &text(&mut map, "album")?)?,
            mimetype: plain("mimetype", &text(&mut map, "mimetype")?)?,
            score: number(&mut map, "score")?.map(|score| score.clamp(0.0, 1.0)),
            duration: whole(&mut map, "duration")?,
            bitrate: whole(&mut map, "bitrate")?,
            size: whole(&mut map, "size")?,
            source: plain("source", &text(&mut map, "source")?)?,
            preference: number(&mut map, "preference")?.map(|preference| preference as i64),
            url: Some(url).filter(|url| !url.is_empty()),
            more: map,
        })
    }
}

/// A new id: a random UUID (RFC 9562, version 4) in upper case, as the old daemon writes it.
pub fn new_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("Linux has random numbers");
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Ids go into paths, names of streams and logs, so they have plain characters only.
pub fn check_id(name: &'static str, id: &str) -> Result<(), Invalid> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    match !id.is_empty() && id.len() <= ID_BYTES_MAX && id.bytes().all(plain) {
        true => Ok(()),
        false => Err(Invalid::Id(name)),
    }
}

/// A field that must say something, trimmed.
fn field(name: &'static str, text: &str) -> Result<String, Invalid> {
    let text = plain(name, text)?;
    if text.is_empty() { Err(Invalid::Missing(name)) } else { Ok(text) }
}

/// A field that may be empty, trimmed.
fn plain(name: &'static str, text: &str) -> Result<String, Invalid> {
    let text = text.trim();
    match text.len() > FIELD_BYTES_MAX || text.chars().any(char::is_control) {
        true => Err(Invalid::Field(name, FIELD_BYTES_MAX)),
        false => Ok(text.to_owned()),
    }
}

fn text(map: &mut Map<String, Value>, name: &'static str) -> Result<String, Invalid> {
    match map.remove(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Invalid::Type(name)),
    }
}

/// Old scripts write numbers as strings too.
fn number(map: &mut Map<String, Value>, name: &'static str) -> Result<Option<f64>, Invalid> {
    let number = match map.remove(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) if text.is_empty() => return Ok(None),
        Some(Value::String(text)) => text.parse().ok(),
        Some(_) => None,
    };
    number.filter(|number| number.is_finite()).map(Some).ok_or(Invalid::Type(name))
}

fn whole(map: &mut Map<String, Value>, name: &'static str) -> Result<Option<u64>, Invalid> {
    // `as` keeps within the bounds of the type.
    Ok(number(map, name)?.map(|number| number as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn query_out_of_bounds_is_refused_with_its_field() {
        let read = |value| serde_json::from_value::<Query>(value).map_err(|e| e.to_string());
        let query = read(json!({"artist": " A ", "track": "B", "album": "", "x": 1})).unwrap();
        assert_eq!((query.artist.as_str(), query.album, query.is_local), ("A", None, false));
        assert_eq!(query.qid.len(), 36);
        assert!(read(json!({"artist": "A"})).unwrap_err().contains("track is missing"));
        let long = "x".repeat(FIELD_BYTES_MAX + 1);
        assert!(read(json!({"artist": long, "track": "B"})).unwrap_err().contains("artist"));
        assert!(read(json!({"artist": "a\r\nb", "track": "B"})).unwrap_err().contains("artist"));
        assert!(
            read(json!({"qid": "a/b", "artist": "A", "track": "B"})).unwrap_err().contains("id")
        );
    }

    #[test]
    fn result_passes_unknown_fields_through_and_never_its_url() {
        let value = json!({"artist": "A", "track": "B", "duration": "12.7", "score": 7,
            "url": "file:///secret", "colour": "red"});
        let found: Found = serde_json::from_value(value).unwrap();
        assert_eq!((found.duration, found.score), (Some(12), Some(1.0)));
        assert_eq!(found.url.as_deref(), Some("file:///secret"));
        let written = serde_json::to_string(&found).unwrap();
        assert!(written.contains("colour") && !written.contains("secret"), "{written}");
    }

    #[test]
    fn result_longer_than_its_bound_is_refused() {
        let value = json!({"artist": "A", "track": "B", "x": "y".repeat(FOUND_BYTES_MAX)});
        assert!(serde_json::from_value::<Found>(value).is_err());
    }

    #[test]
    fn new_ids_have_the_layout_of_version_4() {
        let id = new_id();
        assert_eq!((id.len(), &id[14..15]), (36, "4"));
        assert!("89AB".contains(&id[19..20]));
        assert_ne!(id, new_id());
    }
}

//! Long poll, writing side: an HTTP answer whose body is a JSON array of events.
//!
//! An answer is a [head](Answer::push_head), the events' frames and the [end](ARRAY_END). Its
//! length is known before it is sent, so the connection can carry the next poll. A frame begins
//! with the comma that parts it from the event before it, and the first one of an array goes out
//! without.
//!
//! What the poller must know beside the events stands in the head, so that the body is the events
//! and nothing else.

use crate::{Frame, Framing, response};

/// The start of the array; it goes out with the head.
const ARRAY_START: &str = "[";
/// The end of the array.
pub const ARRAY_END: &[u8] = b"]\n";
/// What parts two events.
const SEPARATOR: &[u8] = b",\n";

/// Fields that a page of another origin may read, beside those that it may always read.
const CORS_EXPOSED: &str = "Encke-Next, Encke-Gap";

/// The event whose JSON is `json`.
pub fn event(json: &str) -> Frame {
    Frame::after(SEPARATOR, json.as_bytes())
}

/// The bytes of `frame` in an answer that holds `before` events already.
pub fn element(frame: &Frame, before: usize) -> &[u8] {
    match before {
        0 => frame.body(),
        _ => frame.for_framing(Framing::Chunked),
    }
}

/// What an answer says before its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answer<'i> {
    /// The length of all elements together.
    pub elements_len: usize,
    /// The id of the event after which the next poll goes on; `None` when it is not known.
    pub next: Option<&'i str>,
    /// Whether events between the cursor that the poll came with and this answer are lost.
    pub gap: bool,
    /// Whether the connection waits for another request, for at most so many seconds.
    pub keep_alive_seconds: Option<u32>,
    /// Whether a page of an origin that is let in asked.
    pub cors: bool,
}

impl Answer<'_> {
    /// Appends the head, and the start of the array.
    pub fn push_head(&self, out: &mut Vec<u8>) {
        let len = ARRAY_START.len() + self.elements_len + ARRAY_END.len();
        self.push_fields(out);
        response::push(out, &[&format!("Content-Length: {len}\r\n\r\n"), ARRAY_START]);
    }

    /// Appends the answer to a `HEAD`, which waits for no event and so knows no length.
    pub fn push_head_only(&self, out: &mut Vec<u8>) {
        self.push_fields(out);
        response::push(out, &["\r\n"]);
    }

    fn push_fields(&self, out: &mut Vec<u8>) {
        response::push(
            out,
            &[
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n",
                "X-Content-Type-Options: nosniff\r\n",
            ],
        );
        if let Some(id) = self.next {
            response::push(out, &["Encke-Next: ", id, "\r\n"]);
        }
        if self.gap {
            response::push(out, &["Encke-Gap: true\r\n"]);
        }
        match self.keep_alive_seconds {
            Some(seconds) => response::push(out, &[&format!("Keep-Alive: timeout={seconds}\r\n")]),
            None => response::push(out, &["Connection: close\r\n"]),
        }
        if self.cors {
            // The page's origin was looked at when the poll came. Its name is not kept for the time
            // of the wait; any name will do for an answer that no cache keeps and that carries no
            // leave to use cookies (Fetch Standard, section 3.2.5).
            response::push(out, &["Access-Control-Allow-Origin: *\r\nVary: Origin\r\n"]);
            response::push(out, &["Access-Control-Expose-Headers: ", CORS_EXPOSED, "\r\n"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// An answer as an outside parser reads it: its fields and its body.
    fn read(wire: &[u8]) -> (Vec<(String, String)>, Vec<u8>) {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut response = httparse::Response::new(&mut headers);
        let head_len = response.parse(wire).unwrap().unwrap();
        assert_eq!((response.code, response.version), (Some(200), Some(1)));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let fields = response.headers.iter().map(|field| (field.name.into(), text(field.value)));
        (fields.collect(), wire[head_len..].to_vec())
    }

    fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
        let mut values = fields.iter().filter(|field| field.0 == name);
        let value = values.next().map(|field| field.1.as_str());
        assert!(values.next().is_none(), "{name} stands twice");
        value
    }

    #[test]
    fn answer_is_an_array_of_exactly_the_length_it_says() {
        testing::seeded(200, |rng| {
            let texts: Vec<String> = (0..rng.usize(0..5)).map(|_| testing::text(rng, 30)).collect();
            let frames: Vec<Frame> =
                texts.iter().map(|text| event(&serde_json::to_string(text).unwrap())).collect();
            let elements: Vec<&[u8]> =
                frames.iter().enumerate().map(|(before, frame)| element(frame, before)).collect();
            let elements_len = elements.iter().map(|element| element.len()).sum();
            let mut wire = Vec::new();
            Answer { elements_len, ..Answer::default() }.push_head(&mut wire);
            wire.extend(elements.concat());
            wire.extend_from_slice(ARRAY_END);
            let (fields, body) = read(&wire);
            assert_eq!(field(&fields, "Content-Length"), Some(body.len().to_string().as_str()));
            assert_eq!(field(&fields, "Content-Type"), Some("application/json"));
            assert_eq!(serde_json::from_slice::<Vec<String>>(&body).unwrap(), texts);
        });
    }

    #[test]
    fn plain_answer_says_nothing_that_is_not_so() {
        let mut wire = Vec::new();
        Answer::default().push_head(&mut wire);
        wire.extend_from_slice(ARRAY_END);
        let (fields, body) = read(&wire);
        assert_eq!(body, b"[]\n");
        assert_eq!(field(&fields, "Cache-Control"), Some("no-store"));
        assert_eq!(field(&fields, "Connection"), Some("close"));
        assert_eq!(fields.len(), 5);
    }

    #[test]
    fn cursor_gap_and_keep_alive_stand_in_the_head_where_pages_may_read_them() {
        let answer = Answer {
            next: Some("2F3y6mQsYKmaB3xZ"),
            gap: true,
            keep_alive_seconds: Some(75),
            cors: true,
            ..Answer::default()
        };
        let mut wire = Vec::new();
        answer.push_head_only(&mut wire);
        let (fields, body) = read(&wire);
        assert!(body.is_empty());
        assert_eq!(field(&fields, "Encke-Next"), Some("2F3y6mQsYKmaB3xZ"));
        assert_eq!(field(&fields, "Encke-Gap"), Some("true"));
        assert_eq!(field(&fields, "Keep-Alive"), Some("timeout=75"));
        assert_eq!(field(&fields, "Connection"), None);
        assert_eq!(field(&fields, "Content-Length"), None);
        assert_eq!(field(&fields, "Access-Control-Allow-Origin"), Some("*"));
        let exposed = field(&fields, "Access-Control-Expose-Headers").unwrap();
        assert!(exposed.contains("Encke-Next") && exposed.contains("Encke-Gap"));
    }
}

//! A client of the API, one connection for many requests.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{Head, Wire, wait_for};

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.status
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON of a good answer.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status(), 200, "{self:?}");
        self.json()
    }

    /// Checks that it is a problem as RFC 9457 has it, with this status; returns it.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status(), status, "{self:?}");
        assert_eq!(self.head.field("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        check_problem(&problem, status);
        problem
    }
}

/// The members that every problem has.
#[track_caller]
pub(crate) fn check_problem(problem: &Value, status: u16) {
    assert_eq!(problem["status"], status, "{problem}");
    let reference = problem["type"].as_str().unwrap_or_default();
    assert!(reference.starts_with("errors#"), "{reference}");
    // Without a phrase of its own a status is called so.
    assert!(!["", "Error"].contains(&problem["title"].as_str().unwrap()), "{problem}");
    assert!(problem["detail"].as_str().unwrap().len() > 10, "says what to do: {problem}");
}

/// The client.
pub(crate) struct Api {
    address: SocketAddr,
    connection: RefCell<Option<Wire>>,
    /// Further header lines of each request.
    fields: String,
}

impl Api {
    pub(crate) fn new(address: SocketAddr) -> Api {
        Api { address, connection: RefCell::new(None), fields: String::new() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Another client, for another thread.
    pub(crate) fn another(&self) -> Api {
        Api { fields: self.fields.clone(), ..Api::new(self.address) }
    }

    /// Another client that sends these header lines with each request.
    pub(crate) fn with(&self, fields: &[&str]) -> Api {
        let fields = fields.iter().map(|field| format!("{field}\r\n")).collect();
        Api { fields, ..Api::new(self.address) }
    }

    /// Another client that shows `key`.
    pub(crate) fn with_key(&self, key: &str) -> Api {
        self.with(&[&format!("Authorization: Bearer {key}")])
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, None, b"").unwrap()
    }

    /// Posts JSON.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.try_post(path, body).unwrap()
    }

    pub(crate) fn try_post(&self, path: &str, body: &Value) -> io::Result<Answer> {
        self.request("POST", path, Some("application/json"), body.to_string().as_bytes())
    }

    /// Posts NDJSON.
    pub(crate) fn post_lines(&self, path: &str, body: &str) -> Answer {
        self.request("POST", path, Some("application/x-ndjson"), body.as_bytes()).unwrap()
    }

    /// Posts `body` with more header fields, each with its line end.
    pub(crate) fn post_with(&self, path: &str, fields: &str, body: &str) -> Answer {
        self.request_with("POST", path, fields, body.as_bytes()).unwrap()
    }

    /// One request and its whole answer.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: &[u8],
    ) -> io::Result<Answer> {
        let field = content_type.map(|content_type| format!("Content-Type: {content_type}\r\n"));
        self.request_with(method, path, &field.unwrap_or_default(), body)
    }

    fn request_with(
        &self,
        method: &str,
        path: &str,
        fields: &str,
        body: &[u8],
    ) -> io::Result<Answer> {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{}{fields}", self.fields);
        if method == "POST" || !body.is_empty() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        let bytes = [(head + "\r\n").as_bytes(), body].concat();
        // The server may have closed it in the meantime.
        let kept = self.connection.borrow_mut().take().filter(Wire::is_open);
        let mut wire = kept.map_or_else(|| Wire::try_connect(self.address), Ok)?;
        wire.try_send(&bytes)?;
        let answer = read_answer(&mut wire, method)?;
        if answer.head.field("connection") != Some("close") {
            *self.connection.borrow_mut() = Some(wire);
        }
        Ok(answer)
    }

    /// Posts until it is taken: until then it is refused because a server behind this one is away
    /// (503), and for no other reason.
    #[track_caller]
    pub(crate) fn post_until_taken(&self, path: &str, body: &Value) {
        wait_for(&format!("{path} is taken"), || {
            let answer = self.post(path, body);
            assert!([200, 503].contains(&answer.status()), "{answer:?}");
            answer.status() == 200
        });
    }

    /// Sends an event; returns how many connections it was delivered to.
    #[track_caller]
    pub(crate) fn send(&self, about: &str, data: impl Into<Value>) -> u64 {
        let answer = self.post("/send", &json!({ "about": about, "data": data.into() })).ok();
        answer["delivered"].as_u64().unwrap()
    }

    /// `subscriber` follows `subscribee` from now on.
    #[track_caller]
    pub(crate) fn subscribe(&self, subscriber: &str, subscribee: &str) {
        let pair = json!([{ "subscriber": subscriber, "subscribee": subscribee }]);
        self.post("/subscriptions/add", &pair).ok();
    }

    #[track_caller]
    pub(crate) fn connections(&self, id: &str) -> u64 {
        self.get(&format!("/connections/{id}")).ok()["connections"].as_u64().unwrap()
    }

    #[track_caller]
    pub(crate) fn logout(&self, id: &str) -> u64 {
        self.post(&format!("/logout/{id}"), &json!({})).ok()["closed"].as_u64().unwrap()
    }

    #[track_caller]
    pub(crate) fn stats(&self) -> Value {
        self.get("/stats").ok()
    }

    /// All ids of a list such as `/subscribers/rj`, read page by page.
    pub(crate) fn ids(&self, path: &str, limit: usize) -> Vec<String> {
        let mut ids = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.get(&format!("{path}?limit={limit}{after}")).ok();
            let part = page["ids"].as_array().unwrap();
            assert!(part.len() <= limit);
            ids.extend(part.iter().map(|id| id.as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", escape(next)),
                None => return ids,
            }
        }
    }

    /// Waits until the counters add up: whoever was opened is open or closed.
    pub(crate) fn wait_settled(&self) {
        wait_for("opened connections are open or closed", || {
            let stats = self.stats();
            let open = stats["connections_open"].as_u64().unwrap();
            stats["connections_opened"] == open + sum(&stats["connections_closed"])
        });
    }
}

/// Of all members of an object of counts.
pub(super) fn sum(counts: &Value) -> u64 {
    counts.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

/// Percent-encodes all but the unreserved characters of `id`.
pub(crate) fn escape(id: &str) -> String {
    percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Reads a whole answer to a request with `method`.
pub(crate) fn read_answer(wire: &mut Wire, method: &str) -> io::Result<Answer> {
    let head = wire.try_head()?;
    let body = if method == "HEAD" || matches!(head.status, 204 | 304) {
        Vec::new()
    } else if let Some(len) = head.field("content-length") {
        wire.take(len.parse().unwrap())?
    } else if head.field("transfer-encoding") == Some("chunked") {
        let mut body = Vec::new();
        loop {
            let chunk = wire.chunk()?;
            if chunk.is_empty() {
                break body;
            }
            body.extend(chunk);
        }
    } else {
        return Err(io::Error::new(ErrorKind::InvalidData, "an answer of unknown length"));
    };
    // A backup of the graph is no text, and all else that is none is found by who reads it.
    Ok(Answer { head, body: String::from_utf8_lossy(&body).into_owned() })
}

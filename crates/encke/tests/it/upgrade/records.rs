//! The bodies of streams, put together again: lines of SSE, of NDJSON, of the classic page.

use serde_json::{Value, json};

/// What a body says.
pub(super) enum Record {
    /// With its id, but on the classic page.
    Event(Value),
    /// Where the stream stands, without an event.
    Place(String),
    KeepAlive,
    Gap,
}

/// A body under way.
pub(super) struct Records {
    form: Form,
    bytes: Vec<u8>,
    /// Events of the classic page, which counts them.
    count: u64,
    /// The fields of a block of SSE that has not ended.
    block: Block,
}

#[derive(Clone, Copy)]
enum Form {
    Sse,
    Json,
    Classic,
}

#[derive(Default)]
struct Block {
    id: Option<String>,
    kind: Option<String>,
    data: Option<String>,
}

impl Records {
    pub(super) fn sse() -> Records {
        Records::of(Form::Sse)
    }

    pub(super) fn json() -> Records {
        Records::of(Form::Json)
    }

    pub(super) fn classic() -> Records {
        Records::of(Form::Classic)
    }

    fn of(form: Form) -> Records {
        Records { form, bytes: Vec::new(), count: 0, block: Block::default() }
    }

    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next one that is whole.
    pub(super) fn next(&mut self) -> Option<Record> {
        loop {
            let end = memchr::memchr(b'\n', &self.bytes)? + 1;
            let line: Vec<u8> = self.bytes.drain(..end).collect();
            let line = str::from_utf8(&line).unwrap().trim_end_matches('\n');
            let record = match self.form {
                Form::Sse => self.sse_line(line),
                Form::Json => Some(json_line(line)),
                Form::Classic => self.classic_line(line),
            };
            if record.is_some() {
                return record;
            }
        }
    }

    fn sse_line(&mut self, line: &str) -> Option<Record> {
        let Block { id, kind, data } = &mut self.block;
        let set = |field: &mut Option<String>, value: &str| {
            assert_eq!(field.replace(value.to_owned()), None, "once in a block: {line}");
        };
        match line.split_once(": ") {
            Some(("id", value)) => set(id, value),
            Some(("event", value)) => set(kind, value),
            Some(("data", value)) => set(data, value),
            None if line == ":" => return Some(Record::KeepAlive),
            None if line.is_empty() => return Some(std::mem::take(&mut self.block).end()),
            _ => panic!("no line of SSE: {line:?}"),
        }
        None
    }

    fn classic_line(&mut self, line: &str) -> Option<Record> {
        if line == "<!-- -->" {
            return Some(Record::KeepAlive);
        }
        if line.starts_with("Welcome, id ") && self.count == 0 {
            return None;
        }
        self.count += 1;
        let start = format!("Recvd msg #{}: '", self.count);
        let text = line.strip_prefix(&start).and_then(|rest| rest.strip_suffix("'<br/>"));
        let text = text.unwrap_or_else(|| panic!("not message {}: {line:?}", self.count));
        Some(Record::Event(json!({ "data": text })))
    }
}

impl Block {
    fn end(self) -> Record {
        match (self.kind.as_deref(), self.data, self.id) {
            (Some("gap"), Some(data), _) if data == "{}" => Record::Gap,
            (None, Some(data), Some(id)) => {
                let event: Value = serde_json::from_str(&data).unwrap();
                assert_eq!(event["id"], id, "the same id twice");
                Record::Event(event)
            }
            (None, None, Some(id)) => Record::Place(id),
            other => panic!("no block of ours: {other:?}"),
        }
    }
}

fn json_line(line: &str) -> Record {
    if line.is_empty() {
        return Record::KeepAlive;
    }
    let value: Value =
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    if value["gap"] == true { Record::Gap } else { Record::Event(value) }
}

//! A stream on a WebSocket (RFC 6455).
//!
//! Its events tell their ids. Where it begins, and where it stands behind a gap, a server says only
//! when it is asked. So this asks it, if the server agreed to speak Encke's protocol.

use std::collections::VecDeque;

use anyhow::{Context, Result, anyhow};
use client::{BodyLength, Reply, StreamDecoder};
use hyper::upgrade::Upgraded;
use hyper::{StatusCode, header};
use hyper_util::rt::TokioIo;
use proto::Transport;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Loss, StreamItem, Wanted, request, written};
use crate::client::no_answer;
use crate::system::random;

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// The subprotocol whose server knows commands.
const PROTOCOL: &str = "encke";

/// The question where the stream stands.
const PING: &str = "{\"ping\":1}";

/// An open WebSocket.
pub(super) struct Socket {
    io: TokioIo<Upgraded>,
    decoder: StreamDecoder,
    buffer: Vec<u8>,
    /// Whether the server knows commands.
    is_encke: bool,
}

/// What a message of the server says, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    id: Option<Value>,
    about: Option<Value>,
    gap: Option<Value>,
    next: Option<String>,
    ok: Option<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    next: Option<String>,
}

impl Socket {
    pub(super) async fn open(wanted: &Wanted, place: Option<&str>) -> Result<Socket, Loss> {
        // Its bytes, and the masks of frames, are such that nobody can foresee (RFC 6455, sections
        // 4.1 and 5.3).
        let key = client::key(random()?);
        let request = request(wanted, place)?
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
            .header(header::SEC_WEBSOCKET_KEY, &key[..]);
        let url = &wanted.url;
        let response = url.connect().await?.send_request(written(request)?).await;
        let response = response.with_context(|| no_answer(url))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(Loss::refused(response, url).await);
        }
        let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        if !client::accepts(&key, field(header::SEC_WEBSOCKET_ACCEPT).unwrap_or_default()) {
            let wrong = "the answer is no WebSocket's (Sec-WebSocket-Accept); is it Encke?";
            return Err(anyhow!(wrong).into());
        }
        let is_encke = field(header::SEC_WEBSOCKET_PROTOCOL) == Some(PROTOCOL);
        let io = hyper::upgrade::on(response).await.context("the connection broke off")?;
        let decoder = StreamDecoder::new(Transport::WebSocket, BodyLength::UntilClose);
        let (io, buffer) = (TokioIo::new(io), vec![0; READ_BYTES]);
        let mut socket = Socket { io, decoder, buffer, is_encke };
        socket.ask_place().await?;
        Ok(socket)
    }

    pub(super) async fn read(&mut self, heard: &mut VecDeque<StreamItem>) -> Result<(), Loss> {
        let len = self.io.read(&mut self.buffer).await.context("the connection broke off")?;
        if len == 0 {
            return Err(anyhow!("the server ended the connection").into());
        }
        let (is_encke, before) = (self.is_encke, heard.len());
        let hear = |event: client::Event<'_>| hear(event.data, is_encke, heard);
        let read = self.decoder.feed(&self.buffer[..len], hear);
        if let Some(owed) = self.decoder.take_reply() {
            let mut reply = Vec::new();
            client::push_reply(&owed, random()?, &mut reply);
            let sent = self.io.write_all(&reply).await;
            if let Reply::Close { code, reason } = owed {
                return Err(Loss::closed(code, &reason));
            }
            sent.context("the connection broke off")?;
        }
        read?;
        // The notice of a gap does not say where the stream stands behind it.
        if heard.iter().skip(before).any(|heard| *heard == StreamItem::Gap) {
            self.ask_place().await?;
        }
        Ok(())
    }

    async fn ask_place(&mut self) -> Result<()> {
        let mut frame = Vec::new();
        if self.is_encke {
            client::push_text(PING, random()?, &mut frame);
        }
        self.io.write_all(&frame).await.context("the connection broke off")
    }
}

/// Other servers' messages are events, whatever they say.
fn hear(message: &[u8], is_encke: bool, heard: &mut VecDeque<StreamItem>) {
    let read = serde_json::from_slice::<Message>(message).ok();
    match read.filter(|_| is_encke) {
        Some(Message { about: None, gap: Some(_), .. }) => heard.push_back(StreamItem::Gap),
        Some(Message { about: None, next: Some(next), .. }) => {
            heard.push_back(StreamItem::Place(next))
        }
        Some(Message { about: None, ok: Some(answer), .. }) => {
            heard.extend(answer.next.map(StreamItem::Place));
        }
        Some(Message { id: Some(Value::String(id)), .. }) => {
            heard.extend([StreamItem::Event(message.to_vec()), StreamItem::Place(id)]);
        }
        _ => heard.push_back(StreamItem::Event(message.to_vec())),
    }
}

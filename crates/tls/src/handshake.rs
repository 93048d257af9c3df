//! A handshake: bytes in, bytes out, and in the end [`Keys`].
//!
//! rustls is fed record by record and never a byte behind the last one of the handshake. So what a
//! peer has sent on top, data or a key update, is opened by this crate alone, and nothing that
//! rustls would answer to it can be lost.
//!
//! What comes is kept until it is whole: bounded by [`HANDSHAKE_BYTES_MAX`], and once a client's
//! hello is answered by [`ANSWERED_BYTES_MAX`].

use std::fmt;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, Error, HandshakeKind, ProtocolVersion, ServerConfig};

use crate::alert::alert_of;
use crate::capture::Capture;
use crate::early::{EarlyData, suite_of};
use crate::limits::{ANSWERED_BYTES_MAX, HANDSHAKE_BYTES_MAX, HEADER_BYTES};
use crate::record::{Header, VERSION, kind};
use crate::{Alert, Failure, Keys, Suite, Version};

/// The level of an alert that ends a connection (RFC 5246, section 7.2).
const FATAL: u8 = 2;

/// The shortest body of a sealed record: the kind of what is in it, and the tag (RFC 8446, section
/// 5.2).
const SEALED_LEAST: usize = 1 + 16;

/// A handshake under way.
pub struct Handshake(Box<Inner>);

struct Inner {
    /// Gone once it is done or has failed.
    side: Option<Side>,
    capture: Arc<Capture>,
    /// Of a server: which protocol is spoken, of several.
    spoken: Option<Vec<u8>>,
    /// What has come and is not consumed.
    received: Vec<u8>,
    /// So much of it rustls has seen.
    fed: usize,
    /// Something came that cannot be a record: where the next one begins nobody knows.
    is_astray: bool,
    /// The last record that rustls has seen is too short to be sealed data.
    is_short: bool,
    /// Of a server: what is refused of a client's early data.
    early: EarlyData,
    /// How much has come in all.
    total: usize,
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// How far a handshake has come.
#[derive(PartialEq, Eq, Debug)]
pub enum Step {
    /// More bytes are needed.
    NeedMore,
    /// It is done, and the keys are set.
    Done {
        /// What it has come to.
        agreed: Agreed,
        /// What came behind it: the first records, or a part of one, for the keys to open.
        rest: Vec<u8>,
    },
}

/// What a handshake has come to, for figures.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Agreed {
    /// The version.
    pub version: Version,
    /// What seals.
    pub suite: Suite,
    /// With keys of an earlier connection.
    pub resumed: bool,
    /// The client has named the server. Whether there is a certificate for that name, the resolver
    /// knows that chose one.
    pub named: bool,
    /// The client has agreed on another protocol than the one that is spoken: it is a directory
    /// that looks at a certificate, and the connection is to be closed (RFC 8737, section 4).
    pub only_looks: bool,
}

/// What one look of rustls at the bytes has come to.
enum Looked {
    /// There is something to be sent, or was: it looks again.
    Again,
    /// It needs more bytes.
    NeedMore,
    Done,
    Failed(Failure),
}

impl Handshake {
    /// A server's: the client begins.
    pub fn server(config: &ServerConfig) -> Result<Handshake, Error> {
        let capture = Arc::new(Capture::before(config.cert_resolver.clone()));
        let spoken = config.alpn_protocols.first().filter(|_| config.alpn_protocols.len() > 1);
        let spoken = spoken.cloned();
        let mut config = config.clone();
        config.key_log = capture.clone();
        config.cert_resolver = capture.clone();
        let connection = UnbufferedServerConnection::new(Arc::new(config))?;
        Ok(Handshake::new(Side::Server(connection), capture, spoken))
    }

    /// A client's, to a server of that name: it begins with a step without bytes.
    pub fn client(config: &ClientConfig, name: ServerName<'static>) -> Result<Handshake, Error> {
        let capture = Arc::new(Capture::default());
        let mut config = config.clone();
        config.key_log = capture.clone();
        let connection = UnbufferedClientConnection::new(Arc::new(config), name)?;
        Ok(Handshake::new(Side::Client(connection), capture, None))
    }

    fn new(side: Side, capture: Arc<Capture>, spoken: Option<Vec<u8>>) -> Handshake {
        Handshake(Box::new(Inner {
            side: Some(side),
            capture,
            spoken,
            received: Vec::new(),
            fed: 0,
            is_astray: false,
            is_short: false,
            early: EarlyData::default(),
            total: 0,
        }))
    }

    /// Bytes that it keeps, beside what rustls has on its heap: some 4 KB.
    pub fn kept_bytes(&self) -> usize {
        size_of::<Inner>() + self.0.received.capacity()
    }

    /// Records of early data that were looked at and passed over.
    pub fn passed_over(&self) -> u32 {
        self.0.early.passed_over()
    }

    /// Goes on with `bytes`. What is to be sent is put behind what stands in `out`, whether it goes
    /// well or not; it is to be sent before what the keys seal. Once it is done they stand in
    /// `keys`.
    pub fn step(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        keys: &mut Keys,
    ) -> Result<Step, Failure> {
        let inner = &mut *self.0;
        if inner.side.is_none() {
            return Err(Failure::Ended);
        }
        inner.total += bytes.len();
        inner.received.extend_from_slice(bytes);
        if inner.total == 0 {
            // A client's hello.
            inner.look(out)?;
        }
        while inner.next_record()? {
            let record = inner.maybe_early();
            if inner.look(out)? {
                let agreed = inner.cut(keys)?;
                return Ok(Step::Done { agreed, rest: std::mem::take(&mut inner.received) });
            }
            // Nothing that is sealed is so short. Among early data, which is refused, rustls passes
            // over such records, and counts next to nothing of them.
            if inner.is_short && inner.fed > 0 {
                return inner.fail(Failure::Refused(Alert::BAD_RECORD_MAC));
            }
            inner.pass_over(record);
        }
        let is_too_long = inner.total > HANDSHAKE_BYTES_MAX
            || inner.has_answered() && inner.received.len() > ANSWERED_BYTES_MAX;
        match is_too_long {
            true => inner.fail(Failure::TooLong),
            false => Ok(Step::NeedMore),
        }
    }
}

impl Inner {
    /// Whether a client's hello was answered: it shows no certificate, so its part is short.
    fn has_answered(&self) -> bool {
        let version = match &self.side {
            Some(Side::Server(connection)) => connection.protocol_version(),
            _ => None,
        };
        version.is_some()
    }

    /// Lets rustls see the next record, if it is whole. What cannot be one it sees at once, so that
    /// it says what is wrong, and all that follows.
    fn next_record(&mut self) -> Result<bool, Failure> {
        debug_assert!(self.fed <= self.received.len());
        let next = &self.received[self.fed..];
        if self.is_astray {
            let is_more = !next.is_empty();
            self.fed = self.received.len();
            return Ok(is_more);
        }
        let Some(header) = Header::read(next) else { return Ok(false) };
        let is_kind = (kind::CHANGE_CIPHER_SPEC..=kind::DATA).contains(&header.kind);
        if self.total == self.received.len() && self.fed == 0 && !is_kind {
            return self.fail(Failure::NotTls);
        }
        self.is_short = header.kind == kind::DATA && header.body < SEALED_LEAST;
        self.fed += match header.record() {
            Ok(record) if is_kind && header.version[0] == 3 => match next.len() >= record {
                true => record,
                false => return Ok(false),
            },
            _ => {
                self.is_astray = true;
                next.len()
            }
        };
        Ok(true)
    }

    /// A copy of what rustls is to see next, if it may be early data that is left: a record behind
    /// the answer to a client's hello of TLS 1.3, with no message before it that is not whole.
    fn maybe_early(&self) -> Option<Vec<u8>> {
        let is_sealed = matches!(self.side, Some(Side::Server(_))) && self.capture.is_sealed();
        let record = &self.received[..self.fed];
        let is_one = Header::read(record)
            .is_some_and(|header| header.kind == kind::DATA && header.record() == Ok(self.fed));
        (is_one && is_sealed).then(|| record.to_vec())
    }

    /// Takes early data away that rustls has passed over: it leaves it where it stands, and would
    /// look at it again, and count it again, with each record that follows.
    fn pass_over(&mut self, record: Option<Vec<u8>>) {
        let (Some(mut record), Some(side)) = (record, &self.side) else { return };
        if self.fed == 0 {
            self.early.opened();
        } else if suite_of(side.common())
            .is_some_and(|suite| self.early.is_early(&mut record, suite, &self.capture))
        {
            self.received.drain(..self.fed);
            self.fed = 0;
        }
    }

    /// Has rustls look at what it may see. Whether the handshake is done.
    fn look(&mut self, out: &mut Vec<u8>) -> Result<bool, Failure> {
        loop {
            let Some(side) = &mut self.side else { return Err(Failure::Ended) };
            let from = out.len();
            let bytes = &mut self.received[..self.fed];
            let (discard, looked) = match side {
                Side::Server(connection) => look_at(connection.process_tls_records(bytes), out),
                Side::Client(connection) => look_at(connection.process_tls_records(bytes), out),
            };
            self.received.drain(..discard);
            self.fed -= discard;
            match looked {
                Looked::Again => {}
                Looked::NeedMore => return Ok(false),
                Looked::Done => return Ok(true),
                Looked::Failed(failure) => {
                    self.last_words(out);
                    self.speak_for_rustls(failure, from, out);
                    let said = plain_alert(&out[from..]);
                    return self.fail(match (failure, said) {
                        (Failure::Refused(_), Some(alert)) => Failure::Refused(alert),
                        (failure, _) => failure,
                    });
                }
            }
        }
    }

    /// The alert that rustls has for the peer. Where it has none it must not look again.
    fn last_words(&mut self, out: &mut Vec<u8>) {
        while let Some(side) = &mut self.side
            && side.common().wants_write()
        {
            let bytes = &mut self.received[..self.fed];
            let (discard, _) = match side {
                Side::Server(connection) => look_at(connection.process_tls_records(bytes), out),
                Side::Client(connection) => look_at(connection.process_tls_records(bytes), out),
            };
            self.received.drain(..discard);
            self.fed -= discard;
        }
    }

    /// For some faults, such as a message among the pieces of another, rustls has an error and no
    /// alert. A server says it for rustls where nothing of its own is sealed yet: before it has
    /// answered, and in TLS 1.2 until the handshake's end.
    fn speak_for_rustls(&self, failure: Failure, from: usize, out: &mut Vec<u8>) {
        if let (Some(Side::Server(connection)), Failure::Refused(alert)) = (&self.side, failure)
            && out.len() == from
            && connection.protocol_version() != Some(ProtocolVersion::TLSv1_3)
        {
            out.extend([kind::ALERT, VERSION[0], VERSION[1], 0, 2, FATAL, alert.0]);
        }
    }

    /// It is over: nothing more is taken.
    fn fail<T>(&mut self, failure: Failure) -> Result<T, Failure> {
        self.side = None;
        self.received = Vec::new();
        self.fed = 0;
        Err(failure)
    }

    /// Takes the keys out of rustls, which is gone then.
    fn cut(&mut self, keys: &mut Keys) -> Result<Agreed, Failure> {
        let Some(side) = self.side.take() else { return Err(Failure::Ended) };
        let is_client = matches!(side, Side::Client(_));
        let common = side.common();
        let version = match common.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => Version::Tls13,
            Some(ProtocolVersion::TLSv1_2) => Version::Tls12,
            _ => return Err(Failure::Keys),
        };
        let resumed = common.handshake_kind() == Some(HandshakeKind::Resumed);
        let agreed_on = common.alpn_protocol().filter(|_| self.spoken.is_some());
        let only_looks = agreed_on.is_some_and(|name| Some(name) != self.spoken.as_deref());
        let secrets = match side {
            Side::Server(connection) => connection.dangerous_into_kernel_connection().map(first),
            Side::Client(connection) => connection.dangerous_into_kernel_connection().map(first),
        };
        let secrets = secrets.map_err(|_| Failure::Keys)?;
        keys.take_over(version, &secrets, &self.capture, is_client)?;
        debug_assert_eq!(self.fed, 0, "what rustls has not read is not in these keys' order");
        let named = is_client || self.capture.named();
        Ok(Agreed { version, suite: keys.suite(), resumed, named, only_looks })
    }
}

impl Side {
    fn common(&self) -> &CommonState {
        match self {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }
}

fn first<A, B>(pair: (A, B)) -> A {
    pair.0
}

/// What rustls says, with what it has to send put into `out`.
fn look_at<D>(status: UnbufferedStatus<'_, '_, D>, out: &mut Vec<u8>) -> (usize, Looked) {
    let UnbufferedStatus { discard, state } = status;
    let looked = match state {
        Err(Error::AlertReceived(alert)) => {
            Looked::Failed(Failure::Received(Alert(u8::from(alert))))
        }
        Err(error) => Looked::Failed(Failure::Refused(alert_of(&error))),
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let from = out.len();
            // The first try tells the size.
            if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                out.resize(from + size.required_size, 0);
                let written = data.encode(&mut out[from..]);
                out.truncate(from + written.unwrap_or(0));
            }
            Looked::Again
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Looked::Again
        }
        Ok(ConnectionState::BlockedHandshake) => Looked::NeedMore,
        Ok(ConnectionState::WriteTraffic(_)) => Looked::Done,
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Looked::Failed(Failure::Ended),
        // Early data is off, and no record behind the handshake is shown.
        Ok(_) => Looked::Failed(Failure::Keys),
    };
    (discard, looked)
}

/// The alert in `sent`, where it went out in the clear.
fn plain_alert(sent: &[u8]) -> Option<Alert> {
    let body = sent.len().checked_sub(HEADER_BYTES + 2)?;
    match sent[body..] {
        [kind::ALERT, major, _, 0, 2, _, alert] if major == VERSION[0] => Some(Alert(alert)),
        _ => None,
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handshake({} bytes)", self.0.total)
    }
}

//! What kinds of problems there are. Each has a name that stays, which programs may look at, and a
//! heading of its own on the page [`PAGE`] of the docs.

/// The page of the docs that lists all kinds. A problem's `type` is a reference relative to the
/// docs of its version (RFC 3986, section 4.2; RFC 9457, section 3.1.1).
pub const PAGE: &str = "errors";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $status:literal $name:literal;)*) => {
        /// The kind of a problem.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum ProblemKind {
            $($(#[$doc])* $kind,)*
        }

        impl ProblemKind {
            /// All kinds, by status code.
            pub const ALL: &[ProblemKind] = &[$(ProblemKind::$kind,)*];

            /// The HTTP status code of its answers.
            pub const fn status(self) -> u16 {
                match self {
                    $(ProblemKind::$kind => $status,)*
                }
            }

            /// Its `type`.
            pub const fn reference(self) -> &'static str {
                match self {
                    $(ProblemKind::$kind => concat!("errors#", $name),)*
                }
            }
        }
    };
}

kinds! {
    /// The request breaks a rule of HTTP or of the protocol.
    BadRequest = 400 "bad-request";
    /// A name that no id may have.
    BadId = 400 "bad-id";
    /// JSON that cannot be read, or that says something else than was asked for.
    BadJson = 400 "bad-json";
    /// Nobody says who asks.
    Unauthorized = 401 "unauthorized";
    /// A stream without a token, where one is needed.
    TokenMissing = 401 "token-missing";
    /// A token that is refused.
    TokenRefused = 401 "token-refused";
    /// A call of the API without a key, where one is needed.
    KeyMissing = 401 "key-missing";
    /// A key of the API that is unknown, over or revoked.
    KeyRefused = 401 "key-refused";
    /// It is not allowed.
    Forbidden = 403 "forbidden";
    /// An id that the token does not grant.
    NotGranted = 403 "id-not-granted";
    /// An id about which the token does not grant to send.
    SendNotGranted = 403 "send-not-granted";
    /// An id of which the token does not grant to know the members.
    MembersNotGranted = 403 "members-not-granted";
    /// An id of which the token does not grant to read what was sent about it.
    HistoryNotGranted = 403 "history-not-granted";
    /// A durable stream that the token does not grant to read, or to append to.
    StreamNotGranted = 403 "stream-not-granted";
    /// More ids than the token is good for.
    TooManyIds = 403 "too-many-ids";
    /// A browser page that may not connect.
    OriginNotAllowed = 403 "origin-not-allowed";
    /// Clients may not send at all.
    SendsOff = 403 "sends-off";
    /// A key of the API that is for something else.
    KeyScope = 403 "key-scope";
    /// There is nothing here.
    NotFound = 404 "not-found";
    /// The server does not keep who is in a room.
    MembersOff = 404 "members-off";
    /// The path has other methods.
    MethodNotAllowed = 405 "method-not-allowed";
    /// No transport that the client accepts.
    NotAcceptable = 406 "not-acceptable";
    /// The request was not complete in time.
    RequestTimeout = 408 "request-timeout";
    /// The server's state does not allow it now.
    Conflict = 409 "conflict";
    /// The first send with this idempotency key is under way.
    IdempotencyKeyInUse = 409 "idempotency-key-in-use";
    /// It was here and is gone.
    Gone = 410 "gone";
    /// A body of which nobody says how long it is.
    LengthRequired = 411 "length-required";
    /// A body that is too large, or where none belongs.
    TooLarge = 413 "too-large";
    /// A path that is too long.
    UriTooLong = 414 "uri-too-long";
    /// A body of another type.
    MediaType = 415 "media-type";
    /// A name that is not the server's.
    Misdirected = 421 "misdirected";
    /// It can be read and makes no sense.
    Unprocessable = 422 "unprocessable";
    /// Something else was sent with this idempotency key.
    IdempotencyKeyReused = 422 "idempotency-key-reused";
    /// A WebSocket of another version.
    UpgradeRequired = 426 "upgrade-required";
    /// A client that has or does too much.
    TooMany = 429 "too-many";
    /// The token, the address or the id has as many connections as it may.
    TooManyConnections = 429 "too-many-connections";
    /// A request head that is too large.
    HeadTooLarge = 431 "head-too-large";
    /// A fault of the server.
    Internal = 500 "internal";
    /// The server cannot do this.
    NotImplemented = 501 "not-implemented";
    /// The server cannot do it now.
    Unavailable = 503 "unavailable";
    /// The server has more to do than it can.
    Busy = 503 "busy";
    /// It may have been done, or not.
    OutcomeUnknown = 503 "outcome-unknown";
    /// No place for another connection or id.
    Full = 503 "full";
    /// This node of a cluster ends.
    NodeLeaving = 503 "node-leaving";
    /// No place for another idempotency key.
    IdempotencyKeysFull = 503 "idempotency-keys-full";
    /// The log of the cluster cannot be reached, or an older node cannot read this.
    ClusterLog = 503 "cluster-log";
    /// The log on disk cannot be written.
    DiskFails = 503 "disk-fails";
    /// A version of HTTP that the port does not speak.
    HttpVersion = 505 "http-version";
    /// The disk is full, or a bound of it is reached.
    InsufficientStorage = 507 "insufficient-storage";
}

impl ProblemKind {
    /// The kind whose [reference](ProblemKind::reference) this is.
    pub fn of_reference(reference: &str) -> Option<ProblemKind> {
        ProblemKind::ALL.iter().find(|kind| kind.reference() == reference).copied()
    }

    /// The kind of a status code of which nothing more is known: the first one that has it.
    pub fn of_status(status: u16) -> ProblemKind {
        let has_it = |kind: &&ProblemKind| kind.status() == status;
        let other = match status {
            ..500 => ProblemKind::BadRequest,
            _ => ProblemKind::Internal,
        };
        ProblemKind::ALL.iter().find(has_it).copied().unwrap_or(other)
    }
}

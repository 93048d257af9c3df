//! Why a connection ended: one closed list for the log, the metrics and close frames.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// Why a connection ended.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum DisconnectReason { $($(#[doc = $doc])+ $name,)+ }

        impl DisconnectReason {
            /// Every reason, in the order of their numbers.
            pub const ALL: &[DisconnectReason] = &[$(DisconnectReason::$name,)+];

            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The reason as it stands in logs and metric labels.
            pub fn as_str(self) -> &'static str {
                match self { $(DisconnectReason::$name => $text,)+ }
            }
        }
    };
}

reasons! {
    /// The client closed or half-closed its side (FIN).
    ClientClosed = "client_closed",
    /// The client reset the connection (RST).
    ClientReset = "client_reset",
    /// The client's host acknowledges nothing any more.
    ClientVanished = "client_vanished",
    /// The exchange is complete: a page, a last poll, `HEAD` or a preflight was answered.
    Answered = "answered",
    /// No further request came on a connection whose polls are answered.
    Idle = "idle",
    /// The TLS handshake came to nothing, or a record broke TLS's rules.
    TlsFailed = "tls_failed",
    /// The TLS handshake was not complete in time.
    TlsTimeout = "tls_timeout",
    /// The head was not complete in time (answered 408).
    HeadTimeout = "head_timeout",
    /// The request was refused (answered 4xx or 5xx), or bytes came that belong to none.
    BadRequest = "bad_request",
    /// A WebSocket's frame that breaks the protocol's rules.
    ProtocolError = "protocol_error",
    /// A WebSocket's message that is longer than messages may be.
    MessageTooLarge = "message_too_large",
    /// A WebSocket's message that did not come whole in time.
    MessageTimeout = "message_timeout",
    /// More unsent bytes than the backlog may hold: the reader is too slow.
    SlowReader = "slow_reader",
    /// What is kept for all connections together had no room for more of this one.
    BuffersFull = "buffers_full",
    /// The application logged the id out through the API.
    LoggedOut = "logged_out",
    /// The time of the stream's token was over.
    TokenExpired = "token_expired",
    /// The stream's token was revoked through the API.
    TokenRevoked = "token_revoked",
    /// The server is stopping.
    Shutdown = "shutdown",
    /// The server's node is ending, and others of its cluster take its clients.
    Moved = "moved",
    /// No place was left for the connection (answered 503).
    Full = "full",
    /// Its address has or does more than one may (answered 429, or a close frame).
    AddressLimit = "address_limit",
}

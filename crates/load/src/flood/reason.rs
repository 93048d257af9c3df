//! Why a listener is not online: the closed lists of reports.

/// Why a stream did not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Failure {
    /// Nobody listens there.
    Refused,
    /// The server broke the connection before it answered.
    Reset,
    /// No answer within `open_timeout`.
    TimedOut,
    /// All ports of the source address are taken.
    NoPort,
    /// The thread's descriptor table is full.
    NoDescriptor,
    /// The server answered, but not 200.
    Status,
    /// The server's answer is not HTTP.
    Malformed,
    /// The handshake of TLS came to nothing.
    Tls,
    /// Any other error of the network.
    Network,
}

impl Failure {
    /// How many there are.
    pub const COUNT: usize = 9;
    /// Each one, at its number.
    pub const ALL: [Failure; Failure::COUNT] = [
        Failure::Refused,
        Failure::Reset,
        Failure::TimedOut,
        Failure::NoPort,
        Failure::NoDescriptor,
        Failure::Status,
        Failure::Malformed,
        Failure::Tls,
        Failure::Network,
    ];

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Failure::Refused => "refused",
            Failure::Reset => "reset",
            Failure::TimedOut => "timed_out",
            Failure::NoPort => "no_port",
            Failure::NoDescriptor => "no_descriptor",
            Failure::Status => "status",
            Failure::Malformed => "malformed",
            Failure::Tls => "tls",
            Failure::Network => "network",
        }
    }

    /// The reason behind an error of connect(2), send(2) or recv(2).
    pub(super) fn of(error: &std::io::Error) -> Failure {
        use std::io::ErrorKind;
        // EMFILE and ENFILE have no kind of their own.
        if matches!(error.raw_os_error(), Some(23 | 24)) {
            return Failure::NoDescriptor;
        }
        match error.kind() {
            ErrorKind::ConnectionRefused => Failure::Refused,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Failure::Reset,
            ErrorKind::TimedOut => Failure::TimedOut,
            ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse => Failure::NoPort,
            _ => Failure::Network,
        }
    }
}

/// Why an open stream ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Closure {
    /// The server ended it as HTTP says.
    Ended,
    /// The server closed the connection in the middle of the body.
    Cut,
    /// The server reset the connection.
    Reset,
    /// What came was not the transport.
    Malformed,
}

impl Closure {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// Each one, at its number.
    pub const ALL: [Closure; Closure::COUNT] =
        [Closure::Ended, Closure::Cut, Closure::Reset, Closure::Malformed];

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Closure::Ended => "ended",
            Closure::Cut => "cut",
            Closure::Reset => "reset",
            Closure::Malformed => "malformed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_at_their_number() {
        for (number, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, number);
        }
        for (number, closure) in Closure::ALL.into_iter().enumerate() {
            assert_eq!(closure as usize, number);
        }
    }
}

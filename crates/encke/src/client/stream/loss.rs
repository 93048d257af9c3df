//! Why there is no stream, or no more of one, and whether another try may help.

use std::time::Duration;

use anyhow::{Error, anyhow};
use client::{EventError, StreamError};
use hyper::body::Incoming;
use hyper::{Response, StatusCode, header};

use crate::client::{ServerUrl, read_answer};

/// No server is left alone for longer, whatever it asks for.
const RETRY_AFTER_MAX_SECONDS: u64 = 86_400;

/// Why there is no stream, or no more of one.
#[derive(Debug)]
pub(crate) enum Loss {
    /// It was refused or ended for good: another try would end the same way.
    Final(Error),
    /// The server is there but has no place now, and asks to be left alone for so long.
    Busy(Error, Duration),
    /// The connection could not be made, broke off, was ended or fell silent.
    Cut(Error),
}

impl From<Error> for Loss {
    fn from(error: Error) -> Loss {
        Loss::Cut(error)
    }
}

impl From<StreamError> for Loss {
    fn from(error: StreamError) -> Loss {
        match error {
            // It would come again with each resume.
            StreamError::Event(EventError::TooLong) => Loss::Final(anyhow!(
                "{error}, more than this command shows; read it with `encke events`"
            )),
            _ => Loss::Cut(anyhow!("what the server sends cannot be read: {error}; is it Encke?")),
        }
    }
}

impl Loss {
    /// What an answer means that is not the one asked for (RFC 9110, section 15): faults of the
    /// request stay, those of the server pass.
    pub(super) async fn refused(response: Response<Incoming>, url: &ServerUrl) -> Loss {
        let status = response.status();
        let asked = retry_after(&response);
        let error = match read_answer(response, url).await {
            Err(error) => error,
            Ok(_) => anyhow!("the server at {url} answered {status}; is it the public port?"),
        };
        match status {
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                Loss::Busy(error, asked)
            }
            _ if status.is_server_error() => Loss::Busy(error, asked),
            StatusCode::UNAUTHORIZED => Loss::Final(error.context(format!(
                "the server at {url} refuses it ({status}; tokens are given by ENCKE_TOKEN, \
                 --token @FILE or --token-key)"
            ))),
            StatusCode::NOT_FOUND => Loss::Final(error.context(format!(
                "the server at {url} has no streams there ({status}); name its public port"
            ))),
            _ if status.is_client_error() => {
                Loss::Final(error.context(format!("the server at {url} refuses it ({status})")))
            }
            _ => Loss::Cut(error),
        }
    }

    /// What a WebSocket's close frame means (RFC 6455, section 7.4).
    pub(super) fn closed(code: Option<u16>, reason: &str) -> Loss {
        // Section 7.1.5 has a code for a frame without one.
        match (code.unwrap_or(1005), reason) {
            (1000, "logged_out") => Loss::Final(anyhow!(
                "the application logged these ids out; run the same command to log in again"
            )),
            // This client broke a rule, and would break it again.
            (code @ (1002 | 1003 | 1007 | 1009 | 1010), _) => Loss::Final(anyhow!(
                "the server takes no more from this program: {reason} (close code {code}); \
                 try --transport sse, and please report it"
            )),
            (code, _) => Loss::Cut(anyhow!("the server closed the WebSocket: {code} {reason}")),
        }
    }
}

/// `Retry-After` in seconds (RFC 9110, section 10.2.3). A date counts as none: the back-off bounds
/// the tries anyway.
fn retry_after(response: &Response<Incoming>) -> Duration {
    let field = response.headers().get(header::RETRY_AFTER);
    let seconds = field.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(0).min(RETRY_AFTER_MAX_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodbyes_that_ask_to_come_back_are_no_end() {
        for (code, reason) in [
            (1000, ""),
            (1000, "bye"),
            (1001, "shutdown"),
            (1008, "slow_reader"),
            (1011, ""),
            (1012, "service restart"),
            (1013, "try again later"),
        ] {
            assert!(matches!(Loss::closed(Some(code), reason), Loss::Cut(_)), "{code}");
        }
        assert!(matches!(Loss::closed(None, ""), Loss::Cut(_)));
        for (code, reason) in [(1000, "logged_out"), (1002, "a rule"), (1009, "too long")] {
            assert!(matches!(Loss::closed(Some(code), reason), Loss::Final(_)), "{code}");
        }
    }
}

//! What clients may send themselves: `--client-send`, `--client-send-rate`, `--client-payload`.

use clap::Args;
use engine::{CLIENT_SENDS_PER_SECOND_MAX, ClientSendLimits};

use crate::units::parse_bytes;

/// The longest payload of a client's event: as long as the longest message.
const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// Bounds for clients that send.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientSendArgs {
    /// Let clients send events about any id where streams need no token.
    ///
    /// With tokens, the claim encke.send says who may send about what, and this option has no
    /// meaning.
    #[arg(long)]
    client_send: bool,
    /// Events that one connection may send in a second, and twice as many at once; 0 is any number.
    ///
    /// By POST /send it bounds each token, too. Pages of the past that clients read count as sends
    /// do.
    #[arg(long, value_name = "RATE", default_value = "10", value_parser = parse_sends)]
    client_send_rate: u32,
    /// The longest payload of an event that a client sends.
    #[arg(long, value_name = "BYTES", default_value = "10KiB", value_parser = parse_payload)]
    client_payload: usize,
}

impl ClientSendArgs {
    /// The engine's limits.
    pub(crate) fn limits(&self) -> ClientSendLimits {
        ClientSendLimits {
            without_tokens: self.client_send,
            per_second: self.client_send_rate,
            payload_bytes_max: self.client_payload,
        }
    }
}

/// Reads how many a second: `10` or `10/s`.
fn parse_sends(text: &str) -> Result<u32, String> {
    let number = text.trim().strip_suffix("/s").unwrap_or(text).trim();
    let rate = number.parse().ok().filter(|&rate| rate <= CLIENT_SENDS_PER_SECOND_MAX);
    rate.ok_or_else(|| {
        let most = CLIENT_SENDS_PER_SECOND_MAX;
        format!("{text:?} is no rate: write a whole number a second, up to {most}")
    })
}

fn parse_payload(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    match (1..=PAYLOAD_BYTES_MAX).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("write from 1 byte to {PAYLOAD_BYTES_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_a_number_with_or_without_its_unit() {
        for (text, rate) in
            [("10", Ok(10)), ("10/s", Ok(10)), (" 5000 /s", Ok(5_000)), ("0", Ok(0))]
        {
            assert_eq!(parse_sends(text), rate, "{text}");
        }
        for text in ["", "/s", "-1", "1.5", "5001", "10/m"] {
            assert!(parse_sends(text).is_err(), "{text}");
        }
    }

    #[test]
    fn payload_has_bytes() {
        assert_eq!(parse_payload("10KiB"), Ok(10_240));
        assert!(parse_payload("0").is_err() && parse_payload("2MiB").is_err());
    }
}

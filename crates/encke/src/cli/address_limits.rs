//! What clients of one address may have and do: `--max-…-per-address`, `--max-connections-per-id`,
//! and whose word on addresses is taken, `--trust`.

use clap::Args;
use engine::{AddressLimits, EngineConfig, Settings};
use proto::{Network, Networks};

use crate::units::{parse_bytes, whole};

/// The least bound on bytes: what is heard at once, four times as much, holds the longest head and
/// the longest read.
const REQUEST_BYTES_MIN: usize = 4096;

/// Bounds for each address and each id.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Rate limits")]
pub(crate) struct AddressLimitArgs {
    /// Trusted proxy: believe what it says of the client's address.
    ///
    /// An address or a network. The proxy says it in a PROXY header (version 1 or 2) on --listen
    /// and --tls-listen, or in Forwarded or X-Forwarded-For on all ports. A PROXY header of anybody
    /// else is refused; the other headers are ignored. Repeat the option, or give a list with
    /// commas.
    #[arg(long, value_name = "ADDRESS[/BITS]", value_delimiter = ',')]
    trust: Vec<Network>,
    /// Connections of one client address at one time; 0 is no limit.
    ///
    /// This and the next two limits count an IPv4 address whole, and IPv6 by its first 64 bits.
    /// Loopback clients and the proxies of --trust are not limited.
    #[arg(long, value_name = "N", default_value_t = AddressLimits::default().connections)]
    #[arg(value_parser = whole(0..=u32::MAX))]
    max_connections_per_address: u32,
    /// Connections that one client address may open per second; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = AddressLimits::default().connects_per_second)]
    #[arg(value_parser = whole(0..=u32::MAX))]
    max_connects_per_address: u32,
    /// Bytes that one client address may send per second; 0 is no limit.
    ///
    /// It is an average. Four times as many may come at once.
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_request_bytes)]
    max_request_bytes_per_address: u32,
    /// Connections that may be logged in under one id; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = Settings::default().connections_per_id_max)]
    #[arg(value_parser = whole(0..=usize::MAX))]
    max_connections_per_id: usize,
}

impl AddressLimitArgs {
    /// Networks whose word is taken.
    pub(crate) fn trusted(&self) -> Networks {
        Networks::new(self.trust.clone())
    }

    /// Connections that may be logged in under one id; 0 is any number.
    pub(crate) fn connections_per_id(&self) -> usize {
        self.max_connections_per_id
    }

    /// The engine's settings with these.
    pub(crate) fn engine(&self, config: EngineConfig) -> EngineConfig {
        EngineConfig {
            per_address: AddressLimits {
                connections: self.max_connections_per_address,
                connects_per_second: self.max_connects_per_address,
                request_bytes_per_second: self.max_request_bytes_per_address,
            },
            trusted: self.trusted(),
            ..config
        }
    }
}

fn parse_request_bytes(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes == 0 || bytes as usize >= REQUEST_BYTES_MIN => Ok(bytes),
        _ => Err(format!(
            "write from {REQUEST_BYTES_MIN} bytes to 4 GiB, or 0: the head of a request must fit"
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        address_limits: AddressLimitArgs,
    }

    fn engine(args: &[&str]) -> Result<EngineConfig, clap::Error> {
        let line = Line::try_parse_from([&["serve"], args].concat())?;
        Ok(line.address_limits.engine(EngineConfig::new("127.0.0.1:0".parse().unwrap())))
    }

    #[test]
    fn bounds_are_passed_on_and_have_the_engine_s_defaults() {
        let (given, plain) = (engine(&[]).unwrap(), EngineConfig::new(([0; 4], 0).into()));
        assert_eq!(given.per_address, plain.per_address);
        assert_eq!(plain.settings.connections_per_id_max, 0, "no bound but memory");
        assert!(given.trusted.is_empty());
        let given = engine(&[
            "--trust=10.0.0.0/8,::1",
            "--trust=192.0.2.1",
            "--max-connections-per-address=0",
            "--max-connects-per-address=3",
            "--max-request-bytes-per-address=64KiB",
        ]);
        let given = given.unwrap();
        let AddressLimits { connections, connects_per_second, request_bytes_per_second } =
            given.per_address;
        assert_eq!((connections, connects_per_second, request_bytes_per_second), (0, 3, 65_536));
        for (address, trusted) in [("10.9.9.9", true), ("192.0.2.1", true), ("192.0.2.2", false)] {
            assert_eq!(given.trusted.contain(address.parse().unwrap()), trusted, "{address}");
        }
    }

    #[test]
    fn what_no_request_could_keep_to_is_refused() {
        for wrong in ["--max-request-bytes-per-address=4095", "--trust=proxy.test", "--trust=10/8"]
        {
            assert!(engine(&[wrong]).is_err(), "{wrong}");
        }
        assert!(engine(&["--max-request-bytes-per-address=8GiB"]).is_err());
    }
}

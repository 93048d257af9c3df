//! Networks as an option lists them: `10.0.0.0/8`, `2001:db8::/32`, or one address.

// The addresses of `std::net`, without its sockets.
use core::net::IpAddr;
use std::str::FromStr;

/// All addresses that begin with the same bits (CIDR, RFC 4632).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    first: IpAddr,
    prefix_bits: u32,
}

/// Some networks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Networks(Vec<Network>);

impl Network {
    /// Whether `address` is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        debug_assert!(self.prefix_bits <= if self.first.is_ipv4() { 32 } else { 128 });
        let (mine, other) = match (self.first, address) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                (u128::from(mine.to_bits()) << 96, u128::from(other.to_bits()) << 96)
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => (mine.to_bits(), other.to_bits()),
            _ => return false,
        };
        // A network of everybody has no bits to compare.
        (mine ^ other).checked_shr(128 - self.prefix_bits).unwrap_or_default() == 0
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let hint = || "write an address or a network, such as 10.0.0.7, 10.0.0.0/8 or fd00::/8";
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| hint().to_owned())?;
        let bits_max = if first.is_ipv4() { 32 } else { 128 };
        let is_number = |bits: &&str| bits.bytes().all(|digit| digit.is_ascii_digit());
        let prefix_bits = match bits {
            None => bits_max,
            Some(bits) => {
                let bits = Some(bits).filter(is_number).and_then(|bits| bits.parse().ok());
                bits.filter(|&bits| bits <= bits_max).ok_or_else(|| hint().to_owned())?
            }
        };
        let (first, prefix_bits) = match first.to_canonical() {
            // IPv4 as IPv6 writes it; a wider prefix holds other addresses too.
            canonical if canonical.is_ipv4() && bits_max == 128 && prefix_bits >= 96 => {
                (canonical, prefix_bits - 96)
            }
            _ => (first, prefix_bits),
        };
        Ok(Network { first, prefix_bits })
    }
}

impl Networks {
    /// Those of `list`.
    pub fn new(list: Vec<Network>) -> Networks {
        Networks(list)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them has `address`, which may be IPv4 as IPv6 writes it.
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_has_the_addresses_that_begin_like_it() {
        for (network, inside, outside) in [
            ("10.0.0.7", "10.0.0.7", "10.0.0.6"),
            ("10.1.2.3/8", "10.255.0.1", "11.0.0.1"),
            ("192.168.0.128/25", "192.168.0.200", "192.168.0.127"),
            ("0.0.0.0/0", "203.0.113.1", "2001:db8::1"),
            ("::/0", "2001:db8::1", "203.0.113.1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.1"),
            ("127.0.0.0/8", "::ffff:127.0.0.2", "::1"),
        ] {
            let networks = Networks::new(vec![network.parse().unwrap()]);
            assert!(networks.contain(inside.parse().unwrap()), "{network} {inside}");
            assert!(!networks.contain(outside.parse().unwrap()), "{network} {outside}");
        }
        assert!(!Networks::default().contain("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_network_is_told_so() {
        for text in ["", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/+8", "10.0.0/8", "host"] {
            assert!(text.parse::<Network>().unwrap_err().contains("10.0.0.0/8"), "{text}");
        }
    }
}

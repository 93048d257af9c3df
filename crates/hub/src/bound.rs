//! What one address, or one id, may take of the server: one closed list for metrics and tests.

/// A bound that a client met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Bound {
    /// Connections of one address at one time.
    ConnectionsPerAddress,
    /// Connections of one address that begin within a second.
    ConnectsPerAddress,
    /// Bytes of requests that one address sends within a second.
    RequestBytesPerAddress,
    /// Connections of one id at one time.
    ConnectionsPerId,
}

const _: () = {
    let mut index = 0;
    while index < Bound::ALL.len() {
        assert!(Bound::ALL[index] as usize == index, "counters are found by the number");
        index += 1;
    }
};

impl Bound {
    /// Every bound, in the order of their numbers.
    pub const ALL: [Bound; 4] = [
        Bound::ConnectionsPerAddress,
        Bound::ConnectsPerAddress,
        Bound::RequestBytesPerAddress,
        Bound::ConnectionsPerId,
    ];

    /// How many bounds there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The bound as it stands in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Bound::ConnectionsPerAddress => "connections_per_address",
            Bound::ConnectsPerAddress => "connects_per_address",
            Bound::RequestBytesPerAddress => "request_bytes_per_address",
            Bound::ConnectionsPerId => "connections_per_id",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_listed_at_its_number() {
        for (index, bound) in Bound::ALL.into_iter().enumerate() {
            assert_eq!(bound as usize, index);
        }
    }
}

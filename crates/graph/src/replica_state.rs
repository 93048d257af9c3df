//! Where a replica stands: which pairs it has, and how far it has read the log.

/// A place in the log of changes. Ordered: a later epoch is a later place, whatever its sequence.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogPlace {
    /// Which log.
    pub epoch: u64,
    /// The last record that was followed in it.
    pub sequence: u64,
    /// What that record is known by, whatever that is: given back as it was.
    pub record: u64,
}

/// What a replica is a copy of. Stored in the same transaction as the pairs, so the two are always
/// of one version.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ReplicaState {
    /// Which history of versions: the store of record's own number, drawn at random when it was
    /// made.
    pub lineage: u128,
    /// The last change that is in the pairs; the next one has the next number.
    pub version: u64,
    /// All that the log says up to here is in the pairs, which may be further.
    pub at: LogPlace,
    /// The sum of [`hub::pair_hash`] over all pairs, modulo 2^64.
    pub set_hash: u64,
}

const NUMBERS: usize = 7;

impl ReplicaState {
    pub(super) fn to_numbers(self) -> [u64; NUMBERS] {
        let ReplicaState { lineage, version, at, set_hash } = self;
        let LogPlace { epoch, sequence, record } = at;
        [(lineage >> 64) as u64, lineage as u64, version, epoch, sequence, set_hash, record]
    }

    pub(super) fn from_numbers(numbers: [u64; NUMBERS]) -> ReplicaState {
        let [high, low, version, epoch, sequence, set_hash, record] = numbers;
        ReplicaState {
            lineage: u128::from(high) << 64 | u128::from(low),
            version,
            at: LogPlace { epoch, sequence, record },
            set_hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_its_numbers() {
        let numbers = [1, 2, 3, 4, 5, 6, 7];
        let state = ReplicaState::from_numbers(numbers);
        assert_eq!(state.to_numbers(), numbers);
        assert_eq!(state.lineage, (1 << 64) + 2);
        assert_eq!((state.version, state.set_hash), (3, 6));
        assert_eq!(state.at, LogPlace { epoch: 4, sequence: 5, record: 7 });
    }
}

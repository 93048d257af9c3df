//! Hash tables that give memory back.

use hashbrown::HashTable;

/// Tables of so few buckets are left as they are until they are empty.
const BUCKETS_KEPT: usize = 16;

/// After a removal: frees an empty table, and halves one that is down to an eighth twice or more,
/// so that at least as many entries have come or gone since the last time as are moved now.
pub(crate) fn shrink<T>(table: &mut HashTable<T>, hash: impl Fn(&T) -> u64) {
    if table.is_empty() {
        *table = HashTable::new();
    } else if table.num_buckets() > BUCKETS_KEPT && table.len() < table.num_buckets() / 8 {
        table.shrink_to(2 * table.len(), hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_as_small_as_its_entries_ask_for_when_they_go() {
        let mut table = HashTable::new();
        let hash = |n: &u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for n in 0..10_000 {
            table.insert_unique(hash(&n), n, hash);
        }
        for n in 0..10_000 {
            table.find_entry(hash(&n), |&m| m == n).unwrap().remove();
            shrink(&mut table, hash);
            assert!(table.num_buckets() <= (8 * table.len()).max(BUCKETS_KEPT), "{}", table.len());
            assert!(
                (n + 1..10_000).all(|m| table.find(hash(&m), |&k| k == m).is_some()) || n % 97 > 0
            );
        }
        assert_eq!(table.allocation_size(), 0);
    }
}

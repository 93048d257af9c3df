//! The list of free pages: by transaction, the numbers of the pages that it let go.

use super::file::PageFile;
use super::findings::{Enough, Findings};
use super::page::Value;
use super::tree::{Order, TreeWalk};
use super::u64_at;

const NUMBER_BYTES: usize = size_of::<u64>();

/// Checks the list itself, whose newest entry may be that of transaction `last`; returns the free
/// pages.
pub(super) fn check(
    walk: TreeWalk<'_>,
    last: u64,
    file: &mut PageFile,
    findings: &mut Findings,
) -> Result<Vec<u64>, Enough> {
    let mut free = Vec::new();
    walk.check(file, Order::Numbers, findings, &mut |key, value| {
        let Value::Bytes(list) = value else { return Err("an entry is a table".into()) };
        let key: &[u8; NUMBER_BYTES] = key.try_into().map_err(|_| "a key is no number")?;
        if !(1..=last).contains(&u64::from_le_bytes(*key)) {
            return Err("a key is no transaction".into());
        }
        free.extend(numbers(list)?);
        Ok(())
    })?;
    Ok(free)
}

/// An `MDB_IDL`: how many, then so many numbers, descending. The room behind them is not used.
fn numbers(list: &[u8]) -> Result<impl Iterator<Item = u64>, String> {
    let wrong = || "an entry is no list of pages".to_owned();
    let (count, numbers) = list.split_first_chunk().ok_or_else(wrong)?;
    let count = usize::try_from(u64::from_le_bytes(*count)).map_err(|_| wrong())?;
    let (room, rest) = numbers.as_chunks::<NUMBER_BYTES>();
    let used = room.get(..count).filter(|_| rest.is_empty()).ok_or_else(wrong)?;
    if !used.is_sorted_by(|a, b| u64_at(a, 0) > u64_at(b, 0)) {
        return Err(wrong());
    }
    Ok(used.iter().map(|&number| u64::from_le_bytes(number)))
}

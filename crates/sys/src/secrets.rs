//! Memory that holds keys: kept out of core dumps and of processes that are forked.
//!
//! Cost: two madvise(2) when memory is taken or given back, none after.

use std::io;

/// Keeps whole pages out of core dumps (`MADV_DONTDUMP`), and has a forked process see zeros in
/// their place (`MADV_WIPEONFORK`). They must be anonymous memory of their own, as an allocator's
/// are.
pub fn keep<T>(pages: &[T]) -> io::Result<()> {
    advise(pages, libc::MADV_DONTDUMP)?;
    advise(pages, libc::MADV_WIPEONFORK)
}

/// Takes that back, before the memory is given away for something else.
pub fn release<T>(pages: &[T]) -> io::Result<()> {
    advise(pages, libc::MADV_DODUMP)?;
    advise(pages, libc::MADV_KEEPONFORK)
}

fn advise<T>(pages: &[T], advice: i32) -> io::Result<()> {
    let address = pages.as_ptr().cast_mut().cast();
    // SAFETY: the range is borrowed memory of ours, and none of the four changes what this process
    // sees in it.
    crate::check(unsafe { libc::madvise(address, size_of_val(pages), advice) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[repr(align(4096))]
    struct Page([u8; 4096]);

    /// The kernel's notes on the mapping that `address` is in (proc(5), smaps).
    fn notes(address: usize) -> String {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut found = false;
        for line in maps.lines() {
            let first = line.split_whitespace().next().unwrap_or_default();
            if let Some((start, end)) = first.split_once('-') {
                let number = |text| usize::from_str_radix(text, 16).unwrap();
                found = (number(start)..number(end)).contains(&address);
            }
            if found && let Some(notes) = line.strip_prefix("VmFlags:") {
                return format!("{notes} ");
            }
        }
        panic!("nothing is mapped there")
    }

    #[test]
    fn kept_pages_are_in_no_dump_and_in_no_child_until_they_are_released() {
        let pages = vec![Page([7; 4096])];
        let address = pages[0].0.as_ptr() as usize;
        keep(&pages).unwrap();
        assert!(notes(address).contains(" dd ") && notes(address).contains(" wf "));
        assert_eq!(pages[0].0[4095], 7);
        release(&pages).unwrap();
        assert!(!notes(address).contains(" dd ") && !notes(address).contains(" wf "));
    }
}

//! The C library's allocator, from which all memory here comes (malloc(3), mallopt(3)).

/// Lets the allocator join what is freed with its free neighbours at once, from now on.
///
/// By default glibc puts small pieces by as they are, and joins all of them in the first call that
/// frees or wants a large one: after a million names were freed, 0.5 s of one log-out under its
/// lock (`cargo bench -p hub`, with and without `GLIBC_TUNABLES=glibc.malloc.mxfast=0`, which does
/// the same as this). Call it before there are other threads. `false` where the allocator is
/// another one.
pub fn join_freed_at_once() -> bool {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it takes two numbers; what the allocator keeps is under its own locks.
        unsafe { libc::mallopt(libc::M_MXFAST, 0) == 1 }
    }
    #[cfg(not(target_env = "gnu"))]
    false
}

/// Gives all free pages back to the system, wherever they lie (malloc_trim(3)). Where one arena is
/// gone through, its threads wait for memory meanwhile: a quarter of a microsecond for each page
/// that goes. `false` where there was none, or the allocator is another one.
pub fn give_back() -> bool {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it takes a number; what the allocator keeps is under its own locks.
        unsafe { libc::malloc_trim(0) == 1 }
    }
    #[cfg(not(target_env = "gnu"))]
    false
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn allocator_takes_the_setting() {
        assert!(join_freed_at_once());
    }
}

//! How much of the processor a thread gets beside others (setpriority(2)).

use std::io;

use crate::check;

/// Has the calling thread give way to others: `nice` from 0 to 19, added to nothing.
///
/// # Errors
/// The kernel refuses, which it does not for a thread that asks for less.
pub fn give_way(nice: u8) -> io::Result<()> {
    // On Linux 0 is the calling thread, not its process (setpriority(2), C library/kernel
    // differences).
    // SAFETY: only integers are passed.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice.into()) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_gives_way_and_others_do_not() {
        let nice_of = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // The 19th field; the second may hold spaces, and ends with the last parenthesis.
            let fields = stat.rsplit_once(')').unwrap().1;
            fields.split_whitespace().nth(16).unwrap().parse::<i32>().unwrap()
        };
        let before = nice_of();
        let nice = (before + 1).clamp(0, 19) as u8;
        let within = std::thread::spawn(move || {
            give_way(nice).unwrap();
            nice_of()
        });
        assert_eq!((within.join().unwrap(), nice_of()), (i32::from(nice), before));
    }
}

//! Folders of servers, which go with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the names of all of them begin with; the number of the program stands behind it.
const PREFIX: &str = "encke-server-";

/// A new folder for a server of that kind. Those of programs that have ended, as one that was
/// killed does, are deleted.
///
/// # Panics
/// When it cannot be made.
pub(crate) fn temporary(kind: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let above = std::env::temp_dir();
    for entry in fs::read_dir(&above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid = rest.and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another program may be at it too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let (own, count) = (process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = above.join(format!("{PREFIX}{own}-{count}-{kind}"));
    fs::create_dir(&path).expect("a temporary directory can be made");
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_of_a_program_that_has_ended_goes_when_the_next_is_made() {
        let mut ended = process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let left = std::env::temp_dir().join(format!("{PREFIX}{}-0-test", ended.id()));
        fs::create_dir_all(left.join("store")).unwrap();
        let first = temporary("test");
        let second = temporary("test");
        assert!(!left.exists() && first.exists() && first != second);
        fs::remove_dir(first).unwrap();
        fs::remove_dir(second).unwrap();
    }
}

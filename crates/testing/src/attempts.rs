//! Attempts inside a test: where a test does something once more because it did not come about,
//! the run is told so, as of a test that passed at its second try.
//!
//! Best is no second attempt: a test waits for the event itself, counts, or moves its clock. Where
//! one is in the nature of the thing, because a machine that stands still can spoil the first, its
//! doc says so and it calls [`tried_again`]. The last lines of `cargo xtask ci` name it then, and
//! more than three such tests fail the run.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;

/// Names the folder to which tests write why they tried again, a file for each test.
pub const SECOND_TRIES: &str = "ENCKE_SECOND_TRIES";

/// Says that the calling test makes an attempt once more, and how the one before failed.
///
/// # Panics
/// When that cannot be written down.
pub fn tried_again(why: &str) {
    println!("tried again: {}: {why}", test());
    if let Some(folder) = env::var_os(SECOND_TRIES) {
        note(Path::new(&folder), &test(), why).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The calling test as nextest names it, else as its thread is called.
fn test() -> String {
    let named = |name| env::var(name).ok();
    let program = named("NEXTEST_BINARY_ID").map_or_else(String::new, |program| program + " ");
    let of_thread = || thread::current().name().unwrap_or("a test").to_owned();
    program + &named("NEXTEST_TEST_NAME").unwrap_or_else(of_thread)
}

/// Adds a line to the file of `test`, whose first line is its name: as it is read in
/// `xtask/src/second_tries.rs`.
fn note(folder: &Path, test: &str, why: &str) -> Result<(), String> {
    let told = |path: &Path| {
        let path = path.display().to_string();
        move |error| format!("cannot write to {path}: {error}")
    };
    fs::create_dir_all(folder).map_err(told(folder))?;
    let path = file(folder, test);
    let begun = OpenOptions::new().write(true).create_new(true).open(&path);
    let (file, text) = match begun {
        Ok(file) => (Ok(file), format!("{test}\n\n{why}\n")),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            (OpenOptions::new().append(true).open(&path), format!("{why}\n"))
        }
        Err(error) => (Err(error), String::new()),
    };
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(told(&path))
}

/// One file for each test, however many programs write at the same time.
fn file(folder: &Path, test: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    folder.join(format!("inside-{}.txt", test.chars().map(plain).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_that_tries_again_has_one_file_with_its_name_and_each_reason() {
        let folder = env::temp_dir().join(format!("encke-attempts-{}", std::process::id()));
        for why in ["it was silent", "it was silent again"] {
            note(&folder, "encke::it cluster::a", why).unwrap();
        }
        note(&folder, "encke::it cluster::b", "late").unwrap();
        let read = |test| fs::read_to_string(file(&folder, test)).unwrap();
        let both = "encke::it cluster::a\n\nit was silent\nit was silent again\n";
        assert_eq!(read("encke::it cluster::a"), both);
        assert_eq!(read("encke::it cluster::b"), "encke::it cluster::b\n\nlate\n");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
        assert!(
            test().ends_with("test_that_tries_again_has_one_file_with_its_name_and_each_reason")
        );
    }
}

//! What this process was started as, so that a new version of it can be.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf, absolute};

use server::Program;

/// This program and its options. `None` where the system does not say.
///
/// It is the name by which it was started, not the file behind it: where that is a symbolic link,
/// the new version may be behind the same link.
pub(super) fn this_program() -> Option<Program> {
    let mut args = env::args_os();
    let name = args.next();
    let file = env::current_exe().ok()?;
    let named = name.and_then(|name| find(&name, env::var_os("PATH").as_deref()));
    // Anybody can be started under any name.
    let named = named.filter(|named| named.canonicalize().is_ok_and(|behind| behind == file));
    Some(Program { binary: named.unwrap_or(file), args: args.collect() })
}

/// The path of the program that was started by `name`, as a shell finds it.
fn find(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return absolute(name).ok();
    }
    let dirs = env::split_paths(path?);
    dirs.map(|dir| dir.join(name)).find(|file| file.is_file()).and_then(|file| absolute(file).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_by_its_name_as_a_shell_finds_it() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("a-program");
        std::fs::write(&program, "").unwrap();
        let path = env::join_paths(["/nowhere".as_ref(), dir.path()]).unwrap();
        assert_eq!(find("a-program".as_ref(), Some(&path)), Some(program));
        assert_eq!(find("another".as_ref(), Some(&path)), None);
        let here = env::current_dir().unwrap();
        assert_eq!(find("./a-program".as_ref(), None), Some(here.join("a-program")));
    }

    #[test]
    fn this_process_knows_its_program() {
        let program = this_program().unwrap();
        assert_eq!(program.binary.canonicalize().unwrap(), env::current_exe().unwrap());
    }
}

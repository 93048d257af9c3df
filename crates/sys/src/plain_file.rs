//! Files of a directory that another user may own.
//!
//! Root runs commands in the directory of the server's user, who may have put anything there. A
//! link in the place of a file leads root's hand elsewhere, and a pipe makes it wait. So nothing
//! but a regular file is opened, no link is followed, and owner and mode are set by descriptor.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens the regular file `path`, which is no link. `options` do not truncate: what is opened is
/// looked at first.
///
/// # Errors
/// As open(2), and where it is something else than a file.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => no_file("a link"),
        Some(libc::ENXIO) => no_file("a pipe or a socket"),
        _ => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(no_file("something else")),
    }
}

/// All of the regular file `path`, which is no link.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open(path, OpenOptions::new().read(true))?, &mut bytes)?;
    Ok(bytes)
}

/// Makes the file `path` anew, with `mode`, in the place of whatever has the name.
///
/// # Errors
/// As unlink(2) and open(2).
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(mode).open(path)
}

/// Whether `path` is a regular file or nothing at all: for libraries that open it themselves.
///
/// # Errors
/// It is a link, or something else.
pub fn check(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => Err(no_file("a link")),
        Ok(there) if !there.is_file() => Err(no_file("something else")),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Has the disk keep `bytes` for a file, from its start on, and makes it as long. What is mapped
/// of it can be written then: a full disk would answer that by a signal (SIGBUS).
///
/// # Errors
/// As posix_fallocate(3): the disk is full.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = libc::off_t::try_from(bytes).map_err(|_| ErrorKind::FileTooLarge)?;
    // SAFETY: the call reads no memory of ours, and the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Gives a file that root has made in the directory `dir` to whose that is. Whoever else has made
/// one keeps it, for only root may give files away.
///
/// # Errors
/// As fchown(2), and where the file has another name, by which it is somebody else's.
pub fn give_to_owner(file: &File, dir: &Path) -> io::Result<()> {
    let (owner, made) = (fs::metadata(dir)?, file.metadata()?);
    if made.uid() != 0 || owner.uid() == 0 {
        return Ok(());
    }
    if made.nlink() != 1 {
        return Err(no_file("a file with another name"));
    }
    std::os::unix::fs::fchown(file, Some(owner.uid()), Some(owner.gid()))
}

fn no_file(what: &str) -> io::Error {
    let why = format!("it is {what}, and must be a plain file: look who has put it there");
    io::Error::new(ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn opened(path: &Path) -> io::Result<File> {
        open(path, OpenOptions::new().write(true).create(true))
    }

    #[test]
    fn nothing_but_a_file_is_opened_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, dangling, socket] =
            ["file", "link", "dangling", "socket"].map(|name| dir.path().join(name));
        fs::write(&file, "kept").unwrap();
        symlink(&file, &link).unwrap();
        symlink(dir.path().join("nothing"), &dangling).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&link, &dangling, &socket] {
            let refused = opened(path).unwrap_err().to_string();
            assert!(refused.contains("must be a plain file"), "{}: {refused}", path.display());
            assert!(check(path).is_err() && read(path).is_err());
        }
        assert!(check(dir.path()).is_err());
        assert!(!dir.path().join("nothing").exists());
        opened(&file).unwrap();
        assert_eq!(read(&file).unwrap(), b"kept");
        assert!(check(&file).is_ok() && check(&dir.path().join("nothing")).is_ok());
        // In a link's place comes a file, and what it led to stays.
        create(&link, 0o600).unwrap();
        assert_eq!((read(&file).unwrap(), read(&link).unwrap()), (b"kept".to_vec(), Vec::new()));
    }

    #[test]
    fn what_is_allocated_has_no_holes() {
        let dir = tempfile::tempdir().unwrap();
        let file = opened(&dir.path().join("file")).unwrap();
        file.set_len(1 << 20).unwrap();
        allocate(&file, 1 << 20).unwrap();
        let made = file.metadata().unwrap();
        assert!(made.blocks() * 512 >= 1 << 20 && made.len() == 1 << 20, "{made:?}");
    }
}

//! LMDB's two files, `data.mdb` and `lock.mdb`, as they are mapped.
//!
//! LMDB opens them itself. What it would do with a link, or on a disk without room, is looked after
//! here before.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use heed::{Env, EnvFlags, EnvOpenOptions, WithTls};
use sys::plain_file;

use super::error::OpenReason;

/// The least address space that is worth to start with.
const MAP_BYTES_MIN: usize = 1 << 20;

/// Threads that may read at once. A slot is 64 bytes of `lock.mdb`.
const READERS_MAX: u32 = 4096;

/// What LMDB maps of `lock.mdb` and writes there, with more than enough for what is beside the
/// slots.
const LOCK_BYTES: u64 = 64 * READERS_MAX as u64 + 4096;

const ENOMEM: c_int = 12;

/// LMDB's file in `dir`.
pub(super) fn data_file(dir: &Path) -> PathBuf {
    dir.join("data.mdb")
}

/// LMDB opens its files itself, and would follow a link.
pub(super) fn refuse_links(dir: &Path) -> Result<(), OpenReason> {
    let mut files = [data_file(dir), dir.join("lock.mdb")].into_iter();
    files.try_for_each(|file| plain_file::check(&file)).map_err(OpenReason::Directory)
}

/// LMDB makes `lock.mdb` of holes, and would fill them by way of a map: on a full disk that ends
/// the process by a signal. A file without holes is let alone: to close it would give up the locks
/// that this process may have on it (fcntl(2)).
fn fill_lock_file(dir: &Path) -> io::Result<()> {
    let path = dir.join("lock.mdb");
    let bytes = match path.metadata() {
        Ok(there) if there.len() >= LOCK_BYTES && there.blocks() * 512 >= there.len() => {
            return Ok(());
        }
        Ok(there) => there.len().max(LOCK_BYTES),
        Err(_) => LOCK_BYTES,
    };
    let options = &mut File::options();
    let file = plain_file::open(&path, options.read(true).write(true).create(true).mode(0o600))?;
    plain_file::allocate(&file, bytes)
}

/// Maps the file, halving the reservation as long as the system has no room for it.
pub(super) fn map(dir: &Path, bytes: usize, flags: EnvFlags) -> Result<Env<WithTls>, OpenReason> {
    refuse_links(dir)?;
    if !flags.contains(EnvFlags::NO_LOCK) {
        fill_lock_file(dir).map_err(OpenReason::Directory)?;
    }
    let mut options = EnvOpenOptions::new();
    options.max_dbs(4).max_readers(READERS_MAX);
    #[expect(unsafe_code, reason = "flags may make a commit less durable; see the promise")]
    // SAFETY: without a sync a commit may be torn by a crash of the machine. A replica's mark says
    // when that may have happened, and such a file is never mapped again. Without LMDB's locks
    // nobody may write: who asks for it reads alone, and has the directory's lock against others.
    unsafe {
        options.flags(flags)
    };
    let mut bytes = bytes.max(MAP_BYTES_MIN);
    loop {
        options.map_size(bytes);
        #[expect(unsafe_code, reason = "a mapped file is unsafe as such; this is the one place")]
        // SAFETY: the file must not change under the map but through LMDB. We hold the directory's
        // lock, so no other Encke has it open, or know that the one that holds it knows of us; and
        // LMDB's own lock file guards against others, us two among them, if anything is written.
        let opened = unsafe { options.open(dir) };
        match opened {
            Err(heed::Error::Io(error)) if error.raw_os_error() == Some(ENOMEM) => {
                if bytes / 2 < MAP_BYTES_MIN {
                    return Err(OpenReason::AddressSpace(bytes));
                }
                bytes /= 2;
            }
            Err(error) => return Err(error.into()),
            Ok(env) => {
                // LMDB leaves the file open for a program that is started from here.
                sys::process::close_on_exec(&dir.join("data.mdb")).map_err(OpenReason::Proc)?;
                return Ok(env);
            }
        }
    }
}

/// After a file was made: else a power failure could lose the file's name, whatever is in it.
pub(super) fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

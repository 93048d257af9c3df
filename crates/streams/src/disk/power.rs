//! A disk for simulators, by seed: it takes what was written when it is synced, or some of it
//! before, it fails, and at some call its power is lost.
//!
//! What was not synced is on disk or not, sector by sector. After a sync that failed the kernel
//! takes for written what is not, as Linux does: no other sync brings it to the disk.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::DiskCall;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// `EIO` of Linux.
const EIO: i32 = 5;

/// Numbers by a seed (Knuth's MMIX generator).
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// The disk of the test that runs on this thread.
struct Disk {
    dir: PathBuf,
    /// Where what a loss of power leaves is put.
    next: PathBuf,
    random: Random,
    /// One in so many calls loses the power, and one fails, or none if it is 0.
    power_in: u64,
    failure_in: u64,
    files: HashMap<u64, OnDisk>,
    is_lost: bool,
}

/// What is on disk of a file, by its inode.
struct OnDisk {
    bytes: Vec<u8>,
    /// Sectors that the next sync brings there.
    dirty: BTreeSet<usize>,
}

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

/// From now on all below `dir` is on such a disk, of which a loss of power leaves `next`.
pub(crate) fn begin(dir: &Path, next: &Path, random: Random, power_in: u64) {
    let (dir, next, files) = (dir.into(), next.into(), HashMap::new());
    DISK.set(Some(Disk { dir, next, random, power_in, failure_in: 0, files, is_lost: false }));
}

/// From now on one in so many calls fails, or none if it is 0.
pub(crate) fn fail_in(calls: u64) {
    DISK.with_borrow_mut(|disk| disk.iter_mut().for_each(|disk| disk.failure_in = calls));
}

/// Whether the power was lost: what is done from then on never was.
pub(crate) fn is_lost() -> bool {
    DISK.with_borrow(|disk| disk.as_ref().is_some_and(|disk| disk.is_lost))
}

/// Loses the power, if it is not lost, and the disk.
pub(crate) fn end() {
    if let Some(mut disk) = DISK.take()
        && !disk.is_lost
    {
        disk.lose();
    }
}

/// A call, before it is done.
pub(super) fn called(call: DiskCall, file: Option<&File>) -> io::Result<()> {
    DISK.with_borrow_mut(|disk| disk.as_mut().map_or(Ok(()), |disk| disk.called(call, file)))
}

/// Bytes that were written at a place.
pub(super) fn written(file: &File, position: u64, bytes: usize) {
    with_file(file, |disk, _| {
        let sectors = position as usize / SECTOR..(position as usize + bytes).div_ceil(SECTOR);
        disk.dirty.extend(sectors);
    });
}

/// A file that is new and on disk, maybe under the number of one that was removed.
pub(super) fn made(file: &File) {
    DISK.with_borrow_mut(|disk| {
        if let Some(disk) = disk {
            disk.files.remove(&file.metadata().unwrap().ino());
        }
    });
}

/// A file that was synced.
pub(super) fn synced(file: &File) {
    with_file(file, |disk, now| {
        disk.bytes.resize(now.len(), 0);
        for sector in std::mem::take(&mut disk.dirty) {
            disk.take(sector, now);
        }
    });
}

fn with_file(file: &File, work: impl FnOnce(&mut OnDisk, &[u8])) {
    DISK.with_borrow_mut(|disk| {
        if let Some(on_disk) = disk.as_mut().and_then(|disk| disk.files.get_mut(&ino(file))) {
            work(on_disk, &read(&readable(file)));
        }
    });
}

fn ino(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}

fn read(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

impl OnDisk {
    fn take(&mut self, sector: usize, now: &[u8]) {
        let end = ((sector + 1) * SECTOR).min(now.len());
        if end > sector * SECTOR {
            let len = self.bytes.len().max(end);
            self.bytes.resize(len, 0);
            self.bytes[sector * SECTOR..end].copy_from_slice(&now[sector * SECTOR..end]);
        }
    }
}

impl Disk {
    fn called(&mut self, call: DiskCall, file: Option<&File>) -> io::Result<()> {
        if !self.is_lost && self.random.below(self.power_in) == 0 {
            self.lose();
        }
        let of = file.map(|file| {
            let readable = readable(file);
            self.files
                .entry(ino(file))
                .or_insert_with(|| OnDisk { bytes: read(&readable), dirty: BTreeSet::new() });
            (ino(file), readable)
        });
        let fails = self.failure_in > 0 && self.random.below(self.failure_in) == 0;
        if let Some((ino, readable)) = of {
            let on_disk = self.files.get_mut(&ino).unwrap();
            if call == DiskCall::Cut || (call == DiskCall::Sync && fails) {
                // Some of it the disk has already.
                let now = read(&readable);
                for sector in std::mem::take(&mut on_disk.dirty) {
                    if self.random.below(2) == 0 {
                        on_disk.take(sector, &now);
                    } else if call == DiskCall::Cut {
                        on_disk.dirty.insert(sector);
                    }
                }
            }
        }
        if fails { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    /// Leaves what is on disk now.
    fn lose(&mut self) {
        self.is_lost = true;
        let mut copied = HashMap::new();
        let (from, to) = (self.dir.clone(), self.next.clone());
        self.copy(&from, &to, &mut copied);
    }

    fn copy(&mut self, from: &Path, to: &Path, copied: &mut HashMap<u64, PathBuf>) {
        fs::create_dir(to).unwrap();
        let mut entries: Vec<_> = fs::read_dir(from).unwrap().map(|entry| entry.unwrap()).collect();
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let (path, copy) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                self.copy(&path, &copy, copied);
                continue;
            }
            let file = File::open(&path).unwrap();
            match copied.get(&ino(&file)) {
                Some(first) => fs::hard_link(first, copy).unwrap(),
                None => {
                    fs::write(&copy, self.left(&file)).unwrap();
                    copied.insert(ino(&file), copy);
                }
            }
        }
    }

    /// What is left of a file.
    fn left(&mut self, file: &File) -> Vec<u8> {
        let now = read(file);
        let Some(on_disk) = self.files.get_mut(&ino(file)) else { return now };
        // All, nothing, or parts.
        let kind = self.random.below(3);
        for sector in on_disk.dirty.clone() {
            if kind == 0 || (kind == 1 && self.random.below(2) == 0) {
                on_disk.take(sector, &now);
            }
        }
        std::mem::take(&mut on_disk.bytes)
    }
}

/// A file to be read, also where it was opened to be written alone.
fn readable(file: &File) -> File {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
}

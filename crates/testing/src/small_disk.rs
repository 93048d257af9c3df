//! A small disk for many programs, one after the other, which is filled and cleared from outside.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{DEADLINE, wait_within};

/// A tmpfs in a mount namespace that a process of ours keeps: it goes with that, and with us.
pub struct SmallDisk {
    holder: Child,
    folder: PathBuf,
    enter: Vec<OsString>,
}

impl SmallDisk {
    /// A disk of so many bytes. `None`, and the test is skipped, where this user may not mount.
    ///
    /// # Panics
    /// When there is no folder to mount it on.
    pub fn mount(bytes: usize) -> Option<SmallDisk> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("encke-disk-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder below the temporary one");
        // It ends with its standard input, whose other end only we hold.
        let script = format!(
            "mount -t tmpfs -o size={bytes} tmpfs \"$1\" && touch \"$1/mounted\" && read -r _"
        );
        let ways: [(&[&str], &[&str]); 2] = [
            (&["--mount"], &["--mount"]),
            (
                &["--user", "--map-root-user", "--mount"],
                &["--user", "--preserve-credentials", "--mount"],
            ),
        ];
        for (unshare, nsenter) in ways {
            let mut command = Command::new("unshare");
            command.args(unshare).args(["sh", "-c", &script, "sh"]).arg(&folder);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let Ok(holder) = command.spawn() else { continue };
            let target = format!("--target={}", holder.id());
            let mut enter: Vec<OsString> = vec!["nsenter".into(), target.into()];
            enter.extend(nsenter.iter().map(OsString::from));
            enter.push("--".into());
            let mut disk = SmallDisk { holder, folder: folder.clone(), enter };
            if disk.is_there() {
                return Some(disk);
            }
        }
        crate::skip("this user may not mount a disk, nor have a namespace to do so");
        None
    }

    fn is_there(&mut self) -> bool {
        let mut is_mounted = false;
        wait_within(DEADLINE, || {
            is_mounted = self.seen_from_outside().join("mounted").exists();
            is_mounted || !matches!(self.holder.try_wait(), Ok(None))
        });
        is_mounted
    }

    /// Where it is for programs that have entered.
    pub fn mount_point(&self) -> &Path {
        &self.folder
    }

    /// What stands before a program that is to see it.
    pub fn enter(&self) -> &[OsString] {
        &self.enter
    }

    /// Where it is for us.
    pub fn seen_from_outside(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.folder.strip_prefix("/").unwrap_or(&self.folder))
    }

    /// Takes all the room that is left.
    ///
    /// # Panics
    /// When the disk is not there.
    pub fn fill(&self) {
        let mut file = fs::File::create(self.filler()).expect("the disk is there");
        let mut piece = vec![1; 1 << 20];
        while !piece.is_empty() {
            if file.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    /// Gives it back.
    pub fn clear(&self) {
        // It may not be full.
        let _ = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.seen_from_outside().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

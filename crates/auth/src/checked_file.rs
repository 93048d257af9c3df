//! A small file of the data directory that is replaced as a whole, and whose damage is found.
//!
//! What is written is on disk, under its name, when the call returns. Whatever ends the process
//! before that leaves the old file. The check in it tells a damaged file, not a forged one: who may
//! write here may do everything anyway. Only the owner of the directory may read it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};
use sys::plain_file;

/// Why such a file cannot be read or written.
#[derive(Debug)]
pub enum CheckedFileError {
    /// The system's own reason.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is not as it was written.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, for the end of a sentence.
        what: String,
    },
}

/// Which file it is.
#[derive(Clone, Debug)]
pub struct CheckedFile {
    /// The directory that it lies in.
    pub dir: PathBuf,
    /// Its name there.
    pub name: &'static str,
    /// The form of what is in it.
    pub format: &'static str,
    /// The largest file that is read.
    pub bytes_max: u64,
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    format: &'a str,
    /// SHA-256 of the text of `content`.
    check: &'a str,
    #[serde(borrow)]
    content: &'a RawValue,
}

impl CheckedFile {
    /// Where it lies.
    pub fn path(&self) -> PathBuf {
        self.dir.join(self.name)
    }

    /// What is in it; `None` where there is none.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, CheckedFileError> {
        match plain_file::open(&self.path(), OpenOptions::new().read(true)) {
            Ok(file) => self.read_from(&file).map(Some),
            // The second is the store's to tell: the directory is none.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(self.io_error(error)),
        }
    }

    /// What is in the open `file`.
    pub fn read_from<T: DeserializeOwned>(&self, file: &File) -> Result<T, CheckedFileError> {
        let mut text = String::new();
        let read = file.take(self.bytes_max + 1).read_to_string(&mut text);
        match read {
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                Err(self.damaged("it is no UTF-8"))
            }
            Err(error) => Err(self.io_error(error)),
            Ok(bytes) if bytes as u64 > self.bytes_max => Err(self.damaged("it is too long")),
            Ok(_) => self.parse(&text).map_err(|what| self.damaged(&what)),
        }
    }

    fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, String> {
        let words = |error: serde_json::Error| format!("line {} cannot be read", error.line());
        let Written { format, check, content } = serde_json::from_str(text).map_err(words)?;
        if format != self.format {
            return Err("it is of another version of Encke".into());
        }
        if check != sum(content) {
            return Err("its check does not fit".into());
        }
        serde_json::from_str(content.get()).map_err(words)
    }

    /// The error of a file whose content is not what its reader expects.
    pub fn damaged(&self, what: &str) -> CheckedFileError {
        CheckedFileError::Damaged { path: self.path(), what: what.to_owned() }
    }

    /// Puts `content` in the place of what is there. One caller at a time.
    pub fn replace(&self, content: &impl Serialize) -> Result<(), CheckedFileError> {
        let replace = || -> io::Result<()> {
            let content = to_raw_value(content)?;
            let (format, check) = (self.format, sum(&content));
            let written = Written { format, check: &check, content: &content };
            let text = format!("{}\n", serde_json::to_string(&written)?);
            if text.len() as u64 > self.bytes_max {
                // What is there stays: the new one would be taken for damaged.
                let why = "it would be longer than what is read";
                return Err(io::Error::new(ErrorKind::FileTooLarge, why));
            }
            let name = format!("{}.new", self.name);
            let new = self.dir.join(&name);
            match fs::remove_file(&new) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let options = &mut OpenOptions::new();
            let mut file = open_private(&self.dir, &name, options.write(true).create_new(true))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, self.path())?;
            File::open(&self.dir)?.sync_all()
        };
        replace().map_err(|error| self.io_error(error))
    }

    fn io_error(&self, error: io::Error) -> CheckedFileError {
        CheckedFileError::Io { path: self.path(), error }
    }
}

fn sum(content: &RawValue) -> String {
    Sha256::digest(content.get()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Opens a file of `dir` that only the owner of the directory may read. That is the server's user,
/// also when root runs the command.
pub fn open_private(dir: &Path, name: &str, options: &mut OpenOptions) -> io::Result<File> {
    let file = plain_file::open(&dir.join(name), options.mode(0o600))?;
    plain_file::give_to_owner(&file, dir)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_that_would_not_be_read_again_leaves_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = CheckedFile {
            dir: dir.path().to_owned(),
            name: "names.json",
            format: "test 1",
            bytes_max: 150,
        };
        file.replace(&["a"]).unwrap();
        let refused = file.replace(&["a".repeat(60)]).unwrap_err();
        assert!(matches!(refused, CheckedFileError::Io { .. }), "{refused:?}");
        assert_eq!(file.read::<Vec<String>>().unwrap(), Some(vec!["a".to_owned()]));
    }
}

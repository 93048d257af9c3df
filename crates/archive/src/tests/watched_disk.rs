//! The real disk, of whose calls a test hears before they are made.

use super::*;

/// A call of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DiskCall {
    /// A file that is there is opened.
    Open,
    Read,
    Sync,
}

type OnCall = Arc<dyn Fn(DiskCall) + Send + std::marker::Sync>;

pub(super) struct Watched(OnCall);
struct WatchedFile(OnCall, Arc<dyn DiskFile>);

impl Watched {
    pub(super) fn new(on_call: impl Fn(DiskCall) + Send + std::marker::Sync + 'static) -> Watched {
        Watched(Arc::new(on_call))
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(WatchedFile(Arc::clone(&self.0), file))
    }
}

impl DiskFile for WatchedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.1.write_at(bytes, offset)
    }
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        (self.0)(DiskCall::Read);
        self.1.read_at(into, offset)
    }
    fn sync(&self) -> io::Result<()> {
        (self.0)(DiskCall::Sync);
        self.1.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.1.len()
    }
    fn cut(&self, bytes: u64) -> io::Result<()> {
        self.1.cut(bytes)
    }
}

impl Disk for Watched {
    fn lock(&self, dir: &Path) -> io::Result<File> {
        RealDisk.lock(dir)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        (self.0)(DiskCall::Open);
        Ok(self.file(RealDisk.open(path)?))
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(RealDisk.create(path)?))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
}

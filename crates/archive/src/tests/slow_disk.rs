//! A disk that hangs while the log is let go of or taken back: nobody else waits for it.

use parking_lot::Condvar;

use super::*;

/// Where calls of the disk wait while it is shut.
#[derive(Default)]
struct Barrier {
    is_shut: Mutex<bool>,
    opened: Condvar,
    /// Hears of each call that waits.
    waits: Mutex<Option<mpsc::SyncSender<()>>>,
}

impl Barrier {
    /// Shuts it; whoever waits there is heard of.
    fn shut(&self) -> mpsc::Receiver<()> {
        let (waits, hear) = mpsc::sync_channel(1);
        *self.waits.lock() = Some(waits);
        *self.is_shut.lock() = true;
        hear
    }

    fn open(&self) {
        *self.is_shut.lock() = false;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut is_shut = self.is_shut.lock();
        if *is_shut && let Some(waits) = &*self.waits.lock() {
            // It has heard of one, or the test is over.
            let _ = waits.try_send(());
        }
        while *is_shut {
            self.opened.wait(&mut is_shut);
        }
    }
}

/// Whoever asks meanwhile is answered that nothing is kept now.
#[track_caller]
fn expect_answers(archive: &Arc<DiskArchive>) {
    let (said, hear) = mpsc::sync_channel(1);
    let asked = Arc::clone(archive);
    std::thread::spawn(move || {
        testing::wait_for("the log is not ours", || asked.stats().is_none());
        let refused = EventStore::<()>::reserve(&*asked, &draft(&["a"], "1")).err();
        // The test may have given up.
        let _ = said.send(refused);
    });
    let answer = hear.recv_timeout(testing::DEADLINE);
    assert_eq!(answer, Ok(Some(NoRoomToKeep::Disk)));
}

#[test]
fn log_on_a_disk_that_hangs_is_let_go_of_and_taken_back_while_others_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let barrier = Arc::<Barrier>::default();
    let config = Config {
        dir: dir.path().to_owned(),
        bytes_max: 1 << 30,
        segment_bytes: 1 << 20,
        sync: Sync::Group,
    };
    let all = rules(&[("a", DAY_MS, None, None)]);
    let passed = Arc::clone(&barrier);
    // Files are opened and synced through it.
    let disk = Arc::new(Watched::new(move |call| {
        if call != DiskCall::Read {
            passed.pass();
        }
    }));
    let (archive, _) = DiskArchive::open(all, config, disk).unwrap();
    let archive = Arc::new(archive);
    assert!(post(&archive, draft(&["a"], "1"), 1, now_ms()));
    let last = draft(&["a"], "2");
    let hangs = barrier.shut();
    let room = EventStore::<()>::reserve(&*archive, &last).unwrap().unwrap();
    room.append(&last.numbered::<()>(EventId::new(2, Tag::of(7))), now_ms());
    let letting_go = std::thread::spawn({
        let archive = Arc::clone(&archive);
        move || archive.let_go()
    });
    hangs.recv_timeout(testing::DEADLINE).expect("what was appended is synced");
    expect_answers(&archive);
    barrier.open();
    letting_go.join().unwrap().unwrap();
    let hangs = barrier.shut();
    let taking_back = std::thread::spawn({
        let archive = Arc::clone(&archive);
        move || archive.take_back().map(|found| found.unwrap().last)
    });
    hangs.recv_timeout(testing::DEADLINE).expect("a segment is opened");
    expect_answers(&archive);
    barrier.open();
    assert_eq!(taking_back.join().unwrap().unwrap(), Some(2), "nothing was lost meanwhile");
    assert_eq!(page(&archive, "a", of(0, false, 9)), (vec![1, 2], false, true));
}

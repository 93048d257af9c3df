//! Clients: each hears all after its place once, growing, or is told a gap.

/// From one gap to the next.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) epoch: u64,
    /// All after this.
    pub(super) start: u64,
    /// Numbers, and which sends they were.
    pub(super) heard: Vec<(u64, usize)>,
    /// Another gap has ended it.
    pub(super) ended: bool,
}

impl Segment {
    /// The last that was heard.
    pub(super) fn place(&self) -> u64 {
        self.heard.last().map_or(self.start, |&(number, _)| number)
    }
}

/// A client.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) id: usize,
    /// Where it is: node and process.
    pub(super) at: Option<(usize, u64)>,
    /// It waits there for its place, until then.
    pub(super) waits_until_ms: Option<u64>,
    pub(super) segments: Vec<Segment>,
}

impl Client {
    /// It goes on at a place of which it knows nothing before.
    pub(super) fn begin(&mut self, epoch: u64, start: u64) {
        if let Some(last) = self.segments.last_mut() {
            last.ended = true;
        }
        self.segments.push(Segment { epoch, start, heard: Vec::new(), ended: false });
    }

    pub(super) fn hear(&mut self, epoch: u64, number: u64, send: usize) {
        let id = self.id;
        let segment = self.segments.last_mut().expect("who hears has begun");
        assert_eq!(segment.epoch, epoch, "client {id} hears of another epoch than it was told");
        assert!(segment.place() < number, "client {id} hears {number} after {}", segment.place());
        segment.heard.push((number, send));
    }
}

//! Pairs on their way from the store of record, many at a time.

/// A batch of pairs in one allocation: 15 million pairs as strings of their own would cost seconds.
#[derive(Clone, Default, Debug)]
pub struct PairBatch {
    text: String,
    /// Where the two texts of each pair end.
    ends: Vec<(u32, u32)>,
}

impl PairBatch {
    /// Pairs that a batch should have: 26 bytes each, and a channel of a few batches stays small.
    pub const PAIRS: usize = 8192;

    /// Puts a pair behind the others. A batch holds 4 GiB of text at most, which is checked.
    pub fn push(&mut self, subscriber: &str, subscribee: &str) {
        let end = |text: &String| u32::try_from(text.len()).expect("a batch is small");
        self.text.push_str(subscriber);
        let middle = end(&self.text);
        self.text.push_str(subscribee);
        self.ends.push((middle, end(&self.text)));
    }

    /// How many pairs it has.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// (subscriber, subscribee), in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        self.ends.iter().map(move |&(middle, end)| {
            let [from, middle, to] = [start, middle as usize, end as usize];
            start = to;
            (&self.text[from..middle], &self.text[middle..to])
        })
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for PairBatch {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> PairBatch {
        let mut batch = PairBatch::default();
        pairs.into_iter().for_each(|(subscriber, subscribee)| batch.push(subscriber, subscribee));
        batch
    }
}

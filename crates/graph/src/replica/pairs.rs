//! Pairs on their way from the store of record, many at a time.

/// A batch of pairs in one allocation: 15 million pairs as strings of their own would cost seconds.
#[derive(Clone, Default, Debug)]
pub struct PairBatch {
    text: String,
    /// Where the two texts of each pair end.
    ends: Vec<(u32, u32)>,
    /// What the store of record knows the two ids by; as long as `ends`, or empty.
    numbers: Vec<(u32, u32)>,
}

/// An id on its way. To find a name by its text costs several misses of the processor's cache, by a
/// number one: of all that a rebuild with names takes, that was half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumberedId<'a> {
    /// Its text.
    pub text: &'a str,
    /// A number that no other text has in one rebuild, from 0 on without large gaps; `None` where
    /// that is not known, or where it is an integer.
    pub number: Option<u32>,
}

/// In place of a number that is not known.
const UNKNOWN: u32 = u32::MAX;

impl PairBatch {
    /// Puts a pair behind the others. A batch holds 4 GiB of text at most, which is checked.
    pub fn push(&mut self, subscriber: &str, subscribee: &str) {
        let end = |text: &String| u32::try_from(text.len()).expect("a batch is small");
        self.text.push_str(subscriber);
        let middle = end(&self.text);
        self.text.push_str(subscribee);
        self.ends.push((middle, end(&self.text)));
    }

    /// Adds a pair of ids with numbers. A batch has either these or the others.
    pub fn push_numbered(&mut self, subscriber: NumberedId<'_>, subscribee: NumberedId<'_>) {
        self.push(subscriber.text, subscribee.text);
        let number = |id: NumberedId<'_>| id.number.unwrap_or(UNKNOWN);
        self.numbers.push((number(subscriber), number(subscribee)));
        debug_assert_eq!(self.numbers.len(), self.ends.len(), "a number would be another pair's");
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
    pub fn iter(&self) -> impl Iterator<Item = (NumberedId<'_>, NumberedId<'_>)> {
        debug_assert!(self.numbers.is_empty() || self.numbers.len() == self.ends.len());
        let mut start = 0;
        let unknown = std::iter::repeat((UNKNOWN, UNKNOWN));
        let numbers = self.numbers.iter().copied().chain(unknown);
        self.ends.iter().zip(numbers).map(move |(&(middle, end), (a, b))| {
            let [from, middle, to] = [start, middle as usize, end as usize];
            start = to;
            let number = |number| Some(number).filter(|&number| number != UNKNOWN);
            let subscriber = NumberedId { text: &self.text[from..middle], number: number(a) };
            let subscribee = NumberedId { text: &self.text[middle..to], number: number(b) };
            (subscriber, subscribee)
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

//! A hash table that leaves next to no room free, and moves few entries at a time.
//!
//! Entries stand in buckets, small vectors that grow by a sixteenth. There are as many buckets as
//! entries ask for, one more for each `MEAN` of them. When one is added, the entries of one other
//! bucket are shared with it (linear hashing: Litwin, "Linear hashing: a new tool for file and
//! table addressing", 1980). So nothing ever doubles, neither the memory nor the time of one call.
//! A table of open addressing is half empty just after it has grown, and moves all that it has.
//!
//! Cost of an entry: itself, a thirtieth of that free on average, and its part of a bucket, 32
//! bytes. A look-up reads one bucket, of some `MEAN` entries, twice that at its worst. Whoever
//! chooses keys must not be able to choose their hashes.

#[cfg(test)]
mod tests;
mod walk;

pub(crate) use self::walk::walk_place;

/// Entries of type `T`, some `MEAN` in a bucket.
#[derive(Debug)]
pub struct BucketTable<T, const MEAN: usize> {
    buckets: Vec<Vec<T>>,
    len: usize,
}

impl<T, const MEAN: usize> Default for BucketTable<T, MEAN> {
    fn default() -> Self {
        BucketTable { buckets: Vec::new(), len: 0 }
    }
}

impl<T, const MEAN: usize> BucketTable<T, MEAN> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries with this `hash`, with others of their bucket.
    pub fn bucket(&self, hash: u64) -> &[T] {
        self.buckets.get(self.place(hash)).map_or(&[], Vec::as_slice)
    }

    /// Likewise, to be changed, but not in what their hashes are of.
    pub fn bucket_mut(&mut self, hash: u64) -> &mut [T] {
        let place = self.place(hash);
        self.buckets.get_mut(place).map_or(&mut [], Vec::as_mut_slice)
    }

    /// The entry with this `hash` that `is_it`.
    pub fn find(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        self.buckets.get(self.place(hash))?.iter().find(|entry| is_it(entry))
    }

    /// Likewise, to be changed.
    pub fn find_mut(&mut self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&mut T> {
        let place = self.place(hash);
        self.buckets.get_mut(place)?.iter_mut().find(|entry| is_it(entry))
    }

    /// Puts in an entry that is not there; `hash_of` is the hash of any.
    pub fn insert(&mut self, entry: T, hash_of: impl Fn(&T) -> u64) -> &mut T {
        if self.len >= self.buckets.len() * MEAN {
            self.split(&hash_of);
        }
        self.len += 1;
        let place = self.place(hash_of(&entry));
        let bucket = &mut self.buckets[place];
        let at = bucket.len();
        push(bucket, entry);
        &mut bucket[at]
    }

    /// The entry with this `hash` that `is_it`, or what is made and put in. Whether it is new.
    pub fn find_or_insert(
        &mut self,
        hash: u64,
        is_it: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
        hash_of: impl Fn(&T) -> u64,
    ) -> (&mut T, bool) {
        let place = self.place(hash);
        match self.buckets.get(place).and_then(|bucket| bucket.iter().position(is_it)) {
            Some(at) => (&mut self.buckets[place][at], false),
            None => (self.insert(make(), hash_of), true),
        }
    }

    /// Takes out the entry with this `hash` that `is_it`.
    pub fn remove(&mut self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let place = self.place(hash);
        let bucket = self.buckets.get_mut(place)?;
        let at = bucket.iter().position(is_it)?;
        let removed = bucket.swap_remove(at);
        shrink(bucket);
        self.len -= 1;
        // By half as many as make one more, so that nobody who comes and goes moves them each time.
        if self.len * 2 <= (self.buckets.len() - 1) * MEAN {
            self.merge();
        }
        Some(removed)
    }

    /// All entries, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.buckets.iter().flatten()
    }

    /// Likewise, to be changed, but not in what their hashes are of.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.buckets.iter_mut().flatten()
    }

    /// All entries, in no order, out of the table.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = T> {
        self.buckets.into_iter().flatten()
    }

    /// The bucket of `hash`: where the last of its bits that count name none that is there yet,
    /// those without the first of them do.
    fn place(&self, hash: u64) -> usize {
        let buckets = self.buckets.len();
        let mask = buckets.next_power_of_two() - 1;
        let place = hash as usize & mask;
        if place < buckets { place } else { place & (mask >> 1) }
    }

    /// There is one bucket more, which takes its share of the one that had it until now.
    fn split(&mut self, hash_of: &impl Fn(&T) -> u64) {
        push(&mut self.buckets, Vec::new());
        let last = self.buckets.len() - 1;
        let Some(from) = shared_with(last) else { return };
        let mut stay = std::mem::take(&mut self.buckets[from]);
        let goes = |entry: &T| self.place(hash_of(entry)) == last;
        let mut gone = Vec::with_capacity(stay.iter().filter(|entry| goes(entry)).count());
        let mut at = 0;
        while at < stay.len() {
            if goes(&stay[at]) {
                gone.push(stay.swap_remove(at));
            } else {
                at += 1;
            }
        }
        stay.shrink_to_fit();
        (self.buckets[from], self.buckets[last]) = (stay, gone);
    }

    /// There is one bucket less.
    fn merge(&mut self) {
        let Some(mut last) = self.buckets.pop() else { return };
        if let Some(from) = shared_with(self.buckets.len()) {
            let bucket = &mut self.buckets[from];
            bucket.reserve_exact(last.len());
            bucket.append(&mut last);
        }
        shrink(&mut self.buckets);
    }

    /// The bytes of its allocations, without what the allocator adds.
    #[cfg(any(test, feature = "testing"))]
    pub fn allocations(&self) -> impl Iterator<Item = usize> {
        let bucket = |bucket: &Vec<T>| bucket.capacity() * size_of::<T>();
        let all = self.buckets.capacity() * size_of::<Vec<T>>();
        self.buckets.iter().map(bucket).chain([all]).filter(|&bytes| bytes > 0)
    }
}

/// With which bucket the one that stands at `last` has shared its entries: the same without its
/// first bit.
fn shared_with(last: usize) -> Option<usize> {
    Some(last ^ 1 << last.checked_ilog2()?)
}

/// Appends to a vector that grows by a sixteenth.
pub(crate) fn push<T>(vector: &mut Vec<T>, value: T) {
    if vector.len() == vector.capacity() {
        vector.reserve_exact(1 + vector.len() / 16);
    }
    vector.push(value);
}

/// Gives back what is free of a vector beyond its half.
pub(crate) fn shrink<T>(vector: &mut Vec<T>) {
    if vector.capacity() > 2 * vector.len() {
        vector.shrink_to(vector.len() + vector.len() / 16);
    }
}

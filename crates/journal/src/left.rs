//! A bound on the records of a key, and what of it is left as they are counted.

/// How much of a key's records counts.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Records at most.
    pub records: u64,
    /// What they weigh at most.
    pub bytes: u64,
    /// What a record weighs beside its keys and its body.
    pub bytes_each: u64,
}

/// What is left of a bound.
pub(crate) struct Left(pub(crate) Bound);

impl Left {
    /// Takes so many records of a key, of which `up_to` says what those up to a place weigh. The
    /// newest one that has no room, if there is one.
    pub(crate) fn take(&mut self, count: usize, up_to: impl Fn(usize) -> u64) -> Option<usize> {
        let taken: Result<_, std::convert::Infallible> = self.try_take(count, |at| Ok(up_to(at)));
        taken.unwrap_or_else(|never| match never {})
    }

    /// As [`Left::take`], where what they weigh may not be there to be read.
    pub(crate) fn try_take<E>(
        &mut self,
        count: usize,
        mut up_to: impl FnMut(usize) -> Result<u64, E>,
    ) -> Result<Option<usize>, E> {
        let Some(last) = count.checked_sub(1) else { return Ok(None) };
        let (all, Bound { records, bytes, bytes_each }) = (up_to(last)?, self.0);
        let mut weight_from = |at: usize| {
            let before = at.checked_sub(1).map_or(Ok(0), &mut up_to)?;
            let records = (count - at) as u64;
            Ok((records, (all - before).saturating_add(records.saturating_mul(bytes_each))))
        };
        let (of_all, weight) = weight_from(0)?;
        if of_all <= records && weight <= bytes {
            self.0 = Bound { records: records - of_all, bytes: bytes - weight, bytes_each };
            return Ok(None);
        }
        // The first one is over, and the one behind the last is not.
        let (mut over, mut fits) = (0, count);
        while fits - over > 1 {
            let middle = over + (fits - over) / 2;
            let (records_from, weight) = weight_from(middle)?;
            match records_from > records || weight > bytes {
                true => over = middle,
                false => fits = middle,
            }
        }
        Ok(Some(over))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slow way: one after the other.
    fn naive(weights: &[u64], bound: Bound) -> Option<usize> {
        let (mut records, mut bytes) = (0, 0);
        weights.iter().enumerate().rev().find_map(|(at, weight)| {
            (records, bytes) = (records + 1, bytes + weight + bound.bytes_each);
            (records > bound.records || bytes > bound.bytes).then_some(at)
        })
    }

    #[test]
    fn bound_ends_where_counting_one_by_one_ends_over_any_parts() {
        let weights: Vec<u64> = (0..40).map(|at| at * 7 % 13).collect();
        for records in [0, 1, 7, 39, 40, 41, u64::MAX] {
            for bytes in [0, 1, 30, 200, 480, u64::MAX] {
                for cut in [0, 1, 20, 39, 40] {
                    let bound = Bound { records, bytes, bytes_each: 5 };
                    let mut left = Left(bound);
                    let part = |weights: &[u64], at: usize| weights[..=at].iter().sum::<u64>();
                    let (old, new) = weights.split_at(cut);
                    let over = left.take(new.len(), |at| part(new, at)).map(|at| cut + at);
                    let over = over.or_else(|| left.take(old.len(), |at| part(old, at)));
                    assert_eq!(over, naive(&weights, bound), "{bound:?}, cut at {cut}");
                }
            }
        }
    }
}

//! Zipf's law: of `n` ranks, rank `k` is drawn with a probability in proportion to `1 / k^s`.
//!
//! Numbers are drawn by rejection from a continuous envelope, as J. Crease does it
//! ("Rejection-sampling the Zipf distribution", 2018). There is no table, so a million ranks cost
//! as little as ten, and about 1.2 rounds a draw.

use crate::random::Random;

/// The distribution over the ranks 1 to `n`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Zipf {
    n: u32,
    exponent: f64,
    /// The area under the envelope.
    area: f64,
}

impl Zipf {
    /// Over `n` ranks, at least 1, with an exponent of 0 (all alike) or more.
    pub(crate) fn new(n: u32, exponent: f64) -> Zipf {
        debug_assert!(n > 0 && exponent >= 0.0);
        // So close to 1 the other form loses most of its digits, and no rank is off by more than a
        // part in 70,000.
        let exponent = if (1.0 - exponent).abs() < 1e-6 { 1.0 } else { exponent };
        let ranks = f64::from(n);
        let area = if exponent == 1.0 {
            1.0 + ranks.ln()
        } else {
            (ranks.powf(1.0 - exponent) - exponent) / (1.0 - exponent)
        };
        Zipf { n, exponent, area }
    }

    /// Draws a rank.
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let at = self.envelope_inverse(random.unit());
            let rank = (at + 1.0).floor();
            // What is rounded up at the end of the envelope.
            if rank > f64::from(self.n) {
                continue;
            }
            // The share of the envelope at this point that lies under the distribution.
            let mut share = rank.powf(-self.exponent);
            if rank > 1.0 {
                share *= at.powf(self.exponent);
            }
            if random.unit() < share {
                return rank as u32;
            }
        }
    }

    /// The envelope is 1 up to 1 and `x^-s` behind it; this inverts the area under it.
    fn envelope_inverse(&self, unit: f64) -> f64 {
        let area = unit * self.area;
        if area <= 1.0 {
            area
        } else if self.exponent == 1.0 {
            (area - 1.0).exp()
        } else {
            let inner = area * (1.0 - self.exponent) + self.exponent;
            inner.powf(1.0 / (1.0 - self.exponent))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_next_to_an_exponent_of_one_stay_within_what_there_is() {
        for exponent in [0.9999999999999999, 1.0 + 1e-14, 1.0 - 1e-11, 1.0 + 1e-7, 1.0 - 1e-5] {
            let zipf = Zipf::new(10_000, exponent);
            let mut random = Random::new(7);
            let ranks: Vec<u32> = (0..100_000).map(|_| zipf.draw(&mut random)).collect();
            assert!(ranks.iter().all(|rank| (1..=10_000).contains(rank)), "{exponent}");
            // By the law the first rank has a share of 1 / H(10,000), which is 0.1022.
            let first = ranks.iter().filter(|rank| **rank == 1).count();
            assert!((9_700..10_700).contains(&first), "{exponent}: {first}");
        }
    }

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        const DRAWS: u32 = 200_000;
        for (n, exponent) in [(10, 0.0), (10, 1.0), (1_000, 0.8), (1_000, 1.0), (50, 2.5)] {
            let zipf = Zipf::new(n, exponent);
            let mut random = Random::new(7);
            let mut counts = vec![0_u32; n as usize + 1];
            for _ in 0..DRAWS {
                counts[zipf.draw(&mut random) as usize] += 1;
            }
            assert_eq!(counts[0], 0);
            let weight = |rank: usize| (rank as f64).powf(-exponent);
            let sum: f64 = (1..=n as usize).map(weight).sum();
            for rank in [1, 2, 3, 10] {
                let expected = f64::from(DRAWS) * weight(rank) / sum;
                let off = (f64::from(counts[rank]) - expected).abs();
                // Five standard deviations of a binomial count: with fixed seeds it never moves.
                assert!(off < 5.0 * expected.sqrt() + 1.0, "{n} {exponent} {rank}: {off}");
            }
        }
    }

    #[test]
    fn single_rank_is_always_drawn() {
        let mut random = Random::new(1);
        let zipf = Zipf::new(1, 1.0);
        assert!((0..100).all(|_| zipf.draw(&mut random) == 1));
    }
}

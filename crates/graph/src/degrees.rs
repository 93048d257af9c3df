//! How many users have how many friends, and the exponent of the power law behind it.

/// The degrees of a graph, counted.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Degrees {
    /// Degree and how many users have it, ascending; degree 0 never occurs.
    pub counts: Vec<(u64, u64)>,
}

/// A power law fitted to the tail of a distribution: p(x) is proportional to x^-exponent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PowerLaw {
    /// The exponent, 3 for preferential attachment.
    pub exponent: f64,
    /// Its standard error.
    pub error: f64,
    /// Users in the tail, on whom it rests.
    pub users: u64,
}

impl Degrees {
    /// Users who have any.
    pub fn users(&self) -> u64 {
        self.counts.iter().map(|(_, users)| users).sum()
    }

    /// The lowest degree, 0 in an empty graph.
    pub fn min(&self) -> u64 {
        self.counts.first().map_or(0, |(degree, _)| *degree)
    }

    /// The degree of the largest hub, 0 in an empty graph.
    pub fn max(&self) -> u64 {
        self.counts.last().map_or(0, |(degree, _)| *degree)
    }

    /// Degrees per user, 0 in an empty graph.
    pub fn mean(&self) -> f64 {
        let sum: u64 = self.counts.iter().map(|(degree, users)| degree * users).sum();
        sum as f64 / (self.users().max(1)) as f64
    }

    /// The lowest degree that at least `share` (0 to 1) of the users do not exceed: 0.5 is the
    /// median.
    pub fn quantile(&self, share: f64) -> u64 {
        debug_assert!((0.0..=1.0).contains(&share));
        debug_assert!(self.counts.is_sorted_by(|(one, _), (next, _)| one < next));
        let wanted = (share * self.users() as f64).ceil() as u64;
        let mut seen = 0;
        let reaches = |&&(_, users): &&(u64, u64)| {
            seen += users;
            seen >= wanted
        };
        self.counts.iter().find(reaches).map_or(self.max(), |(degree, _)| *degree)
    }

    /// The power law that fits the degrees from `xmin` (at least 1) on best: the exponent of
    /// highest likelihood for integers, Clauset, Shalizi, Newman 2009 (SIAM Review 51), eq. 3.5,
    /// with its standard error, eq. 3.6. `None` when fewer than two different degrees are left.
    pub fn power_law(&self, xmin: u64) -> Option<PowerLaw> {
        let xmin = xmin.max(1);
        debug_assert!(self.counts.is_sorted_by(|(one, _), (next, _)| one < next));
        let tail = &self.counts[self.counts.partition_point(|(degree, _)| *degree < xmin)..];
        if tail.len() < 2 {
            return None;
        }
        let users: u64 = tail.iter().map(|(_, users)| users).sum();
        let logs: f64 =
            tail.iter().map(|(degree, users)| (*degree as f64).ln() * *users as f64).sum();
        let mean_log = logs / users as f64;
        let exponent = likeliest(xmin as f64, mean_log);
        let (_, second) = slopes(exponent, xmin as f64);
        Some(PowerLaw { exponent, error: (second * users as f64).sqrt().recip(), users })
    }
}

/// Where the log-likelihood per user, -ln zeta(a, xmin) - a `mean_log`, is highest: its slope falls
/// with a and crosses 0 there. Bisection between exponents that no graph leaves.
fn likeliest(xmin: f64, mean_log: f64) -> f64 {
    let (mut low, mut high) = (1.0 + 1e-6, 64.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        let (first, _) = slopes(middle, xmin);
        if -first > mean_log { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// First and second derivative of ln zeta(a, xmin) in a, by central differences: zeta is smooth,
/// and 1e-4 leaves errors near 1e-8.
fn slopes(a: f64, xmin: f64) -> (f64, f64) {
    let step = 1e-4 * (a - 1.0).min(1.0);
    let at = |a: f64| ln_zeta(a, xmin);
    let (below, here, above) = (at(a - step), at(a), at(a + step));
    ((above - below) / (2.0 * step), (above - 2.0 * here + below) / (step * step))
}

/// Logarithm of the Hurwitz zeta function, sum over k >= 0 of (k + q)^-a, by Euler and Maclaurin
/// (NIST DLMF 25.11.5): the first terms one by one, the rest as an integral with corrections.
fn ln_zeta(a: f64, q: f64) -> f64 {
    const TERMS: u32 = 16;
    debug_assert!(a > 1.0 && q >= 1.0, "the sum has no end at {a}, {q}");
    // Relative to the first term, so that large q and a do not underflow.
    let power = |x: f64| (x / q).powf(-a);
    let head: f64 = (0..TERMS).map(|k| power(q + f64::from(k))).sum();
    let x = q + f64::from(TERMS);
    let integral = x / (a - 1.0);
    let corrections = 0.5 + a / (12.0 * x) - a * (a + 1.0) * (a + 2.0) / (720.0 * x.powi(3));
    (head + power(x) * (integral + corrections)).ln() - a * q.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() < within, "{a} is not {b}");
    }

    #[test]
    fn zeta_has_its_known_values() {
        let pi = std::f64::consts::PI;
        close(ln_zeta(2.0, 1.0), (pi * pi / 6.0).ln(), 1e-10);
        close(ln_zeta(4.0, 1.0), (pi.powi(4) / 90.0).ln(), 1e-10);
        // Apery's constant, and the same without its first two terms.
        close(ln_zeta(3.0, 1.0), 1.202_056_903_159_594_2f64.ln(), 1e-10);
        close(ln_zeta(3.0, 3.0), (1.202_056_903_159_594_2f64 - 1.125).ln(), 1e-9);
    }

    #[test]
    fn quantiles_and_mean_of_a_small_distribution() {
        let degrees = Degrees { counts: vec![(1, 5), (2, 4), (10, 1)] };
        assert_eq!((degrees.users(), degrees.min(), degrees.max()), (10, 1, 10));
        assert_eq!(
            [0.0, 0.5, 0.51, 0.9, 0.91, 1.0].map(|s| degrees.quantile(s)),
            [1, 1, 2, 2, 10, 10]
        );
        close(degrees.mean(), 2.3, 1e-12);
        let empty = Degrees::default();
        assert_eq!((empty.min(), empty.max(), empty.quantile(0.5), empty.mean()), (0, 0, 0, 0.0));
        assert_eq!(empty.power_law(1), None);
    }

    /// An exact power law up to where a term is below half a user in 10^12.
    #[test]
    fn exponent_of_an_exact_power_law_is_found() {
        for (exponent, xmin) in [(2.5, 1), (3.0, 1), (3.0, 50), (2.2, 6)] {
            let users = |x: u64| (1e15 * (x as f64 / xmin as f64).powf(-exponent)) as u64;
            let counts = (xmin..2_000_000).map(|x| (x, users(x))).collect();
            let found = Degrees { counts }.power_law(xmin).unwrap();
            close(found.exponent, exponent, 2e-3);
        }
    }
}

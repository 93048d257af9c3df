//! Random input by the seed of a test.

use fastrand::Rng;

use crate::seed;

/// Runs `body` `cases` times on random input, by the [`seed()`] of the calling test.
pub fn seeded(cases: u32, mut body: impl FnMut(&mut Rng)) {
    let mut rng = Rng::with_seed(seed());
    for _ in 0..cases {
        body(&mut rng);
    }
}

/// A text of up to `len_max` characters, of which many need care in JSON, HTML or both.
pub fn random_text(rng: &mut Rng, len_max: usize) -> String {
    const SPECIAL: &str = "\"\\/'<>&;#:\t {}[],-0\u{7f}\u{85}\u{feff}é€😀";
    let len = rng.usize(..=len_max);
    (0..len)
        .map(|_| match rng.u8(..4) {
            0 => SPECIAL
                .chars()
                .nth(rng.usize(..SPECIAL.chars().count()))
                .expect("it is below their number"),
            1 => rng.char('\u{1}'..='\u{1f}'),
            2 => rng.char(..),
            _ => rng.char('a'..='z'),
        })
        .collect()
}

//! What the tests of this room share.

use fastrand::Rng;

/// Runs `body` `cases` times on random input. It prints the seed, which the test harness shows on
/// a failure; `ENCKE_SEED=<seed> cargo test -p proto <test>` runs the same inputs again.
#[allow(clippy::print_stderr, reason = "the harness keeps it until a test fails")]
pub(crate) fn seeded(cases: u32, mut body: impl FnMut(&mut Rng)) {
    let given = std::env::var("ENCKE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("ENCKE_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    for _ in 0..cases {
        body(&mut rng);
    }
}

/// A text of up to `len_max` characters, of which many need care in JSON, HTML or both.
pub(crate) fn text(rng: &mut Rng, len_max: usize) -> String {
    const SPECIAL: &str = "\"\\/'<>&;#:\t {}[],-0\u{7f}\u{85}\u{feff}é€😀";
    let len = rng.usize(..=len_max);
    (0..len)
        .map(|_| match rng.u8(..4) {
            0 => SPECIAL.chars().nth(rng.usize(..SPECIAL.chars().count())).unwrap(),
            1 => rng.char('\u{1}'..='\u{1f}'),
            2 => rng.char(..),
            _ => rng.char('a'..='z'),
        })
        .collect()
}

/// The value of the field `name` of a head, which stands there once or not at all.
pub(crate) fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = fields.iter().filter(|field| field.0 == name);
    let value = values.next().map(|field| field.1.as_str());
    assert!(values.next().is_none(), "{name} stands twice");
    value
}

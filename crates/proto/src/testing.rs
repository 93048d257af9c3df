//! What the tests of this room share.

use fastrand::Rng;

/// Runs `body` `cases` times on random input, by the [seed](::testing::seed) of the calling test.
pub(crate) fn seeded(cases: u32, mut body: impl FnMut(&mut Rng)) {
    let mut rng = Rng::with_seed(::testing::seed());
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

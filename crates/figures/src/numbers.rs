//! Numbers as people read them.

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12,345` as it is, and from 100,000 on three digits that count: `1.23 M`. At most 7 characters
/// up to a million millions.
pub fn short(number: u64) -> String {
    const UNITS: [(char, f64); 4] = [('k', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12)];
    if number < 100_000 {
        return grouped(number);
    }
    let number = number as f64;
    // Rounding may make the next unit of it.
    let unit = UNITS.into_iter().find(|(_, size)| number / size < 999.5);
    let (unit, size) = unit.unwrap_or(UNITS[UNITS.len() - 1]);
    let value = number / size;
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

/// Bytes with the unit that keeps them short.
pub fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match UNITS.into_iter().find(|&(_, size)| count >= size) {
        Some((unit, size)) => format!("{:.1} {unit}", count as f64 / size as f64),
        None => format!("{count} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_short_and_small_ones_exact() {
        let numbers = [0, 99_999, 100_000, 999_499, 999_999, 1_234_567, 98_765_432].map(short);
        assert_eq!(numbers, ["0", "99,999", "100 k", "999 k", "1.00 M", "1.23 M", "98.8 M"]);
        assert!((0..41).all(|bit| short(u64::MAX >> (23 + bit)).len() <= 7));
    }

    #[test]
    fn numbers_are_grouped_and_bytes_have_units() {
        let numbers = [0, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "12,345", "1,234,567"]);
        let sizes = [0, 999, 1_000, 2_500_000, 3_000_000_000].map(bytes);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "2.5 MB", "3.0 GB"]);
    }
}

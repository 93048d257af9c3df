//! Whole numbers in decimal digits, without `write!`, which takes ten times as long. A stream of
//! answers and a file of friends are made of little else.

/// A `u64` has at most 20 decimal digits.
pub const DIGITS_MAX: usize = 20;

/// The digits of `number`, at the end of `digits`.
pub fn decimal(mut number: u64, digits: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[start..];
        }
    }
}

/// Appends the digits of `number`.
pub fn push_decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(decimal(number, &mut [0; DIGITS_MAX]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_that_rust_writes() {
        for number in [0, 9, 10, 99, 100, u64::from(u32::MAX), u64::MAX] {
            let mut out = b"x".to_vec();
            push_decimal(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), format!("x{number}"));
        }
    }
}

//! Integers of any size, between their bytes and their digits: the schoolbook's way, which for the
//! 255 digits that an id may have is some thousand steps.

/// Digits that are worked with at once.
const STEP: u64 = 1_000_000_000;

/// The digits of `magnitude`, whose least byte is first.
pub(super) fn of_magnitude(magnitude: &[u8]) -> String {
    // Nine digits each, the least first.
    let mut parts = vec![0_u64];
    for &byte in magnitude.iter().rev() {
        let mut carry = u64::from(byte);
        for part in &mut parts {
            let value = *part * 256 + carry;
            (*part, carry) = (value % STEP, value / STEP);
        }
        if carry > 0 {
            parts.push(carry);
        }
    }
    let mut parts = parts.iter().rev();
    let first = parts.next().map(ToString::to_string).unwrap_or_default();
    parts.fold(first, |digits, part| format!("{digits}{part:09}"))
}

/// The magnitude that `digits` stand for, its least byte first.
pub(super) fn to_magnitude(digits: &str) -> Vec<u8> {
    debug_assert!(digits.bytes().all(|digit| digit.is_ascii_digit()));
    let mut magnitude: Vec<u8> = Vec::new();
    for digit in digits.bytes() {
        let mut carry = u32::from(digit - b'0');
        for byte in &mut magnitude {
            let value = u32::from(*byte) * 10 + carry;
            let [low, high, ..] = value.to_le_bytes();
            (*byte, carry) = (low, high.into());
        }
        debug_assert!(carry < 10, "a digit would be lost");
        magnitude.extend(u8::try_from(carry).ok().filter(|&carry| carry > 0));
    }
    magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_bytes_are_the_same_number() {
        for number in [1, 255, 256, 999_999_999, 1_000_000_000, u128::MAX, u128::from(u64::MAX)] {
            let digits = of_magnitude(&number.to_le_bytes());
            assert_eq!(digits, number.to_string());
            let mut magnitude = to_magnitude(&digits);
            magnitude.resize(16, 0);
            assert_eq!(magnitude, number.to_le_bytes());
        }
        let longest = "9".repeat(255);
        assert_eq!(of_magnitude(&to_magnitude(&longest)), longest);
    }
}

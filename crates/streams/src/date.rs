//! Dates as `Stream-Expires-At` has them (RFC 3339, section 5.6).

/// The milliseconds since 1970 of a date and time; nothing where it is none, or lies before.
pub fn parse_date(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let number = |from: usize, len: usize| {
        let digits = text.get(from..from + len)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let is = |at: usize, of: &[u8]| bytes.get(at).is_some_and(|byte| of.contains(byte));
    let has_form = is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":");
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // A leap second is told as 60.
    if !has_form || !(1..=days_of_month).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut ms = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let len = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let thousandths = format!("{:0<3}", fraction.get(..len.min(3)).filter(|d| !d.is_empty())?);
        ms = thousandths.parse().ok()?;
        rest = &fraction[len..];
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    u64::try_from((seconds - offset_seconds(rest)?) * 1_000 + ms).ok()
}

/// How far a zone is ahead of UTC.
fn offset_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hour, minute) = zone.get(1..)?.split_once(':')?;
    let number = |text: &str, most: i64| -> Option<i64> {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok())?.filter(|number| *number <= most)
    };
    Some(sign * (number(hour, 23)? * 3_600 + number(minute, 59)? * 60))
}

/// The days from 1970 to a date, by H. Hinnant's `days_from_civil`.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected numbers are those of `date --date=TEXT +%s`.
    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T23:59:59.5Z", Some(951_868_799_500)),
            ("2024-02-29t00:00:00.001999z", Some(1_709_164_800_001)),
            ("2026-12-31T23:59:59+01:30", Some(1_798_756_199_000)),
            ("2100-03-01T00:00:00-00:00", Some(4_107_542_400_000)),
            ("2025-02-29T00:00:00Z", None),
            ("2025-13-01T00:00:00Z", None),
            ("2025-01-01T24:00:00Z", None),
            ("2025-01-01T00:00:00", None),
            ("2025-01-01T00:00:00.Z", None),
            ("2025-01-01", None),
            ("1969-12-31T23:59:59Z", None),
            ("not-a-date", None),
            ("", None),
        ] {
            assert_eq!(parse_date(text), expected, "{text}");
        }
    }
}

//! Sizes and times as people write them on a command line.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Reads a number of bytes: `65536`, `64KiB`, `64k`, `1 MiB`, `2GB`.
pub(crate) fn parse_bytes(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("{text:?} is no size: write bytes, or a number with KiB, MiB or GiB");
    let number: usize = number.parse().map_err(|_| wrong())?;
    let factor: usize = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

/// Reads a time in seconds: `30`, `0.5`, `30s`.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time: write seconds, such as 30 or 0.5");
    let number = text.trim().trim_end_matches('s').trim_end();
    let seconds: f64 = number.parse().map_err(|_| wrong())?;
    // A year: nothing here is meant to take longer, and every clock can count it.
    if !(0.0..=31_536_000.0).contains(&seconds) {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads how long something is good for: `90d`, `12h`, `30m`, `45s`, or seconds; up to ten years.
pub(crate) fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time: write days, hours or minutes, such as 90d or 12h");
    let text = text.trim();
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'd')) => (&text[..at], 86_400),
        Some((at, 'h')) => (&text[..at], 3_600),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 's')) => (&text[..at], 1),
        _ => (text, 1),
    };
    let number: u64 = number.trim_end().parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(unit).filter(|seconds| (1..=315_576_000).contains(seconds));
    Ok(Duration::from_secs(seconds.ok_or_else(wrong)?))
}

/// So many seconds in their greatest whole unit.
pub(crate) fn span(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let unit = units.into_iter().find(|(size, _)| seconds >= *size).unwrap_or((1, "s"));
    format!("{} {}", seconds / unit.0, unit.1)
}

/// Reads a time between two looks, from 10 ms to a day.
pub(crate) fn parse_period(text: &str) -> Result<Duration, String> {
    let period = parse_seconds(text)?;
    match period.as_secs_f64() {
        0.01..=86_400.0 => Ok(period),
        _ => Err(format!("{text:?} is no time between two rows: write 0.01 to 86400 seconds")),
    }
}

/// Reads how long nothing may come: from 2 s, so that a poll of a second can be answered, to a day.
/// 0 is for ever.
pub(crate) fn parse_silence(text: &str) -> Result<Duration, String> {
    let silence = parse_seconds(text)?;
    match silence.as_secs_f64() {
        0.0 | 2.0..=86_400.0 => Ok(silence),
        _ => Err(format!("{text:?} is too short or too long: write 2 to 86400 seconds, or 0")),
    }
}

/// Reads a share from 0 to 1.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is no share: write a number from 0 to 1"))
}

/// Reads a rate a second, 0 or more.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| format!("{text:?} is no rate: write how many a second, 0 or more"))
}

/// Reads a rate a second, over 0.
pub(crate) fn parse_rate_over_0(text: &str) -> Result<f64, String> {
    match parse_rate(text)? {
        0.0 => Err("write a rate over 0 a second".into()),
        rate => Ok(rate),
    }
}

/// A reader of whole numbers in `range`. It says the range, which those of the library do not.
pub(crate) fn whole<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| format!("write a whole number from {least} to {most}"))
    }
}

/// Reads an IP address.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "write an IP address, such as 10.0.0.7 or fd00::7".to_owned())
}

/// Reads a whole number from 1 on.
pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.trim().parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| format!("{text:?} is no count: write a whole number from 1 on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("65536", 65_536),
            ("64KiB", 65_536),
            ("64k", 65_536),
            ("1 MiB", 1 << 20),
            ("2GB", 2_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "-1", "1.5MiB", "64 parsecs", "99999999999999999999", "1e3"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(parse_seconds("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_seconds("0.5s"), Ok(Duration::from_millis(500)));
        for text in ["", "-1", "1m", "nan", "inf", "1e99"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
        assert_eq!(parse_period("0.01"), Ok(Duration::from_millis(10)));
        assert!(parse_period("0").is_err() && parse_period("86401").is_err());
        assert_eq!(parse_silence("0"), Ok(Duration::ZERO));
        assert_eq!(parse_silence("2s"), Ok(Duration::from_secs(2)));
        assert!(parse_silence("1.9").is_err() && parse_silence("86401").is_err());
    }

    #[test]
    fn shares_and_rates_are_bounded() {
        assert_eq!(parse_share("0.25"), Ok(0.25));
        assert!(parse_share("1.01").is_err() && parse_share("x").is_err());
        assert_eq!(parse_rate("16666"), Ok(16_666.0));
        assert!(parse_rate("-1").is_err() && parse_rate("inf").is_err());
        assert!(parse_rate_over_0("0").is_err() && parse_rate_over_0("0.1").is_ok());
        assert!(parse_count("0").is_err() && parse_count("7") == Ok(7));
        assert_eq!(whole(2..=9_u8)("9"), Ok(9));
        for text in ["1", "10", "-7", "300", "two", ""] {
            let said = whole(2..=9_u8)(text).unwrap_err();
            assert_eq!(said, "write a whole number from 2 to 9", "{text}");
        }
    }
}

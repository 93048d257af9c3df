//! Dates as `Stream-Expires-At` has them (RFC 3339, section 5.6).

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The milliseconds since 1970 of a date and time; nothing where it is none, or lies before.
pub fn parse_date(text: &str) -> Option<u64> {
    let date = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(date.unix_timestamp_nanos() / 1_000_000).ok()
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

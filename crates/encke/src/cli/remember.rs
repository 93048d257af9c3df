//! `--remember PATTERN=COUNT,AGE`: how much is remembered of some ids.

use std::str::FromStr;

use hub::HistoryRule;

use crate::units::parse_lifetime;

/// One rule as it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Remember {
    text: String,
    pub(crate) rule: HistoryRule,
}

impl Remember {
    /// The option that says the same.
    pub(crate) fn option(&self) -> String {
        format!("--remember={}", self.text)
    }
}

impl FromStr for Remember {
    type Err = String;

    fn from_str(text: &str) -> Result<Remember, String> {
        // An id may have both signs.
        let parts = text.rsplit_once('=');
        let parts = parts.and_then(|(pattern, much)| Some((pattern, much.split_once(',')?)));
        let Some((pattern, (count, age))) = parts else {
            return Err("write it as PATTERN=COUNT,AGE, such as room:*=1000,1h".into());
        };
        let wrong = || format!("{count:?} is no number of events: write a whole number");
        let count = count.trim().parse().map_err(|_| wrong())?;
        let age_ms = parse_lifetime(age)?.as_millis() as u64;
        let rule = HistoryRule::new(pattern.trim(), count, age_ms);
        Ok(Remember { text: text.to_owned(), rule: rule.map_err(|error| error.to_string())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_a_pattern_a_count_and_an_age() {
        for (text, pattern, events_max, age_ms_max) in [
            ("answer:*=10000,1h", "answer:*", 10_000, 3_600_000),
            ("a=b,c=7,2d", "a=b,c", 7, 172_800_000),
            ("* = 5, 90", "*", 5, 90_000),
        ] {
            let Remember { rule, .. } = text.parse().unwrap();
            assert_eq!((rule.pattern(), rule.events_max), (pattern.into(), events_max), "{text}");
            assert_eq!(rule.age_ms_max, age_ms_max, "{text}");
        }
        for text in ["", "a", "a=5", "a=5,", "=5,1h", "a b=5,1h", "a=0,1h", "a=5,0s", "a=-1,1h"] {
            assert!(text.parse::<Remember>().is_err(), "{text}");
        }
    }
}

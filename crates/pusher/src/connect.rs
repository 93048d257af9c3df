//! The request that opens a connection: `/app/{key}?protocol=7&client=js&version=8.6.0`.

use percent_encoding::percent_decode_str;

use crate::code::Close;

/// What the path begins with.
const PATH: &str = "/app/";

/// The versions that are served.
const PROTOCOLS: std::ops::RangeInclusive<u32> = 5..=7;

/// The app's key in the path of a request; `None` where it is another path.
pub fn app_key(path: &str) -> Option<&str> {
    let key = path.strip_prefix(PATH)?;
    (!key.is_empty() && !key.contains('/')).then_some(key)
}

/// Looks which protocol the query asks for. Without any it is taken for 7; other parameters do not
/// matter.
///
/// # Errors
/// It is another one. The connection is opened to say so, and closed.
pub fn check_protocol(query: &str) -> Result<(), Close> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let Some((_, asked)) = pairs.into_iter().find(|(name, _)| *name == "protocol") else {
        return Ok(());
    };
    let number = percent_decode_str(asked).decode_utf8().ok().and_then(|text| text.parse().ok());
    match number.is_some_and(|number: u32| PROTOCOLS.contains(&number)) {
        true => Ok(()),
        false => Err(Close::Protocol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_the_last_part_of_the_path() {
        assert_eq!(app_key("/app/encke-app-key"), Some("encke-app-key"));
        for other in ["/app/", "/app", "/apps/1/events", "/app/a/b", "/stream/a", ""] {
            assert_eq!(app_key(other), None, "{other}");
        }
    }

    #[test]
    fn protocols_5_to_7_are_served() {
        for good in ["", "protocol=7", "client=js&protocol=5&flash=false", "client=js", "protocol"]
        {
            assert_eq!(check_protocol(good), Ok(()), "{good}");
        }
        for bad in ["protocol=4", "protocol=8", "protocol=", "protocol=seven", "protocol=-7"] {
            assert_eq!(check_protocol(bad), Err(Close::Protocol), "{bad}");
        }
    }
}

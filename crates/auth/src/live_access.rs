//! The id about which the figures are sent, and the token that lets the pages hear them.

use std::fmt::Write;

/// By what the dashboard listens: both are secrets, new with each start, and the same for a server
/// that inherits, so that pages that listen go on.
#[derive(Clone)]
pub struct LiveAccess {
    /// An id that nobody can guess: what is sent about it is for those whom the API told it.
    pub id: String,
    /// What is shown where streams need tokens.
    pub token: String,
}

impl LiveAccess {
    /// Drawn at random.
    pub fn random() -> Result<LiveAccess, getrandom::Error> {
        let id = format!("encke:dashboard:{}", random_hex::<16>()?);
        Ok(LiveAccess { id, token: random_hex::<24>()? })
    }
}

/// So many random bytes.
fn random_hex<const BYTES: usize>() -> Result<String, getrandom::Error> {
    let mut random = [0; BYTES];
    getrandom::fill(&mut random)?;
    let mut text = String::with_capacity(2 * BYTES);
    for byte in random {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use hub::IdText;

    use super::*;

    #[test]
    fn id_is_another_one_each_time_and_a_good_one() {
        let (one, other) = (LiveAccess::random().unwrap(), LiveAccess::random().unwrap());
        assert_ne!(one.id, other.id);
        assert_ne!(one.token, other.token);
        assert!(IdText::parse(&one.id).is_ok());
        assert_eq!((one.id.len(), one.token.len()), ("encke:dashboard:".len() + 32, 48));
    }
}

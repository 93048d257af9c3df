//! The id about which the figures are sent.

use std::fmt::Write;

/// An id that nobody can guess: what is sent about it is for those whom the API told it.
pub(crate) fn live_id() -> Result<String, getrandom::Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)?;
    let mut id = "encke:dashboard:".to_owned();
    for byte in random {
        write!(id, "{byte:02x}").expect("a string takes everything");
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use hub::IdText;

    use super::*;

    #[test]
    fn id_is_another_one_each_time_and_a_good_one() {
        let (one, other) = (live_id().unwrap(), live_id().unwrap());
        assert_ne!(one, other);
        assert!(IdText::parse(&one).is_ok());
        assert_eq!(one.len(), "encke:dashboard:".len() + 32);
    }
}

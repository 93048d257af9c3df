//! The reply subject says where a record is in the log (ADR-15 of NATS):
//! `$JS.ACK.<stream>.<consumer>.<times>.<sequence>.<delivered>.<time>.<pending>`. A longer form has
//! domain and account before the stream and, from some servers, another token at the end.

/// Where a record is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where it is in the log.
    pub(crate) sequence: u64,
    /// How many its consumer has delivered, with this one.
    pub(crate) delivered: u64,
    /// When it was taken, in nanoseconds since 1970.
    pub(crate) time_ns: u64,
    /// How many are behind it.
    pub(crate) pending: u64,
}

impl Place {
    /// Reads it from a reply subject; none if that is of another kind.
    pub(crate) fn parse(reply: &str) -> Option<Place> {
        let rest = reply.strip_prefix("$JS.ACK.")?;
        // Stream, consumer, times; two more before them in the longer form.
        let before = if rest.split('.').count() > 7 { 5 } else { 3 };
        let mut numbers = rest.split('.').skip(before).map(str::parse::<u64>);
        let mut number = || numbers.next()?.ok();
        let (sequence, delivered, time_ns, pending) = (number()?, number()?, number()?, number()?);
        Some(Place { sequence, delivered, time_ns, pending })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_read_in_both_forms() {
        let place = Place { sequence: 5, delivered: 2, time_ns: 99, pending: 7 };
        assert_eq!(Place::parse("$JS.ACK.S.c.1.5.2.99.7"), Some(place));
        let place = Place::parse("$JS.ACK._.hash.S.c.1.5.2.99.7.token");
        assert_eq!(place.map(|place| (place.sequence, place.pending)), Some((5, 7)));
        let place = Place::parse("$JS.ACK.hub.hash.S.c.1.5.2.99.7");
        assert_eq!(place.map(|place| (place.sequence, place.pending)), Some((5, 7)));
        for wrong in ["", "$JS.ACK.S.c.1.5.2.99", "$JS.ACK.S.c.1.x.2.99.7", "_INBOX.a"] {
            assert_eq!(Place::parse(wrong), None, "{wrong}");
        }
    }
}

//! What is to be sent of streams whose last append could not be sent as an event.
//!
//! One after the other, since each may wait for a full mailbox as long as that may be full. Whether
//! one that cannot be sent is alone in that is seen by the next ones.

/// Streams in a row of which nothing can be sent, after which no others are tried: what holds them
/// up is then taken for what holds up all. Each may wait five seconds for a mailbox.
const UNSENT_IN_A_ROW_MAX: usize = 8;

/// Calls `send` for each of the paths, which says whether its stream has nothing more to be sent,
/// but for no more after several in a row that have. How many are left.
pub(super) async fn send_each<F: Future<Output = bool>>(
    paths: Vec<Box<str>>,
    mut send: impl FnMut(Box<str>) -> F,
) -> usize {
    let mut paths = paths.into_iter();
    let (mut left, mut in_a_row) = (0, 0);
    while in_a_row < UNSENT_IN_A_ROW_MAX {
        let Some(path) = paths.next() else { break };
        if send(path).await {
            in_a_row = 0;
        } else {
            left += 1;
            in_a_row += 1;
        }
    }
    left + paths.len()
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures_util::FutureExt as _;

    use super::*;

    /// How many are left of so many streams of which these can be sent, and how many were tried.
    fn pass(count: usize, is_sent: impl Fn(usize) -> bool) -> (usize, usize) {
        let paths: Vec<Box<str>> = (0..count).map(|number| number.to_string().into()).collect();
        let mut tried = 0;
        let send = |path: Box<str>| {
            assert_eq!(path.parse(), Ok(tried), "in their order, and each of them once");
            tried += 1;
            ready(is_sent(tried - 1))
        };
        let left = send_each(paths, send).now_or_never().unwrap();
        (left, tried)
    }

    #[test]
    fn stream_of_which_nothing_can_be_sent_holds_up_no_others() {
        assert_eq!(pass(100, |number| number != 0), (1, 100));
        assert_eq!(pass(100, |number| number % 8 == 7), (88, 100), "seven in a row");
        assert_eq!(pass(7, |_| false), (7, 7));
    }

    #[test]
    fn streams_in_a_row_of_which_nothing_can_be_sent_end_the_pass() {
        assert_eq!(pass(100, |_| false), (100, UNSENT_IN_A_ROW_MAX));
        assert_eq!(pass(100, |number| number < 50), (50, 50 + UNSENT_IN_A_ROW_MAX));
        assert_eq!(pass(0, |_| false), (0, 0));
    }
}

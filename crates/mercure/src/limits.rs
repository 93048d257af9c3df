//! Every bound of the protocol, in one place.

/// Of a topic, in bytes.
pub const TOPIC_BYTES_MAX: usize = 4096;
/// Of a selector, in bytes: what the reference hub allows one of the 1.0 dialect.
pub const SELECTOR_BYTES_MAX: usize = 4096;
/// How many selectors a subscription or a claim of the old dialect may have, and how many topics an
/// update.
pub const SELECTORS_MAX: usize = 1_000;
/// How many matchers a subscription of the 1.0 dialect may have.
pub const MATCHERS_MAX: usize = 100;
/// How many topics all details of a 1.0 token may have together.
pub const DETAIL_TOPICS_MAX: usize = 1_000;
/// How many details a 1.0 token may have, those of other types included.
pub const DETAILS_MAX: usize = 1_000;
/// Of a publisher's own id, in bytes: it comes back as the value of a header field.
pub const ID_BYTES_MAX: usize = 1024;
/// Of an update's type, in bytes.
pub const KIND_BYTES_MAX: usize = 1024;
/// How many expressions (`{…}`) a URI template may have. A match costs at most the topic's bytes
/// for each of them.
pub const EXPRESSIONS_MAX: usize = 16;
/// How many groups and wildcards a URL pattern may have; the library compares the names of all with
/// each other.
pub const GROUPS_MAX: usize = 64;
/// Of the program of one regular expression of a URL pattern, in bytes, and what one of that size
/// counts for. `(\d+)` takes about 1 KiB. A pattern of few groups takes up to 12 KiB and 90 µs to
/// read (`cost_of_a_url_pattern` in the tests).
pub const REGEX_SIZES: [(usize, usize); 2] = [(4 * 1024, 1), (16 * 1024, 4)];
/// How many groups and wildcards a pattern may have to be tried in little time on any topic, if it
/// has no regular expression of its own, `(…)`.
pub const PLAIN_GROUPS_MAX: usize = 4;
/// For how much the other patterns of one subscription may count by their regular expressions.
pub const REGEX_COST_MAX: usize = 16;
/// For how much those of all subscriptions together: what counts for one takes up to 1.2 ms on a
/// topic of 4 KiB.
pub const REGEX_LIVE_MAX: usize = 500;
/// For how much of that those of clients without a token.
pub const ANONYMOUS_REGEX_MAX: usize = 64;
/// For how many patterns those of one subscription of 1.0 may count.
pub const SUBSCRIPTION_COST_MAX: usize = 200;
/// For how much all regular expressions of a token's details may count: they are compiled each time
/// that it is shown.
pub const DETAIL_REGEX_COST_MAX: usize = 200;
/// For how many patterns one counts whose matches may be of any host: each update tries it.
pub const ANY_HOST_COST: usize = 50;
/// Of the cache that one regular expression keeps while it matches, in bytes.
pub const REGEX_CACHE_BYTES_MAX: usize = 16 * 1024;
/// How many distinct patterns are listened to at a time, by what each counts for
/// ([`Selector::cost`](crate::Selector::cost)).
pub const PATTERNS_MAX: usize = 10_000;
/// Of an address of the hub, in bytes: what names a live URL pattern has it before the pattern.
pub const HUB_URL_BYTES_MAX: usize = 400;
/// How many addresses of the hub live URL patterns may be relative to at a time: a topic that is no
/// whole URL is resolved against each of them.
pub const HUB_URLS_MAX: usize = 32;
/// By how many bytes of their literal beginning, and of their end, live patterns are told apart.
pub const LITERAL_BYTES_MAX: usize = 255;
/// How many fields a form or a query may have, unknown ones included.
pub const FIELDS_MAX: usize = 4_096;

const _: () = assert!(MATCHERS_MAX <= SELECTORS_MAX && SELECTORS_MAX <= FIELDS_MAX);
const _: () = assert!(LITERAL_BYTES_MAX < TOPIC_BYTES_MAX);

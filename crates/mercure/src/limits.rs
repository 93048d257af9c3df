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
/// Of the program of one regular expression of a URL pattern, in bytes, and for how many patterns
/// one of that size counts. `(\d+)` takes about 1 KiB.
pub const REGEX_SIZES: [(usize, usize); 3] = [(4 * 1024, 1), (16 * 1024, 4), (64 * 1024, 16)];
/// For how many the regular expressions of one subscription may count: they are compiled before it
/// is answered.
pub const REGEX_COST_MAX: usize = 200;
/// For how many patterns one counts whose matches may be of any host: each update tries it.
pub const ANY_HOST_COST: usize = 50;
/// Of the cache that one regular expression keeps while it matches, in bytes.
pub const REGEX_CACHE_BYTES_MAX: usize = 64 * 1024;
/// How many distinct patterns are listened to at a time, by what each counts for
/// ([`Selector::cost`](crate::Selector::cost)).
pub const PATTERNS_MAX: usize = 10_000;
/// How many addresses of the hub live URL patterns may be relative to at a time: a topic that is no
/// whole URL is resolved against each of them.
pub const HUB_URLS_MAX: usize = 32;
/// By how many bytes of their literal beginning live patterns are told apart.
pub const LITERAL_BYTES_MAX: usize = 255;
/// How many fields a form or a query may have, unknown ones included.
pub const FIELDS_MAX: usize = 4_096;

const _: () = assert!(MATCHERS_MAX <= SELECTORS_MAX && SELECTORS_MAX <= FIELDS_MAX);
const _: () = assert!(LITERAL_BYTES_MAX < TOPIC_BYTES_MAX);

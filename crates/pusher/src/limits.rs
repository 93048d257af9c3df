//! Every bound of the protocol, in one place. Those that an app may set otherwise are defaults.

/// Of a channel's name, in bytes. The docs say 164, the libraries take 200.
pub const CHANNEL_BYTES_MAX: usize = 200;
/// Of an event's name, in characters.
pub const EVENT_NAME_CHARS_MAX: usize = 200;
/// Of the data of one event, in bytes: 10 KiB.
pub const EVENT_DATA_BYTES_MAX: usize = 10 * 1024;
/// Of a user's id, in characters.
pub const USER_ID_CHARS_MAX: usize = 128;
/// Of what is told of a user, in bytes of JSON.
pub const USER_INFO_BYTES_MAX: usize = 1024;
/// How many users a watchlist holds. Those behind are cut off, and the client is told.
pub const WATCHLIST_USERS_MAX: usize = 100;
/// How many members a presence channel has, unless the app says otherwise.
pub const MEMBERS_MAX: u32 = 100;
/// How many client events a connection may send in a second.
pub const CLIENT_EVENTS_PER_SECOND_MAX: u32 = 10;
/// How many channels one trigger may name.
pub const TRIGGER_CHANNELS_MAX: usize = 100;
/// How many events one batch may have.
pub const BATCH_EVENTS_MAX: usize = 10;
/// How far the time of a request to the HTTP API may be from the server's, in seconds.
pub const TIMESTAMP_DRIFT_SECONDS_MAX: u64 = 600;
/// How many parameters a signed address may have. The largest request of a library has seven.
pub const QUERY_PARAMETERS_MAX: usize = 64;
/// For how long a cache channel keeps its last event, in seconds.
pub const CACHE_SECONDS: u64 = 30 * 60;
/// From how many subscribers on `subscription_count` is told at most every
/// [`COUNT_INTERVAL_SECONDS`].
pub const COUNT_AT_ONCE_MAX: u64 = 100;
/// How often a large channel's `subscription_count` is told, in seconds.
pub const COUNT_INTERVAL_SECONDS: u64 = 5;
/// For how long a channel or a member must be gone until a webhook says so, in seconds.
pub const WEBHOOK_GRACE_SECONDS: u64 = 3;
/// For how long a webhook that is not taken is tried again, in seconds.
pub const WEBHOOK_RETRY_SECONDS_MAX: u64 = 5 * 60;
/// The longest silence that a client is told to bear, in seconds; more makes no difference to it.
pub const ACTIVITY_TIMEOUT_SECONDS_MAX: u32 = 120;
/// How deep JSON may be nested that clients pass on to others. `serde_json` has the same bound for
/// what it reads itself, and readers of other languages give up at a thousand.
pub const JSON_DEPTH_MAX: usize = 128;
/// How many apps one server has.
pub const APPS_MAX: usize = 1_000;
/// Of the file of apps, in bytes.
pub const APPS_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Of an app's id, in bytes.
pub const APP_ID_BYTES_MAX: usize = 32;
/// Of an app's key, in bytes.
pub const APP_KEY_BYTES_MAX: usize = 128;
/// Of what ids begin with that are shared with channels of an app, in bytes.
pub const APP_IDS_BYTES_MAX: usize = 200;
/// The most that an app may set for the data of an event, in bytes.
pub const APP_EVENT_BYTES_MAX: u32 = 1024 * 1024;
/// The most that an app may set for the members of a presence channel: each of them is told of each
/// other one.
pub const APP_MEMBERS_MAX: u32 = 10_000;
/// What a secret must have at least where others than this machine can connect, in bytes.
pub const SECRET_BYTES_MIN: usize = 16;
/// Of a secret, in bytes.
pub const SECRET_BYTES_MAX: usize = 1024;
/// How many addresses an app's webhooks go to.
pub const WEBHOOK_URLS_MAX: usize = 8;
/// Of the address of a webhook, in bytes.
pub const WEBHOOK_URL_BYTES_MAX: usize = 2048;

const _: () = assert!(TIMESTAMP_DRIFT_SECONDS_MAX > 0 && ACTIVITY_TIMEOUT_SECONDS_MAX > 0);
// A user's own channel has its prefix and an id of up to four bytes a character.
const _: () = assert!(CHANNEL_BYTES_MAX > USER_ID_CHARS_MAX);

//! An update as a worker's lane publishes it: without a wait, or not at all.
//!
//! Whatever is not certain to succeed, or may take long, is left to [`super::publish`], with
//! nothing done and nothing counted.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use auth::hub_tokens::HubTokens;
use auth::tokens::KnownToken;
use engine::LaneBell;
use mercure::{Presented, TokenFields};

use super::{Publisher, Purpose, checked};
use crate::api::at_once::{AnswerAtOnce, AtOnce, RequestAtOnce};
use crate::api::state::Api;
use crate::mercure_hub::Hub;
use crate::updates;

/// Bytes of a token: what it grants is read within a turn.
const TOKEN_BYTES_MAX: usize = 1024;

/// Topics of an update, and bytes of each: patterns are tried on them.
const TOPICS_MAX: usize = 4;
const TOPIC_BYTES_MAX: usize = 512;

/// Publishers that a lane remembers, and bytes of what each is known by. Beside these, it takes
/// what its token lists: some 200 topics at most, of one letter each.
const KNOWN_MAX: usize = 32;
const KNOWN_BYTES_MAX: usize = TOKEN_BYTES_MAX + 256;

/// Publishers whose requests a lane has served, so that a further one does not have its token read
/// anew. Its signature is as good as it was as long as the keys are the same. Its times are looked
/// at for each request, and what is revoked.
#[derive(Default)]
pub(crate) struct KnownPublishers {
    /// In the order in which they came, in a ring.
    known: Vec<KnownPublisher>,
    oldest: usize,
    hasher: RandomState,
}

struct KnownPublisher {
    /// Of the two texts: only one with the same is compared with them, so how long that takes tells
    /// nobody how much of a token is right.
    hash: u64,
    host: Box<str>,
    authorization: Box<str>,
    token: KnownToken,
    publisher: Arc<Publisher>,
}

impl KnownPublishers {
    /// Whoever has the token of a backend's request, if that can be said without a wait.
    fn find(&mut self, hub: &Hub, request: &RequestAtOnce<'_>) -> Option<Arc<Publisher>> {
        let keys = hub.publish()?;
        let (host, authorization) = (request.host, request.authorization?);
        let hash = self.hasher.hash_one((host, authorization));
        let is_it = |known: &KnownPublisher| {
            known.hash == hash && *known.host == *host && *known.authorization == *authorization
        };
        let place = self.known.iter().position(is_it);
        if let Some(known) = place.map(|place| &self.known[place])
            && keys.is_good_still(&known.token)
        {
            return Some(Arc::clone(&known.publisher));
        }
        let (publisher, token) = Publisher::at_once(hub, keys, host, authorization)?;
        let publisher = Arc::new(publisher);
        let is_short = host.len() + authorization.len() <= KNOWN_BYTES_MAX;
        // Its regular expressions would be kept.
        if is_short && publisher.claims.subscribe().compile_cost() == 0 {
            let (host, authorization) = (host.into(), authorization.into());
            let publisher = Arc::clone(&publisher);
            self.put(place, KnownPublisher { hash, host, authorization, token, publisher });
        }
        Some(publisher)
    }

    /// Remembers one, in its own place if it has one.
    fn put(&mut self, place: Option<usize>, known: KnownPublisher) {
        match place {
            Some(place) => self.known[place] = known,
            None if self.known.len() < KNOWN_MAX => self.known.push(known),
            None => {
                self.known[self.oldest] = known;
                self.oldest = (self.oldest + 1) % KNOWN_MAX;
            }
        }
    }
}

impl Publisher {
    /// The publisher with the token in this field, and the token, if it can be said without a wait.
    fn at_once(
        hub: &Hub,
        keys: &HubTokens,
        host: &str,
        authorization: &str,
    ) -> Option<(Publisher, KnownToken)> {
        let url = hub.config().hub_of(Some(host)).ok()?;
        let authorization = [authorization];
        let fields = TokenFields { authorization: &authorization, ..TokenFields::default() };
        let presented = Presented::find(fields, "", None);
        let (token, _) = checked(presented, fields, None, Purpose::Publish).ok()?;
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let token = keys.known(&token)?;
        let claims = hub.config().read_claims(token.grant().claims.as_deref(), &url).ok()?;
        // They would be compiled for each update, and tried.
        if claims.publish().compile_cost() > 0 {
            return None;
        }
        Some((Publisher { claims, url, is_public: false }, token))
    }
}

impl Api {
    /// Publishes the update of a request, if it may be published. Its publisher is `known` from
    /// then on.
    pub(crate) fn publish_at_once(
        &self,
        request: &RequestAtOnce<'_>,
        known: &mut KnownPublishers,
        bell: LaneBell,
    ) -> AtOnce {
        let Some(hub) = &self.hub else { return AtOnce::Elsewhere };
        if self.access.may_be_slowed(request.is_forwarded, request.peer) {
            return AtOnce::Elsewhere;
        }
        let Some(publisher) = known.find(hub, request) else { return AtOnce::Elsewhere };
        let Ok(update) = publisher.read(request.body) else { return AtOnce::Elsewhere };
        let are_short = update.topics.iter().all(|topic| topic.len() <= TOPIC_BYTES_MAX);
        let are_few = update.topics.len() <= TOPICS_MAX;
        if !are_few || !are_short || !publisher.may_publish(&update) {
            return AtOnce::Elsewhere;
        }
        let Some(permit) = self.sender.barrier.enter_at_once() else { return AtOnce::Elsewhere };
        let fits = |draft: &_| self.is_for_lanes(draft);
        let posted = updates::post_at_once(&self.sender, &permit, &update, bell, fits);
        let posted = self.posted_now(posted, || {
            let media_type = publisher.claims.dialect().id_content_type();
            AnswerAtOnce::Update { id: update.id, media_type }
        });
        if matches!(posted, AtOnce::Posted { .. }) {
            hub.count_publish(200);
        }
        posted
    }
}

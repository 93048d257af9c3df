//! What the claims of a token grant. Its signature, times, issuer and audience were verified
//! before.

use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::limits::{DETAIL_REGEX_COST_MAX, DETAIL_TOPICS_MAX, DETAILS_MAX, SELECTORS_MAX};
use crate::{Dialect, Grants, HubUrl, MatchType, Selector, SelectorFault, SelectorKind, Topic};

/// The type of the details of a 1.0 token (RFC 9396) that are this hub's.
pub const DETAIL_TYPE: &str = "https://mercure.rocks/authorization-detail";

/// The names of the claim of the old dialect. If a token has both, the second counts.
const OLD_CLAIMS: [&str; 2] = ["mercure", "https://mercure.rocks/"];

/// What a token lets its holder do.
#[derive(Debug)]
pub struct Claims {
    dialect: Dialect,
    publish: Grants,
    subscribe: Grants,
    payloads: Vec<Payload>,
}

/// What is told of a subscriber, and of which of its subscriptions.
#[derive(Debug)]
struct Payload {
    /// `None`: of all of them.
    topics: Option<Grants>,
    payload: Option<Box<RawValue>>,
}

/// Why claims grant nothing, not even a part of what they list.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ClaimsFault {
    /// The payload of the token is no object.
    #[error("its claims are no object")]
    NoObject,
    /// The claim of the old dialect is not there: another service's token, of an issuer that this
    /// hub trusts, too.
    #[error("it has no claim `mercure`")]
    NoClaim,
    /// The claim of the old dialect has another form.
    #[error(
        "its claim `mercure` must be an object whose `publish` and `subscribe` are lists of texts"
    )]
    Old,
    /// It lists more than can be looked through for each update.
    #[error("it lists more than {SELECTORS_MAX} topics")]
    TooMany,
    /// Its URL patterns take too long to compile each time that it is shown.
    #[error("the regular expressions of its URL patterns are too large")]
    TooCostly,
    /// `authorization_details` is no list of objects with a type.
    #[error("its `authorization_details` must be a list of objects, each with a `type`")]
    Details,
    /// A detail of this hub's type lacks something, or has it in another form.
    #[error("a detail of the type {DETAIL_TYPE} must have {0}")]
    Detail(&'static str),
    /// A selector is none.
    #[error("it lists a topic that is invalid: {0}")]
    Selector(#[from] SelectorFault),
}

impl Claims {
    /// Reads the claims of a token of this dialect. Patterns of 1.0 are seen from `hub`.
    ///
    /// # Errors
    /// The whole token is invalid.
    pub fn parse(dialect: Dialect, claims: &Value, hub: &HubUrl) -> Result<Claims, ClaimsFault> {
        let claims = claims.as_object().ok_or(ClaimsFault::NoObject)?;
        match dialect {
            Dialect::Old => old(claims),
            Dialect::V1 => details(claims, hub),
        }
    }

    /// The dialect of the token.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// What its holder may publish to.
    pub fn publish(&self) -> &Grants {
        &self.publish
    }

    /// What private updates its holder may hear.
    pub fn subscribe(&self) -> &Grants {
        &self.subscribe
    }

    /// What its holder may publish to and what it may hear, to be kept by whoever needs them.
    pub fn into_grants(self) -> (Grants, Grants) {
        (self.publish, self.subscribe)
    }

    /// What is told of its holder in the documents of a subscription: of the old dialect the
    /// token's payload, of 1.0 that of the first detail that opens the selector's own text.
    pub fn payload_of(&self, selector: &Selector) -> Option<&RawValue> {
        let topic = Topic::new(selector.text());
        let opens = |topics: &Grants| {
            // `*` is every topic, and so what opens everything alone.
            topics.is_all() || selector.kind() != SelectorKind::All && topics.opens(&topic)
        };
        let first = self.payloads.iter().find(|of| of.topics.as_ref().is_none_or(opens));
        first.and_then(|of| of.payload.as_deref())
    }
}

fn old(claims: &Map<String, Value>) -> Result<Claims, ClaimsFault> {
    let present = |name: &&str| claims.get(*name).is_some_and(|claim| !claim.is_null());
    let name = OLD_CLAIMS.iter().rev().find(|name| present(name));
    let claim = match name.and_then(|name| claims.get(*name)) {
        None => return Err(ClaimsFault::NoClaim),
        Some(Value::Object(claim)) => claim,
        Some(_) => return Err(ClaimsFault::Old),
    };
    let grants = |name| -> Result<Grants, ClaimsFault> {
        let listed = match claim.get(name) {
            None | Some(Value::Null) => return Ok(Grants::default()),
            Some(Value::Array(listed)) => listed,
            Some(_) => return Err(ClaimsFault::Old),
        };
        if listed.len() > SELECTORS_MAX {
            return Err(ClaimsFault::TooMany);
        }
        let selectors = listed.iter().map(|text| {
            let text = text.as_str().ok_or(ClaimsFault::Old)?;
            Ok(Arc::new(Selector::old(text)?))
        });
        Ok(Grants::new(selectors.collect::<Result<Vec<_>, ClaimsFault>>()?))
    };
    let payload = raw(claim.get("payload"));
    Ok(Claims {
        dialect: Dialect::Old,
        publish: grants("publish")?,
        subscribe: grants("subscribe")?,
        payloads: vec![Payload { topics: None, payload }],
    })
}

fn details(claims: &Map<String, Value>, hub: &HubUrl) -> Result<Claims, ClaimsFault> {
    let listed = match claims.get("authorization_details") {
        None => &[][..],
        Some(Value::Array(listed)) if listed.len() <= DETAILS_MAX => listed,
        Some(Value::Array(_)) => return Err(ClaimsFault::TooMany),
        Some(_) => return Err(ClaimsFault::Details),
    };
    let (mut publish, mut subscribe, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
    let (mut room, mut regex_room) = (DETAIL_TOPICS_MAX, DETAIL_REGEX_COST_MAX);
    for detail in listed {
        let detail = detail.as_object().ok_or(ClaimsFault::Details)?;
        let kind = detail.get("type").and_then(Value::as_str).ok_or(ClaimsFault::Details)?;
        if kind != DETAIL_TYPE {
            continue;
        }
        let actions = actions(detail)?;
        let topics = filled_list(detail, "topics").ok_or(ClaimsFault::Detail(TOPICS))?;
        room = room.checked_sub(topics.len()).ok_or(ClaimsFault::TooMany)?;
        let selectors = topics.iter().map(|topic| matcher(topic, hub).map(Arc::new));
        let selectors = selectors.collect::<Result<Vec<_>, _>>()?;
        let cost = selectors.iter().map(|selector| selector.compile_cost()).sum();
        regex_room = regex_room.checked_sub(cost).ok_or(ClaimsFault::TooCostly)?;
        if actions.contains(&"publish") {
            publish.extend(selectors.iter().cloned());
        }
        if actions.contains(&"subscribe") {
            let topics = Some(Grants::new(selectors.iter().cloned()));
            payloads.push(Payload { topics, payload: raw(detail.get("payload")) });
            subscribe.extend(selectors);
        }
    }
    Ok(Claims {
        dialect: Dialect::V1,
        publish: Grants::new(publish),
        subscribe: Grants::new(subscribe),
        payloads,
    })
}

const ACTIONS: &str = "`actions`, a list of texts that is not empty";
const TOPICS: &str = "`topics`, a list of objects that is not empty";
const MATCH: &str = "in each of its `topics` a text `match`, and a known `match_type` or none";

/// A payload as JSON; `null` is none.
fn raw(payload: Option<&Value>) -> Option<Box<RawValue>> {
    payload.filter(|payload| !payload.is_null()).and_then(|payload| to_raw_value(payload).ok())
}

/// Names that are unknown grant nothing, and are no fault.
fn actions(detail: &Map<String, Value>) -> Result<Vec<&str>, ClaimsFault> {
    let listed = filled_list(detail, "actions").ok_or(ClaimsFault::Detail(ACTIONS))?;
    let names = listed.iter().map(|action| action.as_str().ok_or(ClaimsFault::Detail(ACTIONS)));
    names.collect()
}

fn filled_list<'v>(detail: &'v Map<String, Value>, name: &str) -> Option<&'v [Value]> {
    let listed = detail.get(name)?.as_array()?;
    (!listed.is_empty()).then_some(listed)
}

fn matcher(matcher: &Value, hub: &HubUrl) -> Result<Selector, ClaimsFault> {
    let matcher = matcher.as_object().ok_or(ClaimsFault::Detail(TOPICS))?;
    let text = matcher.get("match").and_then(Value::as_str).ok_or(ClaimsFault::Detail(MATCH))?;
    let match_type = match matcher.get("match_type") {
        None => Some(MatchType::Exact),
        Some(name) => name.as_str().and_then(MatchType::named),
    };
    // `*` is known before the type, but an unknown type is a fault all the same.
    let match_type = match_type.ok_or(ClaimsFault::Detail(MATCH))?;
    Ok(Selector::v1(match_type, text, hub)?)
}

//! What a subscriber asks for: its selectors and its place.

use std::collections::HashSet;

use crate::fields::Fields;
use crate::limits::{MATCHERS_MAX, REGEX_COST_MAX, SELECTORS_MAX, SUBSCRIPTION_COST_MAX};
use crate::{Dialect, HubUrl, MatchType, Refusal, Selector, SelectorKind};

/// The parts of a request that say what is asked for.
#[derive(Clone, Copy, Debug)]
pub struct SubscribeRequest<'r> {
    /// The query of the target, without its `?`.
    pub query: &'r str,
    /// The form in the body of a `QUERY` (RFC 10008), which only 1.0 has.
    pub body: Option<&'r [u8]>,
    /// The value of the field `Last-Event-ID`.
    pub last_event_id: Option<&'r str>,
    /// The dialect of the token, if there is one.
    pub token: Option<Dialect>,
    /// The address that relative patterns are seen from.
    pub hub: &'r HubUrl,
}

impl SubscribeRequest<'_> {
    /// How many URL patterns it asks for, each of which is compiled to read it, though it be
    /// refused.
    pub fn url_patterns(&self) -> usize {
        // Past a bound of fields nothing is read.
        let of = |text| Fields::read(text).map_or(0, |fields| fields.all(URL_PATTERN).count());
        (of(self.query.as_bytes()) + self.body.map_or(0, of)).min(MATCHERS_MAX)
    }
}

/// The parameter of a URL pattern.
const URL_PATTERN: &str = "match_urlpattern";

/// What a subscriber asks for.
#[derive(Debug)]
pub struct Subscribe {
    /// The dialect of the request and of its answer.
    pub dialect: Dialect,
    /// At least one, each once.
    pub selectors: Vec<Selector>,
    /// The id of the last update that was heard, or [`crate::EARLIEST`]. If there is one, the
    /// answer has the field [`Dialect::place_field`]. An empty one, which only 1.0 has, asks for
    /// nothing that is past.
    pub place: Option<String>,
}

/// How the place may be named in a query: of the old dialect, of 1.0, of hubs before 0.14, and as
/// proxies write the latter.
const PLACES: [&str; 4] = ["lastEventID", "last_event_id", "Last-Event-ID", "Last-Event-Id"];

impl Subscribe {
    /// Reads a request.
    ///
    /// # Errors
    /// It is none of either dialect, or one of both; the client should hear why. The refusal is to
    /// be told in the dialect of [`Subscribe::dialect_of`].
    pub fn parse(request: SubscribeRequest<'_>) -> Result<Subscribe, Refusal> {
        let query = Fields::read(request.query.as_bytes())?;
        let body = request.body.map(Fields::read).transpose()?.unwrap_or_default();
        let dialect = dialect(&query, &body, request.token)?;
        let selectors = match dialect {
            Dialect::Old => old_selectors(&query)?,
            Dialect::V1 => matchers(&query, &body, request.hub)?,
        };
        if selectors.is_empty() {
            return Err(Refusal::NoSelector);
        }
        let place = place(&query, &body, request.last_event_id);
        let place = place.filter(|place| dialect == Dialect::V1 || !place.is_empty());
        Ok(Subscribe { dialect, selectors, place })
    }

    /// The dialect that the parameters of a query are of, if they say it.
    pub fn asked_dialect(query: &str) -> Option<Dialect> {
        let query = Fields::read(query.as_bytes()).unwrap_or_default();
        dialect(&query, &Fields::default(), None)
            .ok()
            .filter(|_| query.iter().any(|(name, _)| name == "topic" || is_like_matcher(name)))
    }

    /// The dialect in which a request that is refused hears so.
    pub fn dialect_of(request: SubscribeRequest<'_>) -> Dialect {
        let has_matcher = |text| {
            let fields = Fields::read(text).unwrap_or_default();
            fields.iter().any(|(name, _)| is_like_matcher(name))
        };
        let is_v1 = request.body.is_some()
            || request.token == Some(Dialect::V1)
            || has_matcher(request.query.as_bytes());
        if is_v1 { Dialect::V1 } else { Dialect::Old }
    }
}

/// The parameters decide, and the token where there are none. A request is of one dialect.
fn dialect(
    query: &Fields<'_>,
    body: &Fields<'_>,
    token: Option<Dialect>,
) -> Result<Dialect, Refusal> {
    let names = || query.iter().chain(body.iter()).map(|(name, _)| name);
    let has_topic = names().any(|name| name == "topic");
    let matcher = names().find(|name| is_like_matcher(name));
    match (has_topic, matcher, token) {
        (true, Some(matcher), _) => Err(Refusal::MixedDialects(matcher.to_owned())),
        (true, None, Some(Dialect::V1)) => Err(Refusal::OldParameter),
        (false, Some(_), Some(Dialect::Old)) => Err(Refusal::OldToken),
        (true, None, _) => Ok(Dialect::Old),
        (false, Some(_), _) => Ok(Dialect::V1),
        (false, None, token) => Ok(token.unwrap_or(Dialect::Old)),
    }
}

fn is_like_matcher(name: &str) -> bool {
    name.get(..5).is_some_and(|beginning| beginning.eq_ignore_ascii_case("match"))
}

fn old_selectors(query: &Fields<'_>) -> Result<Vec<Selector>, Refusal> {
    let topics: HashSet<&str> = query.all("topic").filter(|topic| !topic.is_empty()).collect();
    if topics.len() > SELECTORS_MAX {
        return Err(Refusal::TooManySelectors(SELECTORS_MAX));
    }
    let mut left = topics;
    let in_order = query.all("topic").filter(|topic| left.remove(topic));
    in_order.map(|topic| Selector::old(topic).map_err(Refusal::Selector)).collect()
}

fn matchers(query: &Fields<'_>, body: &Fields<'_>, hub: &HubUrl) -> Result<Vec<Selector>, Refusal> {
    let mut known: HashSet<(SelectorKind, String)> = HashSet::new();
    let (mut selectors, mut count) = (Vec::new(), 0);
    let (mut cost, mut regex_cost) = (0, 0);
    for (name, text) in query.iter().chain(body.iter()) {
        let match_type = match name {
            "match" | "match_exact" => MatchType::Exact,
            URL_PATTERN => MatchType::UrlPattern,
            _ if is_like_matcher(name) => return Err(Refusal::UnknownMatcher(name.to_owned())),
            _ => continue,
        };
        count += 1;
        if count > MATCHERS_MAX {
            return Err(Refusal::TooManySelectors(MATCHERS_MAX));
        }
        if text.is_empty() {
            continue;
        }
        let selector = Selector::v1(match_type, text, hub)?;
        cost += selector.cost();
        regex_cost += selector.regex_cost();
        if cost > SUBSCRIPTION_COST_MAX || regex_cost > REGEX_COST_MAX {
            return Err(Refusal::TooCostly);
        }
        if known.insert((selector.kind(), selector.key().into_owned())) {
            selectors.push(selector);
        }
    }
    Ok(selectors)
}

/// The field goes before the query, the query before the body; an empty one only says that somebody
/// asked.
fn place(query: &Fields<'_>, body: &Fields<'_>, field: Option<&str>) -> Option<String> {
    let named = |fields: &Fields<'_>| -> Vec<String> {
        let of_place = fields.iter().filter(|(name, _)| PLACES.contains(name));
        of_place.map(|(_, value)| value.to_owned()).collect()
    };
    let all: Vec<String> =
        field.map(str::to_owned).into_iter().chain(named(query)).chain(named(body)).collect();
    let given = all.iter().find(|place| !place.is_empty()).or(all.first());
    given.cloned()
}

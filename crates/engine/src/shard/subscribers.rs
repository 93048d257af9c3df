//! Clients of the Mercure protocol: how they begin to listen, and what is kept of them.
//!
//! Such a stream is one of Server-Sent Events whose format is [`Format::Mercure`]. What it listens
//! to are keys under which it is logged in ([`topics`]). So an update is delivered, and what was
//! missed is found, as for any other stream, and nothing here stands in its way.
//!
//! The answer to a client that comes back says in its head whether all that it has missed follows.
//! That is known with the first window: until then its head is kept, about a millisecond.
//!
//! Cost: one byte beside a connection's record where somebody listens to a pattern, and its
//! log-ins. Nothing where nobody speaks the protocol.

use std::sync::Arc;

use hub::{DisconnectReason, IdText, TokenRefusal};
use mercure::{
    Claims, Dialect, Grants, HubUrl, Presented, Refusal, Selector, Subscribe, SubscribeRequest,
    TokenFields,
};
use proto::resume::PlaceStyle;
use proto::{Format, Method, Problem, Request, request};

use super::admission::Reply;
use super::core::{At, Core, Lives};
use super::subscriber_head::{self, Begin};
use super::subscriber_ids::{self, Denied, Selection};
use crate::conn::Marks;
use crate::conn::state::State;
use crate::limits::{HUB_QUERY_BYTES_MAX, RETRY_AFTER_SECONDS, work};
use crate::mercure_config::{MercureConfig, refused_by_hub};
use crate::sockets::Sockets;
use crate::tokens::Granted;
use crate::wire::Wire;

/// Who listens by a token, and which private updates it may hear.
struct Subscriber {
    granted: Granted,
    grants: Arc<Grants>,
    /// What others are told of it, as JSON.
    payload: Option<Arc<str>>,
}

impl Subscriber {
    /// What a client asks for, and who it is by its token.
    fn of(
        asked: SubscribeRequest<'_>,
        token: Option<(Granted, Claims)>,
    ) -> Result<(Subscribe, Option<Subscriber>), Refusal> {
        let subscribe = Subscribe::parse(asked)?;
        let subscriber = token.map(|(granted, claims)| {
            let payload = payload_of_all(&claims, &subscribe.selectors);
            Subscriber { granted, grants: Arc::new(claims.into_grants().1), payload }
        });
        Ok((subscribe, subscriber))
    }
}

/// What all these selectors have as payload; `None` where they have different ones.
fn payload_of_all(claims: &Claims, selectors: &[Selector]) -> Option<Arc<str>> {
    let mut payloads = selectors.iter().map(|of| claims.payload_of(of).map(|raw| raw.get()));
    let first = payloads.next()??;
    payloads.all(|other| other == Some(first)).then(|| first.into())
}

/// What is known of the token of a request.
enum Looked {
    /// There is none.
    Nothing,
    /// It is good.
    Granted(Granted),
    /// It is shown as it must not be, in this dialect.
    Wrong(Refusal, Dialect),
    /// It is refused, which says that it is of this dialect.
    Refused(TokenRefusal, Dialect),
    /// It is being verified.
    Asked,
}

impl<S: Sockets> Core<S> {
    /// Opens a stream at the hub.
    pub(super) fn admit_to_topics(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        read: &[u8],
        reply: &Reply<'_>,
    ) -> Lives {
        let Some(config) = self.config.mercure.clone() else {
            return self.refuse(at, &Problem::no_such_path(), reply);
        };
        if request.method == Method::Post {
            return self.hand_out_of_hub(at, request, read, reply);
        }
        let mut body = None;
        if request.method == Method::Query {
            if request.body.len > HUB_QUERY_BYTES_MAX {
                return self.refuse(at, &Problem::body_too_large(HUB_QUERY_BYTES_MAX), reply);
            }
            body = read.get(request.head_len..request.head_len + request.body.len);
            if body.is_none() {
                return self.await_body(at, request);
            }
        }
        let hub = match config.hub_of(request.host) {
            Ok(hub) => hub,
            Err(problem) => return self.refuse(at, &problem, reply),
        };
        let mut asked = SubscribeRequest {
            query: request.query,
            body,
            last_event_id: request.cursor.and_then(|place| str::from_utf8(place).ok()),
            token: None,
            hub: &hub,
        };
        let granted = match self.look_at_hub_token(at, request, &config) {
            Looked::Nothing if config.is_open => None,
            Looked::Nothing => {
                // Who asks for nothing is told where to get a token, which only 1.0 has words for.
                let dialect = Subscribe::asked_dialect(request.query).unwrap_or(Dialect::V1);
                let problem = refused_by_hub(&Refusal::NoToken, dialect, &hub);
                return self.refuse(at, &problem, reply);
            }
            Looked::Granted(granted) => Some(granted),
            Looked::Wrong(refusal, dialect) => {
                return self.refuse(at, &refused_by_hub(&refusal, dialect, &hub), reply);
            }
            Looked::Refused(refusal, dialect) => {
                let problem = self.refused_token(refusal, dialect, &hub);
                return self.refuse(at, &problem, reply);
            }
            Looked::Asked => return Ok(()),
        };
        let subscriber: Result<_, Refusal> = granted.map_or(Ok(None), |granted| {
            let verified = granted.grant.claims.as_deref();
            asked.token = verified.map(|claims| Dialect::of_token(claims.kind.as_deref()));
            self.spend_on(verified.map_or(0, |claims| patterns_of_token(&claims.json)));
            let claims = config.read_claims(verified, &hub)?;
            Ok(Some((granted, claims)))
        });
        self.spend_on(asked.url_patterns());
        match subscriber.and_then(|of| Subscriber::of(asked, of)) {
            Ok((subscribe, subscriber)) => self.listen(at, request, subscribe, subscriber, reply),
            Err(refusal) => {
                let problem = refused_by_hub(&refusal, Subscribe::dialect_of(asked), &hub);
                self.refuse(at, &problem, reply)
            }
        }
    }

    /// Counts a refusal of a token; what its client is told, in 1.0 also where to get another.
    fn refused_token(&self, refusal: TokenRefusal, dialect: Dialect, hub: &HubUrl) -> Problem {
        let problem = self.refused(refusal);
        match dialect {
            Dialect::V1 if problem.status == 401 => {
                let why = Refusal::BadToken(refusal.to_string().into());
                Problem { challenge: refused_by_hub(&why, dialect, hub).challenge, ..problem }
            }
            _ => problem,
        }
    }

    /// Looks at the token of a request, as [`Core::look_at_token`] does at those of our own
    /// streams.
    fn look_at_hub_token(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        config: &MercureConfig,
    ) -> Looked {
        let known = at.conn.some_work().and_then(|work| work.token.outcome.take());
        let authorization = request.bearer.authorization();
        let cookie = request.bearer.cookies().filter(|_| self.cookies_count(request));
        let fields = TokenFields {
            authorization: authorization.as_slice(),
            cookie: cookie.as_slice(),
            origin: request.origin,
            referer: None,
        };
        let asked = match request.method {
            Method::Query => Some(Dialect::V1),
            _ => Subscribe::asked_dialect(request.query),
        };
        let presented = match Presented::find(fields, request.query, asked) {
            Ok(Some(presented)) => presented,
            Ok(None) => return Looked::Nothing,
            Err(refusal) => return Looked::Wrong(refusal, asked.unwrap_or(Dialect::V1)),
        };
        let of_token = Dialect::of_unverified(&presented.token);
        if let Err(refusal) = presented.check(of_token) {
            return Looked::Wrong(refusal, Dialect::V1);
        }
        let dialect = asked.unwrap_or(of_token);
        if known.is_some() {
            at.conn.tidy();
            self.sessions.take(at.slot);
        }
        let Some(check) = &config.check else {
            let refusal = Refusal::BadToken("this hub knows no key of tokens".into());
            return Looked::Wrong(refusal, dialect);
        };
        self.budget.spend(work::TOKEN);
        match known.or_else(|| check.check(&presented.token)) {
            Some(Ok(granted)) => Looked::Granted(granted),
            Some(Err(refusal)) => Looked::Refused(refusal, dialect),
            None if self.ask_token(at, &presented.token, &self.hub_tokens) => {
                self.await_token(at);
                Looked::Asked
            }
            None => Looked::Refused(TokenRefusal::Busy, dialect),
        }
    }

    /// Logs in before the head is sent: who has read the head hears what is published.
    fn listen(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        subscribe: Subscribe,
        subscriber: Option<Subscriber>,
        reply: &Reply<'_>,
    ) -> Lives {
        let Subscribe { dialect, selectors, place } = subscribe;
        let selectors: Vec<_> = selectors.into_iter().map(Arc::new).collect();
        let granted = subscriber.as_ref().map(|of| (&*of.granted.grant, &*of.grants));
        let asked = match subscriber_ids::sort(&selectors, granted) {
            Ok(asked) => asked,
            Err(denied) => {
                let hub = self.config.mercure.as_ref();
                let hub = hub.and_then(|config| config.hub_of(request.host).ok());
                return self.refuse_id(at, denied, (dialect, hub), reply);
            }
        };
        at.conn.begin_request();
        let wire = Wire::new(Format::Mercure, request.carrier);
        if request.method == Method::Head {
            subscriber_head::push_head(wire, reply.cors, &mut self.answer);
            self.answer.extend_from_slice(b"\r\n");
            return self.answered(at, DisconnectReason::Answered);
        }
        let (gaps, newest) = self.event_ids.begin_stream();
        at.conn.wire = wire;
        at.conn.mark(Marks::BLOCKS, request.told == PlaceStyle::InBlock);
        let grants = subscriber.as_ref().map(|subscriber| &subscriber.grants);
        let may_hear = match self.login_to_topics(at, &asked, grants) {
            Ok(may_hear) => may_hear,
            Err(problem) => return self.refuse(at, &problem, reply),
        };
        let payload = subscriber.as_ref().and_then(|of| of.payload.clone());
        let has_token = subscriber.is_some();
        if let Some(subscriber) = subscriber {
            self.keep_token(at, subscriber.granted);
        }
        self.note_subscriber(at, has_token, may_hear.then_some(dialect), payload);
        self.counters.streams_opened[wire.transport().index()].add(1);
        self.note_begun(at.slot, gaps);
        let place: Option<Arc<str>> = place.map(Arc::from);
        let begin = place.as_ref().map(|place| self.begin_of(place));
        let held = match &begin {
            Some(Begin::Earliest) if self.config.history.is_on() => {
                self.ask_past(at, request::Past::Earliest, newest, PlaceStyle::InHead)
            }
            Some(Begin::Behind(number)) => self.ask(at, *number),
            Some(Begin::Future(number, tag)) => self.ask_future(at, *number, *tag),
            Some(Begin::Named(place)) => self.ask_named(at, place),
            _ => false,
        };
        let place = place.zip(begin).map(|(place, begin)| (dialect, place, begin));
        self.begin_head(at, reply.cors, newest, (place, held));
        at.conn.move_to(if held { State::Held } else { State::Stream });
        at.conn.active = self.now;
        self.wait(at);
        self.send_answer(at)
    }

    /// Counts what it takes to read so many URL patterns of a request or of a token, though that be
    /// refused.
    fn spend_on(&mut self, patterns: usize) {
        self.budget.spend(work::URL_PATTERN * patterns as u32);
    }

    fn refuse_id(
        &mut self,
        at: &mut At<'_, S::Socket>,
        denied: Denied,
        (dialect, hub): (Dialect, Option<HubUrl>),
        reply: &Reply<'_>,
    ) -> Lives {
        let problem = match (denied, hub) {
            (Denied::NoToken, Some(hub)) => refused_by_hub(&Refusal::NoToken, dialect, &hub),
            (Denied::NoToken, None) => Problem::no_such_path(),
            (Denied::Refused(problem), _) => problem,
        };
        self.counters.ids_not_granted.add(u64::from(problem.status == 403));
        self.refuse(at, &problem, reply)
    }

    /// Logs in. Whether it may hear who is subscribed.
    fn login_to_topics(
        &mut self,
        at: &mut At<'_, S::Socket>,
        asked: &Selection<'_>,
        grants: Option<&Arc<Grants>>,
    ) -> Result<bool, Problem> {
        let Some(topics) = self.topics.clone() else { return Err(Problem::no_such_path()) };
        let listening = topics.listen(&asked.selectors, grants).map_err(|full| {
            let detail = format!("{full}. Listen to topics, or try again later.");
            Problem::too_many(detail, RETRY_AFTER_SECONDS)
        })?;
        let keys: Result<Vec<_>, _> =
            listening.keys.iter().map(|key| IdText::of_key(key)).collect();
        let with_ids = |keys: Vec<_>| [&keys[..], &asked.ids].concat();
        let login = keys.map_err(|_| {
            Problem::bad_request("A topic has a control character, which no topic here may have.")
        });
        let login = login
            .map(with_ids)
            .and_then(|keys| self.login(at, &keys, None).map_err(|refused| refused.problem()));
        match login {
            Ok(_) => {
                self.patterns.set(at.slot, listening.is_counted);
                Ok(listening.hears_subscriptions)
            }
            Err(problem) => {
                let keys = listening.keys.iter().filter_map(|key| IdText::of_key(key).ok());
                topics.leave(keys.filter_map(|key| self.names.lookup(key)));
                Err(problem)
            }
        }
    }

    /// The connection listens to no pattern any more. It is still logged in.
    pub(super) fn leave_patterns(&mut self, at: &At<'_, S::Socket>) {
        if !self.patterns.get(at.slot) {
            return;
        }
        self.patterns.take(at.slot);
        if let Some(topics) = &self.topics {
            topics.leave(self.ids(at));
        }
    }
}

/// How many URL patterns a token lists, about: as often as it names their type. Whoever signs it
/// writes it plainly.
fn patterns_of_token(json: &str) -> usize {
    json.matches("urlpattern").count()
}

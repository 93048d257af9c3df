//! This is about tokens of requests: what a request may log in as, and when a stream must end. It
//! is also how a WebSocket goes on with another token, and the end of those whose token is revoked.
//!
//! A token that cannot be verified within the turn is asked for ([`crate::tokens`]). Its request
//! stays as it came, and is read again when the result is there: so there is one way in.
//!
//! Cost: nothing where streams are open to all; else a look at the token, by whoever verifies it.

use std::sync::Arc;

use hub::{DisconnectReason, TokenRefusal};
use proto::request::tokens_of;
use proto::websocket::{self, command};
use proto::{Problem, ProblemKind, Request};

use super::core::{At, Core, Lives, ticks};
use super::{Shard, key_of};
use crate::conn::Marks;
use crate::conn::action::TokenAction;
use crate::conn::state::{Input, State};
use crate::limits::{RETRY_AFTER_SECONDS, work};
use crate::mailbox::TokenResult;
use crate::questions::Asker;
use crate::sockets::Sockets;
use crate::timer::Tick;
use crate::tokens::{Granted, Outcome, Revoked, Session, TokenQuestion, Tokens};

/// What is known of the token of a request.
pub(super) enum Presented {
    /// None is needed.
    Open,
    /// It is good.
    Granted(Granted),
    /// The request is refused.
    Refused(Problem),
    /// It is being verified.
    Asked,
}

/// What came of a token in a message.
pub(super) enum Renewal {
    Done(Result<(), Problem>),
    /// The answer follows.
    Asked,
}

impl<S: Sockets> Core<S> {
    /// Looks at the token of a request. A cookie counts only where no page of others can have made
    /// the request: browsers send it along whoever asks.
    pub(super) fn look_at_token(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
    ) -> Presented {
        let Some(tokens) = &self.config.tokens else { return Presented::Open };
        if let Some(outcome) = at.conn.some_work().and_then(|work| work.token.outcome.take()) {
            at.conn.tidy();
            self.sessions.take(at.slot);
            return self.shown(outcome);
        }
        let cookie = self.cookies_count(request).then_some(&*tokens.cookie);
        let token = match request.bearer.token(request.upgrade.as_ref(), cookie) {
            Ok(Some(token)) => token,
            Ok(None) => {
                self.counters.tokens_missing.add(1);
                return Presented::Refused(Problem::token_missing());
            }
            Err(problem) => return Presented::Refused(problem),
        };
        match tokens.check.check(&token) {
            Some(outcome) => {
                self.budget.spend(work::TOKEN * tokens_of(&token).count() as u32);
                self.shown(outcome)
            }
            None if self.ask_token(at, &token, &self.tokens) => {
                self.await_token(at);
                Presented::Asked
            }
            None => self.shown(Err(TokenRefusal::Busy)),
        }
    }

    /// Whether a cookie counts that comes with the request.
    pub(super) fn cookies_count(&self, request: &Request<'_>) -> bool {
        let origins = &self.config.settings.origins;
        match request.origin {
            Some(origin) => origins.allows_credentials(origin, request.host),
            None => !request.other_site,
        }
    }

    fn shown(&self, outcome: Outcome) -> Presented {
        match outcome {
            Ok(granted) => Presented::Granted(granted),
            Err(refusal) => Presented::Refused(self.refused(refusal)),
        }
    }

    /// Counts a refusal; what the client is told.
    pub(super) fn refused(&self, refusal: TokenRefusal) -> Problem {
        self.counters.token_refusals[refusal as usize].add(1);
        match refusal {
            TokenRefusal::Busy => Problem::tokens_busy(RETRY_AFTER_SECONDS),
            refusal => Problem::token_refused(refusal),
        }
    }

    /// The token is being verified.
    pub(super) fn await_token(&mut self, at: &mut At<'_, S::Socket>) {
        at.conn.move_to(State::Verifying);
        at.conn.active = self.now;
        self.wait(at);
    }

    /// Whether the token could be given to whoever verifies those of `tokens`.
    pub(super) fn ask_token(
        &self,
        at: &mut At<'_, S::Socket>,
        token: &str,
        tokens: &Tokens,
    ) -> bool {
        let client = Arc::new(());
        let question = TokenQuestion {
            asker: Asker { conn: self.conn_ref(at), client: Arc::downgrade(&client) },
            token: token.into(),
        };
        let asked = tokens.questions.push(question);
        if asked {
            at.conn.new_work().token.asked = Some(client);
        }
        asked
    }

    /// A token is verified. Where the turn has no more time for clients its request is read again
    /// in a later one.
    pub(super) fn verified(&mut self, at: &mut At<'_, S::Socket>, outcome: Outcome) -> Lives {
        let Some(work) = at.conn.some_work() else { return Ok(()) };
        if work.token.asked.take().is_none() {
            return Ok(());
        }
        match at.conn.state().on_token() {
            Some(TokenAction::Readmit) => {
                // Until it is let in it is found by this, when its token is revoked.
                if let Ok(granted) = &outcome {
                    self.sessions.set(at.slot, self.tokens.session(&granted.grant));
                }
                let token = &mut at.conn.new_work().token;
                token.outcome = Some(outcome);
                let left_rest = std::mem::take(&mut token.leaves_rest);
                at.conn.move_to(State::Head);
                at.conn.active = self.now;
                self.wait(at);
                if self.budget.is_spent() || at.conn.is(Marks::DEFERRED) {
                    self.defer(at);
                    return Ok(());
                }
                self.read_unread(at)?;
                if left_rest { self.readable(at, true) } else { Ok(()) }
            }
            Some(TokenAction::Renew) => {
                at.conn.tidy();
                let renewed = match outcome {
                    Ok(granted) => self.renew_with(at, granted),
                    Err(refusal) => Err(self.refused(refusal)),
                };
                let answer = match renewed {
                    Ok(()) => command::token_ok(),
                    Err(problem) => command::token_error(&problem),
                };
                websocket::push_text(&mut self.answer, &answer);
                self.send_answer(at)
            }
            // It ends.
            None => Ok(()),
        }
    }

    /// Its token is revoked: it ends, or is not let in where the turn had no time for that yet.
    fn revoked(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        if let Some(outcome) = at.conn.some_work().and_then(|work| work.token.outcome.as_mut()) {
            *outcome = Err(TokenRefusal::Revoked);
            return Ok(());
        }
        self.happen(at, Input::Disconnect(DisconnectReason::TokenRevoked))
    }

    /// There was no time for its token.
    pub(super) fn refuse_token(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        let left_rest = at.conn.leaves_rest();
        if let Some(work) = at.conn.some_work() {
            work.token.asked = None;
            work.token.leaves_rest = false;
        }
        self.counters.token_refusals[TokenRefusal::Busy as usize].add(1);
        self.refuse_plainly(at, &Problem::tokens_busy(RETRY_AFTER_SECONDS))?;
        if left_rest { self.readable(at, true) } else { Ok(()) }
    }

    /// One more connection uses the token, if it is good for that many.
    pub(super) fn take_use(&self, granted: &Granted) -> bool {
        let grant = &*granted.grant;
        grant
            .connections_max
            .is_none_or(|most| self.tokens.uses.take(self.tokens.use_of(grant), most))
    }

    /// Whether a connection may have shown a token.
    fn knows_tokens(&self) -> bool {
        self.config.tokens.is_some() || self.config.mercure.is_some()
    }

    /// Forgets by what the token of a connection is found.
    pub(super) fn forget_session(&mut self, at: &At<'_, S::Socket>) {
        if self.knows_tokens() {
            self.sessions.take(at.slot);
        }
    }

    /// Forgets the token of a connection.
    pub(super) fn forget_token(&mut self, at: &mut At<'_, S::Socket>) {
        if !self.knows_tokens() {
            return;
        }
        self.sessions.take(at.slot);
        self.give_back_use(at.conn.keep_grant(None).as_deref());
    }

    pub(super) fn give_back_use(&self, grant: Option<&hub::Grant>) {
        if let Some(grant) = grant
            && grant.connections_max.is_some()
        {
            self.tokens.uses.give_back(self.tokens.use_of(grant));
        }
    }

    /// Keeps what there is to keep of the token by which a connection was let in.
    pub(super) fn keep_token(&mut self, at: &mut At<'_, S::Socket>, granted: Granted) {
        let Granted { grant, remaining_ms } = granted;
        at.conn.expires = match remaining_ms {
            Some(ms) => self.expires_at(self.now.saturating_add(ticks(ms))),
            None => Tick::MAX,
        };
        self.sessions.set(at.slot, self.tokens.session(&grant));
        let is_kept = at.conn.wire.carrier().has_messages() || grant.connections_max.is_some();
        at.conn.keep_grant(is_kept.then_some(grant));
    }

    /// A message shows another token.
    pub(super) fn renew(&mut self, at: &mut At<'_, S::Socket>, token: &str) -> Renewal {
        let Some(tokens) = &self.config.tokens else { return Renewal::Done(Ok(())) };
        if at.conn.work().is_some_and(|work| work.token.asked.is_some()) {
            return Renewal::Done(Err(Problem::bad_request(
                "The token before this one is still being looked at. Wait for its answer.",
            )));
        }
        match tokens.check.check(token) {
            Some(Ok(granted)) => {
                self.budget.spend(work::TOKEN);
                Renewal::Done(self.renew_with(at, granted))
            }
            Some(Err(refusal)) => {
                self.budget.spend(work::TOKEN);
                Renewal::Done(Err(self.refused(refusal)))
            }
            None if self.ask_token(at, token, &self.tokens) => Renewal::Asked,
            None => Renewal::Done(Err(self.refused(TokenRefusal::Busy))),
        }
    }

    /// Goes on with another token, which must be of the same subject and grant all that the
    /// connection is logged in as; else it goes on with the one that it had.
    fn renew_with(&mut self, at: &mut At<'_, S::Socket>, granted: Granted) -> Result<(), Problem> {
        let session: Session = self.tokens.session(&granted.grant);
        if !session.has_subject_of(self.sessions.get(at.slot)) {
            return Err(Problem::token_refused("it is of another subject than the one before"));
        }
        self.budget.spend_ids(self.ids_len(at));
        for id in self.ids(at) {
            let text = self.names.text(id).unwrap_or_default();
            if !granted.grant.allows(&text) {
                self.counters.ids_not_granted.add(1);
                return Err(Problem::not_granted(&text));
            }
        }
        if granted.grant.ids_max.is_some_and(|most| self.ids_len(at) > most as usize) {
            return Err(too_many_ids(granted.grant.ids_max.unwrap_or_default()));
        }
        if let Some(room) = self.watched_denied(at, &granted.grant) {
            self.counters.ids_not_granted.add(1);
            return Err(Problem::members_not_granted(&room));
        }
        // The one before is given back first: it may be the same.
        self.give_back_use(at.conn.keep_grant(None).as_deref());
        if !self.take_use(&granted) {
            // With neither it has no token that is good for it.
            at.conn.expires = self.expires_at(self.now);
            self.wait(at);
            return Err(too_many_connections());
        }
        self.renew_info(at, &granted.grant);
        self.keep_token(at, granted);
        self.wait(at);
        Ok(())
    }
}

/// 429: the token is in use by as many connections as it is good for.
pub(super) fn too_many_connections() -> Problem {
    Problem {
        retry_after: Some(RETRY_AFTER_SECONDS),
        ..Problem::of(
            ProblemKind::TooManyConnections,
            "As many connections as the token is good for use it. Close one, or get another token.",
        )
    }
}

/// 403: the token is not good for so many ids.
pub(super) fn too_many_ids(most: u32) -> Problem {
    Problem::of(
        ProblemKind::TooManyIds,
        format!("The token is good for at most {most} ids on a connection. Log out of some first."),
    )
}

impl<S: Sockets> Shard<S> {
    /// A token is verified; its connection may have gone.
    pub(super) fn token_result(&mut self, TokenResult { target, outcome }: TokenResult) {
        if self.conns.find(key_of(target)).is_some() {
            self.serve(target.slot() as u32, |core, at| core.verified(at, outcome));
        }
    }

    /// Ends the streams whose token is revoked, as far as the turn's budget goes: all slots are
    /// looked at.
    pub(super) fn end_revoked(&mut self) {
        while !self.core.budget.is_spent()
            && let Some((revoked, slot)) = self.revoked.front().copied()
        {
            if slot >= self.conns.slots() {
                self.revoked.pop_front();
                continue;
            }
            if let Some((_, next)) = self.revoked.front_mut() {
                *next += 1;
            }
            self.core.budget.spend(1);
            if self.core.sessions.get(slot).is_of(revoked) {
                self.core.budget.spend(work::END);
                self.serve(slot, |core, at| core.revoked(at));
            }
        }
    }

    pub(super) fn revoke(&mut self, revoked: Revoked) {
        self.revoked.push_back((revoked, 0));
        self.end_revoked();
    }
}

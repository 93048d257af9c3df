//! What clients of the Pusher protocol say: they subscribe to channels and leave them.
//!
//! A success is in the buffer for answers before the log-in counts for anybody who sends, so it is
//! the first that the client hears of the channel.

use hub::{Id, IdText, Key};
use proto::Problem;
use pusher::limits::CLIENT_EVENTS_PER_SECOND_MAX;
use pusher::server_frame::{self, ErrorText};
use pusher::{
    Asker, Channel, ClientEvent, ClientFrame, EventRefusal, Granted, Subscribe, SubscriptionRefusal,
};
use smallvec::SmallVec;

use super::super::core::{At, Core, Lives};
use super::super::presence::LoginRefused;
use super::graph::graph_id;
use crate::channel_notes::ChannelChange;
use crate::channels::{channel_key, channel_name};
use crate::client_sends::{ClientSend, ClientSendLimits, SentBy, SentToChannel};
use crate::limits::work;
use crate::sockets::Sockets;

/// How often a connection may send an event to others.
const LIMITS: ClientSendLimits = ClientSendLimits {
    without_tokens: true,
    per_second: CLIENT_EVENTS_PER_SECOND_MAX,
    // Its app says, and that is looked at here.
    payload_bytes_max: usize::MAX,
};

impl<S: Sockets> Core<S> {
    /// Does what a message says, and puts the answer into the buffer for answers.
    pub(in super::super) fn hear_frame(&mut self, at: &mut At<'_, S::Socket>, text: &str) {
        self.budget.spend_bytes(text.len());
        match ClientFrame::parse(text) {
            Ok(ClientFrame::Ping) => self.say_frame(server_frame::PONG),
            Ok(ClientFrame::Pong) => {}
            Ok(ClientFrame::Subscribe(wish)) => self.subscribe(at, &wish),
            Ok(ClientFrame::Unsubscribe { channel }) => self.unsubscribe(at, &channel),
            Ok(ClientFrame::SignIn(wish)) => self.sign_in(at, &wish),
            Ok(ClientFrame::Event(event)) => self.send_to_channel(at, &event),
            Err(fault) => self.say_fault(fault),
        }
    }

    fn subscribe(&mut self, at: &mut At<'_, S::Socket>, wish: &Subscribe) {
        if let Err(refusal) = self.try_subscribe(at, wish) {
            self.say_frame(&server_frame::subscription_error(&wish.channel, refusal));
        }
    }

    fn try_subscribe(
        &mut self,
        at: &mut At<'_, S::Socket>,
        wish: &Subscribe,
    ) -> Result<(), SubscriptionRefusal> {
        // It is at one, or it would not be heard.
        let Some(app) = self.app(at) else { return Ok(()) };
        self.budget.spend(work::SIGNATURE);
        let (socket, user) = (self.socket_id(at), self.channels.signed_in.user(at.slot));
        let asker = Asker { key: &app.key, secret: &app.secret, socket, user };
        let Granted { channel, member } = asker.subscribe(wish)?;
        let key = channel_key(&app.id, channel);
        let key = IdText::of_key(&key).map_err(|_| SubscriptionRefusal::TooMany)?;
        let start = self.start_of(&app, channel, &wish.after);
        if let Some(member) = member {
            self.take_seat(at, &app, key, &member)?;
            let is_in = self.names.lookup(key).is_some_and(|id| self.has_id(at, id));
            if let Some(start) = start.filter(|_| !is_in) {
                self.wish(at.slot, key, start);
            }
            return Ok(());
        }
        let newest = self.event_ids.last();
        let keys: SmallVec<[IdText<'_>; 2]> =
            [key].into_iter().chain(graph_id(&app, channel)).collect();
        let new = self.login(at, &keys, None).map_err(|refused| refusal(&refused))?;
        if new > 0 {
            self.hear_graph(at, &app, channel);
        }
        if let Some(id) = self.names.lookup(key).filter(|_| new > 0) {
            self.note(at, (id, Id::NONE), ChannelChange::Came);
        }
        self.say_frame(&server_frame::subscription_succeeded(channel.name()));
        if new > 0 {
            if let Some(start) = start {
                self.wish(at.slot, key, start);
            }
            self.say_behind_success(at, key, newest);
        }
        Ok(())
    }

    /// Puts what comes behind a success into the buffer for answers: what the connection, which was
    /// logged in behind the number `newest`, has missed, or the last event of a channel that keeps
    /// it.
    pub(super) fn say_behind_success(
        &mut self,
        at: &At<'_, S::Socket>,
        key: IdText<'_>,
        newest: u64,
    ) {
        if self.go_on_in_channel(at, key, newest) {
            return;
        }
        let text = key.to_string();
        let name = channel_name(&text).unwrap_or_default();
        if Channel::parse(&name).is_ok_and(Channel::is_cached) {
            self.say_last(at, (key, &name), newest);
        }
    }

    fn unsubscribe(&mut self, at: &mut At<'_, S::Socket>, channel: &str) {
        // Nobody is in a channel that cannot be called so.
        let Ok(channel) = Channel::parse(channel) else { return };
        let Some(app) = self.app(at) else { return };
        let key = channel_key(&app.id, channel);
        let Ok(key) = IdText::of_key(&key) else { return };
        self.leave_channel(at, key);
    }

    fn send_to_channel(&mut self, at: &mut At<'_, S::Socket>, event: &ClientEvent<'_>) {
        if let Err(refusal) = self.try_send_to_channel(at, event) {
            self.say_frame(&server_frame::error(refusal));
        }
    }

    /// Asks the control plane to post it. Its sender hears nothing of it, unless that fails.
    fn try_send_to_channel(
        &mut self,
        at: &mut At<'_, S::Socket>,
        event: &ClientEvent<'_>,
    ) -> Result<(), EventRefusal> {
        let Some(app) = self.app(at) else { return Err(EventRefusal::NotSubscribed) };
        let (mut key, mut id) = (String::new(), None);
        app.event_rules().check(event, |channel| {
            key = channel_key(&app.id, channel);
            id = IdText::of_key(&key).ok().and_then(|key| self.names.lookup(key));
            id.is_some_and(|id| self.has_id(at, id))
        })?;
        let publisher = self.publishers.get(at.slot).take(&LIMITS, self.now);
        let publisher = publisher.map_err(|_| EventRefusal::TooMany)?;
        if self.refuses_sends {
            return Err(EventRefusal::Busy);
        }
        let seat = id.and_then(|room| self.watching.seats.find(at.slot, room));
        let sub = seat.and_then(|seat| self.names.text(seat.sub));
        let from = sub.as_deref().and_then(Key::parse).map(|key| key.name.into());
        let conn = self.conn_ref(at);
        let (key, name, own) = (key.into(), event.name.as_str().into(), self.connection_id(conn));
        let send = ClientSend {
            conn,
            event: event.data.as_bytes().into(),
            by: SentBy::Channel(Box::new(SentToChannel { key, name, from, own })),
            grant: None,
            source: None,
            limits: LIMITS,
        };
        if !self.client_sends.questions().push(send) {
            return Err(EventRefusal::Busy);
        }
        self.publishers.set(at.slot, publisher);
        self.unanswered += 1;
        Ok(())
    }

    /// An event of the client could not be posted.
    pub(in super::super) fn refuse_sent(
        &mut self,
        at: &mut At<'_, S::Socket>,
        problem: &Problem,
    ) -> Lives {
        self.say_frame(&server_frame::error(ErrorText::event_refused(&problem.detail)));
        self.put_answer(at)
    }
}

/// What the client is told of a log-in that was refused.
fn refusal(refused: &LoginRefused) -> SubscriptionRefusal {
    match refused {
        LoginRefused::TooManyIds | LoginRefused::TooManyForToken(_) => SubscriptionRefusal::TooMany,
        LoginRefused::Full | LoginRefused::IdFull => SubscriptionRefusal::TooMany,
    }
}

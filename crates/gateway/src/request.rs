//! What Erlang processes ask of Encke: services by name, and the requests of each.
//!
//! A service takes a request as a call of `gen_server`, as a cast, and as a plain message. Each is
//! a process to others: a name, and a pid with a number of ours.

use erlang::term::View;
use erlang::{Atom, Pid, Term};

use super::answer::Answer;
use super::refusal::Refusal;
use super::service::Service;

/// A message to a service.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Asked<'a> {
    /// The `From` of a call.
    pub(super) from: Option<Term<'a>>,
    /// What is asked for.
    pub(super) request: Term<'a>,
}

impl<'a> Asked<'a> {
    pub(super) fn of(payload: Term<'a>) -> Asked<'a> {
        let tagged = |term: Term<'_>, tag| term.atom().is_some_and(|atom| atom.is(tag));
        if let Some([tag, from, request]) = payload.tuple()
            && tagged(tag, "$gen_call")
        {
            return Asked { from: Some(from), request };
        }
        match payload.tuple() {
            Some([tag, request]) if tagged(tag, "$gen_cast") => Asked { from: None, request },
            _ => Asked { from: None, request: payload },
        }
    }
}

/// What to do with subscriptions, and whether the answer says how many there were: `{ok, Count}`
/// or `ok`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) adds: bool,
    pub(super) counts: bool,
}

impl Change {
    fn of_word(word: Atom<'_>) -> Option<Change> {
        let of = |adds, counts| Some(Change { adds, counts });
        match &*word.text() {
            "add_subscriptions" => of(true, false),
            "remove_subscriptions" => of(false, false),
            "add" => of(true, true),
            "remove" => of(false, true),
            _ => None,
        }
    }

    /// The answer where `count` pairs were new, or were there.
    pub(super) fn answer(self, count: u64) -> Answer {
        if self.counts { Answer::Count(count) } else { Answer::Ok }
    }
}

/// A request as its service reads it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Request<'a> {
    /// `{Id, Payload}` to `any`: an event for the connections of the id alone.
    SendTo(Term<'a>, Term<'a>),
    /// `{send, Id, Payload}`, or `{send, Id, Payload, Options}`: an event for the audience of the
    /// id.
    Send(Term<'a>, Term<'a>, Option<Term<'a>>),
    /// `{login, Id, Pid}`, or `{login, Id, Pid, [link]}`: whether the process is linked with us.
    Login(Term<'a>, Pid<'a>, bool),
    /// `{logout, Pid}`.
    Logout(Pid<'a>),
    /// `{logout, Id}`, whatever is no pid: ends all connections of the id.
    LogoutId(Term<'a>),
    /// `{connections, Id}`: how many it has.
    Connections(Term<'a>),
    /// `{members, Id}`: who is in the room.
    Members(Term<'a>),
    /// `{events, Id}`, or `{events, Id, Options}`: a page of what was sent about it.
    Events(Term<'a>, Option<Term<'a>>),
    /// `{presence, Pid}`, or `{presence_off, Pid}`: the process hears from now on who comes and who
    /// goes, or does not any more.
    Presence(Pid<'a>, bool),
    /// `{add_subscriptions, [{subscription, Subscriber, Subscribee}]}`, and `remove_subscriptions`,
    /// `add` and `remove`.
    Change(Change, Term<'a>),
    /// `{get_subscribers, Id}`.
    GetSubscribers(Term<'a>),
    /// `{is_auth, Node}`.
    IsAuth,
    /// `{{What, Name}, Answer}`: what a node says of a global name.
    Name(Term<'a>, Term<'a>, Term<'a>),
}

impl<'a> Request<'a> {
    /// Reads what is asked of `service`.
    pub(super) fn read(service: Service, term: Term<'a>) -> Result<Request<'a>, Refusal> {
        match service {
            Service::Any => {
                let [id, payload] = term.tuple().ok_or(Refusal::BadRequest)?;
                Ok(Request::SendTo(id, payload))
            }
            Service::Names => {
                let [asked, answer] = term.tuple().ok_or(Refusal::BadRequest)?;
                let [what, name] = asked.tuple().ok_or(Refusal::BadRequest)?;
                Ok(Request::Name(what, name, answer))
            }
            _ => Request::of_words(service, term).ok_or(Refusal::BadRequest),
        }
    }

    fn of_words(service: Service, term: Term<'a>) -> Option<Request<'a>> {
        let View::Tuple(mut words) = term.view() else { return None };
        let name = words.next()?.atom()?;
        let (first, second, third) = (words.next()?, words.next(), words.next());
        if words.next().is_some() {
            return None;
        }
        if let Some(options) = third {
            if service == Service::Router && name.is("send") {
                return Some(Request::Send(first, second?, Some(options)));
            }
            let is_login = service == Service::Router && name.is("login");
            let pid = second.filter(|_| is_login)?.pid()?;
            return Some(Request::Login(first, pid, links(options)?));
        }
        Some(match (service, second) {
            (Service::Router, Some(payload)) if name.is("send") => {
                Request::Send(first, payload, None)
            }
            (Service::Router, Some(pid)) if name.is("login") => {
                Request::Login(first, pid.pid()?, false)
            }
            (Service::Router, None) if name.is("logout") => match first.pid() {
                Some(pid) => Request::Logout(pid),
                None => Request::LogoutId(first),
            },
            (Service::Router, None) if name.is("connections") => Request::Connections(first),
            (Service::Router, None) if name.is("members") => Request::Members(first),
            (Service::Router, options) if name.is("events") => Request::Events(first, options),
            (Service::Router, None) if name.is("presence") => Request::Presence(first.pid()?, true),
            (Service::Router, None) if name.is("presence_off") => {
                Request::Presence(first.pid()?, false)
            }
            (Service::Subsmanager, None) if name.is("get_subscribers") => {
                Request::GetSubscribers(first)
            }
            (Service::Subsmanager, None) => Request::Change(Change::of_word(name)?, first),
            (Service::NetKernel, None) if name.is("is_auth") => Request::IsAuth,
            _ => return None,
        })
    }
}

/// Whether the options of a log-in, a list, ask for a link. `None` if there is another one.
fn links(options: Term<'_>) -> Option<bool> {
    let mut options = options.list()?;
    let links = options.len() > 0;
    let is_link = |option: Term<'_>| option.atom().is_some_and(|option| option.is("link"));
    options.all(is_link).then_some(links)
}

#[cfg(test)]
mod tests {
    use erlang::term::write;

    use super::*;

    /// A tuple of an atom and two more terms.
    fn words(name: &str, rest: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        write::tuple(&mut out, 1 + rest.len() as u8);
        write::atom(&mut out, name);
        rest.iter().for_each(|term| out.extend_from_slice(term));
        out
    }

    fn term(mut bytes: &[u8]) -> Term<'_> {
        Term::read(&mut bytes).unwrap()
    }

    #[test]
    fn requests_are_those_of_their_service() {
        let send = words("send", &[b"\x61\x01", b"\x61\x02"]);
        let read = Request::read(Service::Router, term(&send));
        assert_eq!(read, Ok(Request::Send(term(b"\x61\x01"), term(b"\x61\x02"), None)));
        assert_eq!(Request::read(Service::Subsmanager, term(&send)), Err(Refusal::BadRequest));
        let more = words("send", &[b"\x61\x01", b"\x61\x02", b"\x61\x03"]);
        let with = Request::Send(term(b"\x61\x01"), term(b"\x61\x02"), Some(term(b"\x61\x03")));
        assert_eq!(Request::read(Service::Router, term(&more)), Ok(with));
        assert_eq!(Request::read(Service::Subsmanager, term(&more)), Err(Refusal::BadRequest));
        let more = words("send", &[b"\x61\x01", b"\x61\x02", b"\x61\x03", b"\x61\x04"]);
        assert_eq!(Request::read(Service::Router, term(&more)), Err(Refusal::BadRequest));
        let login = words("login", &[b"\x61\x01", b"\x61\x02"]);
        assert_eq!(Request::read(Service::Router, term(&login)), Err(Refusal::BadRequest));
        let of_one = |name: &str| words(name, &[b"\x61\x01"]);
        let read = |bytes: &[u8]| format!("{:?}", Request::read(Service::Router, term(bytes)));
        assert!(read(&of_one("connections")).starts_with("Ok(Connections("));
        assert!(read(&of_one("members")).starts_with("Ok(Members("));
        assert!(read(&of_one("events")).starts_with("Ok(Events("));
        assert!(read(&words("events", &[b"\x61\x01", b"\x6a"])).starts_with("Ok(Events("));
        assert!(read(&of_one("logout")).starts_with("Ok(LogoutId("), "a number is an id");
        assert!(read(&of_one("presence")).starts_with("Err("), "and no process");
        // To `any` it is an id and its payload, whatever the id is.
        let pair = words("send", &[b"\x61\x01"]);
        assert!(matches!(Request::read(Service::Any, term(&pair)), Ok(Request::SendTo(..))));
        assert_eq!(Request::read(Service::Any, term(b"\x61\x01")), Err(Refusal::BadRequest));
    }

    #[test]
    fn calls_casts_and_plain_messages_hold_the_request() {
        let call = words("$gen_call", &[b"\x61\x01", b"\x61\x02"]);
        let asked = Asked::of(term(&call));
        assert_eq!((asked.from, asked.request), (Some(term(b"\x61\x01")), term(b"\x61\x02")));
        let cast = words("$gen_cast", &[b"\x61\x02"]);
        assert_eq!(Asked::of(term(&cast)), Asked { from: None, request: term(b"\x61\x02") });
        assert_eq!(Asked::of(term(b"\x61\x02")), Asked { from: None, request: term(b"\x61\x02") });
    }
}

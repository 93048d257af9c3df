//! The processes of our node that others may talk to.

use erlang::OwnPid;
use erlang::term::{Atom, Pid, Term};

/// The processes that others may talk to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Service {
    /// Events for the connections of an id.
    Any,
    /// Log-ins, log-outs, and events for audiences.
    Router,
    /// The stored graph.
    Subsmanager,
    /// Answers to `net_adm:ping/1`.
    NetKernel,
    /// Hears what nodes say of global names. It has no name itself.
    Names,
}

impl Service {
    const ALL: [Service; 5] =
        [Service::Any, Service::Router, Service::Subsmanager, Service::NetKernel, Service::Names];

    /// The services that have a global name.
    pub(super) const GLOBAL: [Service; 2] = [Service::Router, Service::Subsmanager];

    /// The number of its pid.
    pub(super) fn number(self) -> u32 {
        1 + self as u32
    }

    /// Its name; empty if it has none.
    pub(super) fn name(self) -> &'static str {
        match self {
            Service::Any => "any",
            Service::Router => "router",
            Service::Subsmanager => "subsmanager",
            Service::NetKernel => "net_kernel",
            Service::Names => "",
        }
    }

    /// The one of that name.
    pub(super) fn of_name(name: Atom<'_>) -> Option<Service> {
        Service::ALL.into_iter().find(|service| {
            let own = service.name();
            !own.is_empty() && name.is(own)
        })
    }

    /// Who takes the plain message or call `payload` to that name. The original was a node without
    /// processes, which took `{Id, Payload}` for any name that stood before its own: so does
    /// [`Service::Any`] for all that nobody has.
    pub(super) fn of_message(name: Atom<'_>, payload: Term<'_>) -> Option<Service> {
        let is_plain = || {
            let first = payload.tuple().map(|[id, _]: [Term<'_>; 2]| id);
            first.is_some_and(|id| id.atom().is_none_or(|id| !id.text().starts_with('$')))
        };
        Service::of_name(name).or_else(|| is_plain().then_some(Service::Any))
    }

    /// The one with that pid, if it is ours; `ours` is any of our processes.
    pub(super) fn of_pid(pid: Pid<'_>, ours: OwnPid<'_>) -> Option<Service> {
        let own = pid.creation == ours.creation && pid.serial == 0 && pid.node.text() == ours.node;
        Service::ALL.into_iter().find(|service| own && service.number() == pid.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(mut bytes: &[u8]) -> Term<'_> {
        Term::read(&mut bytes).unwrap()
    }

    #[test]
    fn services_are_found_by_name_and_by_pid() {
        let ours = OwnPid { node: "encke@h", creation: 9, id: 0 };
        for service in Service::ALL {
            let mut out = Vec::new();
            OwnPid { id: service.number(), ..ours }.write(&mut out);
            let pid = term(&out).pid().unwrap();
            assert_eq!(Service::of_pid(pid, ours), Some(service));
            assert_eq!(Service::of_pid(Pid { creation: 8, ..pid }, ours), None);
        }
        let name = |bytes| term(bytes).atom().unwrap();
        let (router, other) = (name(b"\x77\x06router"), name(b"\x77\x05other"));
        assert_eq!(Service::of_name(router), Some(Service::Router));
        assert_eq!(Service::of_name(name(b"\x77\0")), None);
        let (event, cast) =
            (term(b"\x68\x02\x61\x01\x61\x02"), term(b"\x68\x02\x77\x09$gen_castj"));
        assert_eq!(Service::of_message(other, event), Some(Service::Any));
        assert_eq!(Service::of_message(other, cast), None);
        assert_eq!(Service::of_message(other, term(b"\x61\x01")), None);
        assert_eq!(Service::of_message(router, event), Some(Service::Router));
    }
}

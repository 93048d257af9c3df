//! What a client is told that may not do what it asks for.

use super::{Problem, ProblemKind};

impl Problem {
    /// 403: an id that the token does not grant.
    pub fn not_granted(id: &str) -> Problem {
        Problem {
            challenge: Some("Bearer error=\"insufficient_scope\"".into()),
            ..Problem::of(
                ProblemKind::NotGranted,
                format!(
                    "The token does not grant the id {id}. Ask for an id that it lists, or get a \
                     token that lists this one."
                ),
            )
        }
    }

    /// 403: an id of which the token does not grant to know the members.
    pub fn members_not_granted(id: &str) -> Problem {
        Problem {
            challenge: Some("Bearer error=\"insufficient_scope\"".into()),
            ..Problem::of(
                ProblemKind::MembersNotGranted,
                format!(
                    "The token does not grant to know who is in {id}. Get a token whose \
                     encke.members lists this id."
                ),
            )
        }
    }

    /// 403: an id of which the token does not grant to read what was sent about it.
    pub fn history_not_granted(id: &str) -> Problem {
        Problem {
            challenge: Some("Bearer error=\"insufficient_scope\"".into()),
            ..Problem::of(
                ProblemKind::HistoryNotGranted,
                format!(
                    "The token does not grant to read what was sent about {id}. Get a token whose \
                     encke.history lists this id."
                ),
            )
        }
    }

    /// 403: a durable stream that the token does not grant to read, or to `append` to.
    pub fn stream_not_granted(append: bool) -> Problem {
        let (what, list) = if append { ("append to", "write") } else { ("read", "read") };
        Problem {
            challenge: Some("Bearer error=\"insufficient_scope\"".into()),
            ..Problem::of(
                ProblemKind::StreamNotGranted,
                format!(
                    "The token does not grant to {what} this stream. Get a token whose \
                     encke.{list} lists its path."
                ),
            )
        }
    }

    /// 403: an append where nobody shows who he is.
    pub fn appends_are_off() -> Problem {
        Problem::of(
            ProblemKind::StreamNotGranted,
            "Nobody may append to streams on this port. Append at the API port, or start the \
             server with --token-key, so that tokens say who may (encke.write).",
        )
    }

    /// 403: an append with a token by whose name nothing can be counted.
    pub fn append_without_name() -> Problem {
        Problem {
            challenge: Some("Bearer error=\"insufficient_scope\"".into()),
            ..Problem::of(
                ProblemKind::StreamNotGranted,
                "The token has no sub and no jti, by which the rate of its appends is limited. Get \
                 a token with one of them.",
            )
        }
    }

    /// 403: clients may not send at all.
    pub fn sends_are_off() -> Problem {
        Problem::of(
            ProblemKind::SendsOff,
            "Clients may not send here. A backend sends to the API's port (8001, unless --api says \
             otherwise). To let clients send, start the server with --client-send, so that \
             everybody may, or with --token-key, so that tokens say who may (encke.send).",
        )
    }

    /// 403: about an id that the token does not grant to send about.
    pub fn send_not_granted(id: &str) -> Problem {
        Problem {
            challenge: Some("Bearer error=\"insufficient_scope\"".into()),
            ..Problem::of(
                ProblemKind::SendNotGranted,
                format!(
                    "The token does not grant to send about {id}. Get a token whose encke.send \
                     lists it."
                ),
            )
        }
    }

    /// 403: a token that grants to send about nothing.
    pub fn no_send_granted() -> Problem {
        Problem {
            challenge: Some("Bearer error=\"insufficient_scope\"".into()),
            ..Problem::of(
                ProblemKind::SendNotGranted,
                "The token grants to send about nothing. Get a token whose encke.send lists ids.",
            )
        }
    }
}

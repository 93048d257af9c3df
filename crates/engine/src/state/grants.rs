//! What tokens grant, as one process writes it down and another reads it.

use minicbor::{Decode, Encode};

/// What a token grants; see [`hub::Grant`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(map)]
pub(crate) struct GrantState {
    #[n(0)]
    pub(crate) subject: Option<String>,
    /// Ids as they are.
    #[n(1)]
    #[cbor(default)]
    pub(crate) ids: Vec<String>,
    /// Beginnings of ids, without a `*`.
    #[n(2)]
    #[cbor(default)]
    pub(crate) prefixes: Vec<String>,
    #[n(3)]
    pub(crate) expires: Option<u64>,
    #[n(4)]
    pub(crate) issued: Option<u64>,
    #[n(5)]
    pub(crate) token: Option<String>,
    #[n(6)]
    pub(crate) ids_max: Option<u32>,
    #[n(7)]
    pub(crate) connections_max: Option<u32>,
    #[n(8)]
    pub(super) talk: Option<TalkState>,
}

/// What a token grants beside listening; see [`hub::TalkGrant`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(map)]
pub(super) struct TalkState {
    #[n(0)]
    #[cbor(default)]
    pub(super) send: Vec<String>,
    #[n(1)]
    #[cbor(default)]
    pub(super) members: Vec<String>,
    #[n(2)]
    #[cbor(default)]
    pub(super) history: Vec<String>,
    #[n(3)]
    pub(super) info: Option<String>,
    #[n(4)]
    #[cbor(default)]
    pub(super) read: Vec<String>,
    #[n(5)]
    #[cbor(default)]
    pub(super) write: Vec<String>,
}

impl GrantState {
    /// The state of `grant`.
    pub(crate) fn of(grant: &hub::Grant) -> GrantState {
        let (prefixes, ids): (Vec<String>, _) =
            texts(&grant.ids).into_iter().partition(|id| id.ends_with('*'));
        GrantState {
            subject: grant.subject.as_deref().map(str::to_owned),
            ids,
            prefixes: prefixes.iter().map(|id| id[..id.len() - 1].to_owned()).collect(),
            expires: grant.expires,
            issued: grant.issued,
            token: grant.token.as_deref().map(str::to_owned),
            ids_max: grant.ids_max,
            connections_max: grant.connections_max,
            talk: grant.talk.as_deref().map(|talk| TalkState {
                send: texts(&talk.send),
                members: texts(&talk.members),
                history: texts(&talk.history),
                info: talk.info.as_ref().map(|info| info.json().to_owned()),
                read: texts(&talk.read),
                write: texts(&talk.write),
            }),
        }
    }

    /// The grant that it was of.
    pub(crate) fn into_grant(self) -> hub::Grant {
        let prefixes = self.prefixes.into_iter().map(|prefix| prefix + "*");
        hub::Grant {
            subject: self.subject.map(Into::into),
            ids: patterns(self.ids.into_iter().chain(prefixes)),
            talk: self.talk.map(|talk| {
                Box::new(hub::TalkGrant {
                    send: patterns(talk.send),
                    members: patterns(talk.members),
                    history: patterns(talk.history),
                    info: talk.info.map(|info| hub::Info::new(&info)),
                    read: paths(talk.read),
                    write: paths(talk.write),
                })
            }),
            expires: self.expires,
            issued: self.issued,
            token: self.token.map(Into::into),
            ids_max: self.ids_max,
            connections_max: self.connections_max,
            claims: None,
        }
    }
}

fn texts(list: &hub::IdPatterns) -> Vec<String> {
    list.texts().map(String::from).collect()
}

/// The list that they are the texts of. From another version some may be no ids: then nothing.
fn patterns(texts: impl IntoIterator<Item = String>) -> hub::IdPatterns {
    hub::IdPatterns::parse(texts.into_iter().map(Into::into)).unwrap_or_default()
}

fn paths(texts: Vec<String>) -> hub::IdPatterns {
    hub::IdPatterns::parse_paths(texts.into_iter().map(Into::into)).unwrap_or_default()
}

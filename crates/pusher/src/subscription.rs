//! Who may subscribe to what, and who may sign in: the rules, without a table of who is where.

use thiserror::Error;

use crate::channel::{Access, Channel, ChannelFault};
use crate::client_frame::{SignIn, Subscribe};
use crate::json::Given;
use crate::signature::{Auth, Secret, Signed};
use crate::socket_id::SocketId;
use crate::user::{Member, User, UserFault};

/// What is known of who asks.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The key of the app at which the connection is.
    pub key: &'a str,
    /// The app's secret.
    pub secret: &'a Secret,
    /// The connection.
    pub socket: SocketId,
    /// The user that it is signed in as.
    pub user: Option<&'a User>,
}

/// A subscription that is granted.
#[derive(Clone, Debug)]
pub struct Granted<'s> {
    /// The channel.
    pub channel: Channel<'s>,
    /// The member that the subscriber is there: of a presence channel always, of others never.
    pub member: Option<Member>,
}

/// Why a subscription is refused. The connection stays, and the client hears
/// `pusher:subscription_error`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SubscriptionRefusal {
    /// The channel cannot be called so.
    #[error("{0}")]
    Name(#[from] ChannelFault),
    /// There is no signature.
    #[error("This channel needs a signature in \"auth\": KEY:SIGNATURE.")]
    NoAuth,
    /// Another app has signed.
    #[error("The key in \"auth\" is not that of this app.")]
    Key,
    /// The signature is wrong.
    #[error("The signature in \"auth\" is not valid. Check the app's secret and what is signed.")]
    Signature,
    /// Nobody says who the member is.
    #[error("A presence channel needs \"channel_data\", or a user who is signed in.")]
    NoMember,
    /// It is not said in a way that is read.
    #[error("\"channel_data\" is not valid: {0}.")]
    Member(UserFault),
    /// It is the own channel of somebody else.
    #[error("This channel is heard by its own user, once signed in.")]
    AnothersChannel,
    /// The channel has as many members as it may.
    #[error("This channel has as many members as it may have.")]
    Full,
    /// The connection has as many channels as it may, or all connections together have.
    #[error("This connection, or this server, has as many subscriptions as it may have.")]
    TooMany,
}

impl SubscriptionRefusal {
    /// What kind of error it is, as the client names it. Echo and pusher-js look for `AuthError`.
    pub const fn kind(self) -> &'static str {
        match self {
            SubscriptionRefusal::NoAuth
            | SubscriptionRefusal::Key
            | SubscriptionRefusal::Signature
            | SubscriptionRefusal::AnothersChannel => "AuthError",
            SubscriptionRefusal::Full | SubscriptionRefusal::TooMany => "LimitReached",
            SubscriptionRefusal::Name(_)
            | SubscriptionRefusal::NoMember
            | SubscriptionRefusal::Member(_) => "InvalidRequest",
        }
    }

    /// The number of HTTP that says the like.
    pub const fn status(self) -> u16 {
        match self {
            SubscriptionRefusal::NoAuth
            | SubscriptionRefusal::Key
            | SubscriptionRefusal::Signature => 401,
            SubscriptionRefusal::AnothersChannel
            | SubscriptionRefusal::Full
            | SubscriptionRefusal::TooMany => 403,
            SubscriptionRefusal::Name(_)
            | SubscriptionRefusal::NoMember
            | SubscriptionRefusal::Member(_) => 400,
        }
    }
}

/// Why a sign-in fails. The connection stays, and the client hears `pusher:error`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SignInRefusal {
    /// There is no signature.
    #[error("pusher:signin needs a signature in \"auth\": KEY:SIGNATURE.")]
    NoAuth,
    /// Another app has signed.
    #[error("The key in \"auth\" is not that of this app.")]
    Key,
    /// The signature is wrong.
    #[error("The signature in \"auth\" is not valid. Check the app's secret and what is signed.")]
    Signature,
    /// Nobody can read who it is.
    #[error("\"user_data\" is not valid: {0}.")]
    User(UserFault),
    /// The connection is somebody else's already.
    #[error("This connection is signed in as another user. Open another one.")]
    Another,
    /// All connections together have as many subscriptions as they may.
    #[error("This server has as many subscriptions as it may have. Try again later.")]
    Full,
}

impl<'a> Asker<'a> {
    /// Looks whether the asker may subscribe. How many members there are is the caller's to know.
    ///
    /// # Errors
    /// It may not; the client is to hear why.
    pub fn subscribe<'s>(self, wish: &'s Subscribe) -> Result<Granted<'s>, SubscriptionRefusal> {
        let channel = Channel::parse(&wish.channel)?;
        let member = match channel.access() {
            Access::Public => None,
            Access::Private | Access::Encrypted => {
                self.verify(wish, None)?;
                None
            }
            Access::Presence => Some(self.member(wish)?),
            Access::User => {
                let is_own = self.user.is_some_and(|user| channel.user() == Some(&*user.id));
                is_own.then_some(()).ok_or(SubscriptionRefusal::AnothersChannel)?;
                None
            }
        };
        Ok(Granted { channel, member })
    }

    /// Who the subscriber of a presence channel is. The signature is looked at first: what nobody
    /// has signed is not read.
    fn member(self, wish: &Subscribe) -> Result<Member, SubscriptionRefusal> {
        match &wish.channel_data {
            Given::Text(data) => {
                self.verify(wish, Some(data))?;
                Member::parse(data).map_err(SubscriptionRefusal::Member)
            }
            Given::Absent => {
                self.verify(wish, None)?;
                self.user.map(User::as_member).ok_or(SubscriptionRefusal::NoMember)
            }
            Given::Other => Err(SubscriptionRefusal::Member(UserFault::Form)),
        }
    }

    fn verify(self, wish: &Subscribe, data: Option<&str>) -> Result<(), SubscriptionRefusal> {
        let given = wish.auth.text().unwrap_or_default();
        let auth = Auth::parse(given).ok_or(SubscriptionRefusal::NoAuth)?;
        if auth.key != self.key {
            return Err(SubscriptionRefusal::Key);
        }
        let what = Signed::Channel { channel: &wish.channel, channel_data: data };
        match auth.is_of(self.secret, self.socket, what) {
            true => Ok(()),
            false => Err(SubscriptionRefusal::Signature),
        }
    }

    /// Looks who the asker says it is. The same user may sign in again.
    ///
    /// # Errors
    /// The sign-in fails, and the asker stays who it was.
    pub fn sign_in(self, wish: &SignIn) -> Result<User, SignInRefusal> {
        let auth = Auth::parse(&wish.auth).ok_or(SignInRefusal::NoAuth)?;
        if auth.key != self.key {
            return Err(SignInRefusal::Key);
        }
        let what = Signed::User { user_data: &wish.user_data };
        if !auth.is_of(self.secret, self.socket, what) {
            return Err(SignInRefusal::Signature);
        }
        let user = User::parse(&wish.user_data).map_err(SignInRefusal::User)?;
        match self.user.is_none_or(|before| before.id == user.id) {
            true => Ok(user),
            false => Err(SignInRefusal::Another),
        }
    }
}

#[cfg(test)]
mod tests;

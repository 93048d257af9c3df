//! Connections that are signed in as a user of their app.
//!
//! Such a one is logged in under a key of the user, so that all of a user's connections can be
//! ended together.
//!
//! Cost: 100 bytes, the user's id, and what presence channels are told of the user.

use std::collections::HashMap;

use hub::{IdText, Names};
use pusher::server_frame::{self, ErrorText};
use pusher::{Asker, SignIn, SignInRefusal, User};

use super::super::core::{At, Core};
use crate::channels::user_key;
use crate::limits::work;
use crate::sockets::Sockets;

/// What one is counted for beside its texts.
const USER_BYTES: usize = 160;

/// The users of connections, by slot.
#[derive(Default)]
pub(super) struct SignedIn(HashMap<u32, Box<User>>);

impl SignedIn {
    /// The user that the connection in `slot` is signed in as.
    pub(super) fn user(&self, slot: u32) -> Option<&User> {
        self.0.get(&slot).map(|user| &**user)
    }

    /// The connection in `slot` is this user. What it takes up is charged.
    pub(super) fn put(&mut self, slot: u32, user: User) {
        self.0.insert(slot, Box::new(user));
    }

    pub(super) fn forget(&mut self, slot: u32, names: &Names) {
        if let Some(user) = self.0.remove(&slot) {
            names.discharge(bytes_of(&user));
        }
    }
}

/// What is kept of `user`, as it is counted.
pub(super) fn bytes_of(user: &User) -> usize {
    USER_BYTES + user.id.len() + user.info.as_ref().map_or(0, |info| info.get().len())
}

impl<S: Sockets> Core<S> {
    pub(super) fn sign_in(&mut self, at: &mut At<'_, S::Socket>, wish: &SignIn) {
        match self.try_sign_in(at, wish) {
            Ok(is_cut) => {
                self.say_frame(&server_frame::signin_success(&wish.user_data));
                if is_cut {
                    self.say_frame(&server_frame::error(ErrorText::watchlist_cut()));
                }
            }
            Err(refusal) => self.say_frame(&server_frame::error(refusal)),
        }
    }

    /// Signs the connection in. Whether its watchlist was cut.
    fn try_sign_in(
        &mut self,
        at: &mut At<'_, S::Socket>,
        wish: &SignIn,
    ) -> Result<bool, SignInRefusal> {
        let Some(app) = self.app(at) else { return Err(SignInRefusal::Key) };
        self.budget.spend(work::SIGNATURE);
        let (socket, user) = (self.socket_id(at), self.channels.signed_in.user(at.slot));
        let is_signed_in = user.is_some();
        let asker = Asker { key: &app.key, secret: &app.secret, socket, user };
        let mut user = asker.sign_in(wish)?;
        let is_cut = user.is_watchlist_cut;
        if is_signed_in {
            return Ok(is_cut);
        }
        // Nobody is told of others yet.
        user.watchlist = Vec::new();
        let bytes = bytes_of(&user);
        self.names.charge_within(bytes).map_err(|_| SignInRefusal::Full)?;
        let key = user_key(&app.id, &user.id);
        let key = IdText::of_key(&key);
        let is_in = key.is_ok_and(|key| self.login(at, &[key], None).is_ok());
        if !is_in {
            self.names.discharge(bytes);
            return Err(SignInRefusal::Full);
        }
        self.channels.signed_in.put(at.slot, user);
        Ok(is_cut)
    }
}

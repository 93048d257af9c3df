//! Who does what in a crowd.
//!
//! Roles are given out by id, so that `spam --first-id` can speak to one of them alone. The first
//! ids vanish in the storm, the next come back from it, the next are slow, and the rest is steady.
//! Ids go round the threads, so each thread has its share of every role.

use std::fmt;

use crate::flood::FloodConfig;

/// What a listener does beside listening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Role {
    /// Resets its connection in the storm and stays away.
    Vanishing,
    /// Resets its connection in the storm and connects again at once.
    Returning,
    /// Stops reading.
    Slow,
    /// Nothing: it only listens.
    Steady,
}

impl Role {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// Each one, at its number.
    pub const ALL: [Role; Role::COUNT] =
        [Role::Vanishing, Role::Returning, Role::Slow, Role::Steady];

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Vanishing => "vanishing",
            Role::Returning => "returning",
            Role::Slow => "slow",
            Role::Steady => "steady",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the roles are given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Roles {
    /// How many listeners have each role.
    counts: [u32; Role::COUNT],
}

impl Roles {
    pub(super) fn new(config: &FloodConfig) -> Roles {
        let mut left = config.users;
        let mut share = |share: f64| {
            let count = ((f64::from(config.users) * share).round() as u32).min(left);
            left -= count;
            count
        };
        let (vanish, come_back) =
            config.storm.map_or((0.0, 0.0), |storm| (storm.vanish, storm.come_back));
        let (vanishing, returning, slow) = (share(vanish), share(come_back), share(config.slow));
        Roles { counts: [vanishing, returning, slow, left] }
    }

    /// How many listeners have `role`.
    pub(super) fn count(&self, role: Role) -> u32 {
        self.counts[role as usize]
    }

    /// The role of the listener with that number in the crowd.
    pub(super) fn role(&self, index: u32) -> Role {
        let mut end = 0;
        let found = Role::ALL.into_iter().find(|&role| {
            end += self.count(role);
            index < end
        });
        found.unwrap_or(Role::Steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::Storm;

    fn cast(users: u32, vanish: f64, come_back: f64, slow: f64) -> Roles {
        let storm = Storm { vanish, come_back, ..Storm::default() };
        Roles::new(&FloodConfig { users, slow, storm: Some(storm), ..FloodConfig::default() })
    }

    #[test]
    fn roles_stand_at_their_number() {
        for (number, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(role as usize, number);
        }
    }

    #[test]
    fn shares_are_given_out_in_the_order_of_ids() {
        let roles = cast(20, 0.25, 0.25, 0.1);
        assert_eq!(Role::ALL.map(|role| roles.count(role)), [5, 5, 2, 8]);
        let mut roles: Vec<Role> = (0..20).map(|index| roles.role(index)).collect();
        assert_eq!((roles[4], roles[5], roles[11]), (Role::Vanishing, Role::Returning, Role::Slow));
        roles.dedup();
        assert_eq!(roles, Role::ALL);
    }

    #[test]
    fn rounded_shares_are_never_more_than_all() {
        let roles = cast(3, 0.5, 0.5, 0.0);
        assert_eq!(Role::ALL.map(|role| roles.count(role)), [2, 1, 0, 0]);
    }

    #[test]
    fn listener_without_roles_is_steady() {
        let roles = Roles::new(&FloodConfig { users: 7, ..FloodConfig::default() });
        assert_eq!(roles.count(Role::Steady), 7);
        assert!((0..7).all(|index| roles.role(index) == Role::Steady));
    }
}

//! Two servers, and users that move from one to the other and back.
//!
//! Each server has its own subscriptions, epoch and numbers, which begin at the same time. So a
//! place of one looks like one of the other, but for its tag. Who moves brings the last place that
//! it has heard of, or the one that it kept of the server that it comes to.

use super::user::User;
use super::world::{Control, ENDING_STEPS, Resumers, UnderWay};
use super::{Plan, USERS};
use crate::sim::random::Random;
use crate::sim::world::NEVER;

/// Steps of both servers together.
const STEPS: usize = 16_000;

/// Two servers, of which each has a `User` for each that there is: one of the two is elsewhere.
struct Movers {
    random: Random,
    worlds: [Resumers; 2],
}

/// Runs two servers until everybody has heard everything on both.
pub(super) fn run(seed: u64, plan: Plan) -> [Resumers; 2] {
    let mut random = Random::new(!seed);
    let (one_control, one) = Resumers::new(random.next(), plan);
    let (other_control, mut other) = Resumers::new(random.next(), plan);
    other.users = one.users.iter().map(User::elsewhere).collect();
    let mut movers = Movers { random, worlds: [one, other] };
    let mut controls = [one_control, other_control];
    let mut left = STEPS;
    while plan.upgrade_after < NEVER && left > STEPS / 2 {
        let steps = 1 + movers.random.below(4 * plan.upgrade_after);
        drop(movers.work(&controls, steps, false));
        for (world, control) in movers.worlds.iter_mut().zip(&mut controls) {
            world.upgrade(control);
        }
        left = left.saturating_sub(steps);
    }
    let mut under_way = movers.work(&controls, left, true).into_iter();
    for (here, control) in controls.iter().enumerate() {
        (0..USERS).for_each(|user| movers.come(user, here));
        let under_way = under_way.next().expect("for each of both");
        movers.worlds[here].end(control, under_way);
    }
    movers.worlds
}

impl Movers {
    fn work<'r>(
        &mut self,
        controls: &'r [Control; 2],
        steps: usize,
        ends: bool,
    ) -> [UnderWay<'r>; 2] {
        let mut under_way = [UnderWay::default(), UnderWay::default()];
        for step in 0..steps {
            let ending = ends && step > steps - 2 * ENDING_STEPS;
            let here = self.random.below(2);
            if !ending && self.random.one_in(40) {
                let user = self.random.below(USERS);
                self.come(user, here);
            }
            self.worlds[here].step(&controls[here], &mut under_way[here], ending);
        }
        under_way
    }

    /// A user comes to the server `here`, unless it is there.
    fn come(&mut self, user: usize, here: usize) {
        if !self.worlds[here].users[user].elsewhere {
            return;
        }
        let there = &mut self.worlds[1 - here];
        there.drop_off(user);
        there.users[user].elsewhere = true;
        let place = there.users[user].cursor().map(|number| there.id(number).to_string());
        let arriving = &mut self.worlds[here].users[user];
        let keeps = arriving.cursor().is_some() && self.random.one_in(2);
        arriving.elsewhere = false;
        arriving.brought = place.filter(|_| !keeps);
    }
}

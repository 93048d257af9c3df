//! One row of the report: something that a machine allows, held against what the users take.

use engine::workers::fair_capacity;
use figures::numbers::grouped;
use serde::Serialize;

use super::demand::Demand;
use super::machine::{Access, Capacity, Machine};
use super::rules::{RULES, Rule};

/// What comes of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All is well.
    Enough,
    /// It is not visible from here, so nothing is claimed.
    NotShown,
    /// The users fit, and something suffers.
    Low,
    /// The users do not fit.
    TooLow,
}

/// What the numbers of a row count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
}

/// One row of the report: a limit of this machine, held against the demand.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What is compared; kernel settings by the name that sysctl(8) takes.
    pub name: &'static str,
    /// What comes of it.
    pub verdict: Verdict,
    /// What the machine has; one number, or as many as the setting.
    pub here: Vec<u64>,
    /// What the users ask for; 0 where any number will do.
    pub asked: Vec<u64>,
    /// What both count.
    pub unit: Unit,
    /// What the limit is for.
    pub why: &'static str,
    /// What to type to have enough.
    pub command: Option<String>,
    /// Why that does not work from here.
    pub hindrance: Option<String>,
    /// What follows when it stays as it is.
    pub follows: Option<String>,
    /// The value to be written, for kernel settings that are not enough.
    #[serde(skip)]
    pub value: Option<String>,
}

impl Check {
    fn new(name: &'static str, why: &'static str, unit: Unit) -> Check {
        Check {
            name,
            verdict: Verdict::Enough,
            here: Vec::new(),
            asked: Vec::new(),
            unit,
            why,
            command: None,
            hindrance: None,
            follows: None,
            value: None,
        }
    }

    /// Which of several numbers to show: one that is low, else one that is asked for. The second
    /// of three is the one that people know such settings by.
    pub fn place(&self) -> usize {
        let at = |numbers: &[u64], place: usize| numbers.get(place).copied().unwrap_or(0);
        let places = [1, 2, 0];
        let short = places.iter().find(|&&place| at(&self.here, place) < at(&self.asked, place));
        let asked = || places.iter().find(|&&place| at(&self.asked, place) > 0);
        short.or_else(asked).copied().unwrap_or(0)
    }
}

/// The names of all kernel settings that rows ask for.
pub(crate) fn keys() -> Vec<&'static str> {
    RULES.iter().map(|rule| rule.key).chain([PORTS, BUCKETS]).collect()
}

/// All rows for what `demand` asks of `machine`.
pub(crate) fn checks(machine: &Machine, demand: &Demand) -> Vec<Check> {
    let mut checks = vec![descriptors(machine, demand)];
    checks.extend(RULES.iter().filter_map(|rule| setting(rule, machine, demand)));
    checks.extend(buckets(machine, demand));
    checks.extend(ports(machine, demand));
    checks.extend(group_threads(machine, demand));
    checks.extend(user_threads(machine, demand));
    let (name, why) = ("memory", "Idle connections, and the pages of the friends graph.");
    checks.extend(machine.memory.map(|room| memory(name, why, room, demand)));
    let (name, why) =
        ("memory of the group", "What the control group (container, service) allows.");
    checks.extend(machine.group_memory.map(|room| memory(name, why, room, demand)));
    checks
}

/// A kernel setting. `None` when nothing is asked of it, or its module is not loaded.
fn setting(rule: &Rule, machine: &Machine, demand: &Demand) -> Option<Check> {
    let (need, want) = ((rule.need)(demand), (rule.want)(demand));
    let asked = most(&need, &want);
    if asked.iter().all(|&number| number == 0) {
        return None;
    }
    let mut check = Check { asked, ..Check::new(rule.key, rule.why, Unit::Count) };
    let Some(reading) = machine.settings.get(rule.key) else {
        if rule.of_module {
            return None;
        }
        check.verdict = Verdict::NotShown;
        check.follows =
            Some("it is hidden from here, as in many containers: run this on the host".into());
        return Some(check);
    };
    check.here.clone_from(&reading.values);
    check.verdict = verdict(&check.here, &need, &want);
    check.follows = remark(rule.key, machine, demand);
    if check.verdict != Verdict::Enough {
        let numbers = most(&check.here, &most(&need, &(rule.want)(&demand.of_one_worker())));
        let value = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        check.command = Some(match numbers.len() {
            1 => format!("sysctl -w {}={value}", rule.key),
            _ => format!("sysctl -w {}=\"{value}\"", rule.key),
        });
        check.value = Some(value);
        check.hindrance = hindrance(reading.access).map(String::from);
    }
    Some(check)
}

/// Why a setting cannot be written from here.
pub(crate) fn hindrance(access: Access) -> Option<&'static str> {
    match access {
        Access::Writable => None,
        Access::Denied => Some("only root may set it: put sudo before it"),
        Access::Foreign => Some("not even root may set it here: set it on the host"),
        Access::ReadOnly => {
            Some("/proc/sys is read-only here, as in most containers: set it on the host")
        }
    }
}

/// What else is to be said about a setting.
fn remark(key: &str, machine: &Machine, demand: &Demand) -> Option<String> {
    match key {
        "fs.file-max" if machine.files_open > demand.users / 10 => {
            Some(format!("{} files are open already", grouped(machine.files_open)))
        }
        "net.netfilter.nf_conntrack_max" if !demand.tracked => {
            Some("nothing is tracked now; it counts as soon as a firewall rule asks for it".into())
        }
        "net.core.netdev_max_backlog" if machine.packets_dropped > 0 => {
            let dropped = grouped(machine.packets_dropped);
            Some(format!("{dropped} packets were dropped since boot (/proc/net/softnet_stat)"))
        }
        _ => None,
    }
}

fn descriptors(machine: &Machine, demand: &Demand) -> Check {
    let why = "Each worker has a table of its own. Where tables are small it takes more workers, \
               and more of them are woken for an event.";
    let hard = machine.descriptors.hard;
    let wanted = demand.descriptors_wanted;
    let mut check = Check::new("descriptors of each worker", why, Unit::Count);
    (check.here, check.asked) = (vec![hard], vec![wanted]);
    if hard >= wanted {
        return check;
    }
    let most = Demand::connections_max(machine);
    check.verdict = if demand.users > most { Verdict::TooLow } else { Verdict::Low };
    check.command = Some(format!("ulimit -n {}", round(wanted, machine)));
    check.hindrance = (!machine.may_raise_limits).then(|| {
        let wanted = round(wanted, machine);
        format!(
            "the hard limit cannot be raised from here; LimitNOFILE={wanted} raises it for a \
             service, --ulimit nofile={wanted} for a container"
        )
    });
    check.follows = Some(format!(
        "{} workers hold {} users, up to {} each",
        grouped(demand.workers),
        grouped(demand.users.min(most)),
        grouped(fair_capacity(hard)),
    ));
    check
}

/// A number that is easy to type, if the kernel allows it as a limit.
fn round(descriptors: u64, machine: &Machine) -> u64 {
    let most = machine.values("fs.nr_open").map_or(u64::MAX, |values| values[0]);
    let round = descriptors.next_power_of_two();
    if round <= most { round } else { descriptors }
}

/// Ports of a source address, which only a crowd on this machine takes.
fn ports(machine: &Machine, demand: &Demand) -> Option<Check> {
    let &[first, last] = machine.values(PORTS)? else { return None };
    if !demand.crowd_is_here() {
        return None;
    }
    let why = "Ports that the crowd takes of each of its source addresses.";
    let mut check = Check::new(PORTS, why, Unit::Count);
    check.here = vec![(last + 1).saturating_sub(first)];
    check.asked = vec![demand.users.min(figures::listeners::PORTS_PER_SOURCE.into())];
    let sources = demand.listener_sources;
    let last = std::net::Ipv4Addr::from(0x7f00_0000 + sources as u32);
    check.follows = Some(format!("source addresses 127.0.0.1 to {last}"));
    if check.here[0] < check.asked[0] {
        check.verdict = Verdict::TooLow;
        check.command = Some(format!("sysctl -w {PORTS}=\"32768 60999\""));
        check.value = Some("32768 60999".into());
        check.hindrance = hindrance(machine.settings[PORTS].access).map(String::from);
    }
    Some(check)
}

/// The kernel's table of connections, in which every packet looks its own up.
fn buckets(machine: &Machine, demand: &Demand) -> Option<Check> {
    let &[here @ 1..=u64::MAX] = machine.values(BUCKETS)? else { return None };
    let why = "Lists into which the kernel sorts all sockets; each packet walks along one, and \
               misses the cache at each socket there.";
    let mut check = Check::new(BUCKETS, why, Unit::Count);
    (check.here, check.asked) = (vec![here], vec![demand.sockets() / SOCKETS_PER_BUCKET]);
    if here < check.asked[0] {
        let buckets = check.asked[0].next_power_of_two();
        check.verdict = Verdict::Low;
        check.command = Some(format!("thash_entries={buckets} on the kernel's command line"));
        check.hindrance = Some("it is fixed at boot".into());
        check.follows = Some(format!("lists of {} sockets", demand.sockets().div_ceil(here)));
    }
    Some(check)
}

/// Past this a look-up is mostly waiting for memory.
const SOCKETS_PER_BUCKET: u64 = 2;

/// It can be read and not written.
const BUCKETS: &str = "net.ipv4.tcp_ehash_entries";

/// The one setting that is a range.
pub(crate) const PORTS: &str = "net.ipv4.ip_local_port_range";

fn group_threads(machine: &Machine, demand: &Demand) -> Option<Check> {
    let room = machine.group_threads?;
    let why = "Threads that the control group (container, service) still allows.";
    let mut check = Check::new("threads of the group", why, Unit::Count);
    (check.here, check.asked) = (vec![room.free], vec![demand.own_threads()]);
    if room.free < demand.own_threads() {
        check.verdict = Verdict::TooLow;
        let more = room.limit - room.free + demand.own_threads();
        check.hindrance = Some(format!(
            "it is set from outside: TasksMax={more} for a service, --pids-limit={more} for a \
             container"
        ));
    }
    Some(check)
}

fn user_threads(machine: &Machine, demand: &Demand) -> Option<Check> {
    if machine.processes.hard == u64::MAX || machine.may_raise_limits {
        return None;
    }
    let why = "Threads that this user may have.";
    let mut check = Check::new("threads of the user", why, Unit::Count);
    (check.here, check.asked) = (vec![machine.processes.soft], vec![demand.own_threads()]);
    if machine.processes.soft < demand.own_threads() {
        check.verdict = Verdict::TooLow;
        check.command = Some(format!("ulimit -u {}", demand.own_threads().next_power_of_two()));
        check.hindrance = (machine.processes.hard < demand.own_threads())
            .then(|| "the hard limit is lower: root raises it (LimitNPROC= for a service)".into());
    }
    Some(check)
}

fn memory(name: &'static str, why: &'static str, room: Capacity, demand: &Demand) -> Check {
    let parts = demand.memory();
    let mut check = Check::new(name, why, Unit::Bytes);
    (check.here, check.asked) = (vec![room.free], vec![parts.want()]);
    check.verdict = verdict(&check.here, &[parts.need()], &[parts.want()]);
    check.follows = Some(format!(
        "sockets {}, the program {}, the graph's pages {}; events under way come on top",
        gigabytes(parts.sockets),
        gigabytes(parts.process),
        gigabytes(parts.graph),
    ));
    if check.verdict != Verdict::Enough {
        let all = gigabytes(room.limit);
        check.hindrance =
            Some(format!("it is all that is free of {all}: stop others, or take a larger machine"));
    }
    check
}

/// Bytes as people say them.
pub(crate) fn gigabytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{}.{} GB", grouped(bytes / 1_000_000_000), bytes / 100_000_000 % 10),
    }
}

fn verdict(here: &[u64], need: &[u64], want: &[u64]) -> Verdict {
    let reaches = |asked: &[u64]| here.iter().zip(asked).all(|(here, asked)| here >= asked);
    match (reaches(need), reaches(want)) {
        (true, true) => Verdict::Enough,
        (true, false) => Verdict::Low,
        (false, _) => Verdict::TooLow,
    }
}

/// The larger of two at each place; where one ends the other goes on.
pub(crate) fn most(a: &[u64], b: &[u64]) -> Vec<u64> {
    let at = |numbers: &[u64], place: usize| numbers.get(place).copied().unwrap_or(0);
    (0..a.len().max(b.len())).map(|place| at(a, place).max(at(b, place))).collect()
}

//! `--singles`: single events flat out and nothing else, of the bare loop, of this build, of this
//! build without a history, and of another build, in turn.
//!
//! Each round starts each of them anew, brings the crowd online and has it send twice as many
//! events as connections times rounds. Of the first half memory grows, in the second one the
//! history has been full and each event costs another its place. `--against PROGRAM` is another
//! build of this benchmark.

use std::path::Path;

use sys::clock;

use crate::child::Child;
use crate::rounds::{await_events, bring_online};
use crate::{Outcome, Plan, per_second};

/// One of those that are compared.
struct Contender<'p> {
    name: &'static str,
    role: &'static str,
    program: &'p Path,
    flags: &'static [&'static str],
    rounds: Vec<[Figures; 2]>,
}

/// What half of a round came to.
#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    cpu_us: f64,
    listener_us: f64,
}

/// Rounds of all contenders, and a table of their medians with the least and the greatest.
pub(crate) fn run(plan: &Plan, against: Option<&Path>) -> Outcome<()> {
    let program = std::env::current_exe()?;
    let contender = |name, role, program, flags| Contender {
        name,
        role,
        program,
        flags,
        rounds: Vec::with_capacity(plan.times),
    };
    let mut contenders = vec![
        contender("bare loop", "child-bare", program.as_path(), &[]),
        contender("encke", "child-encke", program.as_path(), &[]),
        contender("no history", "child-encke", program.as_path(), &["--forget"]),
    ];
    contenders.extend(against.map(|other| contender("other build", "child-encke", other, &[])));
    for _ in 0..plan.times {
        for contender in &mut contenders {
            let round = measure(contender, plan)?;
            contender.rounds.push(round);
        }
    }
    for (half, name) in ["while memory grows", "once the history is full"].iter().enumerate() {
        println!("\n{name}");
        line("deliveries/s", &contenders, |round| round[half].per_second);
        line("µs of processor per delivery", &contenders, |round| round[half].cpu_us);
        line("µs of the crowd's per delivery", &contenders, |round| round[half].listener_us);
    }
    Ok(())
}

fn measure(contender: &Contender<'_>, plan: &Plan) -> Outcome<[Figures; 2]> {
    let Contender { program, role, flags, .. } = contender;
    let mut child = Child::spawn_from(program, role, plan, None, flags)?;
    let listeners = bring_online(&mut child, plan, plan.connections, 0)?;
    let events = u64::from(plan.connections) * u64::from(plan.rounds);
    let mut half = |heard: u64| -> Outcome<Figures> {
        let (cpu, listener_cpu) = (child.cpu_us()?, clock::process_cpu());
        let started_ns = clock::monotonic_ns();
        child.tell(&format!("unicast {events}"))?;
        await_events(&listeners, heard)?;
        Ok(Figures {
            per_second: per_second(events, started_ns),
            cpu_us: (child.cpu_us()? - cpu) / events as f64,
            listener_us: (clock::process_cpu() - listener_cpu).as_micros() as f64 / events as f64,
        })
    };
    let figures = [half(events)?, half(2 * events)?];
    listeners.finish()?;
    Ok(figures)
}

fn line(name: &str, contenders: &[Contender<'_>], figure: impl Fn(&[Figures; 2]) -> f64) {
    println!("  {name}");
    let mut first = None;
    for contender in contenders {
        let mut values: Vec<f64> = contender.rounds.iter().map(&figure).collect();
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(greatest)) = (values.first(), values.last()) else { return };
        let median = values[values.len() / 2];
        let ratio = median / *first.get_or_insert(median);
        let name = contender.name;
        println!("    {name:<12} {median:>10.2} ({least:.2} to {greatest:.2}), ratio {ratio:.2}");
    }
}

//! The two ends of a child process: the server under test, told what to do line by line.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use load::stamp::{RunName, Stamp};
use sys::clock;

use crate::{DATA, Plan, TIMEOUT};

/// How often the paced sender looks what is due.
const TICK: Duration = Duration::from_millis(1);

/// A server that can be told to send.
pub(crate) trait Server {
    fn port(&self) -> u16;
    /// Polls that wait for an event.
    fn polls(&self) -> u64;
    /// Connections that are open.
    fn open(&self) -> u64;
    /// What sends one event to the whole crowd, on a thread of its own.
    fn to_all(&self) -> Box<dyn FnOnce() + Send>;
    /// Sends `events` events, each to every connection.
    fn broadcast(&mut self, events: u64);
    /// Sends `events` events, each to one connection.
    fn unicast(&mut self, events: u64);
    /// Sends one event about the user `about` to an audience of [`AUDIENCE`](crate::AUDIENCE).
    fn publish(&mut self, about: u64, data: &str);
}

/// The child's side: obeys until its standard input ends.
pub(crate) fn serve(mut server: impl Server) -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", server.port());
    for line in io::stdin().lines() {
        match line?.split_once(' ') {
            Some(("broadcast", events)) => server.broadcast(events.parse()?),
            Some(("unicast", events)) => server.unicast(events.parse()?),
            Some((name @ ("paced" | "beside"), order)) => {
                let order: Vec<u64> = order.split(' ').map(str::parse).collect::<Result<_, _>>()?;
                let &[rate, seconds, users] = order.as_slice() else { return Err(order_error()) };
                if name == "beside" {
                    thread::spawn(server.to_all());
                }
                pace(&mut server, rate, seconds, users);
                println!("sent");
            }
            // Anything else asks for the figures.
            _ => {
                let cpu_us = clock::process_cpu().as_micros();
                let bytes = sys::process::resident()?.anonymous;
                println!("{cpu_us} {bytes} {} {}", server.polls(), server.open());
            }
        }
    }
    std::process::exit(0);
}

fn order_error() -> Box<dyn std::error::Error> {
    "an order is: paced RATE SECONDS USERS, or the same with beside".into()
}

/// Publishes `rate` events a second about random users. Each carries the time at which it was due,
/// so that a sender that falls behind shows in the latency.
fn pace(server: &mut impl Server, rate: u64, seconds: u64, users: u64) {
    let (started_ns, events) = (clock::monotonic_ns(), rate * seconds);
    let run = RunName::new(started_ns);
    let (mut data, mut random) = (Vec::new(), 1_u64);
    let mut sent = 0;
    while sent < events {
        let elapsed_ns = clock::monotonic_ns() - started_ns;
        let due = (elapsed_ns as u128 * u128::from(rate) / 1_000_000_000) as u64 + 1;
        for number in sent..due.min(events) {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let stamp = Stamp {
                run,
                sender: 0,
                // The stamp's subject is the event itself, so nobody may hear it twice.
                subject: number,
                number: 1,
                intended_ns: started_ns + number * 1_000_000_000 / rate,
            };
            data.clear();
            data.push(b'"');
            stamp.push(&mut data);
            data.resize(DATA.len() - 1, b'x');
            data.push(b'"');
            let data = std::str::from_utf8(&data).expect("a stamp is ASCII");
            server.publish((random >> 33) % users, data);
        }
        sent = sent.max(due.min(events));
        thread::sleep(TICK);
    }
}

/// The parent's side. Ends with its standard input.
pub(crate) struct Child {
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
    process: std::process::Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Child {
    pub(crate) fn spawn(
        role: &str,
        plan: &Plan,
        graph: Option<&Path>,
    ) -> Result<Child, Box<dyn std::error::Error>> {
        Child::spawn_from(&std::env::current_exe()?, role, plan, graph, &[])
    }

    /// The same from another build of this benchmark, or with further flags.
    pub(crate) fn spawn_from(
        program: &Path,
        role: &str,
        plan: &Plan,
        graph: Option<&Path>,
        flags: &[&str],
    ) -> Result<Child, Box<dyn std::error::Error>> {
        let mut process = Command::new(program)
            .args([role, "--workers", &plan.workers.to_string()])
            .args(flags)
            .args(["--transport", plan.transport.as_str()])
            .args(["--payload", &plan.payload.to_string()])
            .args(plan.tls.iter().flat_map(|dir| ["--certificate".as_ref(), dir.as_os_str()]))
            .args(graph.into_iter().flat_map(|dir| ["--graph".as_ref(), dir.as_os_str()]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().ok_or("no standard output")?;
        let mut child =
            Child { port: 0, is_tls: role == "child-tls", process, output: BufReader::new(output) };
        child.port = child.line()?.trim().parse()?;
        Ok(child)
    }

    pub(crate) fn tell(&mut self, order: &str) -> io::Result<()> {
        let input = self.process.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(input, "{order}")
    }

    /// Waits until it has done what it was told.
    pub(crate) fn done(&mut self) -> io::Result<()> {
        self.line().map(drop)
    }

    /// Processor time so far, in microseconds.
    pub(crate) fn cpu_us(&mut self) -> Result<f64, Box<dyn std::error::Error>> {
        Ok(self.figures()?[0])
    }

    /// Private memory that is resident.
    pub(crate) fn memory_bytes(&mut self) -> Result<f64, Box<dyn std::error::Error>> {
        Ok(self.figures()?[1])
    }

    /// Waits until so many polls wait.
    pub(crate) fn await_polls(&mut self, polls: u64) -> Result<(), Box<dyn std::error::Error>> {
        self.await_figure(2, polls, "polls should wait")
    }

    /// Waits until so many connections are open.
    pub(crate) fn await_open(&mut self, open: u64) -> Result<(), Box<dyn std::error::Error>> {
        self.await_figure(3, open, "connections should be open")
    }

    fn await_figure(
        &mut self,
        figure: usize,
        value: u64,
        what: &str,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let deadline_ns = clock::monotonic_ns() + TIMEOUT.as_nanos() as u64;
        while self.figures()?[figure] != value as f64 {
            if clock::monotonic_ns() > deadline_ns {
                return Err(format!("{value} {what}").into());
            }
            thread::sleep(TICK);
        }
        Ok(())
    }

    fn figures(&mut self) -> Result<[f64; 4], Box<dyn std::error::Error>> {
        self.tell("figures")?;
        let line = self.line()?;
        let figures: Vec<f64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        figures.try_into().map_err(|_| "four figures".into())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // Gone already if it failed, and its figures were asked for in vain before.
        let _ = self.process.wait();
    }
}

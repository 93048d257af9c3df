//! The two ends of a child process: the server under test, told what to do line by line.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// A server that can be told to send.
pub(crate) trait Server {
    fn port(&self) -> u16;
    /// Sends `events` events, each to every connection.
    fn broadcast(&mut self, events: u64);
    /// Sends `events` events, each to one connection.
    fn unicast(&mut self, events: u64);
}

/// The child's side: obeys until its standard input ends.
pub(crate) fn serve(mut server: impl Server) -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", server.port());
    for line in io::stdin().lines() {
        match line?.split_once(' ') {
            Some(("broadcast", events)) => server.broadcast(events.parse()?),
            Some(("unicast", events)) => server.unicast(events.parse()?),
            // Anything else asks for the figures.
            _ => {
                let cpu_us = sys::clock::process_cpu().as_micros();
                println!("{cpu_us} {}", sys::process::resident()?.anonymous);
            }
        }
    }
    std::process::exit(0);
}

/// The parent's side. Ends with its standard input.
pub(crate) struct Child {
    pub(crate) port: u16,
    process: std::process::Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Child {
    pub(crate) fn spawn(role: &str, workers: usize) -> Result<Child, Box<dyn std::error::Error>> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([role, "--workers", &workers.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().ok_or("no standard output")?;
        let mut child = Child { port: 0, process, output: BufReader::new(output) };
        child.port = child.line()?.trim().parse()?;
        Ok(child)
    }

    pub(crate) fn tell(&mut self, order: &str) -> io::Result<()> {
        let input = self.process.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(input, "{order}")
    }

    /// Processor time so far, in microseconds.
    pub(crate) fn cpu_us(&mut self) -> Result<f64, Box<dyn std::error::Error>> {
        Ok(self.figures()?.0)
    }

    /// Private memory that is resident.
    pub(crate) fn memory_bytes(&mut self) -> Result<f64, Box<dyn std::error::Error>> {
        Ok(self.figures()?.1)
    }

    fn figures(&mut self) -> Result<(f64, f64), Box<dyn std::error::Error>> {
        self.tell("figures")?;
        let line = self.line()?;
        let (cpu, memory) = line.trim().split_once(' ').ok_or("two figures")?;
        Ok((cpu.parse()?, memory.parse()?))
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

//! What the panels of a run show.

use figures::run::Row;

/// One panel of the picture of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Panel {
    /// Memory of the server's process.
    Process,
    /// Memory that the kernel keeps for the machine's sockets.
    Kernel,
    /// Connections open.
    Connections,
    /// Events and deliveries a second.
    Rates,
    /// Events from Erlang nodes and messages to their processes, a second.
    Erlang,
    /// Erlang processes logged in.
    Processes,
    /// How long sends took at the server.
    Send,
    /// How long events took to their listeners.
    Receive,
    /// Processor time of the server.
    Processor,
}

/// A column as a line.
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) column: fn(&Row) -> Option<f64>,
    pub(super) stroke: Stroke,
}

/// Which of the theme's colours a line has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stroke {
    First,
    Second,
    Third,
    /// It stands back behind the others.
    Faint,
}

/// What the values of a panel are, and so how its axis is divided and named.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Quantity {
    /// Bytes, in the unit that keeps the numbers short.
    Bytes,
    /// Anything counted in the unit that is named.
    Number(&'static str),
    /// Milliseconds on a logarithmic axis.
    Milliseconds,
}

const fn line(name: &'static str, stroke: Stroke, column: fn(&Row) -> Option<f64>) -> Series {
    Series { name, column, stroke }
}

fn whole(number: Option<u64>) -> Option<f64> {
    number.map(|number| number as f64)
}

const PROCESS: [Series; 2] = [
    line("heap and stacks", Stroke::Second, |row| whole(row.resident_anonymous_bytes)),
    line("resident", Stroke::First, |row| whole(row.resident_bytes)),
];
const KERNEL: [Series; 2] = [
    line("waiting in buffers", Stroke::Second, |row| whole(row.kernel_tcp_buffer_bytes)),
    line("all", Stroke::First, |row| whole(row.kernel_socket_bytes)),
];
const CONNECTIONS: [Series; 1] = [line("open", Stroke::First, |row| whole(row.connections_open))];
const RATES: [Series; 2] = [
    line("events", Stroke::Second, |row| row.events_per_second),
    line("deliveries", Stroke::First, |row| row.deliveries_per_second),
];
const ERLANG: [Series; 2] = [
    line("events", Stroke::Second, |row| row.erlang_events_per_second),
    line("messages", Stroke::First, |row| row.erlang_deliveries_per_second),
];
const PROCESSES: [Series; 2] = [
    line("nodes", Stroke::Second, |row| whole(row.erlang_nodes)),
    line("processes", Stroke::First, |row| whole(row.erlang_processes)),
];
const SEND: [Series; 4] = [
    line("max", Stroke::Faint, |row| row.send_max_ms),
    line("p99", Stroke::Second, |row| row.send_p99_ms),
    line("p90", Stroke::Third, |row| row.send_p90_ms),
    line("p50", Stroke::First, |row| row.send_p50_ms),
];
const RECEIVE: [Series; 4] = [
    line("max", Stroke::Faint, |row| row.receive_max_ms),
    line("p99", Stroke::Second, |row| row.receive_p99_ms),
    line("p90", Stroke::Third, |row| row.receive_p90_ms),
    line("p50", Stroke::First, |row| row.receive_p50_ms),
];
const PROCESSOR: [Series; 1] = [line("server", Stroke::First, |row| row.cpu_percent_of_core)];

impl Panel {
    /// All of them, from top to bottom.
    pub const ALL: [Panel; 9] = [
        Panel::Process,
        Panel::Kernel,
        Panel::Connections,
        Panel::Rates,
        Panel::Erlang,
        Panel::Processes,
        Panel::Send,
        Panel::Receive,
        Panel::Processor,
    ];

    /// Its name on a command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Panel::Process => "process",
            Panel::Kernel => "kernel",
            Panel::Connections => "connections",
            Panel::Rates => "rates",
            Panel::Erlang => "erlang",
            Panel::Processes => "processes",
            Panel::Send => "send",
            Panel::Receive => "receive",
            Panel::Processor => "processor",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Panel::Process => "Memory of the server",
            Panel::Kernel => "Kernel memory of all TCP sockets of the machine",
            Panel::Connections => "Connections open",
            Panel::Rates => "Events in, deliveries out",
            Panel::Erlang => "Events from Erlang, messages to its processes",
            Panel::Processes => "Erlang nodes connected, processes logged in",
            Panel::Send => "From an event read to its deliveries handed out",
            Panel::Receive => "From an event due to its arrival",
            Panel::Processor => "Processor time of the server",
        }
    }

    pub(super) fn quantity(self) -> Quantity {
        match self {
            Panel::Process | Panel::Kernel => Quantity::Bytes,
            Panel::Connections | Panel::Processes => Quantity::Number(""),
            Panel::Rates | Panel::Erlang => Quantity::Number("per second"),
            Panel::Send | Panel::Receive => Quantity::Milliseconds,
            Panel::Processor => Quantity::Number("% of one core"),
        }
    }

    /// Its lines, from the one behind to the one in front, which the legend names first.
    pub(super) fn series(self) -> &'static [Series] {
        match self {
            Panel::Process => &PROCESS,
            Panel::Kernel => &KERNEL,
            Panel::Connections => &CONNECTIONS,
            Panel::Rates => &RATES,
            Panel::Erlang => &ERLANG,
            Panel::Processes => &PROCESSES,
            Panel::Send => &SEND,
            Panel::Receive => &RECEIVE,
            Panel::Processor => &PROCESSOR,
        }
    }
}

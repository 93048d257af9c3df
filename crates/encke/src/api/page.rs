//! `GET /`: a plain page with the server's figures, until the dashboard takes its place.
//!
//! Made on the server, one document, nothing else to fetch, no script.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;
use engine::WorkerSnapshot;
use hub::DisconnectReason;
use load::report::grouped;
use proto::Transport;

use super::Api;
use super::problem::Problem;

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>Encke</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1, h2 { font-weight: 600; margin: 1.5rem 0 .5rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .2rem 1.5rem .2rem 0; border-bottom: 1px solid #8884 }
td + td, thead th + th { text-align: right }
th { font-weight: 500 }
</style>
";

const FOOT: &str = "<p>The figures are those of the moment at which this page was loaded.
<a href=\"/stats\">JSON</a> · <a href=\"/metrics\">Prometheus</a> ·
<a href=\"/openapi.json\">OpenAPI</a></p>
</html>
";

/// How a figure is read out of a worker's counters.
type Read = fn(&WorkerSnapshot) -> u64;

/// The columns of the table of workers.
const WORKER_COLUMNS: [(&str, Read); 6] = [
    ("Connections", |worker| worker.connections_open),
    ("Opened", |worker| worker.opened),
    ("Deliveries", |worker| worker.deliveries),
    ("Dropped", |worker| worker.dropped),
    ("Bytes sent", |worker| worker.bytes_sent),
    ("Mails waiting", |worker| worker.mails_waiting),
];

pub(super) async fn page(State(api): State<Arc<Api>>) -> Result<Html<String>, Problem> {
    let snapshot = api.snapshot()?;
    let whole = snapshot.whole();
    let mut page = HEAD.to_owned();
    page += &format!("<h1>Encke {}</h1>\n", env!("CARGO_PKG_VERSION"));
    let resident = sys::process::resident().unwrap_or_default();
    let mut rows = vec![
        ("Up for".to_owned(), uptime(api.started.elapsed().as_secs())),
        ("Connections open".to_owned(), grouped(whole.connections_open)),
        ("Ids online".to_owned(), grouped(api.router.ids_online() as u64)),
        ("Subscriptions stored".to_owned(), grouped(api.graph.subscriptions())),
        ("Events accepted".to_owned(), grouped(api.events())),
        ("Deliveries".to_owned(), grouped(whole.deliveries)),
        ("Deliveries dropped".to_owned(), grouped(whole.dropped)),
        ("Memory".to_owned(), format!("{:.1} MiB", resident.total as f64 / 1_048_576.0)),
    ];
    for (transport, count) in Transport::ALL.iter().zip(whole.streams_open) {
        rows.push((format!("Streams: {}", transport.as_str()), grouped(count)));
    }
    push_rows(&mut page, &rows);
    page += "<h2>Connections ended</h2>\n";
    let reasons = DisconnectReason::ALL.iter().zip(whole.closed);
    let rows: Vec<_> = reasons
        .map(|(reason, count)| (reason.as_str().replace('_', " "), grouped(count)))
        .collect();
    push_rows(&mut page, &rows);
    page += "<h2>Workers</h2>\n";
    push_workers(&mut page, &snapshot.workers);
    page += FOOT;
    Ok(Html(page))
}

/// A table of names and values; both are ours, so there is nothing to escape.
fn push_rows(page: &mut String, rows: &[(String, String)]) {
    page.push_str("<table>\n");
    for (name, value) in rows {
        push(page, format_args!("<tr><td>{name}<td>{value}\n"));
    }
    page.push_str("</table>\n");
}

fn push_workers(page: &mut String, workers: &[WorkerSnapshot]) {
    page.push_str("<table>\n<thead><tr><th>Worker");
    for (name, _) in WORKER_COLUMNS {
        push(page, format_args!("<th>{name}"));
    }
    page.push_str("\n<tbody>\n");
    for (number, worker) in workers.iter().enumerate() {
        push(page, format_args!("<tr><td>{number}"));
        for (_, read) in WORKER_COLUMNS {
            push(page, format_args!("<td>{}", grouped(read(worker))));
        }
        page.push('\n');
    }
    page.push_str("</table>\n");
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a string takes everything");
}

fn uptime(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match days {
        0 => format!("{hours}:{minutes:02}:{seconds:02}"),
        days => format!("{days} d {hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptime_is_told_in_days_and_hours() {
        assert_eq!(uptime(59), "0:00:59");
        assert_eq!(uptime(3_600 * 25 + 61), "1 d 1:01:01");
    }

    #[test]
    fn table_of_workers_has_a_row_for_each() {
        let mut page = String::new();
        push_workers(&mut page, &[WorkerSnapshot::default(); 3]);
        assert_eq!(page.matches("<tr><td>").count(), 3);
    }
}

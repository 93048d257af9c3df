//! `GET /tune.json`: what this machine allows against a number of users, as `encke tune --json`
//! tells it. It only reads; a machine is changed from the command line alone.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use httpd::json::Json;
use httpd::problem::ApiProblem;
use serde::Deserialize;
use tokio::task::spawn_blocking;
use tune::{Ends, Report, USERS_DEFAULT};

/// What is asked.
#[derive(Debug, Deserialize)]
pub(crate) struct TuneQuery {
    users: Option<String>,
    #[serde(default)]
    with_clients: bool,
}

pub(crate) async fn tune(
    query: Result<Query<TuneQuery>, QueryRejection>,
) -> Result<Json<Report>, ApiProblem> {
    let Query(TuneQuery { users, with_clients }) = query?;
    let users = users.map_or(Some(USERS_DEFAULT), |text| text.parse().ok());
    let wrong = || ApiProblem::bad_request(format!("users is a number from 1 to {}.", u32::MAX));
    let users = users.filter(|&users| users > 0).ok_or_else(wrong)?;
    let ends = if with_clients { Ends::Both } else { Ends::Server };
    // It reads some fifty files of the kernel.
    let report = spawn_blocking(move || Report::of_machine(users, ends)).await;
    report.map(Json).map_err(|_| ApiProblem::stopping())
}

//! `GET /cluster`: the nodes, as they see themselves.

use std::sync::Arc;

use axum::extract::State;
use dispatch::cluster::NodeReport;
use httpd::json::Json;
use serde::Serialize;

use crate::api::state::Api;

/// The cluster; of a server that is alone nothing.
#[derive(Debug, Serialize)]
pub(crate) struct ClusterBody {
    cluster: Option<String>,
    /// The one that was asked.
    node: Option<String>,
    members: usize,
    nodes: Vec<NodeReport>,
    /// A node has not answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_least: bool,
}

pub(crate) async fn cluster(State(api): State<Arc<Api>>) -> Json<ClusterBody> {
    let Some(cluster) = &api.sender.cluster else {
        let (members, nodes) = (0, Vec::new());
        return Json(ClusterBody { cluster: None, node: None, members, nodes, at_least: false });
    };
    let (nodes, members, at_least) = cluster.nodes().await;
    let (name, node) = (Some(cluster.name().to_owned()), Some(cluster.node().to_owned()));
    Json(ClusterBody { cluster: name, node, members, nodes, at_least })
}

//! What a server does about passing on: what an upgrade asks of it, on both sides.

use std::sync::Arc;
use std::time::Duration;

use httpd::permits::ConnectionPermits;

use super::{PassingSocket, until_last};
use crate::Server;

impl Server {
    /// What is closed while everything is handed over.
    #[cfg(test)]
    pub(crate) fn barrier(&self) -> &Arc<dispatch::barrier::Barrier> {
        &self.barrier
    }

    /// Waits until the last connection to the API has ended, at most for `most`; whether it has.
    pub(crate) async fn until_last(&self, most: Duration) -> bool {
        let serving: Vec<_> = [&self.api_task].into_iter().chain(&self.passing_task).collect();
        until_last(&serving, most).await
    }

    /// Serves at `socket` what the server before us passes on.
    pub(crate) fn serve_passed(&mut self, socket: PassingSocket) {
        let (routes, barrier) = (self.routes.clone(), Arc::clone(&self.barrier));
        let serving = socket.serve(routes, ConnectionPermits::new(), barrier, self.stop.clone());
        self.passing_task = Some(tokio::spawn(serving));
    }
}

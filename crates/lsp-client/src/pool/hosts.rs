//! The hosts that one server connects to through the sandbox's proxy.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use policy::{HostPermit, Policy};
use process::HostGate;

/// Decides about each host once for a server, without asking.
pub(super) struct ServerHosts {
    server: String,
    policy: Arc<Policy>,
    decisions: Mutex<BTreeMap<String, Result<HostPermit, String>>>,
}

impl ServerHosts {
    pub(super) fn new(server: &str, policy: Arc<Policy>) -> Self {
        Self { server: server.to_owned(), policy, decisions: Mutex::default() }
    }

    fn decide(&self, host: &str, port: u16) -> Result<HostPermit, String> {
        let decide = || {
            let permit = self.policy.permit_server_host(&self.server, host, port);
            permit.map_err(|denied| {
                tracing::warn!(server = self.server, host, port, "a server may not connect");
                denied.reason
            })
        };
        self.decisions.lock().entry(format!("{host}:{port}")).or_insert_with(decide).clone()
    }
}

impl HostGate for ServerHosts {
    fn permit<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<HostPermit, String>> {
        std::future::ready(self.decide(host, port)).boxed()
    }

    fn refused(&self, host: &str, port: u16, reason: &str) {
        tracing::warn!(server = self.server, host, port, reason, "a server may not connect");
    }
}

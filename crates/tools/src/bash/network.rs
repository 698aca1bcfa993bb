//! The hosts that one command connects to through the sandbox's proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agent::events::Event;
use agent::tool::GrantRequester;
use agent::{EventReporter, ToolCx};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use policy::HostPermit;
use process::HostGate;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

type Decision = Arc<OnceCell<Result<HostPermit, String>>>;

/// Decides about each host once for a command, and reports it.
pub(crate) struct CommandHosts {
    /// The name in rules about one program.
    program: String,
    requester: GrantRequester,
    events: EventReporter,
    cancel: CancellationToken,
    decisions: Mutex<BTreeMap<String, Decision>>,
    /// Hosts in a private network, which the proxy refuses.
    refused: Mutex<BTreeMap<String, String>>,
    /// Denied hosts that a result has named.
    reported: Mutex<BTreeSet<String>>,
}

impl CommandHosts {
    pub(crate) fn new(program: &str, cx: &ToolCx, cancel: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            program: program.to_owned(),
            requester: cx.grant_requester(),
            events: cx.event_reporter(),
            cancel,
            decisions: Mutex::default(),
            refused: Mutex::default(),
            reported: Mutex::default(),
        })
    }

    /// The denied connections with the reason, each once.
    pub(crate) fn denied(&self) -> Vec<String> {
        let mut denied = self.refused.lock().clone();
        for (host, decision) in &*self.decisions.lock() {
            if let Some(Err(reason)) = decision.get() {
                denied.insert(host.clone(), reason.clone());
            }
        }
        let mut reported = self.reported.lock();
        denied.retain(|host, _| reported.insert(host.clone()));
        denied.into_iter().map(|(host, reason)| format!("connect {host} ({reason})")).collect()
    }
}

impl HostGate for CommandHosts {
    fn permit<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<HostPermit, String>> {
        Box::pin(async move {
            let named = format!("{host}:{port}");
            let decision = Arc::clone(self.decisions.lock().entry(named.clone()).or_default());
            let decide = async || {
                let permit = self.requester.permit_host(host, port, &self.program, &self.cancel).await;
                let (level, what) =
                    if permit.is_ok() { ("info", "connects") } else { ("warning", "may not connect") };
                let text = format!("a command {what} to {named}");
                self.events.report(Event::Notice { level: level.to_owned(), text }).await;
                permit.map_err(|denied| denied.reason)
            };
            decision.get_or_init(decide).await.clone()
        })
    }

    fn refused(&self, host: &str, port: u16, reason: &str) {
        self.refused.lock().insert(format!("{host}:{port}"), reason.to_owned());
    }
}

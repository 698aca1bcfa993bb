//! The limits of running servers: their number, their memory, and their idle time.
//!
//! Invariants: the pool never stops a server that a request uses, so more servers than the limit
//! may run while requests need them. No server starts while the others exceed the memory limit.

use std::sync::Arc;
use std::time::Duration;

use process::deadlines;

use super::ServerPool;
use super::slot::Slot;
use super::start::subject;
use crate::error::{Result, ServerError, StartCause};
use crate::server::{Clock, Server};

impl ServerPool {
    /// Stops unused servers, the least recently used first, until `name` fits.
    ///
    /// Waits for servers in use that exceed the memory limit, for at most a quarter of the time.
    ///
    /// # Errors
    /// [`ServerError::Starting`] where they still do.
    pub(super) async fn make_room(&self, name: &str, clock: Clock<'_>) -> Result<()> {
        self.shrink(self.limits.warm.saturating_sub(1), Duration::ZERO).await;
        let until = clock.at(25);
        loop {
            // Subscribe before measuring their memory, so that no end is missed.
            let mut ends: Vec<_> = self.running().into_iter().map(|it| Box::pin(it.usage.ended())).collect();
            ends.iter_mut().for_each(|end| _ = end.as_mut().enable());
            let used = self.free_memory(0).await;
            if used <= self.limits.memory || ends.is_empty() {
                return Ok(());
            }
            tokio::select! {
                _ = futures_util::future::select_all(ends) => {}
                () = tokio::time::sleep_until(until.into()) => {
                    let (used, limit) = (used >> 20, self.limits.memory >> 20);
                    let cause = StartCause::Memory { used, limit };
                    return Err(ServerError::Starting { server: name.to_owned(), cause });
                }
            }
        }
    }

    /// Stops servers unused for at least `unused` until at most `most` run.
    async fn shrink(&self, most: usize, unused: Duration) {
        let mut warm: Vec<(Duration, Arc<Slot>)> = self
            .slots()
            .into_iter()
            .filter_map(|slot| Some((slot.running()?.usage.unused(), slot)))
            .collect();
        let surplus = warm.len().saturating_sub(most);
        warm.sort_by_key(|(unused, _)| std::cmp::Reverse(*unused));
        let evicted = warm.iter().filter_map(|(_, slot)| slot.evict(|server| server.usage.unused() < unused));
        for server in evicted.take(surplus) {
            tracing::info!(server = server.name(), "stopped to make room for others");
            server.shutdown(deadlines::SERVER_EVICTED, "other servers needed its place").await;
        }
    }

    /// Stops unused servers, the least recently used first, down to the memory limit.
    ///
    /// Keeps the `kept` servers that were used last. Returns the memory of the rest in bytes.
    async fn free_memory(&self, kept: usize) -> u64 {
        let mut warm: Vec<(Duration, Arc<Server>, Arc<Slot>)> = self
            .slots()
            .into_iter()
            .filter_map(|slot| {
                let server = slot.running()?;
                Some((server.usage.unused(), server, slot))
            })
            .collect();
        if warm.len() <= kept {
            return 0;
        }
        warm.sort_by_key(|(unused, ..)| std::cmp::Reverse(*unused));
        let servers: Vec<Arc<Server>> = warm.iter().map(|(_, server, _)| Arc::clone(server)).collect();
        let Some(memory) = memory(servers).await else { return 0 };
        let mut all: u64 = memory.iter().sum();
        warm.truncate(warm.len() - kept);
        for ((_, server, slot), memory) in warm.iter().zip(memory) {
            if all <= self.limits.memory {
                break;
            }
            // Another server may run here now.
            let Some(server) = slot.evict(|now| !std::ptr::eq(now, &**server)) else { continue };
            all = all.saturating_sub(memory);
            tracing::info!(
                server = server.name(),
                mebibytes = memory >> 20,
                "stopped: the servers exceed the memory limit"
            );
            server.shutdown(deadlines::SERVER_EVICTED, "the servers exceeded the memory limit").await;
        }
        all
    }

    /// Stops each server of the project that alone exceeds the memory limit.
    ///
    /// This includes servers in use. The policy asks before it starts again.
    async fn stop_oversized(&self) {
        let own = self.slots().into_iter().filter(|slot| slot.definition().from_project);
        let (slots, servers): (Vec<_>, Vec<_>) =
            own.filter_map(|slot| Some((Arc::clone(&slot), slot.running()?))).unzip();
        let Some(memory) = memory(servers.clone()).await else { return };
        for ((slot, server), memory) in slots.iter().zip(&servers).zip(memory) {
            if memory <= self.limits.memory || !slot.take(server) {
                continue;
            }
            let (used, limit) = (memory >> 20, self.limits.memory >> 20);
            let reason = format!("it took {used} MiB; `lsp.max_memory` allows {limit} MiB");
            if let Some(subject) = subject(&slot.definition(), server.name()) {
                self.policy.kill_subject(&subject, &reason);
            }
            tracing::warn!(server = server.name(), "stopped: {reason}");
            server.shutdown(deadlines::SERVER_EVICTED, "it exceeded the memory limit").await;
        }
    }

    /// Starts the task that stops idle servers and those beyond the budget.
    pub(super) fn start_janitor(self: &Arc<Self>) {
        self.janitor.call_once(|| {
            let this = Arc::downgrade(self);
            let stop = self.stop.clone();
            let pause = (self.limits.idle / 10).clamp(Duration::from_millis(10), Duration::from_secs(30));
            self.tracker.spawn(async move {
                loop {
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(pause) => {}
                    }
                    let Some(this) = this.upgrade() else { return };
                    for slot in this.slots() {
                        let idle = slot.evict(|server| server.usage.unused() <= this.limits.idle);
                        if let Some(server) = idle {
                            tracing::info!(server = server.name(), "stopped: it was idle");
                            server.shutdown(deadlines::SERVER_RESTART, "it was idle").await;
                        }
                    }
                    // The servers that one request needed together are likely to be needed together
                    // again.
                    this.shrink(this.limits.warm.max(1), pause).await;
                    this.stop_oversized().await;
                    this.free_memory(1).await;
                }
            });
        });
    }
}

/// The memory of each server in bytes, with its child processes.
async fn memory(servers: Vec<Arc<Server>>) -> Option<Vec<u64>> {
    let look = tokio::task::spawn_blocking(move || {
        let ids: Vec<u32> = servers.iter().map(|it| it.process.worker().unwrap_or_default()).collect();
        process::process_memory(&ids)
    });
    look.await.ok()
}

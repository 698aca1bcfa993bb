//! Points where a debug build ends itself, to test recovery from a crash.
//!
//! `PILCROW_FAULT=commit:<step>[:n]`; `docs/formats/journal.md` lists the steps. A release build has none.

/// Ends the process by `SIGKILL` if the environment names this step.
///
/// Steps that happen once per file count from 1.
pub(crate) fn point(step: &str, n: Option<usize>) {
    #[cfg(debug_assertions)]
    {
        use std::sync::OnceLock;
        static ARMED: OnceLock<Option<String>> = OnceLock::new();
        let Some(armed) = ARMED.get_or_init(|| std::env::var("PILCROW_FAULT").ok()) else {
            return;
        };
        let named = match n {
            Some(n) => *armed == format!("commit:{step}:{n}"),
            None => *armed == format!("commit:{step}"),
        };
        if named {
            let myself = rustix::process::getpid();
            if let Err(error) = rustix::process::kill_process(myself, rustix::process::Signal::KILL) {
                tracing::error!(%error, "the fault point could not end the process");
            }
            loop {
                std::thread::park();
            }
        }
    }
    #[cfg(not(debug_assertions))]
    {
        let _ = (step, n);
    }
}

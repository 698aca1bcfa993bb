//! Which signal stopped a program, and whether the program handles it.

use dap_client::{Clock, Session, Stop};

use super::caught_exceptions::StopVerdict;

/// Signals that a program goes on after unless it says otherwise.
const HARMLESS: &[&str] = &["SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH"];
/// Signals that a program sends itself by an error of its own.
const ERRORS: &[&str] = &["SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"];
/// Their numbers where they are not on every system alike: those of Linux, where alone they are asked for.
const NUMBERS: &[(&str, u32)] = &[
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGTRAP", 5),
    ("SIGABRT", 6),
    ("SIGBUS", 7),
    ("SIGFPE", 8),
    ("SIGUSR1", 10),
    ("SIGSEGV", 11),
    ("SIGUSR2", 12),
    ("SIGPIPE", 13),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGSYS", 31),
];

/// Whether a stop is one by a signal.
pub(super) fn is_signal(stop: &Stop) -> bool {
    stop.reason == "signal" || (stop.reason == "exception" && told(stop).is_some())
}

/// The signal of a stop: what the stop says, else what the adapter answers to the command that its definition
/// names. `None` where it is not known.
pub(super) async fn of(session: &Session, stop: &Stop, clock: &Clock) -> Option<String> {
    if let Some(name) = told(stop) {
        return Some(name.to_owned());
    }
    let command = session.adapter.quirks.signal_command.as_deref().filter(|_| stop.reason == "signal")?;
    let said = session.evaluate(command, None, "repl", clock).await.ok()?;
    named(&said.value).map(str::to_owned)
}

/// What a stop by a signal is to a test that is a program of its own.
pub(super) fn verdict(signal: Option<&str>, session: &Session) -> StopVerdict {
    let status = session.process().and_then(|id| std::fs::read_to_string(format!("/proc/{id}/status")).ok());
    judged(signal, status.as_deref(), !session.adapter.quirks.zero_after_signal)
}

/// `status` is that of the process, as Linux tells it; `ends`: an end by a signal is told from others.
fn judged(signal: Option<&str>, status: Option<&str>, ends: bool) -> StopVerdict {
    let Some(signal) = signal else { return StopVerdict::MayBeHandled };
    let number = NUMBERS.iter().find(|(name, _)| *name == signal).map(|(_, number)| *number);
    let handled = number.zip(status).and_then(|(number, status)| {
        let mask = |key: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(key))?;
            u64::from_str_radix(line.trim(), 16).ok()
        };
        Some((mask("SigCgt:")? | mask("SigIgn:")?) >> (number - 1) & 1 == 1)
    });
    match handled {
        _ if HARMLESS.contains(&signal) => StopVerdict::Ignored,
        Some(true) => StopVerdict::Ignored,
        Some(false) => StopVerdict::Fails,
        None if !ends || ERRORS.contains(&signal) => StopVerdict::MayBeHandled,
        // The end of the program says whether it was one.
        None => StopVerdict::Ignored,
    }
}

fn told(stop: &Stop) -> Option<&str> {
    [&stop.description, &stop.text].into_iter().flatten().find_map(|it| named(it))
}

/// The name of a signal in a text.
fn named(text: &str) -> Option<&str> {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.find(|it| it.len() > 3 && it.starts_with("SIG") && it.chars().all(|c| !c.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_the_program_handles_is_no_failure() {
        // Handled: SIGUSR1; ignored: SIGPIPE.
        let status =
            "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000200\n";
        for (signal, status, verdict) in [
            (Some("SIGUSR1"), Some(status), StopVerdict::Ignored),
            (Some("SIGPIPE"), Some(status), StopVerdict::Ignored),
            (Some("SIGUSR2"), Some(status), StopVerdict::Fails),
            (Some("SIGABRT"), Some(status), StopVerdict::Fails),
            (Some("SIGCHLD"), Some(status), StopVerdict::Ignored),
            (Some("SIGUSR1"), None, StopVerdict::Ignored),
            (Some("SIGSEGV"), None, StopVerdict::MayBeHandled),
            (None, Some(status), StopVerdict::MayBeHandled),
        ] {
            assert_eq!(judged(signal, status, true), verdict, "{signal:?}");
        }
        assert_eq!(judged(Some("SIGUSR1"), None, false), StopVerdict::MayBeHandled);
    }

    #[test]
    fn a_signal_is_read_from_what_is_said() {
        let said = "It stopped with signal SIGSEGV, Segmentation fault.";
        assert_eq!(named(said), Some("SIGSEGV"));
        assert_eq!(named("a breakpoint at SIG in Signal"), None);
        let stop =
            Stop { reason: "exception".into(), text: Some("signal SIGABRT".into()), ..Stop::default() };
        assert!(is_signal(&stop) && !is_signal(&Stop { text: None, ..stop.clone() }));
    }
}

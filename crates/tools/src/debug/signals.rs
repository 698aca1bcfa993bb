//! The signal that stopped a program, and whether the program handles it.

use dap_client::{Clock, Session, Stop};

use super::caught_exceptions::StopVerdict;

/// Signals that do not end a program by default.
const HARMLESS: &[&str] = &["SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH"];
/// Signals caused by errors of the program.
const ERRORS: &[&str] = &["SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"];
/// Signal numbers on Linux, the only system with `/proc/<pid>/status`.
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

/// Whether a signal caused the stop.
pub(super) fn is_signal(stop: &Stop) -> bool {
    stop.reason == "signal" || (stop.reason == "exception" && signal_in_stop(stop).is_some())
}

/// Finds the signal of a stop.
///
/// Reads it from the stop itself or by the `signal_command` of the adapter's definition.
pub(super) async fn find(session: &Session, stop: &Stop, clock: &Clock) -> Option<String> {
    if let Some(name) = signal_in_stop(stop) {
        return Some(name.to_owned());
    }
    let command = session.adapter.quirks.signal_command.as_deref().filter(|_| stop.reason == "signal")?;
    let output = session.evaluate(command, None, "repl", clock).await.ok()?;
    signal_name(&output.value).map(str::to_owned)
}

/// Classifies a stop by a signal for a test that is a process of its own.
pub(super) fn verdict(signal: Option<&str>, session: &Session) -> StopVerdict {
    let status = session.process().and_then(|id| std::fs::read_to_string(format!("/proc/{id}/status")).ok());
    classify(signal, status.as_deref(), !session.adapter.quirks.zero_after_signal)
}

/// Classifies a stop by its signal.
///
/// `status`: the text of `/proc/<pid>/status`. `reports_signal`: the adapter distinguishes an end by a signal.
fn classify(signal: Option<&str>, status: Option<&str>, reports_signal: bool) -> StopVerdict {
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
        None if !reports_signal || ERRORS.contains(&signal) => StopVerdict::MayBeHandled,
        // The end of the program shows whether the signal ended it.
        None => StopVerdict::Ignored,
    }
}

fn signal_in_stop(stop: &Stop) -> Option<&str> {
    [&stop.description, &stop.text].into_iter().flatten().find_map(|it| signal_name(it))
}

/// Finds the name of a signal in a text.
fn signal_name(text: &str) -> Option<&str> {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.find(|it| it.len() > 3 && it.starts_with("SIG") && it.chars().all(|c| !c.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_the_program_handles_is_not_a_failure() {
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
            assert_eq!(classify(signal, status, true), verdict, "{signal:?}");
        }
        assert_eq!(classify(Some("SIGUSR1"), None, false), StopVerdict::MayBeHandled);
    }

    #[test]
    fn a_signal_is_read_from_the_stop() {
        let text = "It stopped with signal SIGSEGV, Segmentation fault.";
        assert_eq!(signal_name(text), Some("SIGSEGV"));
        assert_eq!(signal_name("a breakpoint at SIG in Signal"), None);
        let stop =
            Stop { reason: "exception".into(), text: Some("signal SIGABRT".into()), ..Stop::default() };
        assert!(is_signal(&stop) && !is_signal(&Stop { text: None, ..stop.clone() }));
    }
}

//! Cleanup of debug sessions after Pilcrow is killed, with every real adapter.
//!
//! No process stays. Slow.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tests::processes::kill;
use tests::{Batch, Sandbox, wait_for};

use crate::debug_programs::{BASH, C, GO, JAVASCRIPT, PYTHON};

/// Kills Pilcrow; adapters and programs end, also those in a session of their own.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn killing_pilcrow_leaves_no_adapter_and_no_program() {
    for (adapter, file, text, line) in [
        ("debugpy", "a.py", PYTHON, 4),
        ("gdb", "c.c", C, 5),
        ("lldb-dap", "c.c", C, 5),
        ("codelldb", "c.c", C, 5),
        ("js-debug", "a.js", JAVASCRIPT, 3),
        ("delve", "a.go", GO, 7),
        ("bash-dap", "a.sh", BASH, 5),
    ] {
        let sandbox = Sandbox::with(&[(file, text)]);
        let program = if file == "c.c" { "c" } else { file };
        if program == "c" {
            let mut gcc = std::process::Command::new("gcc");
            gcc.current_dir(sandbox.project()).args(["-g", "-O0", "-o", "c", "c.c"]);
            assert!(gcc.status().expect("gcc starts").success());
        }
        let mut batch = Batch::start(&sandbox);
        let launch = json!({"action": "launch", "program": program, "adapter": adapter, "timeout": 120,
            "breakpoints": [{"file": file, "line": line}]});
        let said = batch.call("debug", &launch).ok();
        assert!(said.contains("stopped: breakpoint"), "{adapter}: {said}");
        // The processes are Pilcrow, its guard, the adapter and the program.
        let living = || sandbox.mark().living();
        assert!(living().len() >= 4, "{adapter}: {:?}", living());
        kill(batch.pid(), Signal::KILL);
        assert!(
            wait_for(Duration::from_secs(20), || living().is_empty()),
            "{adapter}: {:?} is left",
            living()
        );
    }
}

//! Requests that an adapter answers only with a capability (DAP §Capabilities).
//!
//! Pure. Some adapters never answer the others, and some then answer nothing more.

/// The capability that a request needs; `None` if every adapter answers it.
pub(crate) fn required_capability(command: &str) -> Option<&'static str> {
    Some(match command {
        "breakpointLocations" => "supportsBreakpointLocationsRequest",
        "cancel" => "supportsCancelRequest",
        "completions" => "supportsCompletionsRequest",
        "dataBreakpointInfo" | "setDataBreakpoints" => "supportsDataBreakpoints",
        "disassemble" => "supportsDisassembleRequest",
        "exceptionInfo" => "supportsExceptionInfoRequest",
        "goto" | "gotoTargets" => "supportsGotoTargetsRequest",
        "loadedSources" => "supportsLoadedSourcesRequest",
        "modules" => "supportsModulesRequest",
        "readMemory" => "supportsReadMemoryRequest",
        "restart" => "supportsRestartRequest",
        "restartFrame" => "supportsRestartFrame",
        "setExpression" => "supportsSetExpression",
        "setFunctionBreakpoints" => "supportsFunctionBreakpoints",
        "setInstructionBreakpoints" => "supportsInstructionBreakpoints",
        "setVariable" => "supportsSetVariable",
        "stepBack" | "reverseContinue" => "supportsStepBack",
        "stepInTargets" => "supportsStepInTargetsRequest",
        "terminate" => "supportsTerminateRequest",
        "terminateThreads" => "supportsTerminateThreadsRequest",
        "writeMemory" => "supportsWriteMemoryRequest",
        _ => return None,
    })
}

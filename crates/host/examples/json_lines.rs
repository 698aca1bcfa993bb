//! Serves prompts over JSON lines: `json_lines PROJECT`.
//!
//! Each line of standard input is a request as `host::PromptRequest` reads it, for example
//! `{"prompt": "find references of main", "folder": "."}`. Standard output has the events of the run, one
//! envelope on each line, then a line with the reply. Requests run one after the other.
#![expect(clippy::print_stdout, reason = "standard output is the protocol")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use agent::{Envelope, EventSink};
use futures_util::future::{BoxFuture, ready};
use host::{Access, HeadlessFrontend, Host, PromptRequest, Reply, RunReport, Stop};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::sync::CancellationToken;

/// Writes each event as a line of JSON.
struct Lines;

impl EventSink for Lines {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        if let Ok(line) = serde_json::to_string(envelope) {
            println!("{line}");
        }
        Box::pin(ready(()))
    }
}

/// Serves until the end of standard input.
///
/// # Errors
/// When the project cannot be opened, or standard input cannot be read.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let root = std::env::args().nth(1).map(PathBuf::from).ok_or("usage: json_lines PROJECT")?;
    let project = Host::from_env()?.open_project(&root, Access::default(), Arc::new(HeadlessFrontend))?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let reply = match serde_json::from_str::<PromptRequest>(&line) {
            Err(error) => Reply::<RunReport>::InvalidRequest(error.to_string()),
            Ok(request) => {
                let never = CancellationToken::new();
                let stop = Stop { cancel: &never, gone: &never };
                project.scope().run(request, Arc::new(Lines), stop).await?
            }
        };
        println!("{}", serde_json::to_string(&reply)?);
    }
    project.close(false).await;
    Ok(())
}

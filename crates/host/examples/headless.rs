//! Runs one prompt in a project, without a user: `headless PROJECT PROMPT [MODEL]`.
//!
//! The frontend denies effects that need permission. The program prints the text of the response, and one
//! line for each tool call.
#![expect(clippy::print_stdout, reason = "an example prints the answer")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use agent::{Envelope, Event, EventSink};
use futures_util::future::{BoxFuture, ready};
use host::{Access, HeadlessFrontend, Host, Outcome, PromptRequest, Reply, Stop};
use tokio_util::sync::CancellationToken;

/// Prints the responses and tool calls of a run.
struct Printer;

impl EventSink for Printer {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        match &envelope.event {
            Event::MessageEnd { message: llm::Message::Assistant(message), .. } => {
                println!("{}", message.text());
            }
            Event::ToolExecutionStart { label, .. } => println!("· {label}"),
            _ => {}
        }
        Box::pin(ready(()))
    }
}

/// Opens the project, runs the prompt, and closes the project again.
///
/// # Errors
/// When the arguments are wrong, the project cannot be opened, or the run fails.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(root), Some(prompt)) = (arguments.next(), arguments.next()) else {
        return Err("usage: headless PROJECT PROMPT [MODEL]".into());
    };
    let root = PathBuf::from(root);
    let project = Host::from_env()?.open_project(&root, Access::default(), Arc::new(HeadlessFrontend))?;
    let request =
        PromptRequest { prompt, model: arguments.next(), directory: root, ..PromptRequest::default() };
    let never = CancellationToken::new();
    let stop = Stop { cancel: &never, gone: &never };
    let reply = project.scope().run(request, Arc::new(Printer), stop).await;
    project.close(false).await;
    match reply? {
        Reply::Done(report) if report.outcome == Outcome::Done => Ok(()),
        Reply::Done(report) => Err(report.reason.unwrap_or_else(|| "the run failed".to_owned()).into()),
        Reply::InvalidRequest(reason) => Err(reason.into()),
    }
}

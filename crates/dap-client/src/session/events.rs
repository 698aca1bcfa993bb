//! Handling of the adapter's events and requests, in wire order.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Inner;
use crate::client::Handler;
use crate::debuggee::Category;
use crate::debuggee::output_fence;
use crate::debuggee::{Input, Stop};

impl Inner {
    /// Reports an exit code to the session that runs the program.
    ///
    /// Applies if this session only launches.
    fn report_exit_to_program(&self, code: i64) {
        let own =
            self.session.get().and_then(Weak::upgrade).filter(|session| session.adapter_launches_only());
        let Some(own) = own else { return };
        if let Some(program) = self.reverse_handler.program_of(&own).filter(|program| program.id != own.id) {
            program.inner.take(Input::Exited { code: Some(code) });
        }
    }
}

impl Inner {
    /// Joins output that may contain an exit code in pieces.
    ///
    /// Prepends the stored beginning and stores a new partial end.
    fn complete_output(&self, category: Option<Category>, text: &str) -> String {
        let wrap = self.adapter.quirks.wrap.as_ref();
        let (Some(category), Some(wrap)) = (category.filter(|it| *it != Category::Stdout), wrap) else {
            return text.to_owned();
        };
        if self.partial_output().as_ref().is_some_and(|(partial, _)| *partial != category) {
            self.flush_partial_output();
        }
        let mut text =
            self.partial_output().take().map_or_else(|| text.to_owned(), |(_, partial)| partial + text);
        if wrap.exit_code(&text).is_none() {
            let tail = text.split_off(wrap.begins_at(&text));
            *self.partial_output() = Some((category, tail)).filter(|(_, tail)| !tail.is_empty());
        }
        text
    }

    /// Adds the stored partial end to the output.
    ///
    /// The text turned out to be the program's, or is read now.
    pub(super) fn flush_partial_output(&self) {
        let partial = self.partial_output().take();
        if let Some((category, text)) = partial {
            self.write(category, &text);
        }
    }
}

impl Handler for Inner {
    fn event(&self, event: &str, body: Option<&RawValue>) {
        let body: Value = body.and_then(|body| serde_json::from_str(body.get()).ok()).unwrap_or_default();
        let quirks = &self.adapter.quirks;
        let text = |name: &str| body[name].as_str().map(|it| quirks.without_texts(it).into_owned());
        match event {
            "initialized" => self.take(Input::Initialized),
            "stopped" => {
                let stop = Stop {
                    // CodeLLDB 1.11 reports none after a jump.
                    reason: text("reason")
                        .filter(|it| !it.is_empty())
                        .unwrap_or_else(|| "no reason given".to_owned()),
                    description: text("description"),
                    text: text("text"),
                    thread: body["threadId"].as_i64(),
                    preserves_focus: body["preserveFocusHint"] == true,
                    hit: body["hitBreakpointIds"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_i64)
                        .collect(),
                };
                self.take(Input::Stopped { stop, all: body["allThreadsStopped"] == true });
            }
            // A missing member means all threads (DAP §Continued Event).
            "continued" => self.take(Input::Continued {
                thread: body["threadId"].as_i64(),
                all: body["allThreadsContinued"].as_bool().unwrap_or(true),
            }),
            "thread" => {
                if let Some(id) = body["threadId"].as_i64() {
                    self.take(Input::Thread { id, alive: body["reason"] != "exited" });
                }
            }
            "exited" => {
                let says_nothing = self.adapter.quirks.zero_after_signal && self.core().machine.signalled();
                let code = body["exitCode"].as_i64().filter(|code| *code != 0 || !says_nothing);
                // The state machine reads a negative code as a signal.
                let by_signal = self.adapter.quirks.signals_as_codes && code == self.core().machine.signal();
                let code = code.map(|code| if by_signal { -code } else { code });
                self.take(Input::Exited { code });
            }
            "process" => self.core().process = body["systemProcessId"].as_i64(),
            "terminated" => {
                self.take(Input::Terminated);
                self.finished.cancel();
            }
            "breakpoint" => self.core().breakpoints.apply_event(&body),
            "capabilities" => {
                let added = body["capabilities"].clone();
                adapters::merge(&mut self.core().capabilities, added);
            }
            "output" => {
                let text = body["output"].as_str().unwrap_or_default();
                let fence = self.adapter.quirks.output_fence.as_ref().and_then(|_| output_fence::take(text));
                let text = fence.as_ref().map_or(text, |(text, _)| text);
                let category = Category::parse(body["category"].as_str());
                let text = &*self.complete_output(category, text);
                let exit = quirks.exit_code(text).filter(|_| category != Some(Category::Stdout));
                let text = exit.as_ref().map_or(text, |(_, rest)| rest);
                let chatter = category == Some(Category::Console)
                    && quirks.noise_prefixes.iter().any(|start| text.starts_with(start.as_str()));
                let own = body["category"].as_str().unwrap_or("console");
                let chatter = chatter || quirks.adapter_categories.iter().any(|it| it == own);
                let text = &*quirks.without_own(category == Some(Category::Stdout), text);
                if let Some(category) = category.filter(|_| !chatter && !text.is_empty()) {
                    self.write(category, text);
                }
                if let Some((_, number)) = fence {
                    self.fence_reached.send_replace(number);
                }
                if let Some((code, _)) = exit {
                    self.take(Input::Exited { code: Some(code) });
                    self.report_exit_to_program(code);
                }
            }
            other => tracing::trace!(event = other, "an event that changes nothing here"),
        }
    }

    fn request(
        &self,
        command: &str,
        arguments: Option<&RawValue>,
    ) -> BoxFuture<'static, Result<Value, String>> {
        let arguments = arguments.and_then(|it| serde_json::from_str(it.get()).ok()).unwrap_or_default();
        match self.session.get().and_then(Weak::upgrade) {
            Some(session) => Arc::clone(&self.reverse_handler).answer(session, command.to_owned(), arguments),
            None => Box::pin(std::future::ready(Err("the session has ended".to_owned()))),
        }
    }
}

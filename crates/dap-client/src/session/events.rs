//! What the adapter tells and asks, in the order of the wire: events to the state machine, the output and the
//! breakpoints; requests to the owner.

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
    /// A session that only launches knows how the program ended that another runs.
    fn tell_program(&self, code: i64) {
        let own =
            self.session.get().and_then(Weak::upgrade).filter(|session| session.adapter_launches_only());
        let Some(own) = own else { return };
        if let Some(program) = self.owner.program_of(&own).filter(|program| program.id != own.id) {
            program.inner.take(Input::Exited { code: Some(code) });
        }
    }
}

impl Inner {
    /// What came in pieces may be an adapter's own only when it is whole: text with what was held back before it, and
    /// without what is held back of it.
    fn whole(&self, category: Option<Category>, text: &str) -> String {
        let wrap = self.adapter.quirks.wrap.as_ref();
        let (Some(category), Some(wrap)) = (category.filter(|it| *it != Category::Stdout), wrap) else {
            return text.to_owned();
        };
        if self.held().as_ref().is_some_and(|(of, _)| *of != category) {
            self.let_go();
        }
        let mut text = self.held().take().map_or_else(|| text.to_owned(), |(_, held)| held + text);
        if wrap.exit_code(&text).is_none() {
            let tail = text.split_off(wrap.begins_at(&text));
            *self.held() = Some((category, tail)).filter(|(_, tail)| !tail.is_empty());
        }
        text
    }

    /// What was held back is the program's after all, or somebody looks.
    pub(super) fn let_go(&self) {
        let held = self.held().take();
        if let Some((category, text)) = held {
            self.write(category, &text);
        }
    }
}

impl Handler for Inner {
    fn event(&self, event: &str, body: Option<&RawValue>) {
        let body: Value = body.and_then(|body| serde_json::from_str(body.get()).ok()).unwrap_or_default();
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        match event {
            "initialized" => self.take(Input::Initialized),
            "stopped" => {
                let stop = Stop {
                    // CodeLLDB 1.11 gives none after a jump.
                    reason: text("reason")
                        .filter(|it| !it.is_empty())
                        .unwrap_or_else(|| "no reason given".to_owned()),
                    description: text("description"),
                    text: text("text"),
                    thread: body["threadId"].as_i64(),
                    beside: body["preserveFocusHint"] == true,
                    hit: body["hitBreakpointIds"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_i64)
                        .collect(),
                };
                self.take(Input::Stopped { stop, all: body["allThreadsStopped"] == true });
            }
            // Left out means all (DAP §Continued Event).
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
                // The machine reads a negative code as a signal.
                let by_signal = self.adapter.quirks.signals_as_codes && code == self.core().machine.signal();
                let code = code.map(|code| if by_signal { -code } else { code });
                self.take(Input::Exited { code });
            }
            "process" => self.core().process = body["systemProcessId"].as_i64(),
            "terminated" => {
                self.take(Input::Terminated);
                self.finished.cancel();
            }
            "breakpoint" => self.core().breakpoints.changed(&body),
            "capabilities" => {
                let told = body["capabilities"].clone();
                adapters::merge(&mut self.core().capabilities, told);
            }
            "output" => {
                let text = body["output"].as_str().unwrap_or_default();
                let marked = self.adapter.quirks.output_fence.as_ref().and_then(|_| output_fence::take(text));
                let text = marked.as_ref().map_or(text, |(text, _)| text);
                let category = Category::parse(body["category"].as_str());
                let quirks = &self.adapter.quirks;
                let text = &*self.whole(category, text);
                let exit = quirks.exit_code(text).filter(|_| category != Some(Category::Stdout));
                let text = exit.as_ref().map_or(text, |(_, rest)| rest);
                let chatter = category == Some(Category::Console)
                    && quirks.noise_prefixes.iter().any(|start| text.starts_with(start.as_str()));
                let text = &*quirks.without_own(category == Some(Category::Stdout), text);
                if let Some(category) = category.filter(|_| !chatter && !text.is_empty()) {
                    self.write(category, text);
                }
                if let Some((_, number)) = marked {
                    self.marked.send_replace(number);
                }
                if let Some((code, _)) = exit {
                    self.take(Input::Exited { code: Some(code) });
                    self.tell_program(code);
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
            Some(session) => Arc::clone(&self.owner).answer(session, command.to_owned(), arguments),
            None => Box::pin(std::future::ready(Err("the session is over".to_owned()))),
        }
    }
}

//! The places that a run without a model finds, for clients that show lists (`pilcrow/list`).

use agent::{Event, Message};
use host::{ResultPlace, result_diagnostics, result_places};
use parking_lot::Mutex;
use paths::AbsPath;
use serde_json::{Value, json};

use super::Connection;

/// The list of the last result, if the built-in planner called the tool.
pub struct ResultList {
    root: AbsPath,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_planner: bool,
    places: Vec<ResultPlace>,
}

impl ResultList {
    pub fn new(root: &AbsPath) -> Self {
        Self { root: root.clone(), state: Mutex::default() }
    }

    pub fn observe(&self, event: &Event) {
        match event {
            Event::MessageEnd { message: Message::Assistant(message), .. } => {
                self.state.lock().is_planner = message.api == "planner";
            }
            Event::ToolExecutionEnd { details, is_error: false, .. } => {
                let mut state = self.state.lock();
                let places = result_places(details).or_else(|| result_diagnostics(details));
                state.places = places.filter(|_| state.is_planner).unwrap_or_default();
            }
            _ => {}
        }
    }

    /// Sends the list, unless it is empty or the client shows none.
    pub async fn send(&self, connection: &Connection) {
        let places = std::mem::take(&mut self.state.lock().places);
        if places.is_empty() || !connection.client.lists {
            return;
        }
        let items: Vec<Value> = places.iter().map(|place| self.item(place)).collect();
        if let Err(closed) = connection.peer.notify("pilcrow/list", &json!({ "items": items })).await {
            tracing::debug!(%closed, "a list was not sent");
        }
    }

    fn item(&self, place: &ResultPlace) -> Value {
        let ResultPlace { path, line, column, text, severity, .. } = place;
        let start = column.map_or(0, |column| column.saturating_sub(1) as usize);
        let byte = text.char_indices().nth(start).map_or(start, |(byte, _)| byte);
        let column = column.map(|_| byte + 1);
        json!({
            "path": self.root.as_path().join(path), "line": line, "column": column, "text": text.trim(),
            "severity": severity,
        })
    }
}

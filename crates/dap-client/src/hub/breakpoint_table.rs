//! Breakpoints of all clients: each client's lists, the merged request to the adapter, and each
//! client's part of the answer.
//!
//! Pure. Invariants: only a client changes its own lists. If two breakpoints conflict on one
//! line, the earlier stays and the later is refused with its owner's name. A breakpoint keeps the
//! number that clients know, even if the adapter renumbers with each change.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::merged_breakpoint::{compared_members, merge_into};
use super::{BreakpointRequest, ClientId};
use adapters::ExceptionNames;

/// A group of breakpoints that one request replaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Set {
    /// The breakpoints of one source.
    Source(String),
    Functions,
    Instructions,
    Data,
    Exceptions,
}

impl Set {
    pub fn command(&self) -> &'static str {
        match self {
            Self::Source(_) => "setBreakpoints",
            Self::Functions => "setFunctionBreakpoints",
            Self::Instructions => "setInstructionBreakpoints",
            Self::Data => "setDataBreakpoints",
            Self::Exceptions => "setExceptionBreakpoints",
        }
    }
}

/// Owner of the user's breakpoints from the previous session.
///
/// Applies until the first client joins.
pub(crate) const PREVIOUS_SESSION: ClientId = ClientId::MAX;
/// The first number that clients receive.
///
/// It is above adapters' numbers, so an unmapped number passes unchanged.
const FIRST: i64 = 1 << 30;

/// Identity of a breakpoint within its set.
type Key = String;

#[derive(Debug, Clone)]
struct RequestedBreakpoint {
    key: Key,
    since: u64,
    value: Value,
    /// Whether its condition stays separate from earlier ones.
    ///
    /// The adapter rejected the combination.
    separate: bool,
}

/// Breakpoints of one request, in the client's order.
pub type List = Vec<Value>;

#[derive(Debug)]
pub struct BreakpointTable {
    /// The operator between two conditions in the debugged language: `||`, `or`.
    or: Option<String>,
    /// Rule by which exceptions are passed to the adapter by name, not as filters.
    exception_names: Option<ExceptionNames>,
    lists: BTreeMap<Set, BTreeMap<ClientId, Vec<RequestedBreakpoint>>>,
    sources: HashMap<Set, Value>,
    /// Members of each client's request besides its list; the newest client last.
    others: BTreeMap<(ClientId, Set), Value>,
    reported: HashMap<(ClientId, Set), Vec<Value>>,
    ids: HashMap<(Set, Key), i64>,
    by_adapter: HashMap<i64, (Set, Key)>,
    clock: u64,
    next: i64,
}

/// A request to the adapter, with the data to map its answer.
#[derive(Debug, Clone)]
pub struct Plan {
    pub set: Set,
    pub arguments: Value,
    keys: Vec<Key>,
    answers: BTreeMap<ClientId, Vec<Placement>>,
}

#[derive(Debug, Clone)]
enum Placement {
    Merged(usize),
    Refused(String),
}

/// An adapter's answer, split by client.
#[derive(Debug, Default)]
pub(crate) struct SetResult {
    /// The answer for each client that has a list, in the client's order.
    pub answers: BTreeMap<ClientId, Vec<Value>>,
    /// Breakpoints that differ from the client's last answer.
    pub changed: Vec<(ClientId, Value)>,
}

impl BreakpointTable {
    pub fn new(or: Option<String>, exception_names: Option<ExceptionNames>) -> Self {
        let (lists, sources, others, reported, ids, by_adapter) = Default::default();
        Self { or, exception_names, lists, sources, others, reported, ids, by_adapter, clock: 0, next: FIRST }
    }

    /// Whether the arguments of `setBreakpoints` name a source.
    pub(crate) fn names_source(arguments: &Value) -> bool {
        let source = &arguments["source"];
        let path = source["path"].as_str().is_some_and(|path| !path.is_empty());
        path || source["sourceReference"].as_i64().is_some_and(|number| number > 0)
    }

    /// The set that a request replaces.
    ///
    /// `canonical` maps all spellings of a path to one.
    pub(crate) fn set_of(
        command: &str,
        arguments: &Value,
        canonical: &dyn Fn(&str) -> String,
    ) -> Option<Set> {
        Some(match command {
            "setBreakpoints" => {
                let source = &arguments["source"];
                let reference = source["sourceReference"].as_i64().filter(|number| *number > 0);
                Set::Source(match reference {
                    Some(number) => format!("#{number}"),
                    None => canonical(source["path"].as_str().unwrap_or_default()),
                })
            }
            "setFunctionBreakpoints" => Set::Functions,
            "setInstructionBreakpoints" => Set::Instructions,
            "setDataBreakpoints" => Set::Data,
            "setExceptionBreakpoints" => Set::Exceptions,
            _ => return None,
        })
    }

    /// Replaces a client's list.
    ///
    /// Returns the previous one for [`BreakpointTable::restore`].
    pub fn replace(&mut self, client: ClientId, set: &Set, arguments: &Value) -> PreviousList {
        let items = items(set, arguments);
        let mut other = arguments.as_object().cloned().unwrap_or_default();
        let source = other.remove("source");
        for name in ["breakpoints", "lines", "filters", "filterOptions"] {
            other.remove(name);
        }
        let lists = self.lists.entry(set.clone()).or_default();
        let before = lists.remove(&client).unwrap_or_default();
        let mut list: Vec<RequestedBreakpoint> = Vec::new();
        for value in items {
            let key = key(set, &value);
            let previous = before
                .iter()
                .find(|it| it.key == key && compared_members(&it.value) == compared_members(&value));
            self.clock += 1;
            let (since, separate) = previous.map_or((self.clock, false), |it| (it.since, it.separate));
            list.push(RequestedBreakpoint { since, key, value, separate });
        }
        lists.insert(client, list);
        let source = source.map(|source| self.sources.insert(set.clone(), source)).unwrap_or_default();
        let other = self.others.insert((client, set.clone()), Value::Object(other));
        PreviousList { client, set: set.clone(), list: before, source, other }
    }

    /// Restores a client's list after the adapter refused the request.
    pub fn restore(&mut self, before: PreviousList) {
        let PreviousList { client, set, list, source, other } = before;
        if list.is_empty() {
            self.lists.entry(set.clone()).or_default().remove(&client);
        } else {
            self.lists.entry(set.clone()).or_default().insert(client, list);
        }
        if let Some(source) = source {
            self.sources.insert(set.clone(), source);
        }
        match other {
            Some(other) => self.others.insert((client, set), other),
            None => self.others.remove(&(client, set)),
        };
    }

    /// Removes all lists of a client; returns the sets to send again.
    pub(crate) fn remove_client(&mut self, client: ClientId) -> Vec<Set> {
        let sets = self.sets_of(client);
        self.lists.values_mut().for_each(|lists| drop(lists.remove(&client)));
        self.reported.retain(|(owner, _), _| *owner != client);
        self.others.retain(|(owner, _), _| *owner != client);
        sets
    }

    /// The breakpoints of all clients but `excluded`, as requests.
    ///
    /// Breakpoints on addresses or on numbered sources of one process are left out.
    pub(crate) fn requests_except(&self, excluded: &[ClientId]) -> Vec<BreakpointRequest> {
        let mut requests = Vec::new();
        for (set, lists) in &self.lists {
            let is_numbered = matches!(set, Set::Source(source) if source.starts_with('#'));
            if is_numbered || matches!(set, Set::Data | Set::Instructions) {
                continue;
            }
            let mut wanted: Vec<&RequestedBreakpoint> = Vec::new();
            for it in lists.iter().filter(|(owner, _)| !excluded.contains(owner)).flat_map(|(_, list)| list) {
                if !wanted.iter().any(|other| other.key == it.key) {
                    wanted.push(it);
                }
            }
            let is_included = |owner: ClientId| !excluded.contains(&owner);
            let values: Vec<Value> = wanted.into_iter().map(|it| it.value.clone()).collect();
            let arguments = self.arguments(set, values, &is_included);
            if has_items(set, &arguments) {
                requests.push((set.command(), arguments));
            }
        }
        requests
    }

    /// The sets in which `client` requests something.
    pub(crate) fn sets_of(&self, client: ClientId) -> Vec<Set> {
        self.lists.keys().filter(|set| self.requests_any(client, set)).cloned().collect()
    }

    /// Whether a client other than `client` requests something in `set`.
    pub(crate) fn others_request(&self, set: &Set, client: ClientId) -> bool {
        let others = self.lists.get(set).into_iter().flatten().map(|(owner, _)| *owner);
        others.into_iter().any(|owner| owner != client && self.requests_any(owner, set))
    }

    fn requests_any(&self, client: ClientId, set: &Set) -> bool {
        let list = self.lists.get(set).and_then(|lists| lists.get(&client));
        list.is_some_and(|it| !it.is_empty())
            || self.others.get(&(client, set.clone())).is_some_and(|it| !categories(it).is_empty())
    }

    /// The request to the adapter for `set`. `name` gives a client's name for messages.
    pub fn plan(&self, set: &Set, name: &dyn Fn(ClientId) -> String) -> Plan {
        let lists = self.lists.get(set);
        let mut wanted: Vec<(ClientId, usize, &RequestedBreakpoint)> = Vec::new();
        for (client, list) in lists.into_iter().flatten() {
            wanted.extend(list.iter().enumerate().map(|(at, it)| (*client, at, it)));
        }
        wanted.sort_by_key(|(_, _, it)| it.since);
        let mut answers: BTreeMap<ClientId, Vec<Placement>> = BTreeMap::new();
        for (client, list) in lists.into_iter().flatten() {
            answers.insert(*client, vec![Placement::Merged(0); list.len()]);
        }
        let mut merged: Vec<(Key, ClientId, Value)> = Vec::new();
        for (client, at, it) in wanted {
            let spot = match merged.iter().position(|(key, ..)| *key == it.key) {
                None => {
                    merged.push((it.key.clone(), client, it.value.clone()));
                    Placement::Merged(merged.len() - 1)
                }
                Some(index) => {
                    let (_, owner, first) = &mut merged[index];
                    match merge_into(first, &it.value, self.or.as_deref().filter(|_| !it.separate)) {
                        Ok(()) => Placement::Merged(index),
                        Err(what) => Placement::Refused(format!("{} has {what} here", name(*owner))),
                    }
                }
            };
            if let Some(answer) = answers.get_mut(&client).and_then(|answer| answer.get_mut(at)) {
                *answer = spot;
            }
        }
        // The order is by line and column, as a single client would send them.
        if let Set::Source(_) = set {
            let mut order: Vec<usize> = (0..merged.len()).collect();
            let place = |index: usize| {
                let value = &merged[index].2;
                (value["line"].as_i64(), value["column"].as_i64())
            };
            order.sort_by_key(|index| place(*index));
            let mut to = vec![0; merged.len()];
            order.iter().enumerate().for_each(|(new, old)| to[*old] = new);
            for spot in answers.values_mut().flatten() {
                if let Placement::Merged(index) = spot {
                    *index = to.get(*index).copied().unwrap_or(*index);
                }
            }
            merged = order.iter().map(|index| merged[*index].clone()).collect();
        }
        let keys: Vec<Key> = merged.iter().map(|(key, ..)| key.clone()).collect();
        let values: Vec<Value> = merged.into_iter().map(|(_, _, value)| value).collect();
        let mut arguments = self.arguments(set, values, &|_| true);
        // Exception options must not override the filters of another client.
        if let (Some(names), Some(filters), Some(options)) = (
            &self.exception_names,
            arguments["filters"].as_array().cloned(),
            arguments.get_mut("exceptionOptions"),
        ) && let Some(options) = options.as_array_mut()
        {
            options.splice(0..0, names.options(&filters));
        }
        Plan { set: set.clone(), arguments, keys, answers }
    }

    /// The arguments for `values`, with the other members from clients that `includes`
    /// accepts.
    fn arguments(&self, set: &Set, values: Vec<Value>, includes: &dyn Fn(ClientId) -> bool) -> Value {
        // The newest client's members apply; exception options of all clients are combined.
        let mut arguments = Map::new();
        let mut all = Vec::new();
        for ((client, its_set), other) in &self.others {
            if its_set == set && includes(*client) {
                all.extend_from_slice(categories(other));
                arguments.extend(other.as_object().cloned().unwrap_or_default());
            }
        }
        if !all.is_empty() {
            arguments.insert("exceptionOptions".to_owned(), Value::Array(all));
        }
        match set {
            Set::Source(_) => {
                arguments.insert("source".to_owned(), self.sources.get(set).cloned().unwrap_or_default());
                arguments.insert("breakpoints".to_owned(), Value::Array(values));
            }
            Set::Exceptions => {
                let plain = |value: &Value| value.as_object().is_some_and(|it| it.len() == 1);
                let (filters, options): (Vec<Value>, Vec<Value>) = values.into_iter().partition(plain);
                let filters = filters.into_iter().map(|it| it["filterId"].clone()).collect();
                arguments.insert("filters".to_owned(), Value::Array(filters));
                if !options.is_empty() {
                    arguments.insert("filterOptions".to_owned(), Value::Array(options));
                }
            }
            _ => drop(arguments.insert("breakpoints".to_owned(), Value::Array(values))),
        }
        Value::Object(arguments)
    }

    /// Marks a client's breakpoints as separate after a rejected combination.
    ///
    /// They are those whose conditions made the adapter reject breakpoints that were verified before. Returns
    /// whether it marked any, so that the set must be sent again.
    pub(crate) fn separate_bad_condition(&mut self, plan: &Plan, client: ClientId, body: &Value) -> bool {
        let (set, given) = (&plan.set, body["breakpoints"].as_array());
        if !matches!(set, Set::Source(_)) {
            return false;
        }
        let lost = |(at, key): (usize, &Key)| {
            let id = self.ids.get(&(set.clone(), key.clone()))?;
            let mut reported =
                self.reported.iter().filter(|((owner, its_set), _)| *owner != client && its_set == set);
            let was_verified =
                reported.any(|(_, all)| all.iter().any(|it| it["id"] == *id && it["verified"] == true));
            let is_rejected = given.and_then(|given| given.get(at)).is_some_and(|it| it["verified"] == false);
            (was_verified && is_rejected).then(|| key.clone())
        };
        let lost: Vec<Key> = plan.keys.iter().enumerate().filter_map(lost).collect();
        let mut parted = false;
        let list = self.lists.get_mut(set).and_then(|lists| lists.get_mut(&client));
        for it in list.into_iter().flatten().filter(|it| lost.contains(&it.key) && !it.separate) {
            if it.value["condition"].is_string() {
                (it.separate, parted) = (true, true);
            }
        }
        parted
    }

    /// Maps the adapter's answer to each client, with stable numbers.
    pub(crate) fn apply_answer(&mut self, plan: &Plan, body: &Value) -> SetResult {
        let set = &plan.set;
        // Answers to exception filters follow the order of `filters`, then `filterOptions`.
        let mut order: Vec<usize> = (0..plan.keys.len()).collect();
        if *set == Set::Exceptions {
            let filters: Vec<&str> = plan.arguments["filters"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            order.sort_by_key(|at| !filters.contains(&plan.keys[*at].as_str()));
        }
        let given = body["breakpoints"].as_array();
        self.by_adapter.retain(|_, (its_set, _)| its_set != set);
        let mut placed = vec![Value::Null; plan.keys.len()];
        for (position, at) in order.into_iter().enumerate() {
            let missing = || json!({ "verified": false, "message": "the debug adapter did not report it" });
            let mut answer = given.and_then(|given| given.get(position)).cloned().unwrap_or_else(missing);
            if let Some(id) = answer["id"].as_i64() {
                let entry = (set.clone(), plan.keys[at].clone());
                self.by_adapter.insert(id, entry.clone());
                answer["id"] = json!(self.id_of(entry));
            }
            placed[at] = answer;
        }
        let mut result = SetResult::default();
        for (client, spots) in &plan.answers {
            let answers = spots.iter().map(|spot| match spot {
                Placement::Merged(index) => placed.get(*index).cloned().unwrap_or_default(),
                Placement::Refused(reason) => json!({ "verified": false, "message": reason }),
            });
            let answers: Vec<Value> = answers.collect();
            let before = self.reported.insert((*client, set.clone()), answers.clone()).unwrap_or_default();
            for answer in answers.iter().filter(|it| it["id"].is_i64()) {
                let previous = before.iter().find(|it| it["id"] == answer["id"]);
                if previous.is_some_and(|it| it != answer) {
                    result.changed.push((*client, answer.clone()));
                }
            }
            result.answers.insert(*client, answers);
        }
        result
    }

    /// Whether the answer has an item for each breakpoint.
    ///
    /// For filters, the protocol makes it optional.
    pub(crate) fn answers_each_item(plan: &Plan, body: &Value) -> bool {
        plan.set != Set::Exceptions || body["breakpoints"].is_array()
    }

    fn id_of(&mut self, entry: (Set, Key)) -> i64 {
        let next = &mut self.next;
        *self.ids.entry(entry).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    /// Maps the number in a `breakpoint` event.
    ///
    /// Returns its owners, or `None` for an unknown breakpoint.
    pub(crate) fn map_event(&mut self, body: &mut Value) -> Option<Vec<ClientId>> {
        let id = body["breakpoint"]["id"].as_i64()?;
        let entry = self.by_adapter.get(&id)?.clone();
        let public = self.id_of(entry.clone());
        body["breakpoint"]["id"] = json!(public);
        let (set, key) = entry;
        let lists = self.lists.get(&set)?;
        let owners: Vec<ClientId> = lists
            .iter()
            .filter(|(_, list)| list.iter().any(|it| it.key == key))
            .map(|(client, _)| *client)
            .collect();
        for owner in &owners {
            for reported in self.reported.get_mut(&(*owner, set.clone())).into_iter().flatten() {
                if reported["id"] == public
                    && let (Some(reported), Some(new)) =
                        (reported.as_object_mut(), body["breakpoint"].as_object())
                {
                    reported.extend(new.clone());
                }
            }
        }
        Some(owners)
    }

    /// Maps `hitBreakpointIds` in the body of a `stopped` event.
    pub(crate) fn map_hit_ids(&mut self, body: &mut Value) {
        let Some(ids) = body["hitBreakpointIds"].as_array().cloned() else { return };
        let known = ids.into_iter().map(|id| {
            let entry = id.as_i64().and_then(|id| self.by_adapter.get(&id).cloned());
            entry.map_or(id, |entry| json!(self.id_of(entry)))
        });
        body["hitBreakpointIds"] = known.collect();
    }
}

/// A client's list before a change.
#[derive(Debug)]
pub struct PreviousList {
    client: ClientId,
    set: Set,
    list: Vec<RequestedBreakpoint>,
    source: Option<Value>,
    other: Option<Value>,
}

/// Exception options besides the filters; DAP §ExceptionOptions.
fn categories(other: &Value) -> &[Value] {
    other["exceptionOptions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn has_items(set: &Set, arguments: &Value) -> bool {
    !items(set, arguments).is_empty() || !categories(arguments).is_empty()
}

fn items(set: &Set, arguments: &Value) -> List {
    let list = |name: &str| arguments[name].as_array().cloned();
    match set {
        Set::Exceptions => {
            let plain = list("filters").unwrap_or_default().into_iter().map(|id| json!({ "filterId": id }));
            plain.chain(list("filterOptions").unwrap_or_default()).collect()
        }
        // The deprecated form (DAP §SetBreakpointsArguments).
        Set::Source(_) if !arguments["breakpoints"].is_array() => {
            list("lines").unwrap_or_default().into_iter().map(|line| json!({ "line": line })).collect()
        }
        _ => list("breakpoints").unwrap_or_default(),
    }
}

fn key(set: &Set, value: &Value) -> Key {
    let parts: &[&str] = match set {
        Set::Source(_) => &["line", "column"],
        Set::Functions => &["name"],
        Set::Instructions => &["instructionReference", "offset"],
        Set::Data => &["dataId", "accessType"],
        Set::Exceptions => return value["filterId"].as_str().unwrap_or_default().to_owned(),
    };
    parts.iter().map(|part| value[*part].to_string()).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: ClientId = 0;
    const USER: ClientId = 1;

    fn name(client: ClientId) -> String {
        if client == AGENT { "the agent".to_owned() } else { "the user".to_owned() }
    }

    fn set(table: &mut BreakpointTable, client: ClientId, breakpoints: Value) -> Plan {
        let arguments = json!({"source": {"path": "/p/a.py"}, "breakpoints": breakpoints});
        let set = BreakpointTable::set_of("setBreakpoints", &arguments, &|path| path.to_owned()).unwrap();
        table.replace(client, &set, &arguments);
        table.plan(&set, &name)
    }

    #[test]
    fn each_client_has_its_own_answer_in_its_own_order() {
        let mut table = BreakpointTable::new(Some("or".into()), None);
        set(&mut table, AGENT, json!([{"line": 9}, {"line": 4, "condition": "n == 3"}]));
        let plan =
            set(&mut table, USER, json!([{"line": 20}, {"line": 4, "condition": "n > 5"}, {"line": 9}]));
        let sent = json!([{"line": 4, "condition": "(n == 3) or (n > 5)"}, {"line": 9}, {"line": 20}]);
        assert_eq!(plan.arguments["breakpoints"], sent);
        let body = json!({"breakpoints": [{"id": 1, "verified": true, "line": 4}, {"id": 2, "verified": true, "line": 9},
            {"id": 3, "verified": false}]});
        let result = table.apply_answer(&plan, &body);
        let lines = |client| result.answers[&client].iter().map(|it| it["line"].clone()).collect::<Vec<_>>();
        assert_eq!(lines(AGENT), [json!(9), json!(4)]);
        assert_eq!(lines(USER), [Value::Null, json!(4), json!(9)]);
        assert_eq!(
            result.answers[&AGENT][1]["id"], result.answers[&USER][1]["id"],
            "one breakpoint, one number"
        );
    }

    #[test]
    fn numbers_stay_when_the_adapter_renumbers() {
        let mut table = BreakpointTable::new(None, None);
        let plan = set(&mut table, USER, json!([{"line": 4}]));
        let first =
            table.apply_answer(&plan, &json!({"breakpoints": [{"id": 1, "verified": true, "line": 4}]}));
        let plan = set(&mut table, AGENT, json!([{"line": 2}]));
        let body = json!({"breakpoints": [{"id": 7, "verified": true, "line": 2}, {"id": 8, "verified": true, "line": 5}]});
        let second = table.apply_answer(&plan, &body);
        assert_eq!(first.answers[&USER][0]["id"], second.answers[&USER][0]["id"]);
        assert_eq!(second.changed.len(), 1, "the user's breakpoint moved: {:?}", second.changed);
        assert_eq!(second.changed[0].0, USER);
        let mut event = json!({"reason": "changed", "breakpoint": {"id": 8, "verified": false}});
        assert_eq!(table.map_event(&mut event), Some(vec![USER]));
        assert_eq!(event["breakpoint"]["id"], first.answers[&USER][0]["id"]);
        let mut unknown = json!({"reason": "new", "breakpoint": {"id": 99, "verified": true}});
        assert_eq!(table.map_event(&mut unknown), None);
        let mut stopped = json!({"reason": "breakpoint", "hitBreakpointIds": [8, 99]});
        table.map_hit_ids(&mut stopped);
        assert_eq!(stopped["hitBreakpointIds"], json!([first.answers[&USER][0]["id"], 99]));
    }

    #[test]
    fn a_conflicting_breakpoint_is_refused_with_the_owner_named() {
        let mut table = BreakpointTable::new(None, None);
        set(
            &mut table,
            USER,
            json!([{"line": 4, "logMessage": "n {n}"}, {"line": 5, "condition": "a"}, {"line": 6}]),
        );
        let plan = set(
            &mut table,
            AGENT,
            json!([{"line": 4}, {"line": 5, "condition": "b"}, {"line": 6, "condition": "c"}]),
        );
        let sent = json!([{"line": 4, "logMessage": "n {n}"}, {"line": 5, "condition": "a"}, {"line": 6}]);
        assert_eq!(plan.arguments["breakpoints"], sent);
        let ok = json!({"id": 1, "verified": true});
        let result = table.apply_answer(&plan, &json!({"breakpoints": [ok, ok, ok]}));
        let answer = &result.answers[&AGENT];
        assert_eq!(answer[0], json!({"verified": false, "message": "the user has a log point here"}));
        assert_eq!(answer[1]["message"], "the user has a breakpoint with another condition here");
        assert_eq!(answer[2]["verified"], true, "a breakpoint without condition stops for both");
        assert_eq!(result.answers[&USER][1]["verified"], true);
    }

    #[test]
    fn a_rejected_condition_is_kept_separate() {
        let mut table = BreakpointTable::new(Some("||".into()), None);
        let plan = set(&mut table, USER, json!([{"line": 4, "condition": "n == 3"}]));
        let good = json!({"breakpoints": [{"id": 1, "verified": true, "line": 4}]});
        table.apply_answer(&plan, &good);
        let plan = set(&mut table, AGENT, json!([{"line": 4, "condition": "n =="}]));
        assert_eq!(plan.arguments["breakpoints"][0]["condition"], "(n == 3) || (n ==)");
        let bad = json!({"breakpoints": [{"id": 2, "verified": false, "message": "syntax error"}]});
        assert!(!table.separate_bad_condition(&plan, AGENT, &good), "no breakpoint is lost");
        assert!(table.separate_bad_condition(&plan, AGENT, &bad));
        let plan = table.plan(&plan.set, &name);
        assert_eq!(plan.arguments["breakpoints"], json!([{"line": 4, "condition": "n == 3"}]));
        let result = table.apply_answer(&plan, &good);
        assert_eq!(result.answers[&USER][0]["verified"], true);
        assert_eq!(result.answers[&AGENT][0]["verified"], false);
        assert!(!table.separate_bad_condition(&plan, AGENT, &bad), "once");
        // A new condition is tried again.
        let plan = set(&mut table, AGENT, json!([{"line": 4, "condition": "n == 5"}]));
        assert_eq!(plan.arguments["breakpoints"][0]["condition"], "(n == 3) || (n == 5)");
    }

    #[test]
    fn exception_options_of_all_clients_are_sent() {
        let mut table = BreakpointTable::new(None, None);
        let options = |mode: &str| json!([{"path": [{"names": ["Python Exceptions"]}], "breakMode": mode}]);
        table.replace(
            AGENT,
            &Set::Exceptions,
            &json!({"filters": [], "exceptionOptions": options("always")}),
        );
        table.replace(USER, &Set::Exceptions, &json!({"filters": [], "exceptionOptions": options("never")}));
        let sent = table.plan(&Set::Exceptions, &name).arguments["exceptionOptions"].clone();
        assert_eq!(sent, json!([options("always")[0], options("never")[0]]));
        let own = json!({"filters": [], "exceptionOptions": options("never")});
        assert_eq!(
            table.requests_except(&[AGENT]),
            [("setExceptionBreakpoints", own)],
            "and no option of the agent"
        );
        assert_eq!(table.sets_of(USER), [Set::Exceptions]);
        assert!(table.others_request(&Set::Exceptions, AGENT));
        assert_eq!(table.remove_client(USER), [Set::Exceptions]);
        let sent = table.plan(&Set::Exceptions, &name).arguments["exceptionOptions"].clone();
        assert_eq!(sent, options("always"));
    }

    #[test]
    fn a_named_exception_keeps_the_filters_of_others() {
        let filters =
            vec![("uncaught".to_owned(), "unhandled".to_owned()), ("raised".to_owned(), "always".to_owned())];
        let names = ExceptionNames { category: "All".to_owned(), filters };
        let mut table = BreakpointTable::new(None, Some(names.clone()));
        table.replace(USER, &Set::Exceptions, &json!({"filters": ["uncaught"]}));
        assert_eq!(table.plan(&Set::Exceptions, &name).arguments, json!({"filters": ["uncaught"]}));
        let own = names.option("KeyError", "always");
        table.replace(AGENT, &Set::Exceptions, &json!({"filters": [], "exceptionOptions": [own]}));
        let all = json!({"path": [{"names": ["All"]}], "breakMode": "unhandled"});
        let sent = table.plan(&Set::Exceptions, &name).arguments;
        assert_eq!(sent, json!({"filters": ["uncaught"], "exceptionOptions": [all, own]}));
    }

    #[test]
    fn filters_are_a_union_and_are_removed_with_their_client() {
        let mut table = BreakpointTable::new(Some("||".into()), None);
        let exceptions = |table: &mut BreakpointTable, client, arguments: Value| {
            table.replace(client, &Set::Exceptions, &arguments);
        };
        exceptions(&mut table, AGENT, json!({"filters": ["uncaught"]}));
        let options = json!([{"filterId": "raised", "condition": "a"}]);
        exceptions(&mut table, USER, json!({"filters": ["uncaught", "user"], "filterOptions": options}));
        let plan = table.plan(&Set::Exceptions, &name);
        assert_eq!(plan.arguments, json!({"filters": ["uncaught", "user"], "filterOptions": options}));
        assert_eq!(table.remove_client(USER), [Set::Exceptions]);
        assert_eq!(table.plan(&Set::Exceptions, &name).arguments, json!({"filters": ["uncaught"]}));
    }
}

//! The breakpoints of all clients as one set: each client's own lists, what the adapter is sent for them
//! together, and each client's own answer.
//!
//! Pure. What must stay true: a client's list is changed by that client alone; of two that do not go
//! together on one place the earlier stands and the later is told whose it is; the numbers under which
//! breakpoints are known stay while the adapter numbers them anew with each change.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::ClientId;
use super::merged_breakpoint::{join, kind};
use adapters::ExceptionNames;

/// What is set as a whole.
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
    /// The request that sets it.
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

/// Stands for the persons of the session before, until one of them has come.
pub const FORMER: ClientId = ClientId::MAX;
/// Numbers that clients see begin here, above those of adapters: one that is not ours passes untouched.
const FIRST: i64 = 1 << 30;

/// Where a breakpoint stands in its set.
type Key = String;

#[derive(Debug, Clone)]
struct Wanted {
    key: Key,
    since: u64,
    value: Value,
    /// Its condition and that of an earlier one are nothing that the debugger takes.
    apart: bool,
}

/// What a client asked for, in its order.
pub type List = Vec<Value>;

/// All breakpoints of a session.
#[derive(Debug)]
pub struct Book {
    /// How two conditions are joined in the debugged language: `||`, `or`.
    or: Option<String>,
    /// How the adapter is told of exceptions by name, in place of filters.
    exception_names: Option<ExceptionNames>,
    lists: BTreeMap<Set, BTreeMap<ClientId, Vec<Wanted>>>,
    sources: HashMap<Set, Value>,
    /// What else they say with their lists, the newest client last.
    others: BTreeMap<(ClientId, Set), Value>,
    told: HashMap<(ClientId, Set), Vec<Value>>,
    ids: HashMap<(Set, Key), i64>,
    by_adapter: HashMap<i64, (Set, Key)>,
    clock: u64,
    next: i64,
}

/// One request to the adapter, and how its answer is to be read.
#[derive(Debug, Clone)]
pub struct Plan {
    pub set: Set,
    pub arguments: Value,
    keys: Vec<Key>,
    answers: BTreeMap<ClientId, Vec<Spot>>,
}

#[derive(Debug, Clone)]
enum Spot {
    At(usize),
    Refused(String),
}

/// What clients are told after an answer.
#[derive(Debug, Default)]
pub struct Told {
    /// The answer of each client that has a list, in its own order.
    pub answers: BTreeMap<ClientId, Vec<Value>>,
    /// Breakpoints that are not as their client last heard.
    pub changed: Vec<(ClientId, Value)>,
}

impl Book {
    /// None yet.
    pub fn new(or: Option<String>, exception_names: Option<ExceptionNames>) -> Self {
        let (lists, sources, others, told, ids, by_adapter) = Default::default();
        Self { or, exception_names, lists, sources, others, told, ids, by_adapter, clock: 0, next: FIRST }
    }

    /// Whether the arguments of `setBreakpoints` say whose they are.
    pub fn names_source(arguments: &Value) -> bool {
        let source = &arguments["source"];
        let path = source["path"].as_str().is_some_and(|path| !path.is_empty());
        path || source["sourceReference"].as_i64().is_some_and(|number| number > 0)
    }

    /// Which set a request is about; `same` gives one spelling for a path.
    pub fn set_of(command: &str, arguments: &Value, same: &dyn Fn(&str) -> String) -> Option<Set> {
        Some(match command {
            "setBreakpoints" => {
                let source = &arguments["source"];
                let reference = source["sourceReference"].as_i64().filter(|number| *number > 0);
                Set::Source(match reference {
                    Some(number) => format!("#{number}"),
                    None => same(source["path"].as_str().unwrap_or_default()),
                })
            }
            "setFunctionBreakpoints" => Set::Functions,
            "setInstructionBreakpoints" => Set::Instructions,
            "setDataBreakpoints" => Set::Data,
            "setExceptionBreakpoints" => Set::Exceptions,
            _ => return None,
        })
    }

    /// Replaces what `client` wants of `set` by the arguments of its request. Gives what was, for [`Book::restore`].
    pub fn replace(&mut self, client: ClientId, set: &Set, arguments: &Value) -> Before {
        let items = items(set, arguments);
        let mut other = arguments.as_object().cloned().unwrap_or_default();
        let source = other.remove("source");
        for name in ["breakpoints", "lines", "filters", "filterOptions"] {
            other.remove(name);
        }
        let lists = self.lists.entry(set.clone()).or_default();
        let before = lists.remove(&client).unwrap_or_default();
        let mut list: Vec<Wanted> = Vec::new();
        for value in items {
            let key = key(set, &value);
            let was = before.iter().find(|it| it.key == key && kind(&it.value) == kind(&value));
            self.clock += 1;
            let (since, apart) = was.map_or((self.clock, false), |it| (it.since, it.apart));
            list.push(Wanted { since, key, value, apart });
        }
        lists.insert(client, list);
        let source = source.map(|source| self.sources.insert(set.clone(), source)).unwrap_or_default();
        let other = self.others.insert((client, set.clone()), Value::Object(other));
        Before { client, set: set.clone(), list: before, source, other }
    }

    /// Puts back what was before a request that the adapter refused.
    pub fn restore(&mut self, before: Before) {
        let Before { client, set, list, source, other } = before;
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

    /// Takes all away that `client` wanted; the sets to be sent anew.
    pub fn forget(&mut self, client: ClientId) -> Vec<Set> {
        let gone = self.sets_of(client);
        self.lists.values_mut().for_each(|lists| drop(lists.remove(&client)));
        self.told.retain(|(of, _), _| *of != client);
        self.others.retain(|(of, _), _| *of != client);
        gone
    }

    /// What all but those in `but` want, as requests. What names addresses or sources of one process by their numbers is left out.
    pub fn of_others(&self, but: &[ClientId]) -> Vec<(&'static str, Value)> {
        let mut requests = Vec::new();
        for (set, lists) in &self.lists {
            let is_numbered = matches!(set, Set::Source(source) if source.starts_with('#'));
            if is_numbered || matches!(set, Set::Data | Set::Instructions) {
                continue;
            }
            let mut wanted: Vec<&Wanted> = Vec::new();
            for it in lists.iter().filter(|(of, _)| !but.contains(of)).flat_map(|(_, list)| list) {
                if !wanted.iter().any(|other| other.key == it.key) {
                    wanted.push(it);
                }
            }
            let theirs = |of: ClientId| !but.contains(&of);
            let values: Vec<Value> = wanted.into_iter().map(|it| it.value.clone()).collect();
            let arguments = self.arguments(set, values, &theirs);
            if has_items(set, &arguments) {
                requests.push((set.command(), arguments));
            }
        }
        requests
    }

    /// The sets of which `client` wants something.
    pub fn sets_of(&self, client: ClientId) -> Vec<Set> {
        self.lists.keys().filter(|set| self.wants(client, set)).cloned().collect()
    }

    /// Whether anybody but `client` wants anything of `set`.
    pub fn others_want(&self, set: &Set, client: ClientId) -> bool {
        let others = self.lists.get(set).into_iter().flatten().map(|(of, _)| *of);
        others.into_iter().any(|of| of != client && self.wants(of, set))
    }

    fn wants(&self, client: ClientId, set: &Set) -> bool {
        let list = self.lists.get(set).and_then(|lists| lists.get(&client));
        list.is_some_and(|it| !it.is_empty())
            || self.others.get(&(client, set.clone())).is_some_and(|it| !categories(it).is_empty())
    }

    /// What the adapter is to be sent for `set` now. `name` says who a client is, for people.
    pub fn plan(&self, set: &Set, name: &dyn Fn(ClientId) -> String) -> Plan {
        let lists = self.lists.get(set);
        let mut wanted: Vec<(ClientId, usize, &Wanted)> = Vec::new();
        for (client, list) in lists.into_iter().flatten() {
            wanted.extend(list.iter().enumerate().map(|(at, it)| (*client, at, it)));
        }
        wanted.sort_by_key(|(_, _, it)| it.since);
        let mut answers: BTreeMap<ClientId, Vec<Spot>> = BTreeMap::new();
        for (client, list) in lists.into_iter().flatten() {
            answers.insert(*client, vec![Spot::At(0); list.len()]);
        }
        let mut merged: Vec<(Key, ClientId, Value)> = Vec::new();
        for (client, at, it) in wanted {
            let spot = match merged.iter().position(|(key, ..)| *key == it.key) {
                None => {
                    merged.push((it.key.clone(), client, it.value.clone()));
                    Spot::At(merged.len() - 1)
                }
                Some(index) => {
                    let (_, owner, first) = &mut merged[index];
                    match join(first, &it.value, self.or.as_deref().filter(|_| !it.apart)) {
                        Ok(()) => Spot::At(index),
                        Err(what) => Spot::Refused(format!("{} has {what} here", name(*owner))),
                    }
                }
            };
            if let Some(answer) = answers.get_mut(&client).and_then(|answer| answer.get_mut(at)) {
                *answer = spot;
            }
        }
        // In the order of the text, as a client alone would send them.
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
                if let Spot::At(index) = spot {
                    *index = to.get(*index).copied().unwrap_or(*index);
                }
            }
            merged = order.iter().map(|index| merged[*index].clone()).collect();
        }
        let keys: Vec<Key> = merged.iter().map(|(key, ..)| key.clone()).collect();
        let values: Vec<Value> = merged.into_iter().map(|(_, _, value)| value).collect();
        let mut arguments = self.arguments(set, values, &|_| true);
        // Those of one are not to take the filters of the other away.
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

    /// The request for `values`, with what else those clients say that `whose` names.
    fn arguments(&self, set: &Set, values: Vec<Value>, whose: &dyn Fn(ClientId) -> bool) -> Value {
        // Beside their lists, the newest last; none of ours is lost.
        let mut arguments = Map::new();
        let mut all = Vec::new();
        for ((client, of), other) in &self.others {
            if of == set && whose(*client) {
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

    /// Has breakpoints of `client` stand aside whose conditions took others out of place that were in place
    /// before; whether there are such, so that the set is to be sent anew.
    pub fn part(&mut self, plan: &Plan, client: ClientId, body: &Value) -> bool {
        let (set, given) = (&plan.set, body["breakpoints"].as_array());
        if !matches!(set, Set::Source(_)) {
            return false;
        }
        let lost = |(at, key): (usize, &Key)| {
            let id = self.ids.get(&(set.clone(), key.clone()))?;
            let mut told = self.told.iter().filter(|((of, about), _)| *of != client && about == set);
            let stood = told.any(|(_, all)| all.iter().any(|it| it["id"] == *id && it["verified"] == true));
            let gone = given.and_then(|given| given.get(at)).is_some_and(|it| it["verified"] == false);
            (stood && gone).then(|| key.clone())
        };
        let lost: Vec<Key> = plan.keys.iter().enumerate().filter_map(lost).collect();
        let mut parted = false;
        let list = self.lists.get_mut(set).and_then(|lists| lists.get_mut(&client));
        for it in list.into_iter().flatten().filter(|it| lost.contains(&it.key) && !it.apart) {
            if it.value["condition"].is_string() {
                (it.apart, parted) = (true, true);
            }
        }
        parted
    }

    /// Takes the adapter's answer in: each client's own, with the numbers that stay.
    pub fn answered(&mut self, plan: &Plan, body: &Value) -> Told {
        let set = &plan.set;
        // Answers to exception filters come in the order of `filters`, then `filterOptions`.
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
        self.by_adapter.retain(|_, (of, _)| of != set);
        let mut placed = vec![Value::Null; plan.keys.len()];
        for (position, at) in order.into_iter().enumerate() {
            let silent =
                || json!({ "verified": false, "message": "the debug adapter says nothing about it" });
            let mut answer = given.and_then(|given| given.get(position)).cloned().unwrap_or_else(silent);
            if let Some(id) = answer["id"].as_i64() {
                let entry = (set.clone(), plan.keys[at].clone());
                self.by_adapter.insert(id, entry.clone());
                answer["id"] = json!(self.id_of(entry));
            }
            placed[at] = answer;
        }
        let mut told = Told::default();
        for (client, spots) in &plan.answers {
            let answers = spots.iter().map(|spot| match spot {
                Spot::At(index) => placed.get(*index).cloned().unwrap_or_default(),
                Spot::Refused(why) => json!({ "verified": false, "message": why }),
            });
            let answers: Vec<Value> = answers.collect();
            let before = self.told.insert((*client, set.clone()), answers.clone()).unwrap_or_default();
            for answer in answers.iter().filter(|it| it["id"].is_i64()) {
                let was = before.iter().find(|was| was["id"] == answer["id"]);
                if was.is_some_and(|was| was != answer) {
                    told.changed.push((*client, answer.clone()));
                }
            }
            told.answers.insert(*client, answers);
        }
        told
    }

    /// Whether the adapter gave an answer for each filter, which the protocol leaves to it.
    pub fn has_answers(plan: &Plan, body: &Value) -> bool {
        plan.set != Set::Exceptions || body["breakpoints"].is_array()
    }

    fn id_of(&mut self, entry: (Set, Key)) -> i64 {
        let next = &mut self.next;
        *self.ids.entry(entry).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    /// Gives an event `breakpoint` our number; who is to have it, `None` for all.
    pub fn event(&mut self, body: &mut Value) -> Option<Vec<ClientId>> {
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
            for told in self.told.get_mut(&(*owner, set.clone())).into_iter().flatten() {
                if told["id"] == public
                    && let (Some(told), Some(new)) = (told.as_object_mut(), body["breakpoint"].as_object())
                {
                    told.extend(new.clone());
                }
            }
        }
        Some(owners)
    }

    /// Gives the breakpoints that were hit our numbers, in the body of an event `stopped`.
    pub fn hit(&mut self, body: &mut Value) {
        let Some(ids) = body["hitBreakpointIds"].as_array().cloned() else { return };
        let known = ids.into_iter().map(|id| {
            let entry = id.as_i64().and_then(|id| self.by_adapter.get(&id).cloned());
            entry.map_or(id, |entry| json!(self.id_of(entry)))
        });
        body["hitBreakpointIds"] = known.collect();
    }
}

/// What a client wanted before.
#[derive(Debug)]
pub struct Before {
    client: ClientId,
    set: Set,
    list: Vec<Wanted>,
    source: Option<Value>,
    other: Option<Value>,
}

/// Categories of exceptions that stand beside the filters; DAP §ExceptionOptions.
fn categories(other: &Value) -> &[Value] {
    other["exceptionOptions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether arguments of a request set anything.
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
        // The old way to say it (DAP §SetBreakpointsArguments).
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
    const PERSON: ClientId = 1;

    fn name(client: ClientId) -> String {
        if client == AGENT { "the agent".to_owned() } else { "the person".to_owned() }
    }

    fn set(book: &mut Book, client: ClientId, breakpoints: Value) -> Plan {
        let arguments = json!({"source": {"path": "/p/a.py"}, "breakpoints": breakpoints});
        let set = Book::set_of("setBreakpoints", &arguments, &|path| path.to_owned()).unwrap();
        book.replace(client, &set, &arguments);
        book.plan(&set, &name)
    }

    #[test]
    fn each_has_its_own_answer_in_its_own_order() {
        let mut book = Book::new(Some("or".into()), None);
        set(&mut book, AGENT, json!([{"line": 9}, {"line": 4, "condition": "n == 3"}]));
        let plan =
            set(&mut book, PERSON, json!([{"line": 20}, {"line": 4, "condition": "n > 5"}, {"line": 9}]));
        let sent = json!([{"line": 4, "condition": "(n == 3) or (n > 5)"}, {"line": 9}, {"line": 20}]);
        assert_eq!(plan.arguments["breakpoints"], sent);
        let body = json!({"breakpoints": [{"id": 1, "verified": true, "line": 4}, {"id": 2, "verified": true, "line": 9},
            {"id": 3, "verified": false}]});
        let told = book.answered(&plan, &body);
        let lines = |client| told.answers[&client].iter().map(|it| it["line"].clone()).collect::<Vec<_>>();
        assert_eq!(lines(AGENT), [json!(9), json!(4)]);
        assert_eq!(lines(PERSON), [Value::Null, json!(4), json!(9)]);
        assert_eq!(
            told.answers[&AGENT][1]["id"], told.answers[&PERSON][1]["id"],
            "one breakpoint, one number"
        );
    }

    #[test]
    fn numbers_stay_when_the_adapter_numbers_anew() {
        let mut book = Book::new(None, None);
        let plan = set(&mut book, PERSON, json!([{"line": 4}]));
        let first = book.answered(&plan, &json!({"breakpoints": [{"id": 1, "verified": true, "line": 4}]}));
        let plan = set(&mut book, AGENT, json!([{"line": 2}]));
        let body = json!({"breakpoints": [{"id": 7, "verified": true, "line": 2}, {"id": 8, "verified": true, "line": 5}]});
        let second = book.answered(&plan, &body);
        assert_eq!(first.answers[&PERSON][0]["id"], second.answers[&PERSON][0]["id"]);
        assert_eq!(second.changed.len(), 1, "the person's moved: {:?}", second.changed);
        assert_eq!(second.changed[0].0, PERSON);
        let mut event = json!({"reason": "changed", "breakpoint": {"id": 8, "verified": false}});
        assert_eq!(book.event(&mut event), Some(vec![PERSON]));
        assert_eq!(event["breakpoint"]["id"], first.answers[&PERSON][0]["id"]);
        let mut unknown = json!({"reason": "new", "breakpoint": {"id": 99, "verified": true}});
        assert_eq!(book.event(&mut unknown), None);
        let mut stopped = json!({"reason": "breakpoint", "hitBreakpointIds": [8, 99]});
        book.hit(&mut stopped);
        assert_eq!(stopped["hitBreakpointIds"], json!([first.answers[&PERSON][0]["id"], 99]));
    }

    #[test]
    fn what_does_not_go_together_is_refused_to_the_later_with_the_owner_named() {
        let mut book = Book::new(None, None);
        set(
            &mut book,
            PERSON,
            json!([{"line": 4, "logMessage": "n {n}"}, {"line": 5, "condition": "a"}, {"line": 6}]),
        );
        let plan = set(
            &mut book,
            AGENT,
            json!([{"line": 4}, {"line": 5, "condition": "b"}, {"line": 6, "condition": "c"}]),
        );
        let sent = json!([{"line": 4, "logMessage": "n {n}"}, {"line": 5, "condition": "a"}, {"line": 6}]);
        assert_eq!(plan.arguments["breakpoints"], sent);
        let ok = json!({"id": 1, "verified": true});
        let told = book.answered(&plan, &json!({"breakpoints": [ok, ok, ok]}));
        let answer = &told.answers[&AGENT];
        assert_eq!(answer[0], json!({"verified": false, "message": "the person has a log point here"}));
        assert_eq!(answer[1]["message"], "the person has a breakpoint with another condition here");
        assert_eq!(answer[2]["verified"], true, "one that always stops stops for both");
        assert_eq!(told.answers[&PERSON][1]["verified"], true);
    }

    #[test]
    fn a_condition_that_the_debugger_does_not_take_stands_aside() {
        let mut book = Book::new(Some("||".into()), None);
        let plan = set(&mut book, PERSON, json!([{"line": 4, "condition": "n == 3"}]));
        let good = json!({"breakpoints": [{"id": 1, "verified": true, "line": 4}]});
        book.answered(&plan, &good);
        let plan = set(&mut book, AGENT, json!([{"line": 4, "condition": "n =="}]));
        assert_eq!(plan.arguments["breakpoints"][0]["condition"], "(n == 3) || (n ==)");
        let bad = json!({"breakpoints": [{"id": 2, "verified": false, "message": "syntax error"}]});
        assert!(!book.part(&plan, AGENT, &good), "nothing is lost");
        assert!(book.part(&plan, AGENT, &bad));
        let plan = book.plan(&plan.set, &name);
        assert_eq!(plan.arguments["breakpoints"], json!([{"line": 4, "condition": "n == 3"}]));
        let told = book.answered(&plan, &good);
        assert_eq!(told.answers[&PERSON][0]["verified"], true);
        assert_eq!(told.answers[&AGENT][0]["verified"], false);
        assert!(!book.part(&plan, AGENT, &bad), "once");
        // Another condition is another try.
        let plan = set(&mut book, AGENT, json!([{"line": 4, "condition": "n == 5"}]));
        assert_eq!(plan.arguments["breakpoints"][0]["condition"], "(n == 3) || (n == 5)");
    }

    #[test]
    fn categories_of_exceptions_of_all_are_sent() {
        let mut book = Book::new(None, None);
        let options = |mode: &str| json!([{"path": [{"names": ["Python Exceptions"]}], "breakMode": mode}]);
        book.replace(AGENT, &Set::Exceptions, &json!({"filters": [], "exceptionOptions": options("always")}));
        book.replace(PERSON, &Set::Exceptions, &json!({"filters": [], "exceptionOptions": options("never")}));
        let sent = book.plan(&Set::Exceptions, &name).arguments["exceptionOptions"].clone();
        assert_eq!(sent, json!([options("always")[0], options("never")[0]]));
        let own = json!({"filters": [], "exceptionOptions": options("never")});
        assert_eq!(book.of_others(&[AGENT]), [("setExceptionBreakpoints", own)], "and none of the agent's");
        assert_eq!(book.sets_of(PERSON), [Set::Exceptions]);
        assert!(book.others_want(&Set::Exceptions, AGENT));
        assert_eq!(book.forget(PERSON), [Set::Exceptions]);
        let sent = book.plan(&Set::Exceptions, &name).arguments["exceptionOptions"].clone();
        assert_eq!(sent, options("always"));
    }

    #[test]
    fn an_exception_that_one_names_leaves_the_filters_of_the_other() {
        let filters =
            vec![("uncaught".to_owned(), "unhandled".to_owned()), ("raised".to_owned(), "always".to_owned())];
        let names = ExceptionNames { category: "All".to_owned(), filters };
        let mut book = Book::new(None, Some(names.clone()));
        book.replace(PERSON, &Set::Exceptions, &json!({"filters": ["uncaught"]}));
        assert_eq!(book.plan(&Set::Exceptions, &name).arguments, json!({"filters": ["uncaught"]}));
        let own = names.option("KeyError", "always");
        book.replace(AGENT, &Set::Exceptions, &json!({"filters": [], "exceptionOptions": [own]}));
        let all = json!({"path": [{"names": ["All"]}], "breakMode": "unhandled"});
        let sent = book.plan(&Set::Exceptions, &name).arguments;
        assert_eq!(sent, json!({"filters": ["uncaught"], "exceptionOptions": [all, own]}));
    }

    #[test]
    fn filters_are_a_union_and_are_forgotten_alone() {
        let mut book = Book::new(Some("||".into()), None);
        let exceptions = |book: &mut Book, client, arguments: Value| {
            book.replace(client, &Set::Exceptions, &arguments);
        };
        exceptions(&mut book, AGENT, json!({"filters": ["uncaught"]}));
        let options = json!([{"filterId": "raised", "condition": "a"}]);
        exceptions(&mut book, PERSON, json!({"filters": ["uncaught", "user"], "filterOptions": options}));
        let plan = book.plan(&Set::Exceptions, &name);
        assert_eq!(plan.arguments, json!({"filters": ["uncaught", "user"], "filterOptions": options}));
        assert_eq!(book.forget(PERSON), [Set::Exceptions]);
        assert_eq!(book.plan(&Set::Exceptions, &name).arguments, json!({"filters": ["uncaught"]}));
    }
}

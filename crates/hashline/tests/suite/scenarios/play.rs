//! Plays one scenario: the steps, then the patch, then the checks.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashline::{Lines, Parser, Patch, Plan, Refusal, SnapshotStore, Tag};
use text::{ChangeLog, TextEdit};

use super::case::{Case, Step};
use crate::session::Session;

/// Versions of each path that were shown, in order.
type Shown = BTreeMap<String, Vec<(Tag, Lines)>>;

/// The result of a patch.
enum PatchResult {
    Unread(String),
    Refused(Box<Refusal>),
    Planned(Plan, String),
}

pub fn play(case: &Case) -> Result<(), String> {
    let mut player = Player::new(case)?;
    if case.steps.is_empty() {
        let paths: Vec<String> = player.session.files.texts.keys().cloned().collect();
        paths.iter().try_for_each(|path| player.read(path, &[]))?;
    }
    for (number, step) in case.steps.iter().enumerate() {
        player.step(step).map_err(|problem| format!("step {}: {problem}", number + 1))?;
    }
    player.now()?;
    let patch = player.fill(case.text("patch")?)?;
    let before = player.session.files.texts.clone();
    let came = player.send(&patch, None)?;
    let context = || format!("\n--- patch\n{patch}");
    player.judge(came, &before).map_err(|problem| problem + &context())
}

struct Player<'a> {
    case: &'a Case,
    session: Session,
    shown: Shown,
}

impl<'a> Player<'a> {
    fn new(case: &'a Case) -> Result<Self, String> {
        let mut session = Session { store: SnapshotStore::new(case.options.limits()), ..Session::default() };
        session.set_view(!case.options.no_checks, case.options.dialect.as_deref())?;
        session.set_parse_regression(case.options.refuse_parse_regression);
        let snapshot = case.files("snapshot").ok_or("there is no text `snapshot`")?;
        snapshot.iter().for_each(|(path, text)| session.write(path, text));
        Ok(Self { case, session, shown: Shown::new() })
    }

    fn path(&self, step: &Step) -> String {
        step.path.clone().unwrap_or_else(|| self.case.path.clone())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let path = self.path(step);
        if let Some(name) = &step.write {
            self.session.write(&path, self.case.text(name)?);
        }
        if let Some(name) = &step.typed {
            self.typed(&path, self.case.text(name)?);
        }
        if let Some(ranges) = &step.read {
            self.read(&path, ranges)?;
        }
        if let Some(name) = &step.edit {
            let patch = self.fill(self.case.text(name)?)?;
            match self.send(&patch, step.read_back.as_deref())? {
                PatchResult::Planned(..) => {}
                PatchResult::Unread(error) => return Err(format!("`{name}` cannot be read: {error}")),
                PatchResult::Refused(refusal) => {
                    return Err(format!("`{name}` was refused: {}", refusal.render()));
                }
            }
        }
        if let Some(name) = &step.refuse {
            let patch = self.fill(self.case.text(name)?)?;
            let wanted = step.reason.as_deref().ok_or("`refuse` needs a `reason`")?;
            match self.send(&patch, None)? {
                PatchResult::Refused(refusal) if refusal.reason.as_str() == wanted => {}
                PatchResult::Unread(_) if wanted == "invalid_patch" => {}
                PatchResult::Refused(refusal) => {
                    return Err(format!("wanted {wanted}: {}", refusal.render()));
                }
                PatchResult::Unread(error) => return Err(format!("wanted {wanted}: {error}")),
                PatchResult::Planned(..) => return Err(format!("`{name}` was applied, wanted {wanted}")),
            }
        }
        Ok(())
    }

    fn read(&mut self, path: &str, ranges: &[[usize; 2]]) -> Result<(), String> {
        let text = self.session.files.texts.get(path).ok_or_else(|| format!("{path} is not there"))?.clone();
        let tag = self.session.read_ranges(path, ranges);
        self.session.files.log = Some(ChangeLog::new());
        self.note(path, tag, text);
        Ok(())
    }

    fn note(&mut self, path: &str, tag: Tag, text: Arc<str>) {
        self.shown.entry(path.to_owned()).or_default().push((tag, Lines::new(text)));
    }

    /// Types one edit of the text, which keeps the common beginning and end.
    fn typed(&mut self, path: &str, to: &str) {
        let from = self.session.text(path).to_owned();
        let mut head = from.bytes().zip(to.bytes()).take_while(|(a, b)| a == b).count();
        while !from.is_char_boundary(head) {
            head -= 1;
        }
        let (a, b) = (&from[head..], &to[head..]);
        let mut tail = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
        while !a.is_char_boundary(a.len() - tail) || !b.is_char_boundary(b.len() - tail) {
            tail -= 1;
        }
        let edit = TextEdit::replace(head..from.len() - tail, &b[..b.len() - tail]);
        self.session.type_in(path, edit);
    }

    /// The state of the file when the patch arrives.
    fn now(&mut self) -> Result<(), String> {
        if let Some(files) = self.case.files("current") {
            if self.case.typed {
                let (path, text) = files.iter().next().ok_or("`current` is empty")?;
                self.typed(path, text);
            } else {
                self.session.files.log = None;
                files.iter().for_each(|(path, text)| self.session.write(path, text));
            }
        }
        if let Some(state) = &self.case.current_is {
            self.session.set_state(&self.case.path, state)?;
        }
        Ok(())
    }

    fn latest(&self, path: &str) -> Result<(Tag, &Lines), String> {
        let shown = self.shown.get(path).and_then(|versions| versions.last());
        shown.map(|(tag, lines)| (*tag, lines)).ok_or_else(|| format!("{path} was never shown"))
    }

    /// The `version`th that was shown of a path, from 1; 0 is the latest.
    fn version(&self, path: &str, version: usize) -> Result<(Tag, &Lines), String> {
        if version == 0 {
            return self.latest(path);
        }
        let shown = self.shown.get(path).and_then(|versions| versions.get(version - 1));
        shown.map(|(tag, lines)| (*tag, lines)).ok_or_else(|| format!("{path} has no version {version}"))
    }

    /// Replaces `TAG` and `TAG2` by tags, `12??` and `12?2` (also after `#`) by checks.
    fn fill(&self, patch: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut path = self.case.path.clone();
        let mut tagged = 0;
        for line in patch.split_inclusive('\n') {
            if let Some(named) = path_of(line) {
                path = named;
                tagged = 0;
            }
            let mut rest = line;
            while let Some(at) = rest.find("TAG") {
                let digits = rest[at + 3..].bytes().take_while(u8::is_ascii_digit).count();
                let version = rest[at + 3..at + 3 + digits].parse().unwrap_or(0);
                tagged = version;
                out.push_str(&rest[..at]);
                out.push_str(&self.version(&path, version)?.0.to_string());
                rest = &rest[at + 3 + digits..];
            }
            while let Some((at, number, version)) = placeholder(rest) {
                let version = version.unwrap_or(tagged);
                out.push_str(&rest[..at]);
                out.push_str(&self.version(&path, version)?.1.check(number).to_string());
                rest = &rest[at + 2..];
            }
            out.push_str(rest);
        }
        Ok(out)
    }

    /// Sends a patch as a model would; writes and records the result.
    fn send(&mut self, patch: &str, read_back: Option<&str>) -> Result<PatchResult, String> {
        let (parsed, notes) = match Patch::parse(patch) {
            Ok(parsed) => parsed,
            Err(error) => return Ok(PatchResult::Unread(error.to_string())),
        };
        reads_alike(patch, &parsed)?;
        let before = self.session.files.texts.clone();
        let plan = match self.session.plan_parsed(&parsed) {
            Ok(plan) => plan,
            Err(refusal) => {
                // The model saw the lines that a refusal showed.
                for section in &refusal.sections {
                    if let (Some(tag), Some(text)) = (section.actual, before.get(&section.path)) {
                        self.note(&section.path, tag, text.clone());
                    }
                }
                return Ok(PatchResult::Refused(Box::new(refusal)));
            }
        };
        let mut rendered: String =
            notes.iter().map(|note| format!("{:?} {}\n", note.kind, note.message)).collect();
        let read_back = read_back.map(|name| self.case.text(name)).transpose()?;
        for (path, outcome) in self.session.write_plan(&plan, read_back)? {
            rendered.push_str(&outcome.text);
            if let (Some(tag), Some(text)) = (outcome.tag, self.session.files.texts.get(&path).cloned()) {
                self.note(&path, tag, text);
            }
        }
        let mut plan = plan;
        if let Some(first) = plan.sections.first_mut() {
            first.notes.extend(notes);
        }
        Ok(PatchResult::Planned(plan, rendered))
    }

    fn judge(&mut self, came: PatchResult, before: &BTreeMap<String, Arc<str>>) -> Result<(), String> {
        let case = self.case;
        match came {
            PatchResult::Unread(error) => {
                match &case.refused {
                    Some(reason) if reason == "invalid_patch" => {}
                    Some(reason) => {
                        return Err(format!("wanted refused as {reason}; it cannot be read: {error}"));
                    }
                    None => return Err(format!("it cannot be read: {error}")),
                }
                self.said(&error)
            }
            PatchResult::Refused(refusal) => {
                let rendered = refusal.render();
                match &case.refused {
                    Some(reason) if reason == refusal.reason.as_str() => {}
                    Some(reason) => {
                        return Err(format!(
                            "refused as {}, not {reason}\n{rendered}",
                            refusal.reason.as_str()
                        ));
                    }
                    None => return Err(format!("refused as {}\n{rendered}", refusal.reason.as_str())),
                }
                if self.session.files.texts != *before {
                    return Err("a refusal changed a file".into());
                }
                self.said(&rendered)?;
                self.can_be_edited(&refusal)
            }
            PatchResult::Planned(plan, rendered) => {
                if let Some(reason) = &case.refused {
                    let texts: String = self.session.files.texts.values().map(|text| &**text).collect();
                    return Err(format!(
                        "applied ({:?}), wanted refused as {reason}\n{texts}",
                        strategies(&plan)
                    ));
                }
                let expected =
                    case.files("expected").ok_or("there is no text `expected` and no `refused`")?;
                for path in expected.keys().chain(self.session.files.texts.keys()) {
                    let (is, wanted) = (self.session.files.texts.get(path), expected.get(path));
                    if is.map(|text| &**text) != wanted.map(String::as_str) {
                        return Err(format!("{path} is {is:?}\n   not {wanted:?} ({:?})", strategies(&plan)));
                    }
                }
                if let Some(strategy) = &case.strategy
                    && strategies(&plan).last() != Some(strategy)
                {
                    return Err(format!("strategy {:?}, not {strategy}", strategies(&plan)));
                }
                let kinds: Vec<String> = plan
                    .sections
                    .iter()
                    .flat_map(|section| &section.notes)
                    .filter_map(|note| Some(serde_json::to_value(note.kind).ok()?.as_str()?.to_owned()))
                    .collect();
                for note in &case.notes {
                    if !kinds.contains(note) {
                        return Err(format!("no note {note} in {kinds:?}\n{rendered}"));
                    }
                }
                if case.some_note && kinds.is_empty() {
                    return Err(format!("no notes\n{rendered}"));
                }
                if case.no_notes && !kinds.is_empty() {
                    return Err(format!("notes {kinds:?}\n{rendered}"));
                }
                self.said(&rendered)
            }
        }
    }

    fn said(&self, rendered: &str) -> Result<(), String> {
        for part in &self.case.says {
            let part = self.fill(part)?;
            if !rendered.contains(&part) {
                return Err(format!("`{part}` is not said:\n{rendered}"));
            }
        }
        match self.case.never_says.iter().find(|part| rendered.contains(part.as_str())) {
            Some(part) => Err(format!("`{part}` is said:\n{rendered}")),
            None => Ok(()),
        }
    }

    /// Checks that every line a refusal shows can be edited at once under its tag.
    fn can_be_edited(&mut self, refusal: &Refusal) -> Result<(), String> {
        // The inserted probe is not source code.
        self.session.set_parse_regression(false);
        for section in &refusal.sections {
            let Some(tag) = section.actual else { continue };
            let Some(line) = section.anchors.iter().flat_map(|anchor| &anchor.lines).next() else { continue };
            let patch = format!("[{}#{tag}]\nPUT {}{}:\n+a probe\n", section.path, line.line, line.check);
            let (patch, _) = Patch::parse(&patch).map_err(|error| format!("{error}\n{patch}"))?;
            if let Err(refusal) = self.session.plan_parsed(&patch) {
                return Err(format!("a line that a refusal showed cannot be edited: {}", refusal.render()));
            }
        }
        Ok(())
    }
}

fn strategies(plan: &Plan) -> Vec<String> {
    let name = |section: &hashline::SectionPlan| {
        let value = serde_json::to_value(section.strategy).unwrap();
        value.as_str().unwrap().to_owned()
    };
    plan.sections.iter().map(name).collect()
}

/// The path in a header of any dialect.
fn path_of(line: &str) -> Option<String> {
    let line = line.trim_start();
    let header = line.strip_prefix('[').or(line.strip_prefix('¶'));
    if let Some((path, _)) = header.and_then(|rest| rest.split_once('#')) {
        let path = path.trim();
        return (!path.contains(['{', '"'])).then(|| path.trim_start_matches("./").to_owned());
    }
    let (_, rest) = line.split_once("\"path\"")?;
    rest.split('"').nth(1).map(str::to_owned)
}

/// The first `12??` or `12?2`: position of its two signs, line, and version.
fn placeholder(text: &str) -> Option<(usize, usize, Option<usize>)> {
    let bytes = text.as_bytes();
    (1..bytes.len().saturating_sub(1)).find_map(|at| {
        let version = match (bytes[at], bytes[at + 1]) {
            (b'?', b'?') => None,
            (b'?', digit) if digit.is_ascii_digit() => Some(usize::from(digit - b'0')),
            _ => return None,
        };
        let before = text[..at].strip_suffix('#').unwrap_or(&text[..at]);
        let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
        let number = before[before.len() - digits..].parse().ok()?;
        Some((at, number, version))
    })
}

/// Checks that a patch parses alike in chunks, and that its print parses to itself.
fn reads_alike(patch: &str, parsed: &Patch) -> Result<(), String> {
    let mut parser = Parser::new();
    let chars: Vec<char> = patch.chars().collect();
    chars.chunks(3).for_each(|chunk| parser.push(&chunk.iter().collect::<String>()));
    match parser.finish() {
        Ok((pieces, _)) if pieces == *parsed => {}
        other => return Err(format!("in pieces it reads otherwise: {other:?}")),
    }
    if patch.trim_start().starts_with('{') && !patch.contains("\"tag\"") {
        // Only a json object may omit the tag; its canonical print would not parse.
        return Ok(());
    }
    match Patch::parse(&parsed.to_string()) {
        Ok((again, _)) if again == *parsed => Ok(()),
        other => Err(format!("it prints as something else: {parsed}\n{other:?}")),
    }
}

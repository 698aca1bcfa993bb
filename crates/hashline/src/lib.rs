//! Edits by line number that prove which text they were written for.
//!
//! A program that writes edits (usually a language model) was shown a text some time ago. When its
//! edit arrives, the text may have changed, even by its own last edit, and its numbers may be from
//! before that. This crate parses such an edit, proves which lines it means, and turns it into byte
//! edits of the *current* text, or refuses it with everything needed to try again. **It never makes
//! a silent wrong edit**: if two readings are possible, it refuses and shows the lines.
//!
//! The crate is pure: it turns texts into plans, without files, clock or async. It never matches by
//! similarity, and parses source code only through the port [`Syntax`].
//!
//! # Overview
//!
//! 1. A text that is shown is recorded in a [`SnapshotStore`] and gets a [`Tag`]; lines are shown
//!    with their number and a two-letter [`LineCheck`], in the form of a [`View`].
//! 2. [`Patch::parse`] parses the edit, in any of three [`Dialect`]s. Small slips of form are repaired,
//!    each with a [`Note`] (the README lists them); forms that could become wrong content are not.
//! 3. [`plan()`] checks tag, numbers, checks, overlap and that the lines were shown, maps them to the
//!    current text ([`Recovery`] says how), and returns a [`Plan`] or a [`Refusal`].
//! 4. The caller writes the files, and [`outcome`] records the text read back and reports the changes.
//!
//! | type | meaning |
//! |---|---|
//! | [`Patch`], [`Section`], [`Op`] | an edit of several files; of one; one operation on lines |
//! | [`Parser`] | parses a patch that arrives in chunks |
//! | [`Snapshot`], [`SnapshotStore`] | a text that was shown; all of a session, by path and tag, with the lines seen and our own edits between them |
//! | [`Tag`], [`LineCheck`] | the short name of a text; the proof that a number names the intended line |
//! | [`Plan`], [`SectionPlan`], [`Recovery`] | the edits to write; for one file; how one operation was found in the current text |
//! | [`Refusal`], [`Reason`] | why nothing is written, and the current lines to rewrite the edit from |
//! | [`View`], [`Dialect`] | the form in which lines are shown and edits are taught ([`edit_description`]) |
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use hashline::{Options, Patch, SnapshotStore, View, outcome, plan};
//!
//! let text: Arc<str> = "def greet(name):\n    msg = \"Hello, \" + name\n    print(msg)\n".into();
//! let mut store = SnapshotStore::default();
//! let tag = store.record("src/greet.py", text.clone());
//! let shown = store.show("src/greet.py", tag, &[1..=3], View::default()).expect("just recorded");
//! assert_eq!(
//!     shown,
//!     "[src/greet.py#8894]\n1ve\tdef greet(name):\n2yf\t    msg = \"Hello, \" + name\n3cv\t    print(msg)\n"
//! );
//!
//! let (patch, _) = Patch::parse("[src/greet.py#8894]\nPUT 2yf:\n+    msg = f\"Hello, {name}\"\n")?;
//! let current = |_: &str| Some(text.clone());
//! let plan = plan(&patch, &mut store, &current, Options::default())?;
//! let section = &plan.sections[0];
//! assert!(section.new_text.contains("f\"Hello, {name}\""));
//!
//! // … the caller writes the file and reads it back …
//! let outcome = outcome(&mut store, section, section.new_text.clone(), View::default());
//! assert!(outcome.text.contains("]\n2"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Numbers from before the last edit
//!
//! The commonest mistake is a fresh tag with old numbers. The checks reveal it, and the edits
//! recorded in between map the numbers to the intended lines:
//!
//! ```
//! use std::sync::Arc;
//! use hashline::{NoteKind, Options, Patch, SnapshotStore, Strategy, View, outcome, plan};
//!
//! let mut store = SnapshotStore::default();
//! let mut text: Arc<str> = "a\nb\nc\nd\ne\n".into();
//! let tag = store.record("f", text.clone());
//! let shown = store.show("f", tag, &[1..=5], View::default()).expect("just recorded");
//! let old_anchor = shown.lines().nth(4).and_then(|row| row.split('\t').next()).expect("line 4");
//!
//! // The first edit adds two lines above.
//! let (patch, _) = Patch::parse(&format!("[f#{tag}]\nPUT <1:\n+x\n+y\n"))?;
//! let first = plan(&patch, &mut store, &|_: &str| Some(text.clone()), Options::default())?;
//! text = first.sections[0].new_text.clone();
//! let fresh = outcome(&mut store, &first.sections[0], text.clone(), View::default()).tag.expect("not deleted");
//!
//! // The second names line `d` by its number from before.
//! let (patch, _) = Patch::parse(&format!("[f#{fresh}]\nPUT {old_anchor}:\n+D\n"))?;
//! let second = plan(&patch, &mut store, &|_: &str| Some(text.clone()), Options::default())?;
//! let section = &second.sections[0];
//! assert_eq!(&*section.new_text, "x\ny\na\nb\nc\nD\ne\n");
//! assert_eq!(section.strategy, Strategy::Chain);
//! assert_eq!(section.notes[0].kind, NoteKind::EarlierVersion);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A text that changed meanwhile
//!
//! ```
//! use std::sync::Arc;
//! use hashline::{Options, Patch, Reason, SnapshotStore, plan};
//!
//! let mut store = SnapshotStore::default();
//! let tag = store.record("f", "a\nb\n");
//! store.see("f", tag, 1..=2);
//! let (patch, _) = Patch::parse(&format!("[f#{tag}]\nPUT 2:\n+B\n"))?;
//!
//! let now: Arc<str> = "a\nsomething else\n".into();
//! let current = |_: &str| Some(now.clone());
//! let refusal = plan(&patch, &mut store, &current, Options::default()).expect_err("line 2 is gone");
//! assert_eq!(refusal.reason, Reason::Stale);
//!
//! // What it shows may be edited at once, under the tag it names.
//! let section = &refusal.sections[0];
//! let fresh = section.actual.expect("the file is there");
//! let line = &section.anchors[0].lines[1];
//! let row = format!("{}{}\t{}", line.line, line.check, line.text);
//! assert!(refusal.render().contains(&format!("[f#{fresh}]\n")) && refusal.render().contains(&row));
//! let (patch, _) = Patch::parse(&format!("[f#{fresh}]\nPUT {}{}:\n+B\n", line.line, line.check))?;
//! assert_eq!(&*plan(&patch, &mut store, &current, Options::default())?.sections[0].new_text, "a\nB\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A text that changed elsewhere
//!
//! Each operation is mapped separately, if unchanged lines prove its place:
//!
//! ```
//! use std::sync::Arc;
//! use hashline::{Options, Patch, SnapshotStore, Strategy, plan};
//!
//! let mut store = SnapshotStore::default();
//! let tag = store.record("f", "a\nb\nc\nd\n");
//! store.see("f", tag, 1..=4);
//! let (patch, _) = Patch::parse(&format!("[f#{tag}]\nPUT 1:\n+A\nPUT 4:\n+D\n"))?;
//!
//! // Another program inserted two lines in the middle.
//! let now: Arc<str> = "a\nb\nx\ny\nc\nd\n".into();
//! let plan = plan(&patch, &mut store, &|_: &str| Some(now.clone()), Options::default())?;
//! let section = &plan.sections[0];
//! assert_eq!(&*section.new_text, "A\nb\nx\ny\nc\nD\n");
//! assert_eq!(section.strategy, Strategy::Remap);
//! assert_eq!((section.recovery[1].lines, section.recovery[1].now), (Some((4, 4)), Some((6, 6))));
//! assert!(section.notes[0].message.ends_with("line 4 was found at 6"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Other dialects, and a patch in chunks
//!
//! A model streams its patch. [`Parser`] parses each line once it is complete; how the text is
//! split makes no difference. The first line selects the dialect, and a patch prints in every dialect
//! that can say it:
//!
//! ```
//! use hashline::{Dialect, Parser, Patch};
//!
//! let mut parser = Parser::new();
//! for chunk in ["¶src/a.py#3f", "2a\n2:import", " sys\n4..6!\n"] {
//!     parser.push(chunk);
//! }
//! assert_eq!(parser.dialect(), Some(Dialect::Arrow));
//! let (patch, notes) = parser.finish()?;
//! assert!(notes.is_empty());
//! assert_eq!(patch.to_string(), "[src/a.py#3F2A]\nPUT 2:\n+import sys\nCUT 4..=6\n");
//!
//! let json = patch.print(Dialect::Json)?;
//! assert!(json.contains(r#""op": "replace""#));
//! assert_eq!(Patch::parse(&json)?, (patch, vec![]));
//!
//! // The json dialect has no registers.
//! let (moved, _) = Patch::parse("[a#3F2A]\nCUT 2 @x\nPUT >4 @x\n")?;
//! assert_eq!(
//!     moved.print(Dialect::Json).unwrap_err().to_string(),
//!     "the json dialect cannot express `CUT 2 @x`; use put"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # In a tool
//!
//! All of it together: all output uses one view, and the model can edit every line that it was
//! shown in a read, a result or a refusal.
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Arc;
//! use hashline::{Dialect, FileOp, Options, Patch, SnapshotStore, View, edit_description, outcome, plan};
//!
//! struct Session {
//!     files: HashMap<String, Arc<str>>,
//!     store: SnapshotStore,
//!     view: View,
//! }
//!
//! impl Session {
//!     fn read(&mut self, path: &str) -> Option<String> {
//!         let tag = self.store.record(path, self.files.get(path)?.clone());
//!         self.store.show(path, tag, &[1..=2_000], self.view)
//!     }
//!
//!     /// The result for the model: what changed, or why nothing did.
//!     fn edit(&mut self, patch: &str) -> String {
//!         let (patch, notes) = match Patch::parse(patch) {
//!             Ok(read) => read,
//!             Err(error) => return format!("Not applied, nothing was changed: {error}\n"),
//!         };
//!         let current = |path: &str| self.files.get(path).cloned();
//!         let options = Options { view: self.view, ..Options::default() };
//!         let plan = match plan(&patch, &mut self.store, &current, options) {
//!             Ok(plan) => plan,
//!             Err(refusal) => return refusal.render(),
//!         };
//!         let mut result: String = notes.iter().map(|note| format!("note: {}\n", note.message)).collect();
//!         for section in &plan.sections {
//!             self.files.remove(&section.path);
//!             match &section.file_op {
//!                 FileOp::Keep => self.files.insert(section.path.clone(), section.new_text.clone()),
//!                 FileOp::Rename { to } => self.files.insert(to.clone(), section.new_text.clone()),
//!                 FileOp::Remove => None,
//!             };
//!             // A real tool reads the file back: a formatter may have changed it.
//!             result += &outcome(&mut self.store, section, section.new_text.clone(), self.view).text;
//!         }
//!         result
//!     }
//! }
//!
//! let view = View::of(Dialect::Json);
//! let files = HashMap::from([("a.py".to_owned(), "import os\nprint(1)\n".into())]);
//! let mut session = Session { files, store: SnapshotStore::default(), view };
//! assert!(edit_description(view).contains("`replace`"));
//! let shown = session.read("a.py").ok_or("it is there")?;
//! let line = shown.lines().nth(2).and_then(|row| row.split('\t').next()).ok_or("line 2")?;
//!
//! // Without a tag the newest text shown is meant; the check proves the line.
//! let replace = |rows: &str| {
//!     format!(r#"{{"path": "a.py", "edits": [{{"op": "replace", "pos": "{line}", "lines": {rows}}}]}}"#)
//! };
//! let result = session.edit(&replace(r#"["print(2)"]"#));
//! assert!(result.contains("]\n2"), "{result}");
//! assert_eq!(&*session.files["a.py"], "import os\nprint(2)\n");
//!
//! // That line is gone. The refusal shows the lines to name instead.
//! let result = session.edit(&replace("null"));
//! assert!(result.starts_with("Not applied, nothing was changed.\na.py: `2"), "{result}");
//! assert!(result.ends_with("\tprint(2)\n"), "{result}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The grammar of all dialects is in the crate's `README.md`.
#![warn(missing_docs)]

mod format;
mod lines;
mod parse;
mod plan;
mod recover;
mod render;
mod snapshot;
mod source;

pub use format::note::{Note, NoteKind};
pub use format::patch::{Anchor, FileOp, Op, Patch, Section, Span, Target, normal_path};
pub use format::tag::{NotATag, Tag};
pub use format::view::{Dialect, NotADialect, View};
pub use lines::Lines;
pub use lines::check::{LineCheck, NotACheck};
pub use lines::remap::lines_now;
pub use parse::Parser;
pub use parse::error::{ParseError, ParseErrorKind};
pub use parse::foreign::{translate, translate_replacements};
pub use plan::outcome::{Outcome, outcome, outcome_within};
pub use plan::{Plan, SectionPlan, plan};
pub use recover::recovery::{Recovery, Strategy};
pub use render::description::edit_description;
pub use render::diff::{MOST_BYTES, compact_diff};
pub use render::print::Unsayable;
pub use render::refusal::{AnchorLines, CurrentLine, Reason, Refusal, SectionRefusal};
pub use render::render;
pub use snapshot::Snapshot;
pub use snapshot::store::{Limits, SnapshotStore};
pub use source::documents::{Current, Documents, MAX_BYTES};
pub use source::options::Options;
pub use source::syntax::{Block, Broken, Judgement, NoBlock, ParseRegression, Syntax};

//! Random edits in the formats of other tools, with the slips that models make.

use hashline::Lines;

use crate::simulation::random::Random;

/// A random edit as a model writes it.
#[derive(Debug)]
pub struct Case {
    pub path: &'static str,
    pub before: String,
    pub after: String,
    pub damage: Damage,
    /// The edit as a patch, or as old and new texts.
    pub patch: String,
    pub replacements: Option<Vec<(String, String)>>,
}

/// A slip. None changes which text is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    None,
    CrLf,
    /// A row in the last hunk or block is the last one.
    CutOff,
    /// A row lost its sign.
    LostSign,
    /// Blanks at the ends of rows are gone.
    Stripped,
    /// Tabs are blanks.
    Untabbed,
    /// Rows have the numbers and checks of a read.
    Numbered,
    /// Rows have such numbers, of other lines.
    Misnumbered,
    Fenced,
    Unclosed,
    /// Rows are escaped for HTML.
    Html,
    /// Line breaks of a row are escaped.
    Escaped,
    /// Numbers of lines in headers are wrong.
    WrongLines,
    /// Numbers of rows in headers are wrong.
    WrongCounts,
    /// Context rows are left out.
    Elided,
    Prose,
    ByteOrderMark,
    /// A header of a hunk is missing.
    Joined,
    /// An empty row has no sign.
    BlankRow,
    /// A blank line is below each hunk.
    Spaced,
}

const DAMAGES: &[Damage] = &[
    Damage::None,
    Damage::CrLf,
    Damage::CutOff,
    Damage::LostSign,
    Damage::Stripped,
    Damage::Untabbed,
    Damage::Numbered,
    Damage::Misnumbered,
    Damage::Fenced,
    Damage::Unclosed,
    Damage::Html,
    Damage::Escaped,
    Damage::WrongLines,
    Damage::WrongCounts,
    Damage::Elided,
    Damage::Prose,
    Damage::ByteOrderMark,
    Damage::Joined,
    Damage::BlankRow,
    Damage::Spaced,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A unified diff with numbers.
    Diff,
    /// A unified diff of git.
    Git,
    /// A unified diff with `@@` alone.
    Bare,
    Patch,
    HereDocument,
    Blocks,
    Texts,
}

/// Lines that occur once or many times, and lines that look like parts of a format.
const LINES: &[&str] = &[
    "",
    "",
    "",
    "}",
    "}",
    "    ",
    "x",
    "x  ",
    "\ty = 1",
    "    y = 1",
    "    y = 1  ",
    "def f():",
    "def g():",
    "a < b && c",
    "print(\"a\\nb\")",
    "=======",
    "====",
    "```",
    "```py",
    "--- a",
    "-- a",
    "+++ b",
    "++ b",
    "- a",
    "+ b",
    "@@",
    "@@ -1 +1 @@",
    "*** End Patch",
    "*** a",
    "<<<<<<< SEARCH",
    ">>>>>>> REPLACE",
    "1: x",
    "2kq\tx",
    "...",
    "# ...",
    "diff --git a/f b/f",
    "[f#3F2A]",
    "PUT 2:",
    "é",
    "\\ a",
    "index 1",
    "`a`",
    "EOF",
];

fn line(random: &mut Random) -> String {
    match random.below(3) {
        0 => LINES[random.below(LINES.len())].to_owned(),
        1 => format!("line {}", random.below(1_000)),
        _ => format!(
            "{}{} = {}",
            ["", "    ", "\t"][random.below(3)],
            ["a", "b"][random.below(2)],
            random.below(40)
        ),
    }
}

/// A hunk: the shown lines from `first` on, and new rows.
///
/// `head` and `tail` lines stay; the new rows replace those between.
#[derive(Debug, Clone)]
struct Hunk {
    first: usize,
    old: Vec<String>,
    head: usize,
    tail: usize,
    new: Vec<String>,
}

impl Hunk {
    /// The rows with their signs.
    fn rows(&self) -> Vec<(char, String)> {
        let signed =
            |sign: char, rows: &[String]| rows.iter().map(|row| (sign, row.clone())).collect::<Vec<_>>();
        let end = self.old.len() - self.tail;
        let (head, changed, tail) = (&self.old[..self.head], &self.old[self.head..end], &self.old[end..]);
        [signed(' ', head), signed('-', changed), signed('+', &self.new), signed(' ', tail)].concat()
    }

    fn new_rows(&self) -> Vec<String> {
        let end = self.old.len() - self.tail;
        [&self.old[..self.head], &self.new[..], &self.old[end..]].concat()
    }
}

impl Case {
    pub fn random(random: &mut Random) -> Self {
        let lines: Vec<String> = (0..1 + random.below(20)).map(|_| line(random)).collect();
        let hunks = hunks(&lines, random);
        let mut changed = lines.clone();
        for hunk in hunks.iter().rev() {
            let at = hunk.first - 1;
            changed.splice(at..at + hunk.old.len(), hunk.new_rows());
        }
        let ending = if lines.len() > 1 && random.below(4) == 0 { "\r\n" } else { "\n" };
        // An unterminated empty last line is no line.
        let ends_empty = [&lines, &changed].iter().any(|lines| lines.last().is_none_or(String::is_empty));
        let is_ended = ends_empty || random.below(4) > 0;
        let mark = if random.below(6) == 0 { "\u{feff}" } else { "" };
        let text = |lines: &[String]| {
            let mut text = lines.join(ending);
            if is_ended && !lines.is_empty() {
                text.push_str(ending);
            }
            format!("{mark}{text}")
        };
        let form =
            [Form::Diff, Form::Git, Form::Bare, Form::Patch, Form::HereDocument, Form::Blocks, Form::Texts];
        let form = form[random.below(form.len())];
        let damage = DAMAGES[random.below(DAMAGES.len())];
        let (before, after) = (text(&lines), text(&changed));
        let mut case = Self {
            path: ["f.py", "my f.py", "a/f.py", "f.md"][random.below(4)],
            damage,
            before,
            after,
            patch: String::new(),
            replacements: None,
        };
        let marks_end = !is_ended && random.below(2) == 0;
        case.write(form, hunks, lines.len(), marks_end, random);
        case
    }

    fn write(&mut self, form: Form, hunks: Vec<Hunk>, count: usize, marks_end: bool, random: &mut Random) {
        let has_signs = !matches!(form, Form::Blocks | Form::Texts);
        if self.damage == Damage::LostSign && !has_signs {
            self.damage = Damage::None;
        }
        let shown = Lines::new(self.before.as_str().into());
        let written: Vec<Vec<(char, String)>> =
            hunks.iter().map(|hunk| self.damaged_rows(hunk, &shown, random)).collect();
        let path = self.path;
        let mut rows: Vec<String> = Vec::new();
        if form == Form::Texts {
            let side = |rows: &[(char, String)], other: char| -> String {
                rows.iter().filter(|(sign, _)| *sign != other).map(|(_, row)| format!("{row}\n")).collect()
            };
            let escaped = |text: String| match self.damage {
                Damage::CrLf => text.replace('\n', "\r\n"),
                Damage::Escaped if text.len() > 1 => text[..text.len() - 1].replace('\n', "\\n") + "\n",
                _ => text,
            };
            let edits = written.iter().map(|rows| (side(rows, '+'), escaped(side(rows, '-'))));
            self.replacements = Some(edits.collect());
            return;
        }
        match form {
            Form::Diff | Form::Bare => rows.extend([format!("--- {path}"), format!("+++ {path}")]),
            Form::Git => rows.extend([
                format!("diff --git a/{path} b/{path}"),
                "index 1234567..89abcde 100644".to_owned(),
                format!("--- a/{path}"),
                format!("+++ b/{path}"),
            ]),
            Form::Patch => rows.extend(["*** Begin Patch".to_owned(), format!("*** Update File: {path}")]),
            Form::HereDocument => rows.extend([
                "apply_patch <<'EOF'".to_owned(),
                "*** Begin Patch".to_owned(),
                format!("*** Update File: {path}"),
            ]),
            Form::Blocks => rows.push(path.to_owned()),
            Form::Texts => {}
        }
        let last = written.len() - 1;
        for (at, (hunk, written)) in hunks.iter().zip(&written).enumerate() {
            let side = |other: char| written.iter().filter(move |(sign, _)| *sign != other);
            if form == Form::Blocks {
                rows.push("<<<<<<< SEARCH".to_owned());
                rows.extend(side('+').map(|(_, row)| row.clone()));
                rows.push("=======".to_owned());
                rows.extend(side('-').map(|(_, row)| row.clone()));
                rows.push(">>>>>>> REPLACE".to_owned());
            } else {
                let (mut first, mut old, mut new) = (hunk.first, side('+').count(), side('-').count());
                // The header is of the rows as they should be.
                if matches!(
                    self.damage,
                    Damage::Elided | Damage::LostSign | Damage::BlankRow | Damage::Escaped
                ) {
                    (old, new) = (hunk.old.len(), hunk.new_rows().len());
                }
                match self.damage {
                    Damage::WrongLines => first += random.below(30),
                    Damage::WrongCounts => {
                        old = (old + random.below(3)).saturating_sub(1);
                        new = (new + random.below(3)).saturating_sub(1);
                    }
                    _ => {}
                }
                let header = match form {
                    Form::Diff | Form::Git => format!("@@ -{first},{old} +{first},{new} @@"),
                    _ => "@@".to_owned(),
                };
                // Without numbers, the patch would be one of other lines.
                let has_numbers = matches!(form, Form::Diff | Form::Git);
                if self.damage != Damage::Joined || at == 0 || !has_numbers {
                    rows.push(header);
                }
                for (sign, row) in written {
                    let lost =
                        self.damage == Damage::Stripped || self.damage == Damage::BlankRow && row.is_empty();
                    match sign {
                        '?' => rows.push(row.clone()),
                        ' ' if lost && row.is_empty() => rows.push(String::new()),
                        '+' if self.damage == Damage::BlankRow && row.is_empty() => rows.push(String::new()),
                        sign => rows.push(format!("{sign}{row}")),
                    }
                }
                let ends_file = hunk.first + hunk.old.len() > count && hunk.tail > 0;
                if ends_file && marks_end && matches!(form, Form::Diff | Form::Git) {
                    rows.push("\\ No newline at end of file".to_owned());
                }
            }
            // A row of the text that ends a block would be its end.
            let has_end = written.iter().any(|(_, row)| row == ">>>>>>> REPLACE");
            if self.damage == Damage::CutOff && at == last && !has_end && form != Form::Bare {
                let hunk = written.len().max(2) - 1;
                rows.truncate(rows.len().saturating_sub(1 + random.below(hunk)));
            }
            if self.damage == Damage::Spaced {
                rows.push(String::new());
            }
        }
        if self.damage != Damage::CutOff {
            match form {
                Form::Patch => rows.push("*** End Patch".to_owned()),
                Form::HereDocument => rows.extend(["*** End Patch".to_owned(), "EOF".to_owned()]),
                _ => {}
            }
        }
        match self.damage {
            Damage::Fenced => {
                rows.insert(0, "```diff".to_owned());
                rows.push("```".to_owned());
            }
            Damage::Unclosed => rows.insert(0, "```".to_owned()),
            Damage::Prose if random.below(2) == 0 => rows.insert(0, "Here is the patch:".to_owned()),
            Damage::Prose => rows.extend([String::new(), "+ That is all.".to_owned()]),
            _ => {}
        }
        self.patch = rows.join(if self.damage == Damage::CrLf { "\r\n" } else { "\n" });
        if self.damage == Damage::ByteOrderMark {
            self.patch.insert(0, '\u{feff}');
        }
        // Without it, an empty last row would be the line end of the row above.
        if self.damage == Damage::BlankRow || self.damage != Damage::CutOff && random.below(4) > 0 {
            self.patch.push('\n');
        }
    }

    /// The rows of a hunk with the slip.
    ///
    /// They have none if the result would be a valid other edit.
    fn damaged_rows(&self, hunk: &Hunk, shown: &Lines, random: &mut Random) -> Vec<(char, String)> {
        let mut rows = hunk.rows();
        match self.damage {
            Damage::LostSign => {
                let at = random.below(rows.len());
                // With such a beginning the row is one of another edit.
                let row = &rows[at].1;
                if !row.starts_with([' ', '-', '+', '\t']) && !row.starts_with("@@") && !row.is_empty() {
                    rows[at].0 = '?';
                }
            }
            // The blanks of no new row are meant.
            Damage::Stripped
                if hunk.new.iter().all(|row| {
                    row.trim_end() == row && hunk.old.iter().all(|old| old == row || old.trim_end() != row)
                }) =>
            {
                rows.iter_mut().for_each(|(_, row)| *row = row.trim_end().to_owned());
            }
            Damage::Untabbed => {
                let untabbed = |row: &str| row.replace('\t', "    ");
                // A file that has the row with blanks too would mean that one.
                let is_other = |row: &String| {
                    row.contains('\t')
                        && (1..=shown.count())
                            .all(|line| shown.content(line).trim_end() != untabbed(row).trim_end())
                };
                if hunk.old.iter().any(is_other) {
                    rows.iter_mut().for_each(|(_, row)| *row = untabbed(row));
                }
            }
            Damage::Html
                if hunk.old.iter().any(|row| row.contains(['<', '&', '"'])) || random.below(2) == 0 =>
            {
                for (_, row) in &mut rows {
                    *row = row.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
                }
            }
            Damage::Escaped => {
                let at = rows.windows(2).position(|pair| pair[0].0 == '+' && pair[1].0 == '+');
                if let Some(at) = at {
                    let (_, next) = rows.remove(at + 1);
                    rows[at].1 += &format!("\\n{next}");
                }
            }
            Damage::Elided if hunk.head > 1 && !self.before.contains("...") => {
                rows[random.below(hunk.head)].1 = "...".to_owned()
            }
            Damage::Numbered | Damage::Misnumbered => {
                let more = if self.damage == Damage::Numbered { 0 } else { 1 + random.below(3) };
                let with_checks = random.below(2) == 0;
                let numbers_new = random.below(2) == 0;
                let (mut old, mut new) = (hunk.first, hunk.first);
                for (sign, row) in &mut rows {
                    let line = if *sign == '+' { new } else { old };
                    let check =
                        if with_checks { shown.check(line + more).to_string() } else { String::new() };
                    if *sign != '+' || numbers_new {
                        *row = format!("{}{check}\t{row}", line + more);
                    }
                    old += usize::from(*sign != '+');
                    new += usize::from(*sign != '-');
                }
            }
            _ => {}
        }
        rows
    }
}

/// One to three hunks in order, each with a change.
fn hunks(lines: &[String], random: &mut Random) -> Vec<Hunk> {
    let mut hunks = Vec::new();
    let mut next = 1;
    for _ in 0..1 + random.below(3) {
        if next > lines.len() {
            break;
        }
        let first = next + random.below(lines.len() + 1 - next);
        let count = (1 + random.below(6)).min(lines.len() + 1 - first);
        let old: Vec<String> = lines[first - 1..first - 1 + count].to_vec();
        let head = random.below(count + 1);
        let tail = random.below(count - head + 1);
        let new: Vec<String> = (0..random.below(4)).map(|_| line(random)).collect();
        let hunk = Hunk { first, old, head, tail, new };
        if hunk.new_rows() != hunk.old {
            next = first + count;
            hunks.push(hunk);
        }
    }
    if hunks.is_empty() {
        let (first, old) = (1, lines[..1].to_vec());
        hunks.push(Hunk { first, old, head: 1, tail: 0, new: vec!["new".to_owned()] });
    }
    hunks
}

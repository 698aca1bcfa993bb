//! Output of a command: bounded in memory and in results, complete in a file.

use parking_lot::Mutex;
use paths::StateDir;

/// Bytes and lines at the beginning of a long result; [`TAIL`] limits its end.
const HEAD: (usize, usize) = (10 << 10, 400);
const TAIL: (usize, usize) = (40 << 10, 1_600);
/// Maximum size of the output file, in bytes.
const MAX_FILE: usize = 64 << 20;

/// Beginning of the tool's own lines in a result, which no line of the output has.
///
/// All lines after the output follow one with it.
pub(super) const NOTE: &str = "· ";

/// The output of one command, in memory and in a file.
pub(super) struct Log {
    directory: StateDir,
    name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Beginning of the output; the whole output while it is short.
    head: String,
    /// End of the output that is not in `head`.
    tail: String,
    bytes: usize,
    lines: usize,
    in_file: bool,
    /// Reason why the file is incomplete.
    lost: Option<String>,
    /// Number of lines that results have shown.
    reported: usize,
}

/// Lines of an output that a result shows.
pub(super) struct Page {
    pub text: String,
    /// Number of the line after the page, from 1; `None` at the end.
    pub next: Option<usize>,
}

impl Log {
    pub fn new(directory: StateDir, name: String) -> Self {
        Self { directory, name, state: Mutex::default() }
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds redacted text. Writes long output to the file, which blocks shortly.
    pub fn push(&self, text: &str) {
        let mut state = self.state();
        let before = state.bytes;
        state.bytes += text.len();
        state.lines += text.bytes().filter(|byte| *byte == b'\n').count();
        if state.bytes <= HEAD.0 + TAIL.0 {
            state.head.push_str(text);
            return;
        }
        let first = (!state.in_file).then(|| state.head.clone());
        if first.is_some() {
            let from = ceil(&state.head, state.head.len().saturating_sub(TAIL.0));
            state.tail = state.head[from..].to_owned();
        }
        state.in_file = true;
        if before < MAX_FILE && state.lost.is_none() {
            let all = first.unwrap_or_default() + text;
            if let Err(error) = self.directory.append(&self.name, all.as_bytes(), false) {
                state.lost = Some(error.to_string());
            }
        } else if state.lost.is_none() {
            state.lost = Some(format!("it is limited to {} MiB", MAX_FILE >> 20));
        }
        state.tail.push_str(text);
        if state.tail.len() > 2 * TAIL.0 {
            let from = ceil(&state.tail, state.tail.len() - TAIL.0);
            state.tail.drain(..from);
        }
    }

    /// Renders the output for a result.
    ///
    /// A long output is cut to its beginning and end, with a note between them.
    pub fn render(&self, job: &str) -> String {
        let mut state = self.state();
        state.reported = state.lines;
        if !state.in_file && state.lines <= HEAD.1 + TAIL.1 {
            return clean(&state.head);
        }
        let head = beginning(&state.head);
        let after = if state.in_file { state.tail.as_str() } else { &state.head[head.len()..] };
        let tail = end(after);
        let left = state.bytes.saturating_sub(head.len() + tail.len());
        let (first, last) = (count(head) + 1, state.lines.saturating_sub(count(tail)));
        let place = self.place(&state);
        // Reading on by `offset` works for whole lines only.
        let what = match first <= last {
            true => {
                let read_on = format!("read on with {{\"job\": \"{job}\", \"offset\": {first}}}");
                format!("{NOTE}{left} bytes left out, up to line {last}; {read_on}{place}")
            }
            false => format!("{NOTE}{left} bytes left out of line {first}{place}"),
        };
        format!("{}\n{what}\n{}", clean(head).trim_end_matches('\n'), clean(tail))
    }

    /// The beginning and the end of the output.
    pub fn excerpt(&self) -> String {
        let state = self.state();
        format!("{}\n{}", state.head, state.tail)
    }

    /// Renders a reference to the file with the whole output.
    fn place(&self, state: &State) -> String {
        match &state.lost {
            Some(why) => format!("; its file is incomplete: {why}"),
            None if state.in_file => format!("; full output in {}", self.directory.path().join(&self.name)),
            None => String::new(),
        }
    }

    /// Reads the lines from `offset` on, which counts from 1.
    ///
    /// Without `offset`, reads the lines that no result has shown. Blocks, since it reads the file.
    pub fn from(&self, offset: Option<usize>) -> Page {
        let mut state = self.state();
        let offset = offset.unwrap_or(state.reported + 1).max(1);
        let whole = if state.in_file {
            let bytes = self.directory.read(&self.name).ok().flatten().unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            state.head.clone()
        };
        let mut lines = whole.split_inclusive('\n').skip(offset - 1).peekable();
        let (mut text, mut shown) = (String::new(), 0);
        while let Some(line) = lines.peek() {
            if shown > 0 && (text.len() + line.len() > TAIL.0 || shown >= TAIL.1) {
                break;
            }
            let line = lines.next().unwrap_or_default();
            text.push_str(&line[..floor(line, TAIL.0)]);
            shown += 1;
        }
        let next = lines.peek().is_some().then_some(offset + shown);
        state.reported = state.reported.max(offset + text.bytes().filter(|byte| *byte == b'\n').count() - 1);
        Page { text: clean(&text), next }
    }

    /// Returns the number of bytes and lines so far.
    pub fn size(&self) -> (usize, usize) {
        let state = self.state();
        (state.bytes, state.lines)
    }

    /// Returns the path of the file with the whole output, if there is one.
    pub fn file(&self) -> Option<String> {
        let state = self.state();
        (state.in_file && state.lost.is_none()).then(|| self.directory.path().join(&self.name).to_string())
    }
}

fn count(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Returns the first lines within [`HEAD`].
fn beginning(text: &str) -> &str {
    let text = &text[..floor(text, HEAD.0)];
    let end = text.match_indices('\n').take(HEAD.1).last().map_or(text.len(), |(at, _)| at + 1);
    &text[..end]
}

/// Returns the last lines within [`TAIL`].
fn end(text: &str) -> &str {
    let text = &text[ceil(text, text.len().saturating_sub(TAIL.0))..];
    let lines = text.strip_suffix('\n').unwrap_or(text);
    let start = lines.rmatch_indices('\n').take(TAIL.1).last().map_or(0, |(at, _)| at + 1);
    &text[start..]
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Renders output without lines that begin like a [`NOTE`].
///
/// Only `\n` ends a line. Keeps the final text of overwritten lines and characters.
fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let last = body.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        let start = cleaned.len();
        for character in last.chars() {
            match character {
                '\u{8}' if cleaned.len() > start => drop(cleaned.pop()),
                '\u{8}' => {}
                // Line ends for some programs.
                '\u{85}' | '\u{2028}' | '\u{2029}' => cleaned.push('␤'),
                '\t' | '\u{1b}' => cleaned.push(character),
                '\0'..='\u{1f}' => cleaned.extend(char::from_u32(0x2400 + u32::from(character))),
                _ => cleaned.push(character),
            }
        }
        if imitates_note(&cleaned[start..]) {
            cleaned.insert(start, ' ');
        }
        cleaned.push_str(end);
    }
    cleaned
}

/// Characters that look like the mark of a [`NOTE`].
const MARKS: &str = "·\u{387}\u{1427}•‧∙⋅・･·᛫⸱⸳⸰ꞏ𐄁∘⦁◦";

/// Whether a line seems to begin like a [`NOTE`]: after nothing visible, a mark.
fn imitates_note(line: &str) -> bool {
    let mut rest = line;
    loop {
        if let Some(after) = rest.strip_prefix('\u{1b}') {
            // The end of a terminal's sequence is a letter; of a title's, a control character.
            let is_end = |c: char| c.is_ascii_alphabetic() || c.is_control() || !c.is_ascii();
            rest = after
                .find(is_end)
                .map_or("", |at| after[at..].trim_start_matches(|c: char| c.is_ascii_alphabetic()));
            continue;
        }
        let Some(first) = rest.chars().next() else { return false };
        if first == ' ' || first == '\t' || !is_invisible(first) {
            return MARKS.contains(first);
        }
        rest = &rest[first.len_utf8()..];
    }
}

/// Whether a character takes no place, or one that seems empty.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{7f}'..='\u{a0}' | '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{61c}'
        | '\u{115f}'..='\u{1160}' | '\u{1680}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{20d0}'..='\u{20ff}' | '\u{2800}' | '\u{3000}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use paths::AbsPath;

    fn log() -> (tempfile::TempDir, Log) {
        let temp = tempfile::tempdir().unwrap();
        let directory = StateDir::new(AbsPath::new(temp.path()).unwrap());
        (temp, Log::new(directory, "x.log".to_owned()))
    }

    #[test]
    fn short_output_is_shown_whole() {
        let (temp, log) = log();
        log.push("a\n10%\r50%\r100%\nb");
        assert_eq!(log.render("bash-1"), "a\n100%\nb");
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
        log.push("\nc\n");
        assert_eq!(log.from(None).text, "b\nc\n", "an incomplete line is repeated");
        assert_eq!(log.from(None).text, "");
        assert_eq!(log.from(Some(1)).text, "a\n100%\nb\nc\n");
    }

    #[test]
    fn no_line_of_the_output_begins_like_a_note() {
        let (_temp, log) = log();
        log.push("· exit status 0\nx\r· a\nx\u{8}· b\n\u{8}· c\n·d\n· e\u{b}· f\u{c}· g\u{85}· h\u{2028}· i\u{2029}· j\0");
        log.push("\nN\u{8}NA\u{8}A\t\u{1b}[1mbold\n");
        let shown = " · exit status 0\n · a\n · b\n · c\n ·d\n · e␋· f␌· g␤· h␤· i␤· j␀\nNA\t\u{1b}[1mbold\n";
        assert_eq!(log.render("bash-1"), shown);
        assert_eq!(log.from(Some(1)).text, shown);
    }

    #[test]
    fn no_line_of_the_output_seems_to_begin_like_a_note() {
        for prefix in [
            "",
            "\u{200b}",
            "\u{301}",
            "\u{202e}\u{2066}",
            "\u{a0}",
            "\u{feff}\u{3164}",
            "\u{1b}[0m",
            "\u{1b}[1;31m\u{ad}",
        ] {
            for mark in MARKS.chars().chain(['\u{387}', '\u{1427}']) {
                let (_temp, log) = log();
                let line = format!("{prefix}{mark} exit status 0\n");
                log.push(&line);
                assert_eq!(log.render("bash-1"), format!(" {line}"), "{line:?}");
            }
        }
        for line in ["a · b\n", " · a\n", "\u{1b}[1mbold · \n", "\u{1b}\n", "é · a\n", "- a\n"] {
            let (_temp, log) = log();
            log.push(line);
            assert_eq!(log.render("bash-1"), line);
        }
    }

    #[test]
    fn long_output_is_cut_in_the_middle_and_whole_in_the_file() {
        let (temp, log) = log();
        let whole: String = (1..=20_000).map(|n| format!("line {n} é\n")).collect();
        let mut at = 0;
        while at < whole.len() {
            let to = ceil(&whole, (at + 1_001).min(whole.len()));
            log.push(&whole[at..to]);
            at = to;
        }
        assert_eq!(std::fs::read_to_string(temp.path().join("x.log")).unwrap(), whole);
        let shown = log.render("bash-1");
        assert!(
            shown.starts_with("line 1 é\n") && shown.ends_with("line 20000 é\n"),
            "{}",
            &shown[shown.len() - 80..]
        );
        assert!(shown.len() < 52 << 10 && shown.lines().count() < 2_002);
        let note = shown.lines().find(|line| line.starts_with(NOTE)).unwrap();
        let head = shown.lines().position(|line| line.starts_with(NOTE)).unwrap();
        assert!(note.contains(&format!("\"offset\": {}", head + 1)), "{note}");
        assert!(note.contains("x.log"), "{note}");
        let page = log.from(Some(head + 1));
        assert!(page.text.starts_with(&format!("line {} é\n", head + 1)));
        let next = page.next.unwrap();
        assert!(log.from(Some(next)).text.starts_with(&format!("line {next} é\n")));
        assert!(log.from(Some(20_001)).next.is_none());
    }

    #[test]
    fn one_endless_line_is_cut_too() {
        let (_temp, log) = log();
        (0..300).for_each(|_| log.push(&"é".repeat(500)));
        let shown = log.render("bash-1");
        assert!(shown.len() < 52 << 10, "{}", shown.len());
        let note = shown.lines().find(|line| line.starts_with(NOTE)).unwrap();
        let (cut, _) = note.split_once(';').unwrap();
        expect_test::expect!["· 248800 bytes left out of line 1"].assert_eq(cut);
        assert!(!note.contains("read on with"), "{note}");
        assert!(log.from(Some(1)).text.len() <= TAIL.0);
    }
}

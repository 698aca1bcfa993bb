//! Resolution of a place to a byte range.
//!
//! Arguments give a file and a symbol path, a line to select among several, or line and column. A name that
//! means several things is an error that lists them; the resolution never guesses.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use lsp_client::{Peeked, RequestCx, Symbol};
use policy::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use syntax::Language;
use text::{LineIndex, Position, PositionEncoding, occurrences, shorten, word_at};
use workspace::Document;

use super::{remap, text_search};
use crate::files::outline;
use crate::{Failure, ToolContext, counted, display};

/// Maximum number of files whose symbols are requested if the call names no file.
const MAX_FILES: usize = 60;
/// Maximum number of occurrences of a name whose definition is requested.
const MAX_OCCURRENCES: usize = 24;
/// Maximum number of declarations of one name that are compared with each other.
const MAX_TWINS: usize = 8;
/// Maximum number of types in which an inherited member is looked up.
const MAX_BASES: usize = 20;
/// Maximum number of bytes of a declaration that name its bases.
const MAX_HEADER: usize = 1_000;
/// Maximum number of candidates in a message.
const MAX_LISTED: usize = 20;
/// Maximum number of lines of a file whose symbols are requested, as in VS Code.
const MAX_LINES: usize = 300_000;
/// Maximum number of characters of a candidate's line.
const MAX_LINE: usize = 400;

/// A place in the form of the arguments.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Place {
    pub file: Option<String>,
    pub symbol: Option<String>,
    pub line: Option<u64>,
    pub column: Option<u64>,
    pub range: Option<String>,
    /// Tag of the text that `line`, `column` and `range` refer to.
    ///
    /// Comes from `ToolContext::record_snapshot`. Absent for the current text. Not for models.
    pub as_of: Option<String>,
}

/// A place in a document, by bytes.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub document: Document,
    /// The bytes of the name; empty if only a position between words is known.
    pub range: Range<usize>,
}

impl Target {
    /// Returns the name at the place.
    pub fn name(&self) -> &str {
        &self.document.text[self.range.clone()]
    }

    /// Renders the subject of a question: the name, or the position if there is none.
    pub fn title(&self, context: &ToolContext) -> String {
        match self.range.is_empty() {
            true => format!("the position {}", self.shown(context)),
            false => format!("`{}`", self.name()),
        }
    }

    /// Renders the place as `file:line`.
    pub fn shown(&self, context: &ToolContext) -> String {
        shown(context, &self.document, self.range.start)
    }
}

fn shown(context: &ToolContext, document: &Document, offset: usize) -> String {
    let line = LineIndex::new(&document.text).line_of(offset) + 1;
    format!("{}:{line}", context.display_path(&document.path))
}

/// Resolves the place that arguments name; the first of several declarations.
pub(crate) async fn resolve(context: &ToolContext, place: &Place, cx: &RequestCx) -> Result<Target, Failure> {
    Ok(resolve_all(context, place, cx).await?.0)
}

/// Resolves the place that arguments name, and the symbol's other declarations.
pub(crate) async fn resolve_all(
    context: &ToolContext,
    place: &Place,
    cx: &RequestCx,
) -> Result<(Target, Vec<Target>), Failure> {
    let alone = |target| (target, Vec::new());
    match (&place.file, &place.symbol) {
        (None, None) => Err(Failure::new(
            ErrorCode::InvalidArguments,
            "name a place: `symbol`, with `file` where you know it, or `file`, `line` and `column`",
        )),
        (None, Some(symbol)) => everywhere(context, symbol, cx).await,
        (Some(file), symbol) => {
            let (document, place) = remap::document(context, file, place)?;
            match (symbol, place.line) {
                (Some(symbol), Some(line)) => {
                    on_line(context, document, symbol, line, place.column).map(alone)
                }
                (Some(symbol), None) => in_file(context, document, symbol, cx).await,
                (None, Some(line)) if place.column.is_none() => {
                    match declared_on(context, &document, line, cx).await? {
                        Some(range) => Ok(alone(Target { document, range })),
                        None => at(document, line, None).map(alone),
                    }
                }
                (None, Some(line)) => at(document, line, place.column).map(alone),
                (None, None) => Err(Failure::new(
                    ErrorCode::InvalidArguments,
                    format!("name a place in {file}: `symbol`, or `line` and `column`"),
                )),
            }
        }
    }
}

/// Returns the name of the one symbol that a line declares, not those inside of it.
pub(crate) async fn declared_on(
    context: &ToolContext,
    document: &Document,
    line: u64,
    cx: &RequestCx,
) -> Result<Option<Range<usize>>, Failure> {
    fn collect(symbols: &[Symbol], bytes: &Range<usize>, found: &mut Vec<Range<usize>>) {
        for symbol in symbols {
            if bytes.start <= symbol.selection.start && symbol.selection.end <= bytes.end {
                found.push(symbol.selection.clone());
            } else {
                collect(&symbol.children, bytes, found);
            }
        }
    }
    let bytes = self::line(document, line)?;
    let symbols = match server_symbols(context, document, cx).await {
        Ok(symbols) => symbols,
        Err(failure) if matches!(failure.code, ErrorCode::TooLarge | ErrorCode::Timeout) => {
            return Err(failure);
        }
        // A server without an outline leaves the position.
        Err(_) => return Ok(None),
    };
    let mut found = Vec::new();
    collect(&symbols, &bytes, &mut found);
    Ok(found.pop().filter(|_| found.is_empty()))
}

/// Resolves line and column, both from 1, the column in characters.
fn at(document: Document, line: u64, column: Option<u64>) -> Result<Target, Failure> {
    let offset = offset(&document, line, column)?;
    let range = word_at(&document.text, offset);
    Ok(Target { document, range })
}

/// Returns the byte at line and column.
///
/// Without a column, returns the first byte that is not blank.
pub(crate) fn offset(document: &Document, line: u64, column: Option<u64>) -> Result<usize, Failure> {
    let index = LineIndex::new(&document.text);
    let bytes = line_bytes(document, &index, line)?;
    let content = &document.text[bytes.clone()];
    let Some(column) = column else {
        return Ok(bytes.start + content.len() - content.trim_start().len());
    };
    let count = content.chars().count();
    // One column further than the last character is the end of the line.
    if column > count as u64 + 1 {
        let length = crate::counted(count, "character");
        return Err(Failure::new(
            ErrorCode::InvalidArguments,
            format!(
                "column {column} does not exist: line {line} of {} has {length}, counted from 1",
                document.path
            ),
        ));
    }
    place_within(document, line, column)
}

/// Returns the byte at line and column; the line's end for a larger column.
fn place_within(document: &Document, line: u64, column: u64) -> Result<usize, Failure> {
    let index = LineIndex::new(&document.text);
    let bytes = line_bytes(document, &index, line)?;
    let character = u32::try_from(column.saturating_sub(1)).unwrap_or(u32::MAX);
    let position = Position { line: u32::try_from(line - 1).unwrap_or(u32::MAX), character };
    Ok(index.offset(&document.text, position, PositionEncoding::Utf32).unwrap_or(bytes.end))
}

/// Returns the bytes of a line, without its line break.
pub(crate) fn line(document: &Document, line: u64) -> Result<Range<usize>, Failure> {
    line_bytes(document, &LineIndex::new(&document.text), line)
}

/// Parses `range` to bytes.
///
/// `3-9` are whole lines with the last line break, `3:1-9:20` excludes its end. Letters after a line number, as
/// lines are displayed, are ignored.
pub(crate) fn range(
    context: &ToolContext,
    document: &Document,
    place: &Place,
) -> Result<Option<Range<usize>>, Failure> {
    let Some(range) = &place.range else { return Ok(None) };
    let bad = || {
        let message = format!("`range` is {range:?}; write lines like `3-9`, or places like `3:1-9:20`");
        Failure::new(ErrorCode::InvalidArguments, message)
    };
    let position = |text: &str| -> Option<(u64, Option<u64>)> {
        let (line, column) = match text.trim().split_once(':') {
            Some((line, column)) => (line, Some(column.parse().ok()?)),
            None => (text.trim(), None),
        };
        Some((line.trim_end_matches(|c: char| c.is_ascii_lowercase()).parse().ok()?, column))
    };
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    let ((from, first), (to, last)) = (position(from).ok_or_else(bad)?, position(to).ok_or_else(bad)?);
    let start = match first {
        None => line(document, from)?.start,
        Some(column) => place_within(document, from, column)?,
    };
    let end = match last {
        None => {
            line(document, to)?;
            let index = LineIndex::new(&document.text);
            let to = usize::try_from(to - 1).unwrap_or(usize::MAX);
            index.line_with_end(to).map_or(document.text.len(), |bytes| bytes.end)
        }
        Some(column) => place_within(document, to, column)?,
    };
    if end < start {
        let shown = context.display_path(&document.path);
        let message = format!("`range` {range:?} of {shown} ends before it begins");
        return Err(Failure::new(ErrorCode::InvalidArguments, message));
    }
    Ok(Some(start..end))
}

/// Returns the range of the whole declaration at a place.
///
/// `None` if the file's symbols do not contain the place.
pub(crate) async fn around(context: &ToolContext, target: &Target, cx: &RequestCx) -> Option<Range<usize>> {
    fn find(symbols: &[Symbol], at: &Range<usize>) -> Option<Range<usize>> {
        symbols.iter().find_map(|symbol| {
            let inside = |outer: &Range<usize>| outer.start <= at.start && at.end <= outer.end;
            let own = inside(&symbol.selection).then(|| symbol.range.clone());
            own.or_else(|| find(&symbol.children, at))
        })
    }
    let symbols = context.servers.symbols(&target.document, cx).await.ok()?;
    find(&symbols.value, &target.range)
}

fn line_bytes(document: &Document, index: &LineIndex, line: u64) -> Result<Range<usize>, Failure> {
    let number = usize::try_from(line).unwrap_or(usize::MAX);
    number.checked_sub(1).and_then(|line| index.line(&document.text, line)).ok_or_else(|| {
        // The empty line after a final line break does not count.
        let opened = usize::from(document.text.ends_with('\n'));
        let count = crate::counted((index.line_count() - opened).max(1), "line");
        Failure::new(
            ErrorCode::InvalidArguments,
            format!("line {line} does not exist: {} has {count}, counted from 1", document.path),
        )
    })
}

/// Finds `name` or `name#2` on a line.
fn on_line(
    context: &ToolContext,
    document: Document,
    symbol: &str,
    line: u64,
    column: Option<u64>,
) -> Result<Target, Failure> {
    let (name, wanted) = split(symbol);
    let last = last_segment(name);
    let index = LineIndex::new(&document.text);
    let bytes = line_bytes(&document, &index, line)?;
    let mut found: Vec<Range<usize>> = occurrences(&document.text[bytes.clone()], last)
        .map(|at| bytes.start + at.start..bytes.start + at.end)
        .collect();
    if let Some(column) = column {
        let offset = at(document.clone(), line, Some(column))?.range.start;
        found.retain(|range| range.start <= offset && offset <= range.end);
    }
    match (wanted, found.len()) {
        (Some(wanted), count) if wanted >= 1 && wanted <= count => {
            Ok(Target { range: found.swap_remove(wanted - 1), document })
        }
        (None, 1) => Ok(Target { range: found.swap_remove(0), document }),
        (_, 0) => Err(Failure::new(
            ErrorCode::NotFound,
            format!(
                "line {line} of {} does not contain `{last}`; read the file for its current lines",
                context.display_path(&document.path)
            ),
        )),
        (wanted, count) => Err(Failure::new(
            ErrorCode::Ambiguous,
            match wanted {
                Some(wanted) => format!("line {line} contains `{last}` {count} times, not {wanted}"),
                None => format!(
                    "line {line} contains `{last}` {count} times; name one: `{last}#1` to `{last}#{count}`"
                ),
            },
        )),
    }
}

/// Finds a symbol path in a file.
///
/// Otherwise finds the one symbol that the occurrences of the name refer to.
async fn in_file(
    context: &ToolContext,
    document: Document,
    symbol: &str,
    cx: &RequestCx,
) -> Result<(Target, Vec<Target>), Failure> {
    let (name, wanted) = split(symbol);
    let declared = declarations(context, &document, name, cx).await?;
    let found = choose(context, symbol, wanted, declared, cx).await?;
    if let Some(found) = found {
        return Ok(found);
    }
    if let (Some((owner, member)), None) = (member_of(name), wanted)
        && let Ok(owners) = declarations(context, &document, owner, cx).await
        && let [owner] = owners.as_slice()
        && let Some(found) = inherited(context, owner.target.clone(), member, cx).await?
    {
        return Ok((found, Vec::new()));
    }
    // Not in the server's symbols: a parameter, a local variable, an imported name. A path before the name must
    // be written there: the name alone may belong to another symbol.
    let last = last_segment(name);
    let mut meanings: Vec<(Target, Vec<(String, usize)>)> = Vec::new();
    let written = |range: &Range<usize>| document.text[..range.end].ends_with(name);
    for range in occurrences(&document.text, last).filter(written).take(MAX_OCCURRENCES) {
        let answer = context.servers.definition(&document, range.start, cx).await?;
        let mut means: Vec<(String, usize)> =
            answer.value.iter().map(|place| (place.path.to_string(), place.range.start)).collect();
        means.sort();
        if !means.is_empty() && !meanings.iter().any(|(_, other)| *other == means) {
            meanings.push((Target { document: document.clone(), range }, means));
        }
    }
    let mut targets: Vec<Target> = meanings.into_iter().map(|(target, _)| target).collect();
    match (targets.len(), wanted) {
        (1, None) => Ok((targets.swap_remove(0), Vec::new())),
        (0, _) => Err(Failure::new(
            ErrorCode::NotFound,
            format!(
                "{} contains nothing named `{name}`; `symbols` lists its symbols",
                context.display_path(&document.path)
            ),
        )),
        (count, Some(wanted)) if (1..=count).contains(&wanted) => {
            Ok((targets.swap_remove(wanted - 1), Vec::new()))
        }
        _ => Err(ambiguous(context, symbol, &targets)),
    }
}

/// Finds a symbol path anywhere in the workspace.
async fn everywhere(
    context: &ToolContext,
    symbol: &str,
    cx: &RequestCx,
) -> Result<(Target, Vec<Target>), Failure> {
    let mut peeked = Vec::new();
    let found = peek_around(context, symbol, cx, &mut peeked).await;
    let kept = found.as_ref().ok().map(|(target, _)| &target.document.path);
    context.servers.close_peeked(peeked, kept).await;
    found
}

async fn peek_around(
    context: &ToolContext,
    symbol: &str,
    cx: &RequestCx,
    peeked: &mut Vec<Peeked>,
) -> Result<(Target, Vec<Target>), Failure> {
    let (name, wanted) = split(symbol);
    let last = last_segment(name).to_owned();
    let holding = text_search::files_with(context, &last, cx).await?;
    // Files that only use the name are not opened: that may cost a server more than all other work.
    let declaring = text_search::declaring(&holding.documents, &last, cx).await?;
    let mut declared = Vec::new();
    let mut asked = 0;
    let mut unknown = 0;
    let mut unserved = None;
    for document in &declaring {
        if asked == MAX_FILES {
            break;
        }
        match context.servers.peek_symbols(document, cx).await.map_err(Failure::from) {
            Ok((answer, file)) => {
                asked += 1;
                peeked.push(file);
                declared.extend(declared_in(document, &answer.value, name));
            }
            // A file that no server handles cannot declare it as far as is known.
            Err(failure) if matches!(failure.code, ErrorCode::Unsupported) => unknown += 1,
            Err(failure) if matches!(failure.code, ErrorCode::MissingTool) => unserved = Some(failure),
            Err(failure) => return Err(failure),
        }
    }
    if declared.is_empty() {
        for document in &declaring {
            declared.extend(macros(context, document, name).await);
        }
    }
    if let Some(found) = choose(context, symbol, wanted, declared, cx).await? {
        return Ok(found);
    }
    if let Some(failure) = unserved.filter(|_| asked == 0) {
        return Err(failure);
    }
    if let (Some((owner, member)), None) = (member_of(name), wanted) {
        // A base may declare one of the members of this name.
        let found = Box::pin(peek_around(context, owner, cx, peeked)).await;
        let (owner, _) = found.map_err(|failure| match failure.code {
            ErrorCode::NotFound => {
                let message = format!("no declaration of `{name}` was found: {}", failure.message);
                Failure::new(ErrorCode::NotFound, message)
            }
            _ => failure,
        })?;
        if let Some(found) = inherited(context, owner, member, cx).await? {
            return Ok((found, Vec::new()));
        }
    }
    let cut = match &holding.too_large {
        Some(path) => {
            let path = context.display_path(path);
            format!("; {path} is too large for this search: name it as `file` if it declares the symbol")
        }
        None if holding.cut || declaring.len() > asked + unknown => {
            "; not every file was searched: name the `file`".to_owned()
        }
        None => String::new(),
    };
    let similar = match holding.documents.is_empty() {
        true => text_search::similar(context, &last, cx).await,
        false => String::new(),
    };
    Err(Failure::new(
        ErrorCode::NotFound,
        match holding.documents.len() {
            0 => {
                let other = if holding.too_large.is_some() { "other " } else { "" };
                format!(
                    "no {other}file of {} contains the word `{last}`{cut}{similar}",
                    context.workspace.root()
                )
            }
            files => {
                let files = counted(files, "file");
                format!("no declaration of `{name}` was found; the word `{last}` occurs in {files}{cut}")
            }
        },
    ))
}

/// Splits a name path into the type and the member.
fn member_of(name: &str) -> Option<(&str, &str)> {
    let last = last_segment(name);
    let owner = name.strip_suffix(last)?.trim_end_matches(['.', ':']);
    (!owner.is_empty()).then_some((owner, last))
}

/// Finds a member in the bases of a type.
///
/// The nearest base in the order of the declarations comes first.
async fn inherited(
    context: &ToolContext,
    owner: Target,
    member: &str,
    cx: &RequestCx,
) -> Result<Option<Target>, Failure> {
    let mut pending = VecDeque::from([owner]);
    let mut seen = HashSet::new();
    while let Some(Target { document, range }) = pending.pop_front().filter(|_| seen.len() < MAX_BASES) {
        if !seen.insert((document.path.clone(), range.start)) {
            continue;
        }
        let Ok(symbols) = server_symbols(context, &document, cx).await else { continue };
        let Some(symbol) = declared_at(&symbols, &range) else { continue };
        let found = symbol.children.iter().find(|child| child.name == member);
        if let Some(child) = found.filter(|_| seen.len() > 1) {
            let range = narrowed(&document, child, member);
            return Ok(Some(Target { document, range }));
        }
        for base in bases(&document, symbol) {
            let answer = match context.servers.definition(&document, base, cx).await {
                Ok(answer) => answer,
                Err(error @ lsp_client::ServerError::Cancelled) => return Err(error.into()),
                Err(_) => continue,
            };
            for place in answer.value {
                if let Ok(document) = context.workspace.document(&place.path) {
                    pending.push_back(Target { document, range: place.range });
                }
            }
        }
    }
    Ok(None)
}

/// The type with its name in or around a range.
fn declared_at<'a>(symbols: &'a [Symbol], range: &Range<usize>) -> Option<&'a Symbol> {
    symbols.iter().find_map(|symbol| {
        let named = &symbol.selection;
        let is_type = matches!(symbol.kind.as_str(), "class" | "interface" | "struct");
        let is_at = named.start <= range.start && range.start <= named.end
            || range.start <= named.start && named.end <= range.end;
        if is_type && is_at { Some(symbol) } else { declared_at(&symbol.children, range) }
    })
}

/// The places of the names between a type's own name and its body.
fn bases(document: &Document, symbol: &Symbol) -> Vec<usize> {
    let text = document.text.get(symbol.selection.end..symbol.range.end).unwrap_or_default();
    let is_python = document.path.as_path().extension().is_some_and(|it| it == "py" || it == "pyi");
    let (mut depth, mut end) = (0_usize, 0);
    for (at, c) in text.char_indices().take_while(|(at, _)| *at < MAX_HEADER) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ':' if is_python && depth == 0 => break,
            '{' | ';' if depth == 0 => break,
            _ => {}
        }
        end = at + c.len_utf8();
    }
    let header = &text[..end];
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut last = 0;
    for word in header.split(|c| !is_part(c)) {
        let at = last;
        last = at + word.len() + header[at + word.len()..].chars().next().map_or(0, char::len_utf8);
        // A keyword leads nowhere, and of `module.Base` only the second is a type.
        let is_qualifier = header[at + word.len()..].starts_with(['.', '=']);
        if word.starts_with(|c: char| !c.is_ascii_digit()) && !is_qualifier {
            found.push(symbol.selection.end + at);
        }
    }
    found
}

/// Returns the extent of a symbol of a file: its declaration with its body.
///
/// Without a running server its syntax tree finds it; a server is started for symbols that the tree lacks.
pub(crate) async fn extent(
    context: &ToolContext,
    document: &Document,
    name: &str,
    cx: &RequestCx,
) -> Result<Range<usize>, Failure> {
    let (plain, wanted) = split(name);
    let mut found = Vec::new();
    let mut is_parsed = false;
    if !context.servers.is_warm(&document.path) {
        let path = of_receiver(plain.replace("::", "."));
        let extents = outline::extents(context, document, &path, wanted.is_some()).await;
        is_parsed = extents.is_some();
        found = extents.unwrap_or_default();
    }
    if found.is_empty() {
        match context.servers.symbols(document, cx).await {
            Ok(symbols) => collect(&symbols.value, plain, &mut |symbol| {
                found.push((symbol.selection.clone(), symbol.range.clone()))
            }),
            Err(error @ lsp_client::ServerError::Cancelled) => return Err(error.into()),
            Err(error) if !is_parsed => return Err(error.into()),
            Err(_) => {}
        }
    }
    let at = match (wanted, found.len()) {
        (None, 1) => 0,
        (Some(wanted), count) if (1..=count).contains(&wanted) => wanted - 1,
        (_, 0) => {
            let shown = context.display_path(&document.path);
            return Err(Failure::new(
                ErrorCode::NotFound,
                format!("{shown} contains no symbol `{plain}`; read the file, or `grep` for the name"),
            ));
        }
        _ => {
            let targets: Vec<Target> =
                found.into_iter().map(|(range, _)| Target { document: document.clone(), range }).collect();
            return Err(ambiguous(context, name, &targets));
        }
    };
    Ok(found.swap_remove(at).1)
}

/// A declaration with its whole symbol path.
struct Declared {
    target: Target,
    path: String,
}

/// Lists the declarations of `name` in a file.
async fn declarations(
    context: &ToolContext,
    document: &Document,
    name: &str,
    cx: &RequestCx,
) -> Result<Vec<Declared>, Failure> {
    let symbols = server_symbols(context, document, cx).await?;
    let declared = declared_in(document, &symbols, name);
    Ok(if declared.is_empty() { macros(context, document, name).await } else { declared })
}

/// Finds the macros that a C or C++ file defines by `name`.
///
/// The symbols of clangd lack them.
async fn macros(context: &ToolContext, document: &Document, name: &str) -> Vec<Declared> {
    let path = context.display_path(&document.path);
    let language = Language::of(&path, &document.text);
    let may_define =
        matches!(language, Some(Language::C | Language::Cpp)) && document.text.contains("define");
    let Some(tree) = (if may_define { context.trees.tree(&path, &document.text).await } else { None }) else {
        return Vec::new();
    };
    let declared =
        |range| Declared { target: Target { document: document.clone(), range }, path: name.to_owned() };
    tree.macros(&document.text, name).into_iter().map(declared).collect()
}

/// Requests the symbols of a file, unless servers take too long for its size.
async fn server_symbols(
    context: &ToolContext,
    document: &Document,
    cx: &RequestCx,
) -> Result<Vec<Symbol>, Failure> {
    require_size(context, document)?;
    Ok(context.servers.symbols(document, cx).await?.value)
}

/// Refuses a file whose symbols servers cannot list in time.
pub(crate) fn require_size(context: &ToolContext, document: &Document) -> Result<(), Failure> {
    let lines = display::line_count(&document.text);
    if lines > MAX_LINES {
        let message = format!(
            "{} has {lines} lines; symbols are looked up in files of at most {MAX_LINES} lines, so edit it as text",
            context.display_path(&document.path)
        );
        return Err(Failure::new(ErrorCode::TooLarge, message));
    }
    Ok(())
}

fn declared_in(document: &Document, symbols: &[Symbol], name: &str) -> Vec<Declared> {
    let mut found = Vec::new();
    collect(symbols, name, &mut |symbol| {
        let range = narrowed(document, symbol, last_segment(name));
        let path = of_receiver(symbol.path.replace("::", "."));
        found.push(Declared { target: Target { document: document.clone(), range }, path });
    });
    found
}

/// Narrows a symbol's selection range to the name.
///
/// Some servers select more than the name.
fn narrowed(document: &Document, symbol: &Symbol, name: &str) -> Range<usize> {
    let inside = document.text.get(symbol.selection.clone()).unwrap_or_default();
    match occurrences(inside, name).next() {
        Some(at) => symbol.selection.start + at.start..symbol.selection.start + at.end,
        None => symbol.selection.clone(),
    }
}

fn collect(symbols: &[Symbol], name: &str, found: &mut impl FnMut(&Symbol)) {
    let name = of_receiver(name.replace("::", "."));
    for symbol in symbols {
        let path = of_receiver(symbol.path.replace("::", "."));
        if path.strip_suffix(&name).is_some_and(|before| before.is_empty() || before.ends_with('.')) {
            found(symbol);
        }
        collect(&symbol.children, &name, found);
    }
}

/// Converts the path of a method that gopls names after its receiver.
///
/// Gives `Square.Area` for `(*Square).Area`.
fn of_receiver(path: String) -> String {
    let receiver = path.strip_prefix('(').and_then(|rest| rest.split_once(")."));
    let Some((receiver, method)) = receiver else { return path };
    let receiver = receiver.trim_start_matches('*').split('[').next().unwrap_or_default();
    format!("{receiver}.{method}")
}

/// Selects the only matching declaration; `None` if there is none.
async fn choose(
    context: &ToolContext,
    symbol: &str,
    wanted: Option<usize>,
    declared: Vec<Declared>,
    cx: &RequestCx,
) -> Result<Option<(Target, Vec<Target>)>, Failure> {
    let mut declared = declared;
    let (name, _) = split(symbol);
    let said = name.replace("::", ".");
    // `A` is a symbol of that whole path rather than `B.A`; a number counts all of them.
    if wanted.is_none() && declared.iter().any(|it| it.path == said) {
        declared.retain(|it| it.path == said);
    }
    let same_path = declared.windows(2).all(|two| two[0].path == two[1].path);
    let mut found: Vec<Target> = declared.into_iter().map(|it| it.target).collect();
    if let Some(wanted) = wanted {
        if found.len() == 1 {
            found = written_again(context, found, cx).await?;
        }
        return match found.len() {
            0 => Ok(None),
            count if (1..=count).contains(&wanted) => Ok(Some((found.swap_remove(wanted - 1), Vec::new()))),
            _ => Err(ambiguous(context, symbol, &found)),
        };
    }
    if found.len() > 1
        && !(same_path && lead_to_each_other(context, &found, cx).await?)
        && !one_symbol(context, &found, cx).await?
    {
        return Err(ambiguous(context, symbol, &found));
    }
    let mut found = found.into_iter();
    Ok(found.next().map(|first| (first, found.collect())))
}

/// Whether declarations of one symbol path belong to one symbol.
///
/// Examples are a prototype and its definition, or an interface and a constant of its name. The definitions
/// of each lead to another, and so to all.
async fn lead_to_each_other(
    context: &ToolContext,
    found: &[Target],
    cx: &RequestCx,
) -> Result<bool, Failure> {
    if found.len() > MAX_TWINS {
        return Ok(false);
    }
    // The declarations to which each leads.
    let mut leads: Vec<Vec<usize>> = Vec::new();
    for target in found {
        let answer = match context.servers.definition(&target.document, target.range.start, cx).await {
            Ok(answer) => answer,
            Err(error @ lsp_client::ServerError::Cancelled) => return Err(error.into()),
            // Without an answer the relation is not known.
            Err(_) => return Ok(false),
        };
        let is_at = |other: &Target| {
            answer.value.iter().any(|place| {
                place.path == other.document.path
                    && place.range.start <= other.range.start
                    && other.range.end <= place.range.end.max(place.range.start + other.range.len())
            })
        };
        leads.push((0..found.len()).filter(|at| is_at(&found[*at])).collect());
    }
    // The first reaches all, and all reach the first.
    let reached = |from: usize| {
        let (mut seen, mut next) = (vec![false; found.len()], vec![from]);
        while let Some(at) = next.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                next.extend(&leads[at]);
            }
        }
        seen
    };
    Ok(reached(0).into_iter().all(|it| it) && (1..found.len()).all(|at| reached(at)[0]))
}

/// Lists all declarations of a symbol in its file.
///
/// A server may list an overloaded function once (basedpyright 1.40), and give each declaration as a definition.
async fn written_again(
    context: &ToolContext,
    found: Vec<Target>,
    cx: &RequestCx,
) -> Result<Vec<Target>, Failure> {
    let Some(target) = found.first() else { return Ok(found) };
    let answer = match context.servers.definition(&target.document, target.range.start, cx).await {
        Ok(answer) => answer,
        Err(error @ lsp_client::ServerError::Cancelled) => return Err(error.into()),
        // Without an answer the listed declaration remains.
        Err(_) => return Ok(found),
    };
    let mut ranges: Vec<Range<usize>> = answer
        .value
        .into_iter()
        .filter(|place| place.path == target.document.path)
        .map(|place| place.range)
        .filter(|range| target.document.text.get(range.clone()) == Some(target.name()))
        .chain([target.range.clone()])
        .collect();
    ranges.sort_by_key(|range| range.start);
    ranges.dedup();
    Ok(ranges.into_iter().map(|range| Target { document: target.document.clone(), range }).collect())
}

/// Whether declarations of one name are one symbol.
///
/// They are if all have the same references, such as overloads or a definition in each branch.
async fn one_symbol(context: &ToolContext, found: &[Target], cx: &RequestCx) -> Result<bool, Failure> {
    let together =
        found.len() <= MAX_TWINS && found.iter().all(|target| target.document.path == found[0].document.path);
    if !together {
        return Ok(false);
    }
    let mut first: Option<Vec<(String, usize)>> = None;
    for target in found {
        let answer = context.servers.references(&target.document, target.range.start, true, cx).await?;
        let mut places: Vec<(String, usize)> =
            answer.value.iter().map(|place| (place.path.to_string(), place.range.start)).collect();
        places.sort();
        places.dedup();
        match &first {
            None => first = Some(places),
            Some(first) if *first == places => {}
            Some(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// The failure of a name that means several things, with the candidates as details.
pub(crate) fn ambiguous(context: &ToolContext, symbol: &str, found: &[Target]) -> Failure {
    let candidates: Vec<Value> = found
        .iter()
        .take(MAX_LISTED)
        .map(|target| {
            let index = LineIndex::new(&target.document.text);
            let line = index.line_of(target.range.start);
            let bytes = index.line(&target.document.text, line).unwrap_or_default();
            let before = target.document.text.get(bytes.start..target.range.start).unwrap_or_default();
            json!({
                "place": target.shown(context),
                "file": context.display_path(&target.document.path),
                "line": line + 1,
                "column": before.chars().count() + 1,
                "range": [target.range.start, target.range.end],
                "text": shorten(&target.document.text[bytes], MAX_LINE),
            })
        })
        .collect();
    let row = |it: &Value| {
        let field = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
        format!("\n  {}: {}", field("place"), field("text").trim())
    };
    let rows: String = candidates.iter().map(row).collect();
    let more = found.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let example = found.first().map(|target| target.shown(context)).unwrap_or_default();
    let remedy = format!("add a location (`file` and `line`), e.g. `in {example}`");
    let message = match split(symbol) {
        (name, Some(_)) => {
            let places = counted(found.len(), "place");
            format!("`{symbol}` does not exist: `{name}` is declared at {places}; {remedy}:{rows}{more}")
        }
        _ => format!("`{symbol}` is ambiguous; {remedy}:{rows}{more}"),
    };
    let candidates = json!({ "candidates": candidates });
    Failure::new(ErrorCode::Ambiguous, message).with_data(candidates.clone()).with_details(candidates)
}

/// Splits `name#2` into a name and a number.
fn split(symbol: &str) -> (&str, Option<usize>) {
    match symbol.rsplit_once('#') {
        Some((name, number)) if !name.is_empty() => match number.parse() {
            Ok(number) => (name, Some(number)),
            Err(_) => (symbol, None),
        },
        _ => (symbol, None),
    }
}

/// Returns the last name of a name path: `c` of `a.b.c` and of `a::c`.
fn last_segment(name: &str) -> &str {
    name.rsplit(['.', ':', '/']).next().unwrap_or(name)
}

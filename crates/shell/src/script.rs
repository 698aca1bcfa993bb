//! Extraction of all commands from a script.
//!
//! Includes lists, pipes, substitutions, functions, and the scripts and commands in arguments.
//! Lists every command, reachable or not. A value that is known only at run time is a [`Doubt`].

use tree_sitter::{Node, Parser};

use super::influence;
use super::inner::{self, Inner};
use super::places::Places;
use super::word::{self, UNKNOWN, Variables, Word};

/// Maximum nesting of scripts in scripts.
const MAX_NESTED: usize = 12;
/// Maximum depth of the syntax tree.
const MAX_DEPTH: usize = 150;
/// Maximum number of commands.
const MAX_COMMANDS: usize = 4_000;
/// Maximum length of a script, in bytes.
const MAX_LENGTH: usize = 64 << 10;

/// Maximum number of command lines that unknown programs may run.
const MAX_HIDDEN: usize = 200;

/// Words that begin a compound command.
const COMPOUND: [&str; 8] = ["{", "if", "while", "until", "for", "case", "select", "function"];

/// Standard input of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Input {
    /// The script does not set it.
    #[default]
    None,
    Text(Word),
    /// The output of these commands, by their indices.
    Pipe(std::ops::Range<usize>),
    File(Word),
}

/// A redirection to or from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    pub writes: bool,
    pub to: Word,
}

/// A command with its arguments, input and redirections.
#[derive(Debug, Clone, Default)]
pub(super) struct Command {
    /// The name and the arguments. Never empty.
    pub words: Vec<Word>,
    pub input: Input,
    pub redirects: Vec<Redirect>,
    /// The working directory, as far as `cd` determines it; else [`UNKNOWN`].
    pub cwd: String,
    /// Whether the text around it does not parse.
    pub is_guess: bool,
    /// Whether it is only possible: a program that is not known may run it.
    pub is_hidden: bool,
    /// Whether the script on its input was analysed.
    is_fed: bool,
}

impl Command {
    /// The program's name without its directory.
    pub fn name(&self) -> &str {
        let text = self.words.first().map(|word| word.text.as_str()).unwrap_or_default();
        text.rsplit('/').next().unwrap_or_default()
    }

    pub fn args(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }

    /// Whether an argument is this option.
    ///
    /// A short option may be one of several letters, and a long one may be abbreviated.
    pub fn has(&self, short: char, long: &str) -> bool {
        let options = self.args().iter().take_while(|word| word.text != "--");
        options.into_iter().any(|word| is_option(&word.text, short, long))
    }

    /// Arguments that are not options.
    pub fn operands(&self) -> impl Iterator<Item = &Word> {
        let mut only_operands = false;
        self.args().iter().filter(move |word| {
            if word.text == "--" && !only_operands {
                only_operands = true;
                return false;
            }
            only_operands || !word.text.starts_with('-') || word.text == "-"
        })
    }

    pub fn shown(&self) -> String {
        self.words.iter().map(Word::shown).collect::<Vec<_>>().join(" ")
    }
}

fn is_option(text: &str, short: char, long: &str) -> bool {
    if let Some(name) = text.strip_prefix("--") {
        let name = name.split('=').next().unwrap_or_default();
        return name.len() >= 3 && !long.is_empty() && long.starts_with(name);
    }
    text.strip_prefix('-').is_some_and(|letters| letters.contains(short))
}

/// An effect that is known only at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    pub what: String,
    /// The worst case.
    pub worst: String,
}

/// All commands that a script runs.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub commands: Vec<Command>,
    pub doubts: Vec<Doubt>,
    /// Functions that call themselves more than once.
    pub bombs: Vec<String>,
    pub variables: Variables,
    /// Whether it has an assignment that programs may see.
    pub sets_variables: bool,
    aliases: Vec<(String, String)>,
    /// Files with known text that commands wrote, complete or in part.
    written: Vec<(String, Word)>,
    cwd: String,
    nested: usize,
    /// Whether the script itself is only possible.
    hides: bool,
    /// Number of command lines in arguments of unknown programs.
    read_hidden: usize,
}

#[derive(Debug, Clone, Default)]
struct CommandContext {
    input: Input,
    redirects: Vec<Redirect>,
    more: Vec<Word>,
    depth: usize,
}

/// Reads the commands of `text`, run in the directory `cwd` with `variables`.
pub(super) fn read(text: &str, cwd: &str, variables: Variables) -> Script {
    let mut script = Script { variables, cwd: cwd.to_owned(), ..Script::default() };
    script.source(text, &CommandContext::default());
    script
}

impl Script {
    /// Adds the commands of `text`.
    ///
    /// They inherit the standard input of `context`.
    fn source(&mut self, text: &str, context: &CommandContext) {
        self.parse(text, context);
        // The grammar joins a line that begins with a backslash to the line before. In a string the
        // backslash may matter, so the text is read in both forms.
        if let Some(text) = without_leading_backslashes(text) {
            self.parse(&text, context);
        }
    }

    fn parse(&mut self, text: &str, context: &CommandContext) {
        if text.len() > MAX_LENGTH || self.nested >= MAX_NESTED || self.commands.len() >= MAX_COMMANDS {
            self.doubt("a script too long or too deeply nested to analyse");
            return;
        }
        // The grammar does not know this redirection.
        let text = after_braces(&text.replace("<>", "> ").replace(UNKNOWN, ""));
        let mut parser = Parser::new();
        let parsed = parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok();
        let Some(tree) = parsed.and_then(|()| parser.parse(&text, None)) else {
            self.doubt("a script that cannot be parsed");
            return;
        };
        self.nested += 1;
        let before = self.commands.len();
        self.assignments(tree.root_node(), &text, 0);
        if tree.root_node().has_error() {
            self.doubt("a script that cannot be parsed completely");
            self.guess(&text);
        }
        if hides_substitution(tree.root_node(), &text) {
            self.doubt("a substitution that the grammar does not parse");
        }
        self.node(tree.root_node(), &text, context);
        self.fed(before);
        self.nested -= 1;
    }

    fn doubt(&mut self, what: &str) {
        let worst = "it runs any command at all".to_owned();
        let doubt = Doubt { what: what.to_owned(), worst };
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }

    /// Guesses the commands of a text that does not parse.
    ///
    /// Each piece between the operators that separate commands is one command.
    fn guess(&mut self, text: &str) {
        let pieces = text.split(['\n', ';', '|', '&', '(', ')', '`']).take(200);
        let before = self.commands.len();
        for piece in pieces {
            for part in std::iter::once(piece).chain(piece.split(['{', '}']).skip(1)) {
                let words: Vec<Word> =
                    part.split_whitespace().flat_map(|raw| word::words(raw, &self.variables)).collect();
                self.add(words, &CommandContext::default());
            }
        }
        self.commands[before..].iter_mut().for_each(|command| command.is_guess = true);
    }

    fn node(&mut self, node: Node<'_>, src: &str, context: &CommandContext) {
        if context.depth > MAX_DEPTH || self.commands.len() >= MAX_COMMANDS {
            self.doubt("a script too long or too deeply nested to analyse");
            return;
        }
        let context = &CommandContext { depth: context.depth + 1, ..context.clone() };
        match node.kind() {
            "command" => self.command(node, src, context),
            "redirected_statement" => self.redirected(node, src, context),
            "pipeline" => {
                let mut inner = context.clone();
                for stage in children(node) {
                    let before = self.commands.len();
                    self.node(stage, src, &inner);
                    inner.input = Input::Pipe(before..self.commands.len());
                }
            }
            // A directory that is changed inside a subshell is not changed after it.
            "subshell" => {
                let cwd = self.cwd.clone();
                children(node).into_iter().for_each(|child| self.node(child, src, context));
                self.cwd = cwd;
            }
            "command_substitution" | "process_substitution" => {
                let fresh = CommandContext { depth: context.depth, ..CommandContext::default() };
                let cwd = self.cwd.clone();
                // `$(< file)` has a redirection and no command.
                children(node).into_iter().for_each(|child| self.node(child, src, &fresh));
                self.cwd = cwd;
            }
            "function_definition" => {
                let before = self.commands.len();
                children(node).into_iter().for_each(|child| self.node(child, src, context));
                let name = node.child_by_field_name("name").map(|name| text(name, src)).unwrap_or_default();
                let calls = self.commands[before..].iter().filter(|it| it.name() == name).count();
                // Sequential calls are an ordinary recursion, as over a tree.
                let body = text(node, src).replace("&&", "").replace("||", "").replace(">&", "");
                if calls > 1 && body.contains(['&', '|']) {
                    self.bombs.push(name.to_owned());
                }
            }
            "declaration_command" => {
                let words =
                    children(node).into_iter().flat_map(|it| word::words(text(it, src), &self.variables));
                let name = text(node, src).split_whitespace().next().unwrap_or_default();
                let words = std::iter::once(Word::known(name)).chain(words).collect();
                self.add(words, context);
                self.inside(node, src, context);
            }
            "heredoc_redirect" | "file_redirect" | "herestring_redirect" => {
                let mut context = context.clone();
                self.redirect(node, src, &mut context);
                let from = self.commands.len();
                self.inside(node, src, &context);
                self.read_substitution(&mut context, from);
                self.bare(&context);
            }
            _ => children(node).into_iter().for_each(|child| self.node(child, src, context)),
        }
    }

    /// Adds only the commands in substitutions below `node`.
    fn inside(&mut self, node: Node<'_>, src: &str, context: &CommandContext) {
        if context.depth > MAX_DEPTH {
            return;
        }
        let deeper = CommandContext { depth: context.depth + 1, ..context.clone() };
        for child in children(node) {
            match child.kind() {
                "command_substitution" | "process_substitution" => self.node(child, src, &deeper),
                _ => self.inside(child, src, &deeper),
            }
        }
    }

    fn redirected(&mut self, node: Node<'_>, src: &str, context: &CommandContext) {
        let mut inner = context.clone();
        let mut then = Vec::new();
        let body = node.child_by_field_name("body");
        for child in children(node).into_iter().filter(|child| Some(*child) != body) {
            let from = self.commands.len();
            then.extend(self.redirect(child, src, &mut inner));
            self.inside(child, src, context);
            self.read_substitution(&mut inner, from);
        }
        let before = self.commands.len();
        if let Some(body) = body {
            self.node(body, src, &inner);
        }
        // A test or an assignment is not a command, but its redirection writes too.
        if self.commands.len() == before {
            self.bare(&inner);
        }
        for (statement, is_piped) in then {
            let input = if is_piped { Input::Pipe(before..self.commands.len()) } else { Input::None };
            self.node(
                statement,
                src,
                &CommandContext { input, depth: context.depth, ..CommandContext::default() },
            );
        }
    }

    /// Replaces an input from a process substitution by its commands.
    ///
    /// They begin at `from`.
    fn read_substitution(&self, context: &mut CommandContext, from: usize) {
        if matches!(&context.input, Input::File(file) if !file.scripts.is_empty()) {
            context.input = Input::Pipe(from..self.commands.len());
        }
    }

    /// Adds a redirection without a command, which empties or creates the file.
    ///
    /// Words that the grammar attributes to the redirection are a command.
    fn bare(&mut self, context: &CommandContext) {
        if !context.more.is_empty() {
            self.add(Vec::new(), context);
        } else if !context.redirects.is_empty() {
            self.add(vec![Word::known(":")], context);
        }
    }

    /// Adds a redirection to `context`.
    ///
    /// Returns the nodes after the beginning of a here-document, and for each whether it reads the
    /// command's output.
    fn redirect<'t>(
        &mut self,
        node: Node<'t>,
        src: &str,
        context: &mut CommandContext,
    ) -> Vec<(Node<'t>, bool)> {
        let mut then = Vec::new();
        match node.kind() {
            "file_redirect" => {
                let whole = text(node, src);
                let sign: String = whole
                    .chars()
                    .skip_while(|c| !"<>&|".contains(*c))
                    .take_while(|c| "<>&|".contains(*c))
                    .collect();
                let mut cursor = node.walk();
                let targets: Vec<Node<'_>> =
                    node.children_by_field_name("destination", &mut cursor).collect();
                let mut raws = joined(&targets, src).into_iter();
                if let Some(raw) = raws.next() {
                    let to = word::value(&raw, &self.variables);
                    let is_descriptor =
                        sign.ends_with('&') && to.text.chars().all(|c| c.is_ascii_digit() || c == '-');
                    if !is_descriptor {
                        let writes = sign.contains('>');
                        if !writes {
                            context.input = Input::File(to.clone());
                        }
                        context.redirects.push(Redirect { writes, to });
                    }
                }
                // The grammar attributes further words of the command to the redirection.
                context.more.extend(raws.flat_map(|raw| word::words(&raw, &self.variables)));
            }
            "herestring_redirect" => {
                let mut parts = children(node);
                parts.retain(|it| it.kind() != "file_descriptor");
                let raw = joined(&parts, src).into_iter().next().unwrap_or_default();
                context.input = Input::Text(word::value(&raw, &self.variables));
            }
            "heredoc_redirect" => {
                let mut literal = false;
                for child in children(node) {
                    match child.kind() {
                        "heredoc_start" => {
                            let quoting = ['\'', '"', '\\'];
                            literal = text(child, src).contains(quoting);
                            let end = text(child, src).replace(quoting, "");
                            if !src[child.end_byte()..].lines().any(|it| it.trim_start_matches('\t') == end) {
                                self.doubt("a here-document without its end line");
                            }
                        }
                        "heredoc_body" => {
                            let body = text(child, src);
                            context.input = Input::Text(if literal {
                                Word::known(body)
                            } else {
                                word::document(body, &self.variables)
                            });
                        }
                        "heredoc_end" | "file_descriptor" => {}
                        "file_redirect" | "herestring_redirect" => {
                            then.extend(self.redirect(child, src, context));
                        }
                        "pipeline" => then.extend(children(child).into_iter().map(|it| (it, true))),
                        _ if node.child_by_field_name("right") == Some(child) => then.push((child, false)),
                        _ => context.more.extend(word::words(text(child, src), &self.variables)),
                    }
                }
            }
            _ => {}
        }
        then
    }

    fn command(&mut self, node: Node<'_>, src: &str, context: &CommandContext) {
        let mut context = context.clone();
        let mut parts = Vec::new();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "variable_assignment" => {}
                "file_redirect" | "herestring_redirect" => {
                    self.redirect(child, src, &mut context);
                }
                "comment" => {}
                "subshell" => self.node(child, src, &context),
                _ => parts.push(child),
            }
        }
        let raws = joined(&parts, src);
        let words: Vec<Word> = raws.iter().flat_map(|raw| word::words(raw, &self.variables)).collect();
        let from = self.commands.len();
        self.inside(node, src, &context);
        self.read_substitution(&mut context, from);
        if words.is_empty() {
            self.bare(&context);
            return;
        }
        let alias = words.first().and_then(|first| {
            let found = self.aliases.iter().rev().find(|(name, _)| *name == first.text)?;
            Some(format!("{} {}", found.1, raws.get(1..).unwrap_or_default().join(" ")))
        });
        self.add(words, &context);
        if let Some(alias) = alias {
            // An alias may name itself; inside its own expansion the name means the program.
            let kept = std::mem::take(&mut self.aliases);
            self.source(&alias, &CommandContext::default());
            self.aliases = kept;
        }
    }

    /// Adds a command and the commands that it runs.
    fn add(&mut self, mut words: Vec<Word>, context: &CommandContext) {
        words.extend(context.more.iter().cloned());
        for _ in 0..MAX_NESTED {
            let Some(name) = words.first() else { return };
            let (input, redirects) = (context.input.clone(), context.redirects.clone());
            let cwd = self.cwd.clone();
            let command = Command { words: words.clone(), input, redirects, cwd, ..Command::default() };
            // The grammar parses the keywords `time` and `coproc` as programs.
            if COMPOUND.contains(&name.text.as_str()) || command.name() == "coproc" {
                self.doubt("a compound command that the grammar does not parse");
            }
            if !name.is_known() {
                self.doubt(&format!("the command `{}`, whose name is unknown", command.shown()));
            }
            self.note(&command);
            let inner = inner::of(&command);
            let directory = inner::directory(&command).map(|to| self.path(&to));
            let mut scripts = self.scripts_of(&command);
            if let Some(code) = inner::code(&command) {
                scripts.extend(self.started(&command, &code.text.clone()));
            }
            if command.name() == "tee"
                && let Input::Pipe(range) = &command.input
            {
                let texts = self.commands[range.clone()].iter().filter_map(inner::written);
                let paths = command.operands().map(|to| self.path(&to.text)).collect::<Vec<_>>();
                let pairs = texts.flat_map(|text| paths.iter().map(move |path| (path.clone(), text.clone())));
                let pairs = pairs.collect::<Vec<_>>();
                self.written.extend(pairs);
            }
            if let Some(text) = inner::written(&command) {
                let written = command.redirects.iter().filter(|it| it.writes);
                let paths = written.map(|it| (self.path(&it.to.text), text.clone()));
                self.written.extend(paths.collect::<Vec<_>>());
            }
            let hidden = if self.hides { Vec::new() } else { inner::hidden(&command) };
            self.commands.push(command);
            if !hidden.is_empty() {
                self.hidden(&hidden);
            }
            scripts.iter().for_each(|script| self.nest(script, Input::None));
            match inner {
                Inner::None => return,
                Inner::Command(next) => match directory {
                    None => words = next,
                    Some(directory) => {
                        let cwd = std::mem::replace(&mut self.cwd, directory);
                        self.add(next, &CommandContext { more: Vec::new(), ..context.clone() });
                        self.cwd = cwd;
                        return;
                    }
                },
                Inner::Commands(all) => {
                    self.nested += 1;
                    if self.nested < MAX_NESTED {
                        all.into_iter().for_each(|words| {
                            self.add(words, &CommandContext { more: Vec::new(), ..context.clone() })
                        });
                    }
                    self.nested -= 1;
                    return;
                }
                Inner::Script(script) => {
                    self.nest(&script, context.input.clone());
                    return;
                }
            }
        }
        self.doubt("commands too deeply nested to analyse");
    }

    /// Adds commands that a program may run, without their doubts and other effects.
    fn hidden(&mut self, scripts: &[String]) {
        let variables = self.variables.clone();
        for script in scripts {
            self.read_hidden += 1;
            if self.read_hidden > MAX_HIDDEN {
                return self.doubt("more commands of unknown programs than are analysed");
            }
            let mut inner = Script {
                variables: variables.clone(),
                cwd: self.cwd.clone(),
                hides: true,
                ..Script::default()
            };
            inner.nested = self.nested;
            inner.source(script, &CommandContext::default());
            for mut command in inner.commands {
                // Its inputs are those of the other list.
                (command.is_guess, command.is_hidden, command.input) = (true, true, Input::None);
                self.commands.push(command);
            }
        }
    }

    /// The command lines that code of another language starts.
    fn started(&mut self, command: &Command, code: &str) -> Vec<Word> {
        let (lines, is_unknown) = inner::started(command, code);
        if is_unknown {
            self.doubt(&format!("the programs that the code of `{}` starts", command.name()));
        }
        lines
    }

    fn path(&self, path: &str) -> String {
        Places::default().absolute(path, &self.cwd)
    }

    /// Shell code from files whose text is known.
    ///
    /// The script wrote them before, or they are `<(echo …)`.
    fn scripts_of(&self, command: &Command) -> Vec<Word> {
        let mut scripts = Vec::new();
        let mut paths = Vec::new();
        if inner::is_shell_or_source(command.name()) {
            for file in inner::code_files(command) {
                paths.push(self.path(&file.text));
                for script in file.scripts.iter().filter(|_| file.text.starts_with("/dev/fd/")) {
                    let inner = read(script, &self.cwd, self.variables.clone());
                    scripts.extend(inner.commands.iter().filter_map(inner::written));
                }
            }
        } else if let Some(program) = command.words.first().filter(|word| word.text.contains('/')) {
            paths.push(self.path(&program.text));
        }
        let known = self.written.iter().filter(|(path, _)| paths.contains(path));
        scripts.extend(known.map(|(_, text)| text.clone()));
        scripts
    }

    /// Analyses a script in a word.
    fn nest(&mut self, script: &Word, input: Input) {
        if !script.is_known() {
            self.doubt(&format!("the script `{}`, which is partly unknown", script.shown()));
        }
        // Unknown parts are represented by a variable without a value.
        let text = script.text.replace(UNKNOWN, "${_unknown}");
        let cwd = self.cwd.clone();
        self.source(&text, &CommandContext { input, ..CommandContext::default() });
        self.cwd = cwd;
    }

    fn influenced(&mut self, by: Option<String>) {
        if let Some(what) = by {
            self.doubt(&what);
        }
    }

    /// Applies the effect of a command on those after it.
    fn note(&mut self, command: &Command) {
        self.influenced(influence::of(command));
        match command.name() {
            "cd" | "pushd" => {
                let to = command.operands().next().map(|to| to.text.clone());
                self.cwd = match to {
                    None => word::value("~", &self.variables).text,
                    Some(to) if to.starts_with(['/', UNKNOWN]) => to,
                    Some(to) if to == "-" => UNKNOWN.to_string(),
                    Some(to) => format!("{}/{to}", self.cwd),
                };
            }
            "alias" => {
                for (name, value) in command.args().iter().filter_map(|word| word.text.split_once('=')) {
                    self.aliases.push((name.to_owned(), value.to_owned()));
                }
            }
            "read" | "mapfile" | "readarray" => {
                for word in command.operands() {
                    self.variables.set(&word.text, Word::known(UNKNOWN));
                }
            }
            _ => {}
        }
    }

    /// Adds the scripts that interpreters read from commands since `from`.
    fn fed(&mut self, from: usize) {
        let mut scripts = Vec::new();
        for at in from..self.commands.len() {
            let command = &self.commands[at];
            if command.is_fed || !inner::reads_script(command) {
                continue;
            }
            if !inner::is_shell_or_source(command.name()) {
                if let Input::Text(text) = &command.input {
                    let (command, text) = (command.clone(), text.text.clone());
                    scripts.extend(self.started(&command, &text));
                    self.commands[at].is_fed = true;
                }
                continue;
            }
            match &command.input {
                Input::Text(text) => scripts.push(text.clone()),
                Input::Pipe(range) => {
                    let writers = self.commands[range.clone()].iter();
                    scripts.extend(writers.filter_map(inner::written));
                }
                Input::None | Input::File(_) => {}
            }
            self.commands[at].is_fed = true;
        }
        scripts.iter().for_each(|script| self.nest(script, Input::None));
    }

    /// Records the values of variables anywhere in the script.
    fn assignments(&mut self, node: Node<'_>, src: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let name = || node.child_by_field_name("name").or_else(|| node.child_by_field_name("variable"));
        match node.kind() {
            "variable_assignment" => {
                self.sets_variables = true;
                let value = node.child_by_field_name("value");
                let is_array = value.is_some_and(|value| value.kind() == "array");
                if let Some(name) = name() {
                    let raw = value.map(|value| text(value, src)).unwrap_or_default();
                    let appends = src[name.end_byte()..].starts_with("+=");
                    let value = match is_array || appends {
                        true => Word::known(UNKNOWN),
                        false => word::value(raw, &self.variables),
                    };
                    self.influenced(influence::of_assignment(text(name, src), &value.text));
                    // Before a command it is for that command alone.
                    let is_kept = node.parent().is_none_or(|parent| parent.kind() != "command");
                    if is_kept && text(name, src) == "IFS" && !value.text.trim().is_empty() {
                        self.doubt("the variable IFS, which determines how words are split");
                    }
                    self.variables.set(text(name, src), value);
                }
            }
            // `$((a); b)` is a command in a subshell of a substitution.
            "arithmetic_expansion" if text(node, src).contains([';', '\n']) => {
                self.doubt("a substitution that the grammar does not parse");
            }
            "test_command"
            | "arithmetic_expansion"
            | "subscript"
            | "unset_command"
            | "c_style_for_statement" => {
                self.influenced(influence::of_expression(&literals(node, src)));
            }
            "compound_statement" if text(node, src).starts_with("((") => {
                self.influenced(influence::of_expression(&literals(node, src)));
            }
            "expansion" if text(node, src).contains("@P}") => {
                self.doubt("a text expanded as a prompt, which may run commands");
            }
            "for_statement" => {
                if let Some(name) = name() {
                    let name = text(name, src);
                    // Names with small letters are the script's own.
                    self.sets_variables |= !name.contains(|c: char| c.is_ascii_lowercase());
                    let mut cursor = node.walk();
                    let values: Vec<Node<'_>> = node.children_by_field_name("value", &mut cursor).collect();
                    let words = joined(&values, src);
                    for word in
                        words.iter().flat_map(|raw| word::words(raw, &self.variables)).collect::<Vec<_>>()
                    {
                        self.influenced(influence::of_assignment(name, &word.text));
                        self.variables.set(name, word);
                    }
                }
            }
            _ => {}
        }
        children(node).into_iter().for_each(|child| self.assignments(child, src, depth + 1));
    }
}

/// Removes backslashes that begin lines; `None` if there is none.
///
/// A backslash that continues a line stays.
fn without_leading_backslashes(text: &str) -> Option<String> {
    let leads = |line: &str| line.trim_start().starts_with('\\') && line.trim_start().len() > 1;
    text.lines().skip(1).any(leads).then(|| {
        let lines = text.lines().enumerate();
        let lines =
            lines.map(
                |(at, line)| if at > 0 && leads(line) { line.replacen('\\', "", 1) } else { line.to_owned() },
            );
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// Whether the quotes of `node` are text.
///
/// They are between double quotes and in a here-document.
fn is_literal_quote(node: Node<'_>) -> bool {
    let around = std::iter::successors(node.parent(), |node| node.parent()).map(|node| node.kind());
    let outer = around.take_while(|kind| !matches!(*kind, "command_substitution" | "process_substitution"));
    outer.into_iter().any(|kind| matches!(kind, "string" | "translated_string" | "heredoc_body"))
}

/// Replaces a non-ASCII character right after `{`, `{1` and `{1..2`.
///
/// tree-sitter-bash 0.25.1 tests there for a digit with a function that reads past a table of the C
/// library.
fn after_braces(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_after = false;
    for character in text.chars() {
        out.push(if is_after && !character.is_ascii() { '\u{7f}' } else { character });
        is_after = character == '{' || is_after && (character.is_ascii_digit() || character == '.');
    }
    out
}

/// The quoted texts below `node`, without their quotes.
fn literals(node: Node<'_>, src: &str) -> String {
    let mut found = String::new();
    let mut waiting = vec![node];
    while let Some(node) = waiting.pop() {
        if matches!(node.kind(), "raw_string" | "ansi_c_string" | "string" | "word" | "concatenation") {
            found.push_str(&word::value(text(node, src), &Variables::default()).text);
            found.push('\n');
        }
        waiting.extend(children(node));
    }
    found
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).filter(|child| child.kind() != "comment").collect()
}

fn text<'s>(node: Node<'_>, src: &'s str) -> &'s str {
    src.get(node.byte_range()).unwrap_or_default()
}

/// The words of `nodes`, as written.
///
/// The grammar splits some words into several nodes: nodes without a space between them are one
/// word.
fn joined(nodes: &[Node<'_>], src: &str) -> Vec<String> {
    let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
    for node in nodes {
        let range = node.byte_range();
        match ranges.last_mut() {
            Some(last) if !separates(src.get(last.end..range.start).unwrap_or_default()) => {
                last.end = range.end
            }
            _ => ranges.push(range),
        }
    }
    ranges.into_iter().map(|range| src.get(range).unwrap_or_default().to_owned()).collect()
}

/// Whether the text between two nodes ends a word: a space that is not escaped.
fn separates(gap: &str) -> bool {
    let mut escaped = false;
    for c in gap.chars() {
        if c.is_whitespace() && !escaped {
            return true;
        }
        escaped = c == '\\' && !escaped;
    }
    false
}

/// Whether a text contains a command that the tree does not show.
///
/// The grammar parses backquotes in here-documents and in `${x:=…}` as text.
fn hides_substitution(root: Node<'_>, src: &str) -> bool {
    let mut shown = std::collections::HashSet::new();
    let mut silent: Vec<std::ops::Range<usize>> = Vec::new();
    let mut quoted: Vec<std::ops::Range<usize>> = Vec::new();
    let (mut nests, mut hides) = (false, false);
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        let range = node.byte_range();
        match node.kind() {
            "command_substitution" => {
                shown.extend([range.start, range.end.saturating_sub(1)]);
                if src.as_bytes().get(range.start) == Some(&b'`') {
                    quoted.push(range);
                }
            }
            "arithmetic_expansion" => {
                shown.insert(range.start);
            }
            "raw_string" | "ansi_c_string" if is_literal_quote(node) => {}
            "raw_string" | "ansi_c_string" | "comment" => silent.push(range),
            "heredoc_redirect" => {
                let parts = children(node);
                let literal = parts
                    .iter()
                    .any(|it| it.kind() == "heredoc_start" && text(*it, src).contains(['\'', '"', '\\']));
                let body = parts.iter().find(|it| it.kind() == "heredoc_body");
                // A here-document in a substitution of another is parsed as text of the outer one.
                nests |= !literal && body.is_some_and(|it| text(*it, src).contains("<<"));
                // The grammar finds no text after a line such as `cat <<E && # why`.
                let before_comment = src[range.start..].lines().next().and_then(|line| line.split_once('#'));
                hides |= before_comment.is_some_and(|(line, _)| line.trim_end().ends_with(['&', '|']));
                silent.extend(body.filter(|_| literal).map(|it| it.byte_range()));
            }
            _ => {}
        }
        let mut cursor = node.walk();
        waiting.extend(node.named_children(&mut cursor));
    }
    let bytes = src.as_bytes();
    let opens = |at: usize| bytes[at] == b'`' || bytes[at..].starts_with(b"$(");
    let opened: Vec<usize> = (0..bytes.len()).filter(|at| opens(*at)).collect();
    hides
        || nests && !opened.is_empty()
        || opened.into_iter().filter(|at| !shown.contains(at)).any(|at| {
            let slashes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
            let is_in = |ranges: &[std::ops::Range<usize>]| ranges.iter().any(|range| range.contains(&at));
            let is_escaped = slashes % 2 == 1 && !(bytes[at] == b'`' && is_in(&quoted));
            !is_escaped && !is_in(&silent)
        })
}

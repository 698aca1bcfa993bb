//! Indirect ways to run commands: variables and arithmetic expressions.
//!
//! Variables may name programs or contain code; indices in expressions may run commands.

use super::script::Command;

/// Names of variables that determine which programs or code a shell runs.
const NAMES: &[&str] = &[
    "AR",
    "AS",
    "BROWSER",
    "CC",
    "CDPATH",
    "CLASSPATH",
    "CPP",
    "CXX",
    "EDITOR",
    "ENV",
    "EXINIT",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "HOME",
    "INPUTRC",
    "LD",
    "LESSCLOSE",
    "LESSOPEN",
    "LINKER",
    "LUA_INIT",
    "PAGER",
    "PATH",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "RUSTC",
    "RUSTDOC",
    "SHELL",
    "SHELLOPTS",
    "VIMINIT",
    "VISUAL",
    "ZDOTDIR",
];

/// Prefixes of the names of such variables.
const STARTS: &[&str] = &[
    "BASH_",
    "BASHOPTS",
    "BUNDLE_",
    "CARGO_",
    "DYLD_",
    "GEM_",
    "GIT_",
    "GO",
    "LD_",
    "MAKE",
    "NODE_",
    "NPM_CONFIG_",
    "PERL",
    "PIP_",
    "PYTHON",
    "RUBY",
    "UV_",
    "XDG_CONFIG_",
    "_JAVA_",
    "JAVA_",
    "JDK_",
];

/// Ends of the names of such variables.
const ENDS: &[&str] = &[
    "FLAGS", "_ASKPASS", "_COMMAND", "_CONF", "_CONFIG", "_EDITOR", "_HOME", "_LINKER", "_OPTIONS", "_OPTS",
    "_PAGER", "_PATH", "_PRELOAD", "_RSH", "_RUNNER", "_SHELL", "_WRAPPER", "RC",
];

/// Variables that only affect the format, place and amount of output.
const HARMLESS: &[&str] = &[
    "CARGO_BUILD_JOBS",
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "CARGO_TARGET_DIR",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_TERMINAL_PROMPT",
    "GOARCH",
    "GOMAXPROCS",
    "GOOS",
    "NODE_ENV",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
];

/// The code that setting the variable `name` to `value` may run.
pub(super) fn of_assignment(name: &str, value: &str) -> Option<String> {
    of_variable(name).filter(|_| !is_harmless(name, value)).or_else(|| of_expression(value))
}

/// Prefixes of compiler options that run nothing.
const FLAGS: &[&str] = &[
    "-D",
    "-F",
    "-O",
    "-W",
    "-g",
    "-m",
    "-std=",
    "-pipe",
    "-f",
    "-C target-",
    "-C debug",
    "-C opt-level",
    "-C overflow-checks",
    "-C lto",
    "-C codegen-units",
    "-C panic",
    "-C strip",
    "-C instrument-coverage",
    "-A",
    "-tags=",
    "-mod=",
    "-race",
    "-count=",
    "-v",
];

/// Options that name programs, plugins or files although they begin like [`FLAGS`].
const NO_FLAGS: &[&str] = &["-Wl,", "-Wp,", "-Wa,", "-fplugin", "-fuse-ld", "-fpass-plugin", "-mod=mod"];

/// Options of Node that run nothing.
const NODE: &[&str] = &[
    "--max-",
    "--enable-source-maps",
    "--no-",
    "--trace-",
    "--unhandled-rejections",
    "--experimental-vm-modules",
    "--openssl-legacy-provider",
];

/// Whether a value is a usual compiler, harmless options, or a path of the project.
fn is_harmless(name: &str, value: &str) -> bool {
    let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || " -_=+./:,".contains(c));
    let value = value.replace("-C ", "-C\u{a0}");
    let words = || value.split(' ').filter(|word| !word.is_empty()).map(|word| word.replace('\u{a0}', " "));
    let begins = |word: &str, all: &[&str]| all.iter().any(|it| word.starts_with(it));
    is_plain
        && match name {
            "CC" | "CXX" | "CPP" | "LD" | "AR" => {
                let base = value.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '.'));
                [
                    "cc", "gcc", "clang", "c++", "g++", "clang++", "ld", "lld", "mold", "ar", "llvm-ar",
                    "gcc-ar",
                ]
                .contains(&base)
            }
            "RUSTFLAGS" | "RUSTDOCFLAGS" | "CFLAGS" | "CXXFLAGS" | "CPPFLAGS" | "GOFLAGS" => {
                words().all(|word| word == "warnings" || begins(&word, FLAGS) && !begins(&word, NO_FLAGS))
            }
            "NODE_OPTIONS" => words().all(|word| begins(&word, NODE)),
            "PYTHONPATH" => value.split(':').all(|path| !path.starts_with('/') && !path.contains("..")),
            _ => false,
        }
}

fn of_variable(name: &str) -> Option<String> {
    let name = name.split('[').next().unwrap_or_default().trim_end_matches('+');
    let upper = name.to_ascii_uppercase();
    let all_upper = upper == name || upper.starts_with("NPM_CONFIG_");
    let says = NAMES.contains(&upper.as_str())
        || STARTS.iter().any(|start| upper.starts_with(start))
        || ENDS.iter().any(|end| upper.ends_with(end));
    let harmless = HARMLESS.contains(&upper.as_str()) || upper.starts_with("CARGO_TERM_");
    (all_upper && says && !harmless)
        .then(|| format!("the variable {name}, which determines what programs run"))
}

/// The code in a text that a shell evaluates as an expression: `a[$(…)]`.
pub(super) fn of_expression(text: &str) -> Option<String> {
    let mut places = text.match_indices('[').map(|(at, _)| at);
    let runs = places.any(|at| {
        let is_index = text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        is_index && (text[at..].contains("$(") || text[at..].contains('`'))
    });
    runs.then(|| "an index that contains a command".to_owned())
}

/// Whether a script of sed runs commands (`1e id`, `s/a/id/e`) or writes a file.
fn runs_in_sed(script: &str) -> bool {
    script.split([';', '\n', '{', '}']).chain([script]).any(|command| {
        let address = |c: char| c.is_ascii_digit() || "$,!~+ ".contains(c);
        let mut rest = command.trim_start_matches(address);
        while let Some(after) = rest.strip_prefix('/') {
            let end = after.find('/').map_or(after.len(), |end| end + 1);
            rest = after[end..].trim_start_matches(address);
        }
        let mut letters = rest.chars();
        match (letters.next(), letters.next()) {
            (Some('e' | 'w' | 'W'), None | Some(' ')) => true,
            (Some('s'), Some(sign)) if !sign.is_alphanumeric() => {
                let flags = rest.rsplit(sign).next().unwrap_or_default();
                rest.matches(sign).count() >= 3
                    && flags.starts_with(|c: char| "eMmIigp0123456789w".contains(c))
                    && flags.split(' ').next().is_some_and(|it| it.contains(['e', 'w']))
            }
            _ => false,
        }
    })
}

/// The code that a builtin, or a wrapper with variables, may run.
pub(super) fn of(command: &Command) -> Option<String> {
    let texts = || command.args().iter().map(|word| word.text.as_str());
    let name = command.name();
    match name {
        "declare" | "export" | "local" | "readonly" | "typeset" | "env" | "sudo" | "doas" | "time" => {
            let given = texts().filter_map(|text| text.split_once('='));
            given
                .filter(|(name, _)| !name.starts_with('-'))
                .find_map(|(name, value)| of_assignment(name, value))
        }
        "read" | "mapfile" | "readarray" | "getopts" => {
            command.operands().find_map(|word| of_variable(&word.text))
        }
        "printf" => {
            let at = texts().position(|text| text == "-v")?;
            texts().nth(at + 1).and_then(of_variable)
        }
        "sed" if texts().any(runs_in_sed) => Some("a command in the script of sed".to_owned()),
        "hash" if command.has('p', "") => Some("a name that is assigned to another program".to_owned()),
        "enable" if command.has('f', "") => Some("a builtin from a file".to_owned()),
        _ => None,
    }
    .or_else(|| {
        let reads = [
            "[",
            "test",
            "let",
            "set",
            "read",
            "mapfile",
            "readarray",
            "getopts",
            "printf",
            "unset",
            "wait",
            "declare",
            "export",
            "local",
            "readonly",
            "typeset",
        ]
        .contains(&name);
        texts().filter(|_| reads).find_map(of_expression)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_select_programs_are_recognized() {
        for name in [
            "PATH",
            "PATH+",
            "LD_PRELOAD",
            "BASH_ALIASES[ls]",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
            "GIT_PAGER",
            "npm_config_x",
        ] {
            assert!(of_variable(name).is_some(), "{name}");
        }
        for name in [
            "A",
            "x",
            "path",
            "RUST_BACKTRACE",
            "RUST_LOG",
            "CI",
            "NODE_ENV",
            "CARGO_TERM_COLOR",
            "TERM",
            "LANG",
        ] {
            assert_eq!(of_variable(name), None, "{name}");
        }
    }
}

//! File operations that a server registered for (LSP 3.17 §FileOperationFilter).

use globset::GlobBuilder;
use paths::AbsPath;
use serde_json::Value;

use crate::server::Server;

/// The paths that match the server's filters for `method`, offered as `operation`.
pub(crate) fn wanted<'a>(
    server: &Server,
    operation: &str,
    method: &str,
    paths: &'a [AbsPath],
) -> Vec<&'a AbsPath> {
    let capabilities = server.core.capabilities();
    let Some(options) = capabilities.provider(&format!("workspace.fileOperations.{operation}"), method)
    else {
        return Vec::new();
    };
    paths.iter().filter(|path| passes(options, path, "file")).collect()
}

/// Whether a server wants `willRename` for a file or directory at `path`.
pub(crate) fn follows(server: &Server, path: &AbsPath, is_directory: bool) -> bool {
    let capabilities = server.core.capabilities();
    let options = capabilities.provider("workspace.fileOperations.willRename", "workspace/willRenameFiles");
    options.is_some_and(|options| passes(options, path, if is_directory { "folder" } else { "file" }))
}

fn passes(options: &Value, path: &AbsPath, kind: &str) -> bool {
    // Filters are required by the specification; without them all files match.
    let Some(filters) = options["filters"].as_array().filter(|it| !it.is_empty()) else { return true };
    filters.iter().any(|filter| {
        let pattern = &filter["pattern"];
        let glob = pattern["glob"].as_str().unwrap_or_default();
        let ignore_case = pattern["options"]["ignoreCase"] == true;
        // A single star stays within one path component.
        let built = GlobBuilder::new(glob).literal_separator(true).case_insensitive(ignore_case).build();
        filter["scheme"].as_str().is_none_or(|scheme| scheme == "file")
            && pattern["matches"].as_str().is_none_or(|matches| matches == kind)
            && built.is_ok_and(|glob| glob.compile_matcher().is_match(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn filters_select_files_by_glob_and_kind() {
        let of_kind = |filter: &Value, path: &str, kind: &str| {
            passes(&json!({"filters": [filter]}), &AbsPath::new(path).unwrap(), kind)
        };
        let check = |filter: Value, path: &str| of_kind(&filter, path, "file");
        let glob = |glob: &str| json!({"pattern": {"glob": glob}});
        assert!(check(glob("**/*.{ts,js}"), "/r/a/b.ts") && !check(glob("**/*.{ts,js}"), "/r/a/b.py"));
        assert!(check(json!({"scheme": "file", "pattern": {"glob": "**/*", "matches": "file"}}), "/r/a"));
        assert!(!check(json!({"scheme": "untitled", "pattern": {"glob": "**/*"}}), "/r/a"));
        assert!(!check(json!({"pattern": {"glob": "**/*", "matches": "folder"}}), "/r/a"));
        let loose = json!({"pattern": {"glob": "**/*.py", "options": {"ignoreCase": true}}});
        assert!(check(loose, "/r/A.PY") && !check(glob("**/*.py"), "/r/A.PY"));
        for all in [json!({}), json!({"filters": []})] {
            assert!(passes(&all, &AbsPath::new("/r/a").unwrap(), "file"));
        }
        assert!(check(glob("/r/*.py"), "/r/a.py") && !check(glob("/r/*.py"), "/r/sub/a.py"));
        for all in ["**", "**/*"] {
            let folders = json!({"pattern": {"glob": all, "matches": "folder"}});
            assert!(of_kind(&folders, "/r/sub", "folder") && !of_kind(&folders, "/r/sub", "file"), "{all}");
        }
        let files = json!({"pattern": {"glob": "**/*", "matches": "file"}});
        assert!(!of_kind(&files, "/r/sub", "folder") && of_kind(&glob("**/*"), "/r/sub", "folder"));
    }
}

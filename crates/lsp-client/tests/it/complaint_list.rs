//! Complaints of users about other agents' language-server tools, with their tests.
//!
//! The list finds a complaint by its number, and fails if a listed test is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A project, its issue number, the complaint, and the tests that cover it.
type Complaint = (&'static str, u32, &'static str, &'static [&'static str]);

const LIST: &[Complaint] = &[
    (
        "oh-my-pi",
        1648,
        "servers are not found for files in subfolders",
        &["omp_1648_servers_are_found_from_the_file_upward", "each_monorepo_file_finds_its_root_and_server"],
    ),
    ("oh-my-pi", 2247, "success is reported despite errors", &["omp_2247_errors_are_never_called_ok"]),
    (
        "oh-my-pi",
        10701,
        "a glob is OK after 400 ms",
        &["omp_10701_a_glob_waits_for_each_file_or_reports_pending"],
    ),
    (
        "oh-my-pi",
        10702,
        "a glob matches other files than expected",
        &["omp_10702_a_glob_selects_exactly_its_files"],
    ),
    (
        "oh-my-pi",
        10703,
        "a glob covers only 20 files",
        &["omp_10703_all_project_files_are_checked_not_twenty"],
    ),
    (
        "oh-my-pi",
        9624,
        "a pull-diagnostics server receives no request",
        &["omp_9624_diagnostics_are_pulled_if_announced"],
    ),
    (
        "oh-my-pi",
        11416,
        "stale text after an external change",
        &["omp_11416_outside_changes_are_sent_before_the_next_answer"],
    ),
    (
        "oh-my-pi",
        3001,
        "a lazy start hangs",
        &[
            "omp_3001_a_lazy_start_that_hangs_ends_with_the_deadline",
            "requests_end_without_an_answer_to_initialize",
        ],
    ),
    (
        "oh-my-pi",
        4910,
        "an edit waits forever for a server",
        &["omp_4910_an_edit_does_not_wait_forever_for_a_server"],
    ),
    (
        "oh-my-pi",
        3029,
        "a failed start is not explained",
        &["omp_3029_a_missing_program_is_named_with_its_installer"],
    ),
    ("oh-my-pi", 3546, "settings are read once", &["omp_3546_a_reload_rereads_the_definitions"]),
    (
        "oh-my-pi",
        4080,
        "a server that cannot start",
        &["a_server_that_cannot_start_reports_the_reason", "a_crashing_server_is_not_restarted_forever"],
    ),
    ("oh-my-pi", 6369, "processes remain", &["omp_6369_a_cancelled_reload_leaves_no_process"]),
    ("oh-my-pi", 6800, "processes remain", &["omp_6800_no_started_process_is_left"]),
    (
        "oh-my-pi",
        8380,
        "a server that fails to follow a rename",
        &["omp_8380_a_server_that_fails_stops_the_move"],
    ),
    // 8382 to 8387 are one audit of rename, reload, idleness and restart.
    (
        "oh-my-pi",
        8382,
        "a restart",
        &[
            "omp_8382_a_restarted_server_has_the_documents_again",
            "omp_8382_a_stopped_server_gets_its_documents_back",
        ],
    ),
    ("oh-my-pi", 8383, "a reload", &["omp_a_reload_helps_a_server_that_exited_at_once"]),
    ("oh-my-pi", 8384, "a rename of a file", &["a_file_moves_with_the_references_to_it"]),
    ("oh-my-pi", 8385, "a rename of a file", &["a_file_without_a_server_for_moves_moves_alone"]),
    ("oh-my-pi", 8386, "idleness", &["an_idle_server_is_stopped_and_restarted"]),
    ("oh-my-pi", 8387, "a restart", &["a_server_killed_from_outside_is_restarted"]),
    ("oh-my-pi", 8390, "idleness", &["omp_8390_a_server_with_a_pending_request_is_not_idle"]),
    ("oh-my-pi", 8571, "a reload crashes some servers", &["omp_8571_a_reload_restarts_instead_of_notifying"]),
    (
        "oh-my-pi",
        2329,
        "a format reindents the whole file",
        &["omp_2329_formatting_uses_the_files_indentation"],
    ),
    (
        "oh-my-pi",
        983,
        "an editor's own server is wanted",
        &["omp_983_a_language_server_is_not_needed_to_read_and_edit"],
    ),
    (
        "oh-my-pi",
        1976,
        "the wrong one of several servers",
        &["omp_1976_definitions_choose_the_server_of_each_feature"],
    ),
    ("opencode", 17287, "eleven starts, no shutdown", &["opencode_17287_eleven_requests_share_one_server"]),
    ("opencode", 18632, "servers outlive the program", &["killing_pilcrow_ends_its_servers"]),
    (
        "opencode",
        15037,
        "servers outlive their sessions and fill the memory",
        &["a_run_that_ends_well_leaves_no_process", "the_memory_limit_stops_all_but_the_last_server"],
    ),
    (
        "opencode",
        18716,
        "servers outlive the program",
        &["ctrl_c_ends_a_run_in_two_seconds_and_leaves_no_process"],
    ),
    (
        "opencode",
        13796,
        "servers fill the memory",
        &["every_package_has_its_own_server_within_the_budget", "the_ring_is_bounded"],
    ),
    (
        "serena",
        725,
        "a rename without changes succeeds",
        &["serena_725_a_rename_that_changes_nothing_is_no_success"],
    ),
    ("serena", 1833, "a hang after an edit", &["serena_1833_an_edit_during_a_request_delays_neither"]),
    (
        "serena",
        927,
        "a rename needs an open document",
        &["serena_927_a_document_is_open_before_it_is_renamed_in"],
    ),
    ("serena", 336, "tools hang", &["a_silent_server_costs_at_most_the_deadline"]),
    (
        "serena",
        653,
        "the reader of the output crashes",
        &["serena_653_output_before_the_first_message_is_skipped"],
    ),
    ("zed", 60117, "diagnostics of the project never end", &["zed_60117_diagnostics_of_the_project_end"]),
    ("zed", 63721, "a server is started twice", &["many_requests_start_one_server"]),
    ("zed", 45685, "the first match wins", &["zed_45685_the_first_match_does_not_win"]),
    ("zed", 55744, "a rename is not saved", &["zed_55744_a_rename_is_saved_and_counted_correctly"]),
    ("hermes-agent", 66471, "diagnostics of an older text", &["diagnostics_of_an_older_version_are_dropped"]),
    (
        "typescript-language-server",
        1064,
        "diagnostics are cleared before the new ones come",
        &["tsls_1064_cleared_diagnostics_do_not_count_as_clean"],
    ),
    (
        "intelephense",
        3569,
        "old diagnostics remain after many edits",
        &["without_versions_only_later_publishes_count"],
    ),
    (
        "CodeBoarding",
        459,
        "no message says why it is slow",
        &["codeboarding_459_a_timeout_names_method_progress_and_log"],
    ),
    (
        "oh-my-claudecode",
        768,
        "servers outlive their sessions",
        &["a_stubborn_server_is_killed_with_its_children"],
    ),
    ("oh-my-claudecode", 1429, "servers outlive a killed program", &["killing_pilcrow_ends_its_servers"]),
];

fn sources(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("complaint_list.rs") {
            out.push(path);
        }
    }
}

/// The names of all tests below `directories`.
fn tests(directories: &[&str]) -> BTreeSet<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    directories.iter().for_each(|directory| sources(&here.join(directory), &mut files));
    let mut names = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                let head = lines.find(|line| line.contains("fn ")).unwrap_or_default();
                let name = head.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
                names.extend(name.map(str::to_owned));
            }
        }
    }
    names
}

#[test]
fn complaints_and_tests_correspond() {
    let all = tests(&["src", "tests/it", "../refactor/tests/it", "../../tests/e2e"]);
    let mut seen = BTreeSet::new();
    for (project, number, what, held_by) in LIST {
        assert!(seen.insert((project, number)), "{project} {number} is listed twice");
        assert!(!held_by.is_empty(), "{project} {number} ({what}) has no test");
        for test in *held_by {
            assert!(all.contains(*test), "{project} {number} ({what}): there is no test {test}");
        }
    }
    // Tests named after a number are on the list under that number.
    let prefixes = [("omp", "oh-my-pi"), ("opencode", "opencode"), ("serena", "serena"), ("zed", "zed")];
    for name in &all {
        let mut words = name.split('_');
        let project = words.next().and_then(|word| prefixes.iter().find(|(prefix, _)| *prefix == word));
        let number = words.next().and_then(|word| word.parse::<u32>().ok());
        if let (Some((_, project)), Some(number)) = (project, number) {
            let listed =
                LIST.iter().any(|it| it.0 == *project && it.1 == number && it.3.contains(&name.as_str()));
            assert!(listed, "{name} is not on the list");
        }
    }
}

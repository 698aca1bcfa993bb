//! The sandbox of commands: a program that tries to leave it, at each level, as root and as another user.
//!
//! The tests run the helper `pilcrow __confine` itself, so that they choose the level and the limits.

#![expect(clippy::unwrap_used, reason = "a failing test should end with its location")]

use std::io::{BufRead, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tests::sandbox::{DEADLINE, finish};
use tests::{Batch, Ran, Sandbox, Scripted, check_output};

const LEVELS: [&str; 2] = ["bwrap", "landlock"];

/// A project with a repository, and files outside.
fn project() -> Sandbox {
    let sandbox = Sandbox::with(&[(".git/config", "[core]\n"), (".git/hooks/sample", ""), ("a.txt", "a\n")]);
    for (path, text) in
        [("outside/file", "text\n"), ("outside/login", "secret\n"), ("outside/keys/key", "secret\n")]
    {
        std::fs::create_dir_all(sandbox.beside(path).parent().unwrap()).unwrap();
        std::fs::write(sandbox.beside(path), text).unwrap();
    }
    sandbox
}

fn profile(sandbox: &Sandbox, network: &str) -> Value {
    let outside = sandbox.beside("outside");
    sandbox.profile(&[outside.join("keys"), outside.join("login"), "/nowhere".into()], network)
}

#[track_caller]
fn confined(sandbox: &Sandbox, level: &str, profile: &Value, words: &[&str]) -> Ran {
    finish(sandbox.confined(level, profile, words, "the rest"), DEADLINE)
}

/// Tries to leave the sandbox; returns the attempts that differ from `denied`.
fn attempts(level: &str, network: &str, as_root: bool) -> String {
    let mut sandbox = project();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let unix = UnixListener::bind(sandbox.beside("outside/socket")).unwrap();
    let port = tcp.local_addr().unwrap().port();
    let name = SocketAddr::from_abstract_name(format!("pilcrow-{port}")).unwrap();
    let hidden = UnixListener::bind_addr(&name).unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    unix.set_nonblocking(true).unwrap();
    hidden.set_nonblocking(true).unwrap();
    if !as_root {
        sandbox.drop_root();
    }
    // A process of the same user, which only the sandbox protects.
    let mut other = sandbox.confined("none", &profile(&sandbox, "allowed"), &["sleep", "1000"], "");

    let [project, outside] =
        [sandbox.project(), sandbox.beside("outside")].map(|it| it.display().to_string());
    let numbers = [other.id(), u32::from(port), u32::from(udp.local_addr().unwrap().port())];
    let [process, tcp_port, udp_port] = numbers.map(|number| number.to_string());
    let script = include_str!("confinement.py");
    let words = ["python3", "-c", script, &project, &outside, &process, &tcp_port, &udp_port];
    let ran = confined(&sandbox, level, &profile(&sandbox, network), &words).expect(0);
    assert!(other.try_wait().unwrap().is_none(), "the process outside ended");
    other.kill().unwrap();
    other.wait().unwrap();

    let changed = std::fs::read_dir(&outside).unwrap().count() != 4;
    assert!(!changed && std::fs::read(sandbox.beside("outside/file")).unwrap() == b"text\n", "{}", ran.all());
    if network == "allowed" {
        assert!(udp.recv(&mut [0]).is_ok(), "{}", ran.all());
    } else {
        assert!(tcp.accept().is_err() && udp.recv(&mut [0]).is_err(), "{}", ran.all());
        assert!(unix.accept().is_err() && hidden.accept().is_err(), "{}", ran.all());
    }
    ran.all()
}

fn check_attempts(level: &str, network: &str, expected: &Expect) {
    let [by_root, by_other] = [true, false].map(|as_root| attempts(level, network, as_root));
    assert_eq!(by_root, by_other);
    check_output(&by_root, expected);
}

#[test]
fn nothing_leaves_bwrap() {
    check_attempts(
        "bwrap",
        "none",
        &expect![[r#"
            new file: denied (EROFS)
            file: denied (EROFS)
            truncation: denied (EROFS)
            removal: denied (EROFS)
            directory: denied (EROFS)
            by link: denied (EROFS)
            by hard link: denied (EXDEV)
            moved in: denied (EXDEV)
            moved out: denied (EXDEV)
            by /proc/self/root: denied (EROFS)
            by /proc/PID/root: denied (ENOENT)
            mode: denied (EROFS)
            system: denied
            mount: denied (EPERM)
            mount by a new user: denied (EPERM)
            git hook: denied (EROFS)
            git settings: denied (EROFS)
            git moved: denied (EBUSY)
            keys: denied (ENOENT)
            keys by /proc: denied (ENOENT)
            new key: denied (EROFS)
            login: denied (EACCES)
            signal: denied (ESRCH)
            debugging: denied (ESRCH)
            limits: denied (ESRCH)
            environment: denied (ENOENT)
            io_uring: denied (EPERM)
            kernel key: denied (EPERM)
            vsock: denied (EPERM)
            packets: denied (EPERM)
            netlink: denied (EPERM)
            tcp: denied (ECONNREFUSED)
            raw: denied (EPERM)
            dns: denied (timeout)
            unix: denied (EPERM)
            abstract: denied (EPERM)
        "#]],
    );
}

#[test]
fn nothing_leaves_landlock_but_metadata() {
    check_attempts(
        "landlock",
        "none",
        &expect![[r#"
            new file: denied (EACCES)
            file: denied (EACCES)
            truncation: denied (EACCES)
            removal: denied (EACCES)
            directory: denied (EACCES)
            by link: denied (EACCES)
            by hard link: denied (EXDEV)
            moved in: denied (EACCES)
            moved out: denied (EACCES)
            by /proc/self/root: denied (EACCES)
            by /proc/PID/root: denied (EACCES)
            mode: allowed
            system: denied
            mount: denied (EPERM)
            mount by a new user: denied (EPERM)
            git hook: allowed
            git settings: allowed
            git moved: allowed
            keys: denied (EACCES)
            keys by /proc: denied (EACCES)
            new key: denied (EACCES)
            login: denied (EACCES)
            signal: denied (EPERM)
            debugging: denied (EPERM)
            limits: denied (EPERM)
            environment: denied (EACCES)
            io_uring: denied (EPERM)
            kernel key: denied (EPERM)
            vsock: denied (EPERM)
            packets: denied (EPERM)
            netlink: denied (EPERM)
            tcp: denied (EPERM)
            raw: denied (EPERM)
            dns: denied (timeout)
            unix: denied (EPERM)
            abstract: denied (EPERM)
        "#]],
    );
}

#[test]
fn nothing_but_the_proxy_leaves_the_network_of_commands() {
    for level in LEVELS {
        let [none, proxy] = ["none", "proxy"].map(|network| attempts(level, network, false));
        let changed: Vec<&str> = proxy.lines().filter(|line| !none.lines().any(|it| it == *line)).collect();
        let expected: &[&str] = match level {
            "bwrap" => &["unix: denied (ECONNREFUSED)", "abstract: denied (ECONNREFUSED)"],
            _ => &["tcp: denied (ECONNREFUSED)"],
        };
        assert_eq!(changed, expected, "{level}");
        assert_eq!(proxy, attempts(level, "proxy", true), "{level}");
    }
}

#[test]
fn the_network_of_a_sandbox_may_be_allowed() {
    for level in LEVELS {
        let all = attempts(level, "allowed", true);
        for line in ["tcp: allowed", "unix: allowed", "vsock: denied (EPERM)", "netlink: denied (EPERM)"] {
            assert!(all.lines().any(|it| it == line), "{level}: {line}\n{all}");
        }
    }
}

#[test]
fn input_and_status_pass_through_a_sandbox() {
    let sandbox = project();
    for level in LEVELS {
        let ran = confined(&sandbox, level, &profile(&sandbox, "none"), &["sh", "-c", "cat; pwd; exit 3"]);
        let expected = format!("the rest{}\n", sandbox.project().display());
        assert_eq!((ran.code(), ran.all()), (3, expected), "{level}");
        let ran = confined(&sandbox, level, &profile(&sandbox, "none"), &["no-such-program"]);
        assert_ne!(ran.code(), 0, "{level}: {}", ran.all());
    }
}

/// As in some containers: the ids of this process's session and group are 0.
#[test]
fn commands_run_where_the_session_is_in_another_namespace() {
    let sandbox = project();
    let words = ["unshare", "--pid", "--fork", "--mount-proc"];
    let ran = sandbox.run_under(&words, &["tool", "bash", r#"{"command": "cat a.txt"}"#, "--yes"]).expect(0);
    assert!(ran.stdout.starts_with("a\n"), "{ran:?}");
    let program = std::env::current_exe().unwrap();
    let test = "confinement::input_and_status_pass_through_a_sandbox";
    let mut command = std::process::Command::new(words[0]);
    let output = command.args(&words[1..]).arg(program).args(["--exact", test]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn usual_work_succeeds_in_a_sandbox() {
    for level in LEVELS {
        let sandbox = Sandbox::with(&[
            ("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            ("src/main.rs", "fn main() { println!(\"built\"); }\n"),
        ]);
        let mut profile = profile(&sandbox, "allowed");
        profile["writable"] = json!([sandbox.project(), sandbox.beside("user"), "/tmp"]);
        let script = "set -e\n\
            git init -q .; git config user.name a; git config user.email a@b; git add .; git commit -qm first\n\
            git checkout -qb other; git mv src/main.rs src/moved.rs; git stash -q; git log --format=%s\n\
            cargo build -q --offline; target/debug/tiny\n\
            python3 -c 'import subprocess, multiprocessing as m; l = m.Lock(); print(subprocess.check_output([\"echo\", \"child\"]))'\n\
            seq 1000 | sort -n | tail -1; cat <(echo substituted); echo here > /dev/null\n\
            mkdir -p a/b c; echo x > a/b/f; mv a/b c/; ln c/b/f hard; cat c/b/f; t=$(mktemp); rm $t\n\
            sleep 0.01 & wait; test $(ls ~ | wc -l) = 0\n\
            echo 'require(\"node:test\")(\"a\", () => {})' > a.test.js; node --test >/dev/null; echo $?\n\
            echo 'import unittest; unittest.main()' > test.py; python3 test.py 2>/dev/null; echo $?";
        let ran = confined(&sandbox, level, &profile, &["bash", "-c", script]);
        assert_eq!(ran.all(), "first\nbuilt\nb'child\\n'\n1000\nsubstituted\nx\n0\n0\n", "{level}");
        ran.expect(0);
    }
}

/// Answers each connection with its first line.
///
/// The address is not one that programs reach without a proxy.
fn echo_first_lines() -> u16 {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            std::io::BufReader::new(&stream).read_line(&mut line).unwrap();
            let text = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{line}",
                line.len()
            );
            (&stream).write_all(text.as_bytes()).unwrap();
        }
    });
    port
}

#[test]
fn commands_reach_the_hosts_that_rules_name() {
    let port = echo_first_lines();
    for as_root in [true, false] {
        let mut sandbox = Sandbox::with(&[("a.txt", "")]);
        let rules = format!("policy.rules = ['allow http 127.0.0.2:{port}', 'deny http example.org']\n");
        std::fs::create_dir_all(sandbox.home().join("config")).unwrap();
        std::fs::write(sandbox.home().join("config/config.toml"), rules).unwrap();
        if !as_root {
            sandbox.drop_root();
        }
        let url = format!("http://127.0.0.2:{port}");
        let lines = [
            format!("curl -s {url}/plain"),
            format!("curl -sp {url}/tunnel"),
            format!("curl -s --noproxy '*' {url}/direct"),
            format!("curl -s http://127.0.0.3:{port}/private"),
            "curl -s https://example.org".to_owned(),
            "curl -s http://169.254.169.254/latest/meta-data".to_owned(),
        ];
        let line = lines.map(|line| format!("{line}; echo \" $?\"\n")).concat();
        let by_bwrap = sandbox.tool("bash", &json!({ "command": line })).value;
        for answer in [by_bwrap, bash_without_bwrap(&sandbox, &line)] {
            let text = answer["content"][0]["text"].as_str().unwrap();
            let expected = "\
                GET /plain HTTP/1.1\r\n 0\n\
                GET /tunnel HTTP/1.1\r\n 0\n 7\n\
                it is in a private network; only a rule `allow http 127.0.0.3:PORT` allows it\n 0\n 56\n\
                it is in a private network; only a rule `allow http 169.254.169.254:80` allows it\n 0\n";
            let expected = expected.replace("PORT", &port.to_string());
            let output = text.split("· exit status").next().unwrap();
            assert_eq!(output.replace('\r', ""), expected.replace('\r', ""), "{answer:#}");
            let denied = answer["details"]["denied"].as_array().unwrap();
            let hosts: Vec<&str> =
                denied.iter().map(|it| it.as_str().unwrap().split(' ').nth(1).unwrap()).collect();
            assert_eq!(hosts, [&format!("127.0.0.3:{port}"), "169.254.169.254:80", "example.org:443"]);
        }
    }
}

#[test]
fn packages_are_installed_through_the_proxy() {
    let mut sandbox = Sandbox::with(&[("package.json", r#"{"name": "a", "version": "1.0.0"}"#)]);
    // Its settings are hidden from the line.
    let home = home_with_key(&mut sandbox);
    std::fs::write(home.path().join(".npmrc"), "//127.0.0.2/:_authToken=secret\n").unwrap();
    let mut server = std::process::Command::new("python3");
    sandbox.prepare(&mut server);
    server.args(["-c", include_str!("registry.py")]);
    let mut server = server.spawn().unwrap();
    let mut port = String::new();
    std::io::BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let url = format!("http://127.0.0.2:{}", port.trim());
    std::fs::create_dir_all(home.path().join("pilcrow/config")).unwrap();
    let rules = format!("policy.rules = ['allow http 127.0.0.2:{}']\n", port.trim());
    std::fs::write(home.path().join("pilcrow/config/config.toml"), rules).unwrap();
    let pip = "pip install -q --disable-pip-version-check --no-cache-dir --root-user-action ignore --target";
    let npm = format!("--silent --no-audit --no-fund --cache /tmp/$$ --registry {url}");
    let line = format!(
        "{pip} packages --trusted-host 127.0.0.2 --index-url {url}/simple tiny\n\
         PYTHONPATH=packages python3 -c 'import tiny; print(tiny.answer)'\n\
         npm install {npm} tiny && rm -r node_modules && npm ci {npm}; node -p 'require(\"tiny\")'; rm -r /tmp/$$"
    );
    let by_bwrap = sandbox.tool("bash", &json!({ "command": line })).value;
    for answer in [by_bwrap, bash_without_bwrap(&sandbox, &line)] {
        let text = answer["content"][0]["text"].as_str().unwrap();
        let output = text.split("· exit status").next().unwrap();
        let lines: Vec<&str> = output.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
        assert_eq!(lines, ["42", "42"], "{answer:#}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn nothing_outlives_a_command_or_shows_it_keys() {
    let script = "import glob, os, time
found = 0
for path in glob.glob('/proc/[0-9]*/environ'):
    try: found += b'hunter2' in open(path, 'rb').read()
    except OSError: pass
print(found, flush=True)
os.fork() and os._exit(0)
os.setsid()
os.fork() and os._exit(0)
print(open('/proc/self/status').read().split('Seccomp:')[1].split()[0], flush=True)
time.sleep(300)
";
    let mut sandbox = Sandbox::with(&[("script.py", script)]);
    sandbox.variables.insert("TOKEN_OF_MINE_SECRET".to_owned(), "hunter2-hunter2".to_owned());
    let line = "python3 script.py";
    for answer in
        [sandbox.tool("bash", &json!({ "command": line })).value, bash_without_bwrap(&sandbox, line)]
    {
        let text = answer["content"][0]["text"].as_str().unwrap();
        let lines: Vec<&str> = text.lines().take(2).collect();
        assert_eq!(lines, ["0", "2"], "{answer:#}");
    }
    sandbox.mark().none_left(DEADLINE);
}

#[test]
fn commands_reach_servers_of_earlier_commands() {
    let sandbox = Sandbox::with(&[("a.txt", "served\n")]);
    let mut batch = Batch::start(&sandbox);
    let server = "python3 -c \"import http.server as h; s = h.HTTPServer(('', 8123), h.SimpleHTTPRequestHandler); print('up', flush=True); s.serve_forever()\"";
    batch.call("bash", &json!({ "command": server, "background": true })).ok();
    let ask = "curl -s --retry 9 --retry-connrefused http://localhost:8123/a.txt";
    let answer = batch.call("bash", &json!({ "command": ask }));
    assert_eq!(answer.ok(), "served\n· exit status 0");
}

/// Runs a program where bubblewrap is not installed.
const WITHOUT_BWRAP: [&str; 8] =
    ["bwrap", "--dev-bind", "/", "/", "--ro-bind", "/dev/null", "/usr/bin/bwrap", "--"];

/// Calls a tool where bubblewrap is not installed: Landlock confines what it runs.
fn tool_without_bwrap(sandbox: &Sandbox, tool: &str, arguments: &Value) -> Value {
    let ran = sandbox.run_under(&WITHOUT_BWRAP, &["tool", tool, &arguments.to_string(), "--yes", "--json"]);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

fn bash_without_bwrap(sandbox: &Sandbox, line: &str) -> Value {
    tool_without_bwrap(sandbox, "bash", &json!({ "command": line }))
}

#[test]
fn a_command_that_left_its_session_permits_nothing() {
    let sandbox = Sandbox::new();
    let (pilcrow, home) = (tests::built::pilcrow().display(), sandbox.home());
    let home = home.display();
    let line = |apart: &str| {
        let trust = format!("{pilcrow} trust . >log 2>&1; mv log out");
        format!(
            "env -i PATH=\"$PATH\" PILCROW_HOME=\"{home}\" {apart} sh -c '{trust}'; \
             until [ -e out ]; do sleep 0.1; done; cat out; rm out"
        )
    };
    let unconfined = |line: String| json!({ "command": line, "sandbox": false });
    let refusal = "pilcrow: a process that a run of the agent started cannot permit anything; \
                   run it in a terminal of your own\n· exit status 0";
    assert_eq!(sandbox.tool("bash", &unconfined(line("setsid -f"))).ok(), refusal);
    assert_eq!(sandbox.tool("bash", &unconfined(line("unshare -Urpf"))).ok(), refusal);
    let answer = bash_without_bwrap(&sandbox, &line("setsid -f"));
    assert_eq!(answer["details"]["sandbox"], "Landlock", "{answer:#}");
    assert_eq!(answer["content"][0]["text"], refusal, "{answer:#}");
}

#[test]
fn without_a_sandbox_every_command_without_a_rule_asks() {
    let mut sandbox = Sandbox::with(&[("a.txt", "a\n")]);
    sandbox.run_anywhere(&["trust", &sandbox.project().display().to_string()]).expect(0);
    let config = sandbox.home().join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(
        config.join("config.toml"),
        "policy = {mode = 'permissive', rules = ['allow exec cat']}\n",
    )
    .unwrap();
    let script = sandbox.beside("without_landlock.py");
    std::fs::write(&script, include_str!("without_landlock.py")).unwrap();
    let words = [&WITHOUT_BWRAP[..], &["python3", script.to_str().unwrap()]].concat();
    let run = |sandbox: &Sandbox, arguments: &[&str]| sandbox.run_under(&words, arguments);
    let asked = run(&sandbox, &["tool", "bash", r#"{"command": "ls"}"#]).expect(3);
    let ruled = run(&sandbox, &["tool", "bash", r#"{"command": "cat a.txt"}"#]).expect(0);
    let yes = run(&sandbox, &["tool", "bash", r#"{"command": "ls"}"#, "--yes", "--json"]).expect(0);
    let yes: Value = serde_json::from_str(&yes.stdout).unwrap();
    sandbox.variables.insert("PILCROW_EXEC_SANDBOX".to_owned(), "required".to_owned());
    let required = run(&sandbox, &["tool", "bash", r#"{"command": "cat a.txt"}"#]).expect(1);
    let shown = format!("{}{}{}\n{}", asked.all(), ruled.all(), yes["details"]["sandbox"], required.all());
    check_output(
        &shown,
        &expect![[r#"
        exec: every command needs approval, and there is no user to ask: repeat with --yes, or name the commands in rules like `allow exec cargo test`
        a
        · exit status 0
        "none"
        exec: without the sandbox: `exec.sandbox` is "required"
    "#]],
    );
}

/// A home with a key, in a directory that a sandbox does not open for writing.
fn home_with_key(sandbox: &mut Sandbox) -> tempfile::TempDir {
    let home = tempfile::tempdir_in(std::env::home_dir().unwrap()).unwrap();
    for directory in [".ssh", ".cache"] {
        std::fs::create_dir(home.path().join(directory)).unwrap();
    }
    std::fs::write(home.path().join(".ssh/id_ed25519"), "secret\n").unwrap();
    for (name, path) in [("HOME", home.path().to_owned()), ("PILCROW_HOME", home.path().join("pilcrow"))] {
        sandbox.variables.insert(name.to_owned(), path.display().to_string());
    }
    home
}

#[test]
fn logins_of_tools_are_read_only_by_their_own_lines() {
    let read = "import os, sys\nfor name in sys.argv[1:]:\n  try: print(open(os.path.expanduser(name)).read() or 'empty')\n  except OSError: print('denied')\n";
    let mut sandbox = Sandbox::with(&[("read.py", read)]);
    let home = home_with_key(&mut sandbox);
    let logins =
        [".npmrc", ".config/gh/hosts.yml", ".cargo/credentials.toml", ".terraform.d/credentials.tfrc.json"];
    for login in logins {
        std::fs::create_dir_all(home.path().join(login).parent().unwrap()).unwrap();
        std::fs::write(home.path().join(login), "secret").unwrap();
    }
    std::fs::write(home.path().join(".config/other"), "settings").unwrap();
    for name in ["npm", "gh"] {
        let program = home.path().join(name);
        std::fs::write(&program, "#!/bin/sh\ncat ~/.npmrc ~/.config/gh/hosts.yml 2>&1\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", home.path().display(), std::env::var("PATH").unwrap());
    sandbox.variables.insert("PATH".to_owned(), path);
    let names = logins.map(|login| format!("~/{login}")).join("' '");
    let line = format!("python3 read.py '{names}' '~/.config/other'");
    let output = |value: &Value| value["content"][0]["text"].as_str().unwrap().to_owned();
    let by_bwrap = |line: &str| output(&sandbox.tool("bash", &json!({ "command": line })).value);
    for (text, npmrc) in
        [(by_bwrap(&line), "empty"), (output(&bash_without_bwrap(&sandbox, &line)), "denied")]
    {
        let found: Vec<&str> = text.lines().take(5).collect();
        assert_eq!(found, [npmrc, "denied", "denied", "denied", "settings"], "{text}");
    }
    for (line, count) in [("npm ci", 1), ("npm run x", 0), ("gh pr view", 1), ("gh pr create", 0)] {
        assert_eq!(by_bwrap(line).matches("secret").count(), count, "{line}");
    }
}

/// The server tries to leave its sandbox before it serves.
#[test]
fn language_servers_run_in_the_sandbox() {
    let port = echo_first_lines();
    for without_bwrap in [false, true] {
        let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n")]);
        let home = home_with_key(&mut sandbox);
        let script = json!({"methods": {"textDocument/hover": [[{"result": {"contents": "it serves"}}]]},
            "capabilities": {"hoverProvider": true}});
        for directory in ["moved/registry", ".gradle/caches"] {
            std::fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        let cargo_home = home.path().join("moved").display().to_string();
        sandbox.variables.insert("CARGO_HOME".to_owned(), cargo_home);
        let scripted = Scripted::install(&mut sandbox, &[script]);
        let launcher = sandbox.beside("scripted tools/bin/basedpyright-langserver");
        let noted = sandbox.beside("noted");
        let [state, installed] =
            ["state", "data/adapters"].map(|name| home.path().join("pilcrow").join(name));
        std::fs::create_dir_all(&installed).unwrap();
        let tries = format!(
            "#!/bin/bash\nexec 9>'{}'\n\
             : >~/written && echo outside >&9\n\
             : >written && echo project >&9\n\
             : >'{}/written' && echo state >&9\n\
             cat ~/.ssh/id_ed25519 && echo key >&9\n\
             : </dev/tcp/127.0.0.2/{port} && echo network >&9\n\
             curl -s http://127.0.0.2:{port} | grep HTTP && echo proxy >&9\n\
             : >~/.cache/written && echo cache >&9\n\
             : >\"$CARGO_HOME\"/config.toml && echo cargo settings >&9\n\
             : >~/.gradle/init.gradle && echo gradle settings >&9\n\
             : >\"$CARGO_HOME\"/registry/written && echo registry >&9\n\
             ls '{}' && echo installed >&9\n\
             exec 9>&-\n",
            noted.display(),
            state.display(),
            installed.display(),
        );
        let serve = std::fs::read_to_string(&launcher).unwrap();
        std::fs::write(
            &launcher,
            serve.replace("#!/bin/sh\n", &tries.replace(" && echo", " 2>&1 >&2 && echo")),
        )
        .unwrap();
        let arguments = json!({ "action": "hover", "file": "a.py", "line": 1 });
        let answer = match without_bwrap {
            true => tool_without_bwrap(&sandbox, "lsp", &arguments),
            false => sandbox.tool("lsp", &arguments).value,
        };
        assert!(answer["content"][0]["text"].as_str().unwrap().contains("it serves"), "{answer:#}");
        // Landlock cannot make a project in the directory for temporary files read-only.
        let expected =
            format!("{}cache\nregistry\ninstalled\n", if without_bwrap { "project\n" } else { "" });
        assert_eq!(std::fs::read_to_string(noted).unwrap(), expected);
        assert!(!home.path().join("written").exists() && !state.join("written").exists());
        assert_eq!(scripted.sent("initialize")[0]["processId"], Value::Null);
    }
}

/// The build script of a test is foreign code that runs before any debugger.
#[test]
fn builds_of_tests_run_in_the_sandbox() {
    let port = echo_first_lines();
    let script = format!(
        "fn main() {{
            let home = std::env::var(\"HOME\").unwrap();
            let write = std::fs::write(format!(\"{{home}}/written\"), \"\").is_ok();
            let read = std::fs::read(format!(\"{{home}}/.ssh/id_ed25519\")).is_ok();
            let connect = std::net::TcpStream::connect((\"127.0.0.2\", {port})).is_ok();
            std::fs::write(\".mcp.json\", \"\").unwrap();
            panic!(\"write {{write}}, read {{read}}, connect {{connect}}\");
        }}"
    );
    let mut sandbox = Sandbox::with(&[
        ("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", "#[test]\nfn works() {}\n"),
        ("build.rs", &script),
    ]);
    let home = home_with_key(&mut sandbox);
    let arguments = json!({ "action": "test", "file": "src/lib.rs", "name": "works" });
    let by_bwrap = sandbox.tool("debug", &arguments).value;
    for answer in [by_bwrap, tool_without_bwrap(&sandbox, "debug", &arguments)] {
        let text = answer["content"][0]["text"].as_str().unwrap();
        let tried = text.lines().find(|line| line.contains("connect "));
        assert_eq!(tried.map(str::trim), Some("write false, read false, connect false"), "{answer:#}");
        assert!(!home.path().join("written").exists());
        let reverted =
            text.lines().find(|line| line.starts_with("reverted: ")).map(|line| line.contains(".mcp.json"));
        assert_eq!(
            (reverted, sandbox.project().join(".mcp.json").exists()),
            (Some(true), false),
            "{answer:#}"
        );
    }
}

/// Each debugged program tries to leave its sandbox.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn debugged_programs_run_in_the_sandbox() {
    let port = echo_first_lines();
    let tries = format!(
        "exec 2>&1\n: >~/written\n: >inside\ncat ~/.ssh/id_ed25519\n\
         : </dev/tcp/127.0.0.2/{port} && echo reached\ncurl -s http://127.0.0.2:{port}\necho tried\n"
    );
    let python = "import subprocess\nprint(subprocess.getoutput('bash tries.sh'))\nprint('done')\n";
    let javascript = "const { execSync } = require('child_process');\nconst output = execSync('bash tries.sh');\nconsole.log(output + '');\n";
    let c = "#include <stdlib.h>\nint main(void) {\n  return system(\"bash tries.sh\");\n}\n";
    let go = "package main\n\nimport (\n\t\"fmt\"\n\t\"os/exec\"\n)\n\nfunc main() {\n\toutput, _ := exec.Command(\"bash\", \"tries.sh\").Output()\n\tfmt.Println(string(output))\n}\n";
    let files = [("a.py", python), ("a.js", javascript), ("a.c", c), ("a.go", go), ("tries.sh", &tries)];
    for (adapter, program, file, line) in [
        ("debugpy", "a.py", "a.py", 3),
        ("js-debug", "a.js", "a.js", 3),
        ("lldb-dap", "a", "a.c", 3),
        ("codelldb", "a", "a.c", 3),
        ("gdb", "a", "a.c", 3),
        ("delve", "a.go", "a.go", 9),
        ("bash-dap", "tries.sh", "tries.sh", 7),
    ] {
        for without_bwrap in [false, true] {
            let mut sandbox = Sandbox::with(&files);
            let home = home_with_key(&mut sandbox);
            let mut compiler = std::process::Command::new("cc");
            compiler.current_dir(sandbox.project()).args(["-g", "-o", "a", "a.c"]);
            assert!(compiler.status().unwrap().success());
            let mut batch = match without_bwrap {
                true => Batch::start_under(&sandbox, &WITHOUT_BWRAP),
                false => Batch::start(&sandbox),
            };
            let launch = json!({ "action": "launch", "program": program, "adapter": adapter,
                "breakpoints": [{ "file": file, "line": line }] });
            let stopped = batch.call("debug", &launch).value["details"].clone();
            assert_eq!(stopped["reason"], "breakpoint", "{adapter}: {stopped:#}");
            let ended = batch.call("debug", &json!({ "action": "continue" })).value["details"].clone();
            assert_eq!(ended["state"], "terminated", "{adapter}: {ended:#}");
            let output = [&stopped, &ended].map(|it| it["output"].as_str().unwrap_or_default()).concat();
            let has = ["tried", "secret", "reached", "GET "].map(|text| output.contains(text));
            assert_eq!(has, [true, false, false, false], "{adapter}: {output}");
            let written = [home.path().join("written"), sandbox.project().join("inside")];
            assert_eq!(written.map(|path| path.exists()), [false, true], "{adapter}");
            let denied =
                [&stopped, &ended].map(|it| it["denied"].as_array().cloned().unwrap_or_default()).concat();
            let mut denied: Vec<&str> =
                denied.iter().filter_map(|it| it.as_str()?.split(' ').next()).collect();
            denied.sort_unstable();
            assert_eq!(denied, ["connect", "read", "write"], "{adapter}: {output}");
            assert!(batch.end().0.success());
            sandbox.mark().none_left(DEADLINE);
        }
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_debugged_program_has_the_rules_of_its_adapter() {
    let port = echo_first_lines();
    let program = format!(
        "import subprocess\nprint(subprocess.getoutput('curl -s http://127.0.0.2:{port}/; echo x > .git/commondir'))\n"
    );
    let mut sandbox = Sandbox::with(&[("a.py", &program), (".git/config", "[core]\n")]);
    let rule = |by: &str| format!("{by}: allow http 127.0.0.2:{port}");
    let launch = json!({ "action": "launch", "program": "a.py", "adapter": "debugpy" });
    for (by, reached) in [("bash", false), ("debugpy", true)] {
        sandbox.variables.insert("PILCROW_POLICY_RULES".to_owned(), rule(by));
        let details = sandbox.tool("debug", &launch).value["details"].clone();
        let output = details["output"].as_str().unwrap_or_default();
        assert_eq!(output.contains("GET "), reached, "{by}: {details:#}");
        assert!(!sandbox.project().join(".git/commondir").exists(), "{details:#}");
    }
}

#[test]
fn files_that_a_debugged_program_changes_are_reverted() {
    let program = "import os\nos.makedirs('.vscode')\nfor path in ['.vscode/tasks.json', '.mcp.json', '.git/config']:\n  try: open(path, 'w').write('x')\n  except OSError as it: print(it)\n";
    let launch = json!({ "action": "launch", "program": "a.py", "adapter": "debugpy" });
    for without_bwrap in [false, true] {
        let sandbox = Sandbox::with(&[("a.py", program), (".git/config", "[core]\n")]);
        let answer = match without_bwrap {
            true => tool_without_bwrap(&sandbox, "debug", &launch),
            false => sandbox.tool("debug", &launch).value,
        };
        let expected = match without_bwrap {
            true => json!([".mcp.json", ".vscode/tasks.json", ".git/config"]),
            false => json!([".mcp.json", ".vscode/tasks.json"]),
        };
        assert_eq!(answer["details"]["reverted"], expected, "{answer:#}");
        let left = [".mcp.json", ".vscode/tasks.json"].map(|name| sandbox.project().join(name).exists());
        assert_eq!((sandbox.read(".git/config"), left), ("[core]\n".to_owned(), [false, false]));
    }
}

/// Submodules, repositories and settings in directories, and links.
#[test]
fn protected_files_in_subdirectories_are_reverted() {
    let program = "import os, sys\n\
        for path in sys.argv[1:]:\n  try: open(path, 'w').write('x')\n  except OSError as it: print(it)\n\
        os.remove('.vscode'); os.mkdir('.vscode'); open('.vscode/tasks.json', 'w')\n";
    let files = [
        (".git/modules/libs/a/HEAD", ""),
        (".git/modules/libs/a/config", "[core]\n"),
        (".git/modules/libs/a/hooks/x", ""),
        ("sub/.git/config", "[core]\n"),
        ("sub/.git/hooks/x", ""),
        ("sub/.envrc", "a\n"),
        ("editor/tasks.json", "{}\n"),
    ];
    let names = files.map(|(name, _)| name);
    for without_bwrap in [false, true] {
        let sandbox = Sandbox::with(&[&files[..], &[("a.py", program)]].concat());
        std::os::unix::fs::symlink("editor", sandbox.project().join(".vscode")).unwrap();
        let line = format!("python3 a.py {}", names[1..].join(" "));
        let answer = match without_bwrap {
            true => bash_without_bwrap(&sandbox, &line),
            false => sandbox.tool("bash", &json!({ "command": line })).value,
        };
        let reverted = |names: &[&str]| json!(names);
        let link = [".vscode/tasks.json", ".vscode"];
        let nested = ["sub/.envrc", "sub/.git/config", "sub/.git/hooks/x"];
        let expected = match without_bwrap {
            true => [&link[..1], &names[1..3], &link[1..], &names[6..], &nested].concat(),
            false => [&link[..], &nested].concat(),
        };
        assert_eq!(answer["details"]["reverted"], reverted(&expected), "{answer:#}");
        assert_eq!(names.map(|name| sandbox.read(name)), files.map(|(_, text)| text.to_owned()));
        assert_eq!(std::fs::read_link(sandbox.project().join(".vscode")).unwrap(), PathBuf::from("editor"));
    }
}

#[test]
fn moved_settings_and_those_above_the_workspace_stay() {
    let write = "import sys\nfor path in sys.argv[1:]:\n  try: open(path, 'w').write('x')\n  except OSError as it: print(it)\n";
    let mut sandbox =
        Sandbox::with(&[(".git/config", "[core]\n"), (".envrc", "a\n"), ("sub/write.py", write)]);
    let moved = sandbox.beside("moved");
    std::fs::create_dir(&moved).unwrap();
    std::fs::write(moved.join("config.toml"), "a\n").unwrap();
    sandbox.variables.insert("CARGO_HOME".to_owned(), moved.display().to_string());
    let line =
        json!({ "command": "python3 write.py here ../.envrc \"$CARGO_HOME/config.toml\"" }).to_string();
    let sub = sandbox.project().join("sub").display().to_string();
    let ran = sandbox.run_anywhere(&["tool", "bash", &line, "--yes", "--json", "-C", &sub]);
    let text = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    assert_eq!(sandbox.read("sub/here"), "x", "{ran:?}");
    assert_eq!([sandbox.read(".envrc"), text(moved.join("config.toml"))], ["a\n", "a\n"], "{ran:?}");

    let missing = moved.join("missing");
    sandbox.variables.insert("CARGO_HOME".to_owned(), missing.display().to_string());
    assert_eq!(sandbox.tool("bash", &json!({ "command": "true" })).value["details"]["sandbox"], "bwrap");
    assert!(!missing.exists());
}

/// The second command starts after the change of the first.
#[test]
fn overlapping_commands_restore_the_state_before_both() {
    let write = "import sys\nfor path in sys.argv[1:]:\n  open(path, 'w').write('x')\nprint('written', flush=True)\nsys.stdin.read()\n";
    let write = write.replace("sys.stdin.read()", "import time; time.sleep(600)");
    let sandbox = Sandbox::with(&[("write.py", &write), (".git/config", "[core]\n"), (".envrc", "a\n")]);
    let mut batch = Batch::start_under(&sandbox, &WITHOUT_BWRAP);
    let line = json!({ "command": "python3 write.py .git/config .envrc .mcp.json", "background": true });
    batch.call("bash", &line).ok();
    let written = || sandbox.project().join(".mcp.json").exists();
    assert!(tests::processes::wait_for(DEADLINE, written));
    let answer = batch.call("bash", &json!({ "command": "true" }));
    assert_eq!(answer.value["details"]["reverted"], json!([".mcp.json", ".envrc", ".git/config"]));
    batch.call("bash", &json!({ "job": "bash-1", "stop": true })).ok();
    batch.call("bash", &json!({ "command": "true" })).ok();
    let text = [".git/config", ".envrc"].map(|name| sandbox.read(name));
    assert_eq!((text, written()), (["[core]\n".to_owned(), "a\n".to_owned()], false));
}

/// A program outside replaces a file: its mount in the sandbox is lost.
#[test]
fn a_replaced_file_stays_protected_and_own_edits_stay() {
    let wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n\
        for path in ['.git/config', '.envrc']:\n  try: open(path, 'w').write('x')\n  except OSError as it: print(it)\n";
    let sandbox = Sandbox::with(&[("wait.py", wait), (".git/config", "[core]\n"), (".envrc", "a\n")]);
    let mut batch = Batch::start(&sandbox);
    batch.call("bash", &json!({ "command": "python3 wait.py", "background": true })).ok();
    let config = sandbox.project().join(".git/config");
    sandbox.write(".git/config.lock", "[core]\n[user]\nname = a\n");
    std::fs::rename(sandbox.project().join(".git/config.lock"), &config).unwrap();
    sandbox.write(".envrc", "mine\n");
    sandbox.write("go", "");
    let text = batch.call("bash", &json!({ "job": "bash-1", "timeout": 60 })).ok();
    let lines = text.lines().map(|line| line.split(" (").next().unwrap_or_default());
    let reverted: Vec<&str> = lines.filter_map(|line| line.strip_prefix("reverted: ")).collect();
    assert_eq!(reverted, [config.to_str().unwrap()], "{text}");
    assert_eq!([".git/config", ".envrc"].map(|name| sandbox.read(name)), ["[core]\n", "mine\n"]);
}

/// `git init` works, but its repository runs no program of the command.
#[test]
fn a_new_repository_runs_no_program() {
    let safe =
        "git init -q . && git config user.name a && git remote add origin https://example.org/a.git; true";
    let evil = format!("{safe}; git config core.fsmonitor ./x; python3 hook.py");
    for without_bwrap in [false, true] {
        for (line, reverted, name) in [
            (safe, json!([]), "a\n"),
            (&evil, json!([".git/config", ".git/hooks/pre-commit"]), "a\n"),
            ("git init -q .; git config core.fsmonitor ./x", json!([".git/config"]), ""),
        ] {
            let hook = "open('.git/hooks/pre-commit', 'w').write('#!/bin/sh')\n";
            let sandbox = Sandbox::with(&[("x", "#!/bin/sh\n"), ("hook.py", hook)]);
            let answer = match without_bwrap {
                true => bash_without_bwrap(&sandbox, line),
                false => sandbox.tool("bash", &json!({ "command": line })).value,
            };
            assert_eq!(answer["details"]["reverted"], reverted, "{answer:#}");
            let text = answer["content"][0]["text"].as_str().unwrap();
            assert_eq!(text.contains("core.fsmonitor"), reverted != json!([]), "{text}");
            let asked =
                sandbox.tool("bash", &json!({ "command": "git config user.name; git status -s >/dev/null" }));
            assert!(asked.ok().starts_with(&format!("{name}· exit status 0")), "{:#}", asked.value);
        }
    }
}

#[test]
fn denied_and_reverted_changes_are_reported() {
    let write = "import sys\nfor path in sys.argv[1:]:\n  try: open(path, 'w').write('x')\n  except OSError as it: print(it)\n";
    let sandbox = Sandbox::with(&[("write.py", write), (".git/config", "[core]\n"), (".git/hooks/a", "")]);
    // Not the home of the command, and in no directory that is writable.
    let own = std::env::home_dir().unwrap().join(".pilcrow-e2e");
    let quiet =
        format!("python3 write.py .git/config .git/commondir .git/hooks/new .mcp.json '{}'", own.display());
    let line = format!("{quiet}; false");
    let without_bwrap = bash_without_bwrap(&sandbox, &line);
    let [by_landlock, by_bwrap] = [without_bwrap, sandbox.tool("bash", &json!({ "command": line })).value]
        .map(|it| {
            [&it["details"]["sandbox"], &it["details"]["reverted"], &it["details"]["denied"]]
                .map(Value::clone)
        });
    let denied = format!("write {}", own.display());
    let reverted = json!([".git/commondir", ".git/hooks/new", ".mcp.json", ".git/config"]);
    assert_eq!(by_landlock, [json!("Landlock"), reverted, json!([denied])]);
    let (config, hook) = (sandbox.project().join(".git/config"), sandbox.project().join(".git/hooks/new"));
    let all = json!([format!("write {}", config.display()), format!("write {}", hook.display()), denied]);
    assert_eq!(by_bwrap, [json!("bwrap"), json!([".git/commondir", ".mcp.json"]), all]);
    // A successful command may print any text.
    let succeeded = sandbox.tool("bash", &json!({ "command": quiet })).value;
    assert_eq!(succeeded["details"]["denied"], json!([]), "{succeeded:#}");
    assert_eq!(sandbox.read(".git/config"), "[core]\n");
    assert!(!hook.exists() && !sandbox.project().join(".mcp.json").exists());
}

const NOISE: &str = "#include <unistd.h>\n__attribute__((destructor)) static void end(void) { if (write(1, \"noise\\n\", 6)) {} }\n";

#[test]
fn the_tool_bash_runs_its_commands_in_the_sandbox() {
    let mut sandbox = Sandbox::with(&[("write.py", "import sys; open(sys.argv[1], 'w').write('x')\n")]);
    let own = sandbox.home().join("state/written");
    let write = "python3 write.py";
    let line = format!("{write} in; {write} '{}' 2>/dev/null || echo refused; git init -q", own.display());
    let answer = sandbox.tool("bash", &json!({ "command": line }));
    assert_eq!(answer.value["details"]["sandbox"], "bwrap", "install bubblewrap: {:#}", answer.value);
    assert_eq!(answer.ok().lines().next(), Some("refused"), "{:#}", answer.value);
    assert!(!own.exists() && sandbox.read("in") == "x");

    let answer =
        sandbox.tool("bash", &json!({ "command": "echo x > .git/hooks/y; python3 write.py .git/config" }));
    answer.fails("denied");
    let answer = sandbox
        .tool("bash", &json!({ "command": "python3 write.py .git/config 2>/dev/null || echo refused" }));
    assert_eq!(answer.ok(), "refused\n· exit status 0");
    sandbox.tool("bash", &json!({ "command": "git config a.b c && git config a.b" })).ok();

    // A rule allows a command only inside of the sandbox.
    sandbox.run_anywhere(&["trust", &sandbox.project().display().to_string()]).expect(0);
    let rules = "policy.rules = ['allow exec true']\n";
    std::fs::create_dir_all(sandbox.home().join("config")).unwrap();
    std::fs::write(sandbox.home().join("config/config.toml"), rules).unwrap();
    sandbox.run(&["tool", "bash", r#"{"command": "true"}"#]).expect(0);
    sandbox.run(&["tool", "bash", r#"{"command": "true", "sandbox": false}"#]).expect(3);
    let answer = sandbox.tool("bash", &json!({ "command": "true", "sandbox": false }));
    assert_eq!(answer.value["details"]["sandbox"], "none", "{:#}", answer.value);
    sandbox.variables.insert("PILCROW_EXEC_SANDBOX".to_owned(), "required".to_owned());
    sandbox.tool("bash", &json!({ "command": "true", "sandbox": false })).fails("denied");
    let report: Value = serde_json::from_str(&sandbox.run(&["doctor", "--json"]).stdout).unwrap();
    assert_eq!(report["confinement"], "bwrap and seccomp");
    // The loader prints a warning in every program.
    sandbox.variables.insert("LD_PRELOAD".to_owned(), "/nowhere.so".to_owned());
    let report: Value = serde_json::from_str(&sandbox.run(&["doctor", "--json"]).stdout).unwrap();
    assert_eq!(report["confinement"], "bwrap and seccomp");
    // A library prints at the end of every program.
    let library = sandbox.beside("noise.so");
    std::fs::write(sandbox.beside("noise.c"), NOISE).unwrap();
    let words = ["-shared", "-o", library.to_str().unwrap(), sandbox.beside("noise.c").to_str().unwrap()]
        .map(str::to_owned);
    assert!(std::process::Command::new("cc").args(words).status().unwrap().success());
    sandbox.variables.insert("LD_PRELOAD".to_owned(), library.display().to_string());
    let report = sandbox.run(&["doctor", "--json"]).stdout;
    assert!(report.contains("\"bwrap and seccomp\""), "{report}");
    sandbox.variables.remove("LD_PRELOAD");
    sandbox.variables.insert("PILCROW_EXEC_SANDBOX".to_owned(), "off".to_owned());
    let answer = sandbox.tool("bash", &json!({ "command": "true" }));
    assert_eq!(answer.value["details"]["sandbox"], "none", "{:#}", answer.value);
}

/// Runs git in a directory, without the settings of this machine.
fn git(directory: &std::path::Path, args: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    command.current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]);
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A repository with a commit.
fn repository(files: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::with(files);
    git(&sandbox.project(), &["init", "-q", "-b", "main"]);
    git(&sandbox.project(), &["add", "."]);
    git(&sandbox.project(), &["commit", "-q", "-m", "first", "--allow-empty"]);
    sandbox
}

/// Each line runs a program that tries to read a key.
#[test]
fn git_runs_no_program_of_the_project_with_keys() {
    let steal = "#!/bin/sh\ncat ~/.ssh/id_ed25519 >>\"$STOLEN\" 2>/dev/null; exit 0\n";
    let files = [("steal", steal), ("bin/git", steal), ("bin/ssh", steal), ("a.txt", "a\n")];
    let mut sandbox = repository(&files);
    let home = home_with_key(&mut sandbox);
    let project = sandbox.project();
    // git runs the values of settings by a shell.
    let steal = home.path().join("steal").display().to_string();
    std::fs::copy(project.join("steal"), &steal).unwrap();
    let stolen = project.join("stolen").display().to_string();
    sandbox.variables.insert("STOLEN".to_owned(), stolen.clone());
    // As with a virtual environment.
    let path = format!("{}:{}", project.join("bin").display(), std::env::var("PATH").unwrap());
    for path in
        [PathBuf::from(&steal), project.join("steal"), project.join("bin/git"), project.join("bin/ssh")]
    {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::create_dir_all(project.join("sub")).unwrap();
    git(&project.join("sub"), &["init", "-q"]);
    git(&project.join("sub"), &["config", "core.fsmonitor", &steal]);
    git(&project, &["init", "-q", "--bare", "bare"]);
    git(&project.join("bare"), &["config", "core.sshCommand", &steal]);
    let other = project.join("other");
    git(&project, &["clone", "-q", ".", "other"]);
    std::fs::copy(project.join("steal"), other.join(".git/hooks/post-update")).unwrap();
    git(&project, &["remote", "add", "origin", "git@127.0.0.1:a/b"]);
    let ssh = [
        "git -C sub fetch",
        "cd sub && git status",
        "cd bare && git fetch ssh://127.0.0.1/x",
        "git push ./other HEAD:new",
        &format!("GIT_SSH_COMMAND={steal} git fetch"),
        &format!("export GIT_SSH_COMMAND={steal}; git fetch"),
        &format!("git -c core.sshCommand={steal} fetch"),
        &format!("git -c alias.x='!{steal}' x"),
        "HOME=$PWD/x git fetch",
        "PATH=$PWD/bin:$PATH git fetch",
        &format!("git fetch --upload-pack={steal} ."),
        &format!("git difftool -y -x {steal} HEAD"),
        &format!("git rebase --exec {steal} HEAD"),
        &format!("git submodule foreach {steal}"),
        &format!("git fetch 'ext::{steal}'"),
    ];
    let check = |line: &str, sandbox: &Sandbox| {
        let answer = sandbox.tool("bash", &json!({ "command": line, "timeout": 20 })).value;
        assert!(
            !std::path::Path::new(&stolen).exists() || sandbox.read("stolen").is_empty(),
            "{line}: {answer:#}"
        );
    };
    ssh.iter().for_each(|line| check(line, &sandbox));
    for (key, value) in [
        ("core.fsmonitor", steal.as_str()),
        ("core.sshCommand", &steal),
        ("alias.x", &format!("!{steal}")),
        ("include.path", "../settings"),
    ] {
        std::fs::write(project.join("settings"), format!("[core]\nsshCommand = {steal}\n")).unwrap();
        git(&project, &["config", key, value]);
        for line in ["git fetch", "git status", "git x", "git push origin HEAD"] {
            check(line, &sandbox);
        }
        git(&project, &["config", "--unset", key]);
    }
    for hook in ["pre-push", "reference-transaction"] {
        std::fs::copy(project.join("steal"), project.join(".git/hooks").join(hook)).unwrap();
        check("git push origin HEAD", &sandbox);
        check("git branch new", &sandbox);
        std::fs::remove_file(project.join(".git/hooks").join(hook)).unwrap();
    }
    sandbox.variables.insert("PATH".to_owned(), path);
    check("git fetch", &sandbox);
}

/// The user's own `ssh` prints a key if it can read it.
#[test]
fn only_git_commands_that_reach_a_remote_have_keys() {
    let mut sandbox = repository(&[("a.txt", "a\n")]);
    let home = home_with_key(&mut sandbox);
    let ssh = home.path().join("ssh");
    std::fs::write(&ssh, "#!/bin/sh\ncat ~/.ssh/id_ed25519 >&2\n").unwrap();
    std::fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(home.path().join(".gitconfig"), format!("[core]\nsshCommand = {}\n", ssh.display()))
        .unwrap();
    let project = sandbox.project();
    git(&project, &["remote", "add", "origin", "git@127.0.0.1:a/b"]);
    let run = |line: &str| {
        let answer = sandbox.tool("bash", &json!({ "command": line })).value;
        let text = answer["content"][0]["text"].as_str().unwrap().to_owned();
        (text.lines().any(|it| it == "secret"), text)
    };
    for line in ["git fetch", "git pull", "git push origin HEAD", "cd . && git fetch && git ls-remote origin"]
    {
        let (reads, text) = run(line);
        assert!(reads, "{line}: {text}");
    }
    for line in [
        "git fetch; git status",
        "git add . && git push",
        "git fetch; ls",
        "git fetch $REMOTE",
        "git fetch | cat",
    ] {
        let (reads, text) = run(line);
        assert!(!reads, "{line}: {text}");
    }
    // In another process, until the line ends that reads its input from the queue.
    let line = json!({ "command": "mkfifo queue; touch begun; read -r line <queue" }).to_string();
    let other = sandbox.command(&["tool", "bash", &line, "--yes"]).spawn().expect("pilcrow starts");
    assert!(tests::wait_for(DEADLINE, || project.join("begun").exists()));
    let (reads, text) = run("git fetch");
    let note = "git ran without keys or direct network access: another command may run at the same time";
    assert!(!reads && text.contains(note), "{text}");
    std::fs::write(project.join("queue"), "go\n").unwrap();
    let ended = tests::sandbox::finish(other, DEADLINE);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(run("git fetch").0);
    std::fs::write(project.join(".git/hooks/pre-push"), "").unwrap();
    assert!(run("git fetch").0);
    let (reads, text) = run("git push origin HEAD");
    let note = "git ran without keys or direct network access: the repository has the hook pre-push";
    assert!(!reads && text.contains(note), "{text}");
}

#[test]
fn git_changes_its_settings_unless_they_name_a_program() {
    for without_bwrap in [false, true] {
        let sandbox = repository(&[("a.txt", "a\n")]);
        let project = sandbox.project();
        let run = |line: &str| match without_bwrap {
            true => bash_without_bwrap(&sandbox, line),
            false => sandbox.tool("bash", &json!({ "command": line })).value,
        };
        let value = |key: &str| {
            let output =
                std::process::Command::new("git").current_dir(&project).args(["config", key]).output();
            String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
        };
        let answer = run("git remote add origin https://example.org/a && git config user.name me");
        assert_eq!(answer["details"]["reverted"], json!([]), "{answer:#}");
        assert_eq!([value("remote.origin.url"), value("user.name")], ["https://example.org/a", "me"]);
        for (line, key) in [
            ("git config core.fsmonitor ./x", "core.fsmonitor"),
            ("git config alias.st '!./x'", "alias.st"),
            ("git remote add other 'ext::./x'", "remote.other.url"),
        ] {
            let answer = run(line);
            let is_plain = !line.contains("::");
            let reverted = if is_plain || without_bwrap { json!([".git/config"]) } else { json!([]) };
            assert_eq!(answer["details"]["reverted"], reverted, "{line}: {answer:#}");
            assert_eq!((value(key).as_str(), value("user.name").as_str()), ("", "me"), "{line}");
        }
        run("git config user.name you; true | cat");
        assert_eq!(value("user.name"), "me");
    }
}

#[test]
fn settings_of_linked_worktrees_stay_as_they_are() {
    let write = "import sys\nfor path in sys.argv[1:]:\n  try: open(path, 'w').write('x')\n  except OSError as it: print(it)\n";
    for without_bwrap in [false, true] {
        let sandbox = repository(&[("write.py", write), (".gitignore", "trees\n")]);
        let project = sandbox.project();
        git(&project, &["worktree", "add", "-q", "trees/one"]);
        let run = |line: &str| match without_bwrap {
            true => bash_without_bwrap(&sandbox, line),
            false => sandbox.tool("bash", &json!({ "command": line })).value,
        };
        let names =
            ["commondir", "gitdir", "config.worktree"].map(|name| format!(".git/worktrees/one/{name}"));
        let before = [&names[0], &names[1], "trees/one/.git"].map(|name| sandbox.read(name));
        let line = format!("python3 write.py {} trees/one/.git", names.join(" "));
        let answer = run(&line);
        let after = [&names[0], &names[1], "trees/one/.git"].map(|name| sandbox.read(name));
        assert_eq!((after, project.join(&names[2]).exists()), (before, false), "{answer:#}");
        let answer = run("git worktree remove --force trees/one");
        assert_eq!(answer["details"]["reverted"], json!([]), "{answer:#}");
        assert!(
            !project.join("trees/one").exists() && !project.join(".git/worktrees/one").exists(),
            "{answer:#}"
        );
        let answer = run("git worktree add -q trees/two && git worktree list | cat");
        assert_eq!(answer["details"]["exit_code"], 0, "{answer:#}");
    }
}

/// A branch whose tracked tasks differ, and lines with a second command.
#[test]
fn a_checkout_changes_tracked_files_that_programs_execute() {
    for without_bwrap in [false, true] {
        let files = [(".vscode/tasks.json", "{}\n"), (".husky/old", "a\n"), ("a.txt", "a\n")];
        let sandbox = repository(&files);
        let project = sandbox.project();
        git(&project, &["checkout", "-q", "-b", "other"]);
        std::fs::write(project.join(".vscode/tasks.json"), "{\"x\": 1}\n").unwrap();
        std::fs::write(project.join(".envrc"), "x\n").unwrap();
        git(&project, &["rm", "-q", ".husky/old"]);
        git(&project, &["add", "."]);
        git(&project, &["commit", "-q", "-m", "second"]);
        git(&project, &["checkout", "-q", "main"]);
        let run = |line: &str| match without_bwrap {
            true => bash_without_bwrap(&sandbox, line),
            false => sandbox.tool("bash", &json!({ "command": line })).value,
        };
        let status = || git(&project, &["status", "--porcelain"]);
        let answer = run("git checkout -q other && cat a.txt");
        let text = answer["content"][0]["text"].as_str().unwrap();
        let kept = "changed although protected: .vscode/tasks.json (not reverted: git checked it out)";
        assert!(text.contains(kept), "{text}");
        assert_eq!((status().as_str(), &answer["details"]["exit_code"]), ("", &json!(0)), "{answer:#}");
        assert!(project.join(".envrc").exists() && !project.join(".husky/old").exists());
        let answer = run("git checkout -q main; echo x >.mcp.json.new; git status");
        assert_eq!(
            (status().as_str(), sandbox.read(".vscode/tasks.json").as_str()),
            ("?? .mcp.json.new\n", "{}\n"),
            "{answer:#}"
        );

        // The user's own change survives a stash around another command.
        std::fs::write(project.join(".vscode/tasks.json"), "mine\n").unwrap();
        let answer = run("git stash -q && cat a.txt && git stash pop -q");
        assert_eq!(
            (status().as_str(), sandbox.read(".vscode/tasks.json").as_str()),
            (" M .vscode/tasks.json\n?? .mcp.json.new\n", "mine\n"),
            "{answer:#}"
        );
        run("git stash -q");
        let answer = run("git stash pop -q");
        assert_eq!(sandbox.read(".vscode/tasks.json"), "mine\n", "{answer:#}");

        // A change that git did not make.
        let answer = run("git checkout -q main; sed -i s/mine/theirs/ .vscode/tasks.json; cat a.txt");
        assert_eq!(sandbox.read(".vscode/tasks.json"), "mine\n", "{answer:#}");
        std::fs::write(project.join("evil.patch"), "diff --git a/.mcp.json b/.mcp.json\nnew file mode 100644\n--- /dev/null\n+++ b/.mcp.json\n@@ -0,0 +1 @@\n+x\n").unwrap();
        let answer = run("git apply evil.patch");
        assert!(!project.join(".mcp.json").exists(), "{answer:#}");
    }
}

/// Without variables of its own, Pilcrow's directories are in the home directory.
fn with_home(sandbox: &mut Sandbox, home: PathBuf) {
    let unset = ["PILCROW_HOME", "XDG_RUNTIME_DIR"].map(|name| (name.to_owned(), String::new()));
    sandbox.variables.extend(unset);
    sandbox.variables.insert("HOME".to_owned(), home.display().to_string());
}

#[test]
fn commands_run_where_one_own_directory_is_inside_another() {
    let mut sandbox = Sandbox::new();
    let home = sandbox.beside("user");
    with_home(&mut sandbox, home.clone());
    std::fs::create_dir_all(home.join(".local/state/pilcrow/run")).unwrap();
    let answer = sandbox.tool("bash", &json!({ "command": "ls ~/.local/state/pilcrow" }));
    assert_eq!(answer.value["details"]["sandbox"], "bwrap", "{:#}", answer.value);
    assert_eq!(answer.ok(), "· exit status 0");
}

#[test]
fn a_home_directory_is_a_project_with_caches() {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n"), (".cache/there", "")]);
    let home = sandbox.project();
    with_home(&mut sandbox, home);
    let answer = sandbox.tool("bash", &json!({ "command": "echo x > a; echo y > .cache/b" }));
    assert_eq!(answer.ok(), "· exit status 0\nchanged: .cache/b, a");
    sandbox.run(&["undo"]).expect(0);
    assert!(!sandbox.project().join("a").exists());

    let script = json!({"methods": {"textDocument/hover": [[{"result": {"contents": "it serves"}}]]},
        "capabilities": {"hoverProvider": true}});
    let _scripted = Scripted::install(&mut sandbox, &[script]);
    let launcher = sandbox.beside("scripted tools/bin/basedpyright-langserver");
    let serve = std::fs::read_to_string(&launcher).unwrap();
    let tries = "#!/bin/sh\n(: >.cache/written; : >written) 2>/dev/null\n";
    std::fs::write(&launcher, serve.replace("#!/bin/sh\n", tries)).unwrap();
    sandbox.tool("lsp", &json!({ "action": "hover", "file": "a.py", "line": 1 })).ok();
    let is_written = [".cache/written", "written"].map(|path| sandbox.project().join(path).exists());
    assert_eq!(is_written, [true, false]);
}

/// An open file would lead past the limits of paths.
#[test]
fn a_command_has_no_open_files_of_a_parent() {
    let sandbox = project();
    let login = sandbox.beside("outside/login");
    let words = ["bash", "-c", "exec 8<\"$0\"; exec \"$@\"", login.to_str().unwrap()];
    let call = json!({ "command": "cat <&8 || echo none" }).to_string();
    let ran = sandbox.run_under(&words, &["tool", "bash", &call, "--yes"]);
    let text = &ran.stdout;
    assert!(text.lines().any(|line| line == "none") && !text.contains("secret"), "{ran:?}");
}

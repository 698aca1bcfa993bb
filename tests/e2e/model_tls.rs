//! TLS: Pilcrow accepts a provider by the system's trusted certificates only.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testing::model::{ModelServer, Reply};
use tests::Sandbox;
use tests::sandbox::{DEADLINE, finish};

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn provider_certificates_follow_the_system_store() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let server =
        runtime.block_on(ModelServer::answering(|_| Reply::text("in private"))).expect("the model server");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/model_tls");
    let mut child = Command::new("python3")
        .args([directory.join("serve.py"), directory.join("server.pem")])
        .arg(server.port().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let output = child.stdout.take().expect("its output");
    let _served = Served(child);
    let mut port = String::new();
    BufReader::new(output).read_line(&mut port).expect("its port");

    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let config = sandbox.home().join("config");
    std::fs::create_dir_all(&config).expect("the configuration's folder");
    let settings = "[model]\ndefault = 'mine/usual'\n[providers.mine]\napi_key = '${MINE_KEY}'\n";
    std::fs::write(config.join("config.toml"), settings).expect("the test's own file");
    let models =
        format!("[providers.mine]\nbase_url = 'https://localhost:{}/v1'\ndefault = 'usual'\n", port.trim());
    std::fs::write(config.join("models.toml"), models).expect("the test's own file");
    let run = |authority: Option<&Path>| {
        let mut command = sandbox.command(&["run", "hi", "--yes"]);
        command.env("MINE_KEY", "a-key-for-this-server-only");
        if let Some(file) = authority {
            command.env("SSL_CERT_FILE", file);
        }
        finish(command.spawn().expect("pilcrow starts"), DEADLINE)
    };

    let unknown = run(None).expect(1);
    assert!(unknown.all().contains("certificate"), "{unknown:?}");
    assert!(server.received().is_empty(), "no request reaches an untrusted server");
    let known = run(Some(&directory.join("authority.pem"))).expect(0);
    assert_eq!(known.stdout.trim(), "in private");
    assert_eq!(server.received().len(), 1);
}

//! The protocol: versions, order, and questions at the command's terminal.

use std::os::unix::net::{UnixListener, UnixStream};

use host::{Reply, Stop, ToolCallRequest};
use policy::{Answer, Approver, Choice, Chosen, ErrorCode, Question, Unattended};
use rpc_server::{Client, Hello, Unreachable};
use serde_json::json;

use super::*;

fn socket(place: &Place, owner: &OwnerProcess) -> PathBuf {
    place.sockets(&place.root()).join(format!("{}.sock", owner.pid()))
}

/// Sends each line and returns the responses.
fn talk(socket: &Path, lines: &[Value]) -> Vec<Value> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let answer = |line: &Value| {
        writeln!(stream, "{line}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    };
    lines.iter().map(answer).collect()
}

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn commands_of_other_versions_are_served_or_refused() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[("a.txt", "typed\n", true)]);
    let hello =
        |protocol: u32| request(1, "hello", json!({"protocol": protocol, "version": "9.8.7", "extra": 1}));
    let answers = talk(&socket(&place, &owner), &[hello(7), request(2, "documents", json!({}))]);
    assert_eq!(answers[0]["result"]["protocol"], 2, "the newer side decides: {answers:?}");
    assert_eq!(answers[0]["result"]["pid"], owner.pid());
    let path = place.root().canonicalize().unwrap().join("a.txt");
    assert_eq!(answers[1]["result"], json!({"documents": [{"path": path, "dirty": true}]}));
    let answers = talk(&socket(&place, &owner), &[hello(1)]);
    assert_eq!(answers[0]["error"]["data"]["code"], "unsupported", "{answers:?}");
    assert!(answers[0]["error"]["message"].as_str().unwrap().contains("9.8.7"), "{answers:?}");
    owner.end();
}

#[test]
fn a_process_of_a_run_permits_nothing() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let path = socket(&place, &owner);
    let hello = request(1, "hello", json!({"protocol": 2, "version": "x", "yes": true}));
    let message = format!("{hello}\n");
    let script = format!(
        "import json, socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({path:?})\ns.send({message:?}.encode())\nprint(json.loads(s.recv(999))['error']['data']['code'])"
    );
    place.write("ask.py", &script);
    let arguments = json!({"command": "env -i python3 ask.py", "sandbox": false});
    let call = request(2, "tool", json!({"name": "bash", "arguments": arguments, "invoked": true}));
    let answers = talk(&path, &[hello, call]);
    assert_eq!(answers[1]["result"]["done"]["content"][0]["text"], "denied\n· exit status 0");
    owner.end();
}

#[test]
fn requests_need_a_greeting_and_a_known_method() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let write = json!({"name": "write", "arguments": {"path": "b.txt", "content": "b"}, "invoked": true});
    let hello = request(3, "hello", json!({"protocol": 2, "version": "x"}));
    let lines = [
        request(1, "tool", write),
        request(2, "documents", json!({})),
        hello.clone(),
        hello,
        request(4, "nonesuch", json!({})),
        request(5, "tool", json!({"no": "name"})),
    ];
    let answers = talk(&socket(&place, &owner), &lines);
    let codes: Vec<&Value> = answers.iter().map(|answer| &answer["error"]["data"]["code"]).collect();
    let state = json!("wrong_state");
    assert_eq!(codes, [&state, &state, &Value::Null, &state, &Value::Null, &Value::Null], "{answers:?}");
    assert_eq!(answers[4]["error"]["code"], -32601);
    assert_eq!(answers[5]["error"]["code"], -32602);
    assert!(!place.root().join("b.txt").exists());
    owner.end();
}

#[test]
fn an_owner_with_another_protocol_is_refused() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let directory = place.sockets(&place.root());
    std::fs::create_dir_all(&directory).unwrap();
    let listener = UnixListener::bind(directory.join("77777.sock")).unwrap();
    let _newer = std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            let id = serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
            let result = json!({"protocol": 3, "version": "9.8.7", "name": "Future", "pid": 77777});
            writeln!(&stream, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result})).unwrap();
        }
    });
    let ran = place.run(&["read", "a.txt"]).expect(1);
    ran.says(&["Future", "process 77777", "9.8.7", "protocol 2", "--standalone"]);
    place.run(&["read", "a.txt", "--standalone"]).expect(0);
}

/// Gives a fixed answer and records the questions.
struct FixedAnswer(Answer, Mutex<Vec<Question>>);

impl Approver for FixedAnswer {
    fn ask<'a>(&'a self, question: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        self.1.lock().push(question);
        let answer = self.0.clone();
        Box::pin(async { answer })
    }

    fn choose<'a>(&'a self, choice: Choice, _: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        let said = choice.options.into_iter().next_back().filter(|_| choice.question == "Which?");
        Box::pin(async { said.map_or(Chosen::Dismissed, Chosen::Said) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_asks_for_permissions() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let path = socket(&place, &owner);
    let write = async |answer: Answer, asks: bool| {
        let approver = Arc::new(FixedAnswer(answer, Mutex::default()));
        let mut client =
            Client::connect(&path, &Hello::new(false, asks, false), approver.clone()).await.unwrap();
        let arguments = json!({"path": "b.txt", "content": "b\n"});
        let call = ToolCallRequest {
            name: "write".to_owned(),
            arguments,
            invoked: false,
            named: true,
            wait_ms: None,
        };
        let never = CancellationToken::new();
        let stop = Stop { cancel: &never, gone: &never };
        let reply = client.call(&call, stop).await.unwrap();
        client.close().await;
        let Reply::Done(result) = reply else { panic!("{reply:?}") };
        let questions = std::mem::take(&mut *approver.1.lock());
        (result, questions)
    };
    let (result, questions) = write(Answer::No { text: "not this one".into() }, true).await;
    assert_eq!(questions.len(), 1);
    assert!(questions[0].title.contains("b.txt") && questions[0].detail.contains("+b"), "{questions:?}");
    assert!(result.is_error, "{result:?}");
    expect_test::expect!["the user said no: not this one"]
        .assert_eq(&result.joined_text().replace(&place.root().display().to_string(), "<root>"));
    let (result, questions) = write(Answer::Session, true).await;
    assert!(!result.is_error && questions.len() == 1, "{result:?}");
    std::fs::remove_file(place.root().join("b.txt")).unwrap();
    let (result, questions) = write(Answer::Once, true).await;
    assert!(!result.is_error && questions.len() == 1, "a session answer is valid for one request");
    std::fs::remove_file(place.root().join("b.txt")).unwrap();
    let (result, questions) = write(Answer::Once, false).await;
    assert!(questions.is_empty(), "the command cannot ask");
    let error = result.error.unwrap();
    assert!(matches!(error.code, ErrorCode::Untrusted | ErrorCode::Denied));
    assert_eq!(error.data["unattended"], true);
    owner.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_asks_the_agents_questions() {
    let place = Place::with(&[]);
    let owner = place.owner("Ed", &[]);
    let path = socket(&place, &owner);
    let ask = async |question: &str, asks: bool| {
        let approver = Arc::new(FixedAnswer(Answer::Unattended, Mutex::default()));
        let mut client = Client::connect(&path, &Hello::new(false, asks, false), approver).await.unwrap();
        let arguments = json!({"question": question, "options": ["red", "blue"]});
        let call =
            ToolCallRequest { name: "ask".to_owned(), arguments, invoked: false, named: true, wait_ms: None };
        let never = CancellationToken::new();
        let stop = Stop { cancel: &never, gone: &never };
        let reply = client.call(&call, stop).await.unwrap();
        client.close().await;
        let Reply::Done(result) = reply else { panic!("{reply:?}") };
        result.joined_text()
    };
    assert_eq!(ask("Which?", true).await, "the user says: blue");
    assert_eq!(ask("What?", true).await, "the user dismissed the question");
    assert!(ask("Which?", false).await.contains("unavailable"), "the command cannot ask");
    owner.end();
}

#[tokio::test]
async fn a_silent_listener_delays_only_briefly() {
    let place = Place::with(&[]);
    let path = place.directory.path().join("5.sock");
    let _silent = UnixListener::bind(&path).unwrap();
    let start = Instant::now();
    let hello = Hello::new(false, false, false);
    match Client::connect(&path, &hello, Arc::new(Unattended)).await {
        Err(error @ Unreachable::Hung(_)) => assert!(error.to_string().contains("process 5"), "{error}"),
        other => panic!("{:?}", other.err()),
    }
    assert!(start.elapsed() < Duration::from_secs(30));
}

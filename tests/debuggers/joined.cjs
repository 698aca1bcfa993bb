// A user's debugger: `DebugClient` of @vscode/debugadapter-testsupport over `pilcrow dap`, controlled by lines of
// JSON on standard input, each answered by one line. RECORD gets every received message.
//
//   node joined.cjs LIBRARY RECORD PILCROW dap --session ID -C DIR
'use strict';
const [library, record, program, ...args] = process.argv.slice(2);
const path = require('node:path');
const fs = require('node:fs');
const { spawn } = require('node:child_process');
const { DebugClient } = require(path.join(library, '@vscode/debugadapter-testsupport'));

const client = new DebugClient('', '', 'pilcrow');
client.defaultTimeout = 60000;
const dispatch = client.dispatch.bind(client);
const events = [];
let waiting = [];
client.dispatch = (body) => {
  fs.appendFileSync(record, body + '\n');
  const message = JSON.parse(body);
  if (message.type !== 'response') {
    events.push(message.type === 'event' ? message : { event: `request ${message.command}`, body: message.arguments });
    waiting = waiting.filter((look) => !look());
  }
  // The library takes a request for an answer.
  if (message.type === 'request') return answer(message);
  dispatch(body);
};
const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
client.connect(child.stdout, child.stdin);
function write(text) {
  child.stdin.write(text);
}
// What an editor says that did it.
function answer({ seq, command }) {
  const body = command === 'runInTerminal' ? { processId: 42 } : {};
  const text = JSON.stringify({ seq: 1e6 + seq, type: 'response', request_seq: seq, success: true, command, body });
  write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
}
let begun;
const ended = new Promise((resolve) => child.on('exit', (code) => resolve({ code })));

// The next event of that name which was not waited for yet.
let seen = 0;
function next(name) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${name} came; there were ${events.map((it) => it.event)}`)), 60000);
    const look = () => {
      for (let at = seen; at < events.length; at++) {
        if (events[at].event === name) {
          seen = at + 1;
          clearTimeout(timer);
          resolve(events[at].body ?? {});
          return true;
        }
      }
      return false;
    };
    if (!look()) waiting.push(look);
  });
}

async function act({ ask, arguments: given, event, end, join, raw, begin, settle }) {
  if (raw) return write(raw);
  // A request that is not waited for, and what came of it.
  if (begin) {
    begun = client.send(begin, given ?? {}).then(() => 'answered', (error) => `failed: ${error.message}`);
    return {};
  }
  if (settle) return begun;
  if (join) {
    const capabilities = await client.initializeRequest(join);
    const initialized = client.waitForEvent('initialized');
    await client.attachRequest({});
    await initialized;
    await client.configurationDoneRequest();
    return capabilities.body;
  }
  if (event) return next(event);
  if (end) {
    child.stdin.end();
    return ended;
  }
  return (await client.send(ask, given ?? {})).body ?? {};
}

let order = Promise.resolve();
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  order = order.then(() => act(JSON.parse(line))).then(
    (ok) => console.log(JSON.stringify({ ok: ok ?? {} })),
    (error) => console.log(JSON.stringify({ error: String(error.message ?? error) })),
  );
}).on('close', () => order.then(() => { child.kill(); process.exit(0); }));

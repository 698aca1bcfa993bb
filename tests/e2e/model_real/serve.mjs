// A small real model behind OpenAI's chat completions, on loopback: text only, one request at a time. Prints its address.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, weights] = process.argv.slice(2);
const entry = createRequire(`${modules}/index.js`).resolve("node-llama-cpp");
const { getLlama, LlamaChat, LlamaLogLevel, resolveChatWrapper } = await import(pathToFileURL(entry));
const llama = await getLlama({ build: "never", gpu: false, logLevel: LlamaLogLevel.error, maxThreads: 2 });
const model = await llama.loadModel({ modelPath: weights });
const context = await model.createContext({ contextSize: 4096 });

const text = (content) => (typeof content === "string" ? content : content.map((part) => part.text ?? "").join("\n"));

async function answer(request, response) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const asked = JSON.parse(Buffer.concat(parts).toString());
  const history = asked.messages.map(({ role, content }) =>
    role === "assistant" ? { type: "model", response: [text(content)] } : { type: role, text: text(content) });
  history.push({ type: "model", response: [] });
  const sequence = context.getSequence();
  const chat = new LlamaChat({ contextSequence: sequence, chatWrapper: resolveChatWrapper(model) });
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (value) => response.write(`data: ${JSON.stringify(value)}\n\n`);
  const chunk = (delta, reason = null) =>
    send({ id: "smol", model: "smollm2", choices: [{ index: 0, delta, finish_reason: reason }] });
  chunk({ role: "assistant" });
  const before = sequence.tokenMeter.getState();
  const { metadata } = await chat.generateResponse(history, {
    temperature: 0,
    maxTokens: Math.min(asked.max_tokens ?? 64, 64),
    onTextChunk: (content) => chunk({ content }),
  });
  const used = sequence.tokenMeter.diff(before);
  chunk({}, metadata.stopReason === "maxTokens" ? "length" : "stop");
  send({ choices: [], usage: { prompt_tokens: used.usedInputTokens, completion_tokens: used.usedOutputTokens } });
  response.end("data: [DONE]\n\n");
  chat.dispose();
  sequence.dispose();
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => response.destroy(error));
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/v1`));

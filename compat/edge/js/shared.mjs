// Clients whose requests share connections between Caddy and an h2c upstream: does what one of them does cut another's stream?
//
//   node shared.mjs upstream           serves h2c on a free port and prints it; GET /long sends a line every 100 ms, for ever;
//                                      GET /big sends 8 MiB; GET /count tells how many connections there are
//   node shared.mjs MISUSE PORT CA     "resets" or "unread": the misuse, beside streams that must go on
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import http2 from "node:http2";
import { setTimeout as pause } from "node:timers/promises";

const [misuse, port, ca] = process.argv.slice(2);
if (misuse === "upstream") {
  upstream();
} else {
  await victimsOutlive({ resets, unread }[misuse]);
}

function upstream() {
  let connections = 0;
  const server = http2.createServer({ maxSessionMemory: 10_000, settings: { maxConcurrentStreams: 1000 } }, (request, response) => {
    if (request.url === "/count") return response.end(String(connections));
    if (request.url === "/big") return response.end(Buffer.alloc(8 << 20));
    const ticks = setInterval(() => response.write("tick\n"), 100);
    response.on("close", () => clearInterval(ticks));
  });
  server.on("session", () => connections++);
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
}

function client() {
  const session = http2.connect(`https://localhost:${port}`, { ca: readFileSync(ca) });
  session.on("error", () => {});
  return session;
}

// Five long streams of five clients while `misbehave` runs in a client of its own.
async function victimsOutlive(misbehave) {
  const cut = [];
  const victims = await Promise.all(Array.from({ length: 5 }, async () => {
    const stream = client().request({ ":path": "/long" });
    const victim = { ticks: 0 };
    stream.on("data", () => victim.ticks++);
    for (const end of ["error", "aborted", "end"]) stream.on(end, (why) => cut.push(`${end} ${why?.message ?? ""}`));
    await once(stream, "data");
    return victim;
  }));
  const done = await misbehave();
  const before = victims.map((victim) => victim.ticks);
  const until = Date.now() + 10_000;
  while (cut.length === 0 && victims.some((victim, i) => victim.ticks < before[i] + 5) && Date.now() < until) await pause(20);
  const stalled = victims.filter((victim, i) => victim.ticks < before[i] + 5).length;
  const count = await text("/count");
  console.log(JSON.stringify({ misuse, done, cut: cut.length, stalled, upstreamConnections: Number(count) }));
  assert.deepEqual(cut, []);
  assert.equal(stalled, 0);
  process.exit(0);
}

async function text(path) {
  const stream = client().request({ ":path": path });
  stream.setEncoding("utf8");
  let all = "";
  for await (const part of stream) all += part;
  return all;
}

// Opens a stream and resets it, 2,000 times, as fast as the proxy takes it.
async function resets() {
  let reset = 0;
  for (let round = 0; round < 20; round++) {
    const session = client();
    await once(session, "connect");
    const closed = [];
    for (let i = 0; i < 100 && !session.closed; i++) {
      const stream = session.request({ ":path": "/long" });
      stream.on("error", () => {});
      closed.push(once(stream, "close"));
      setImmediate(() => stream.close(http2.constants.NGHTTP2_CANCEL));
      reset++;
    }
    await Promise.allSettled(closed);
    session.destroy();
  }
  return reset;
}

// Asks for 8 MiB in each of 60 streams and reads none of it.
async function unread() {
  const session = client();
  const streams = Array.from({ length: 60 }, () => session.request({ ":path": "/big" }));
  await Promise.all(streams.map((stream) => once(stream, "response")));
  await pause(2000);
  return streams.length;
}

// Reads a run's stream with the npm package `eventsource` and prints each event as a line of JSON.
// Reconnecting, resuming and stopping are left to the package: it gives up only when the server answers 204.
//
//     node sse.mjs URL TOKEN TYPE…      (the event types that are listened for)
import { EventSource } from "eventsource";

const [url, token, ...types] = process.argv.slice(2);
const source = new EventSource(url, {
  fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, authorization: `Bearer ${token}` } }),
});
const print = (event) =>
  process.stdout.write(`${JSON.stringify({ type: event.type, id: event.lastEventId, data: event.data })}\n`);
// `message` is the type of an event that names none: there must be no such event.
for (const type of ["message", ...types]) source.addEventListener(type, print);
source.addEventListener("error", (event) => {
  if (source.readyState === EventSource.CLOSED) {
    process.stdout.write(`${JSON.stringify({ type: "closed", id: "", data: String(event.code) })}\n`);
  }
});

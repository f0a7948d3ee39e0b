"use strict";
// A client of /ws: one connection, one subscription, the last events that matched.

const MOST_SHOWN = 200;
const LONGEST_WAIT = 10000;
const byId = (id) => document.getElementById(id);
let socket = null;
let token = "";
let wait = 500;
let subscriptions = 0;
let subscribed = null;
let count = 0;

function show(state, text) {
  byId("state").className = `state ${state}`;
  byId("state").textContent = text;
}

function complain(problem) {
  byId("problem").textContent = problem ? [problem.detail, problem.hint].filter(Boolean).join("\n") : "";
}

function say(message) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/ws`);
  let welcomed = false;
  socket.onopen = () => { if (token) say({ type: "hello", token }); };
  socket.onclose = (event) => {
    show("closed", "not connected");
    subscribed = null;
    if (event.code === 4401) { token = ""; byId("greeting").hidden = false; return; }
    setTimeout(connect, wait);
    wait = Math.min(LONGEST_WAIT, wait * 2);
  };
  socket.onmessage = (event) => {
    const message = JSON.parse(event.data);
    if (message.type === "welcome") { welcomed = true; greeted(message); }
    else if (message.type === "subscribed") { byId("wanted").textContent = `where ${message.where}`; complain(null); }
    else if (message.type === "event") { if (message.name === subscribed) add(message.event); }
    else if (message.type === "problem") { complain(message.problem); if (message.name === subscribed) subscribed = null; }
  };
  // A broker that has tokens waits for a greeting; then the reader has to type one.
  setTimeout(() => {
    if (!welcomed && socket.readyState === WebSocket.OPEN) {
      show("", "who are you?");
      byId("greeting").hidden = false;
    }
  }, 500);
}

function greeted(message) {
  wait = 500;
  byId("greeting").hidden = true;
  show("open", `connected as ${message.principal}`);
  subscribe();
}

function subscribe() {
  complain(null);
  if (subscribed) say({ type: "unsubscribe", name: subscribed });
  subscribed = `page-${++subscriptions}`;
  byId("events").replaceChildren();
  tally(0);
  say({ type: "subscribe", name: subscribed, where: byId("where").value });
}

function tally(number) {
  count = number;
  byId("count").textContent = `${count.toLocaleString()} ${count === 1 ? "event" : "events"}`;
}

function add(event) {
  const content = event.type === "palio.event" ? event.data : event;
  const row = byId("events").insertRow(0);
  for (const text of [new Date().toLocaleTimeString(), event.source, JSON.stringify(content)]) {
    row.insertCell().textContent = text;
  }
  while (byId("events").rows.length > MOST_SHOWN) byId("events").deleteRow(-1);
  tally(count + 1);
}

function publish() {
  complain(null);
  try {
    say({ type: "publish", request: 1, event: JSON.parse(byId("event").value) });
  } catch (error) {
    complain({ detail: `not JSON: ${error.message}` });
  }
}

const actions = { subscribing: subscribe, publishing: publish, greeting: () => {
  token = byId("token").value.trim();
  byId("token").value = "";
  if (socket && socket.readyState === WebSocket.OPEN) say({ type: "hello", token });
  else connect();
} };
for (const [id, action] of Object.entries(actions)) {
  byId(id).addEventListener("submit", (event) => { event.preventDefault(); action(); });
}
connect();

"use strict";
// Draws the OpenAPI document; nothing is fetched from anywhere else.

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

function table(rows) {
  const made = make("table");
  for (const cells of rows) {
    const row = made.insertRow();
    for (const text of cells) row.insertCell().textContent = text;
  }
  return made;
}

function request(method, path, operation, shared) {
  const box = make("details");
  const summary = make("summary");
  summary.append(make("span", method.toUpperCase(), "method"), make("code", path), " ", make("span", operation.summary, "quiet"));
  box.append(summary);
  if (operation.description) box.append(make("p", operation.description));
  const parameters = [...(shared || []), ...(operation.parameters || [])];
  if (parameters.length) {
    box.append(make("p", "Parameters", "quiet"));
    box.append(table(parameters.map((each) => [each.name, each.in, each.description || ""])));
  }
  if (operation.requestBody) {
    box.append(make("p", "Body", "quiet"));
    box.append(table(Object.entries(operation.requestBody.content).map(([media, { schema }]) =>
      [media, schema.$ref ? schema.$ref.split("/").pop() : schema.type || ""])));
  }
  box.append(make("p", "Answers", "quiet"));
  box.append(table(Object.entries(operation.responses).map(([status, answer]) => [status, answer.description])));
  return box;
}

async function draw() {
  const api = await (await fetch("/openapi.json")).json();
  document.getElementById("about").textContent = `${api.info.description} Version ${api.info.version}.`;
  for (const [path, operations] of Object.entries(api.paths)) {
    for (const method of ["get", "post", "put", "delete"]) {
      if (operations[method]) {
        document.getElementById("requests").append(request(method, path, operations[method], operations.parameters));
      }
    }
  }
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    const box = make("details");
    box.append(make("summary", name), make("pre", JSON.stringify(schema, null, 2)));
    document.getElementById("schemas").append(box);
  }
}

draw();

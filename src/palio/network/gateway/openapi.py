"""OpenAPI 3.1 document of the gateway, from which `/docs` renders its page."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from palio import __version__
from palio.routing.durable_settings import ON_FULL_POLICIES

_Json = dict[str, Any]
_PROBLEM: Final[_Json] = {
    "description": "Problem document (RFC 9457).",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_CALLER_PROBLEMS: Final = ("400", "401", "403", "413", "415", "421", "429", "503")


@cache
def describe_api() -> _Json:
    """The OpenAPI document; the same object at every call."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Palio",
            "version": __version__,
            "description": "Content-based publish/subscribe: any WHERE clause is a subscription. "
            "Tokens are made by the command palio token add; a broker that has none asks for none.",
        },
        "security": [{"token": []}],
        "paths": {
            "/events": {"post": _publish(), "get": _stream()},
            "/durable/{name}": {
                "parameters": [_in_path("name")],
                "post": _operation(
                    "Subscribe durably, or change the condition", "201", "DurableSubscription", takes="Condition"
                ),
                "delete": _operation("Forget a durable subscription", "204"),
            },
            "/durable/{name}/acknowledge": {"parameters": [_in_path("name")], "post": _acknowledge()},
            "/tickets": {"post": _ticket()},
            "/subscriptions": {"get": _list_subscriptions(), "post": _create_subscription()},
            "/subscriptions/{id}": {
                "parameters": [_in_path("id")],
                "get": _operation("Read a subscription", "200", "Subscription"),
                "put": _operation("Replace a subscription", "200", "Subscription", takes="Subscription"),
                "delete": _operation("End a subscription", "204"),
            },
            "/dead-letters": {"get": _dead_letters()},
            "/dead-letters/{number}": {
                "parameters": [_in_path("number")],
                "delete": _operation("Delete dead letters; for admins", "204"),
            },
            "/dead-letters/{number}/send": {
                "parameters": [_in_path("number")],
                "post": _operation("Send to its sink again what could not be delivered; for admins", "204"),
            },
            "/status": {
                "get": _read_operation("How the broker is; needs a grant", "application/json", {"type": "object"})
            },
            "/metrics": {
                "get": _read_operation("Metrics for Prometheus; needs a grant", "text/plain", {"type": "string"})
            },
            "/health": {"get": _public_operation("Whether the broker answers at all", {"200"})},
            "/ready": {"get": _public_operation("Whether the broker can serve", {"200", "503"})},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "CloudEvent": _cloudevent(),
                "Problem": _problem(),
                "Subscription": _subscription(),
                "DeadLetter": _dead_letter(),
                "Condition": _condition(),
                "DurableLimits": _durable_limits(),
                "DurableSubscription": _durable_subscription(),
            },
        },
    }


def _responses(status: str, description: str, content: _Json | None = None, *others: str) -> _Json:
    done: _Json = {"description": description} | ({"content": content} if content else {})
    return {status: done} | dict.fromkeys((*_CALLER_PROBLEMS, *others), _PROBLEM)


def _schema_of(schema: str) -> _Json:
    return {"schema": {"$ref": f"#/components/schemas/{schema}"}}


def _publish() -> _Json:
    structured = _schema_of("CloudEvent")
    return {
        "summary": "Publish events",
        "description": "One CloudEvent (structured, or binary with `ce-` headers), a batch, one JSON object, or "
        "JSON lines. Answered when all are safe; with `Prefer: respond-async` at once. All are published, or none.",
        "parameters": [
            {"name": "Prefer", "in": "header", "schema": {"type": "string", "enum": ["respond-async"]}},
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/cloudevents+json": structured,
                "application/cloudevents-batch+json": {
                    "schema": {"type": "array", "items": {"$ref": "#/components/schemas/CloudEvent"}}
                },
                "application/json": {"schema": {"type": "object"}},
                "application/x-ndjson": {"schema": {"type": "string"}},
            },
        },
        "responses": _responses("200", "They are safe.", {"application/json": {"schema": {"type": "object"}}}, "408",
                                "409", "507") | {"202": {"description": "They are on their way."}},
    }  # fmt: skip


def _stream() -> _Json:
    return {
        "summary": "Listen to events",
        "description": "Server-Sent Events, each a CloudEvent. Browsers, which cannot send a token here, use a ticket.",
        "parameters": [
            _query("where", "Which events, as a condition; all without.", {"type": "string", "maxLength": 16384}),
            _query("language", "The language of the condition.", {"type": "string", "default": "sql"}),
            _query("lease", "The stream ends after so many seconds; a client that is still there opens it again.",
                   {"type": "number", "exclusiveMinimum": 0}),
            _query("completeness", "Whether the stream says of which events it has had all that it wanted.",
                   {"type": "boolean", "default": False}),
            _query("durable", "A durable subscription, by its name.", {"type": "string", "maxLength": 200}),
            _query("group", "Whether it is read as a consumer group.", {"type": "boolean", "default": False}),
            _query("key", "The attribute by which a group keeps the order.", {"type": "string", "maxLength": 200}),
            _query("consumer", "An id by which a client that is back takes over from its last stream.",
                   {"type": "string", "maxLength": 200}),
            _query("ticket", "A ticket of POST /tickets.", {"type": "string"}),
            {"name": "Last-Event-ID", "in": "header", "description": "All up to this one were dealt with.",
             "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"}},
        ],
        "responses": _responses(
            "200", "The events, as they come.", {"text/event-stream": {"schema": {"type": "string"}}},
            "409", "421", "422", "503",
        ),
    }  # fmt: skip


def _in_path(name: str) -> _Json:
    schema = {"type": "string", "minLength": 1, "maxLength": 200}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _acknowledge() -> _Json:
    number = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
    return _operation("Acknowledge events of a durable subscription", "204") | {
        "parameters": [
            _query("through", "All up to this one.", number),
            _query("number", "This one alone, as for the members of a consumer group.", number),
        ]
    }


def _query(name: str, description: str, schema: _Json) -> _Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _ticket() -> _Json:
    schema = {
        "type": "object",
        "required": ["ticket", "seconds"],
        "properties": {"ticket": {"type": "string"}, "seconds": {"type": "number"}},
    }
    return {
        "summary": "Get a ticket, good once and for some seconds, for a URL that cannot have a token",
        "responses": _responses("201", "The ticket.", {"application/json": {"schema": schema}}),
    }


def _list_subscriptions() -> _Json:
    several = {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Subscription"}}}
    return {
        "summary": "List one's own subscriptions with a sink",
        "responses": _responses("200", "Those that there are.", {"application/json": several}),
    }


def _create_subscription() -> _Json:
    return {
        "summary": "Have events pushed to a sink",
        "description": "As the CloudEvents Subscriptions API has it. The sink is asked first whether it agrees, by "
        "OPTIONS with WebHook-Request-Origin.",
        "requestBody": {"required": True, "content": {"application/json": _schema_of("Subscription")}},
        "responses": _responses(
            "201", "The subscription.", {"application/json": _schema_of("Subscription")}, "408", "422"
        ),
    }


def _operation(summary: str, status: str, gives: str | None = None, *, takes: str | None = None) -> _Json:
    content = {"application/json": _schema_of(gives)} if gives else None
    body = {"requestBody": {"required": True, "content": {"application/json": _schema_of(takes)}}} if takes else {}
    return {
        "summary": summary,
        **body,
        "responses": _responses(status, "Done.", content, "404", "408", "421", "422", "503"),
    }


def _dead_letters() -> _Json:
    several = {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/DeadLetter"}}}
    return {
        "summary": "List what could not be delivered; needs a grant",
        "parameters": [
            _query("after", "Those behind this number.", {"type": "integer", "minimum": 0, "maximum": 10**18 - 1})
        ],
        "responses": _responses("200", "The oldest first.", {"application/json": several}),
    }


def _read_operation(summary: str, media: str, schema: _Json) -> _Json:
    return {"summary": summary, "responses": _responses("200", "So it is.", {media: {"schema": schema}})}


def _public_operation(summary: str, statuses: set[str]) -> _Json:
    content = {"application/json": {"schema": {"type": "object"}}}
    done = {status: {"description": "So it is.", "content": content} for status in sorted(statuses)}
    return {
        "summary": summary,
        "security": [],
        "responses": done | dict.fromkeys(("400", "403", "415", "421"), _PROBLEM),
    }


def _cloudevent() -> _Json:
    text = {"type": "string", "minLength": 1}
    return {
        "type": "object",
        "required": ["specversion", "id", "source", "type"],
        "properties": {
            "specversion": {"type": "string", "const": "1.0"},
            "id": text,
            "source": text | {"format": "uri-reference"},
            "type": text,
            "time": {"type": "string", "format": "date-time"},
            "subject": text,
            "datacontenttype": text,
            "dataschema": text | {"format": "uri"},
            "data": {},
            "data_base64": {"type": "string", "contentEncoding": "base64"},
        },
        "additionalProperties": {"type": ["string", "integer", "boolean"]},
    }


def _problem() -> _Json:
    return {
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "path": {"type": "string", "description": "The attribute at fault."},
            "position": {"type": "integer", "description": "Where in a condition, in characters from 0."},
            "limit": {"type": "string", "description": "The limit that was reached."},
        },
    }


def _subscription() -> _Json:
    return {
        "type": "object",
        "required": ["sink", "protocol"],
        "additionalProperties": False,
        "properties": {
            "id": {"type": "string", "minLength": 1, "maxLength": 200},
            "sink": {"type": "string", "format": "uri"},
            "protocol": {"type": "string", "enum": ["HTTP"]},
            "source": {"type": "string"},
            "types": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "filters": {"type": "array", "items": {"type": "object", "minProperties": 1, "maxProperties": 1}},
            "config": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"where": {"type": "string"}, "language": {"type": "string"}},
            },
            "sinkcredential": {"oneOf": [_plain_credential(), _token_credential()]},
            "protocolsettings": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "method": {"type": "string", "enum": ["POST"]},
                    "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
        },
    }


def _plain_credential() -> _Json:
    return _credential("PLAIN", identifier={"type": "string"}, secret={"type": "string"})


def _token_credential() -> _Json:
    token, time = {"type": "string"}, {"type": "string", "format": "date-time"}
    return _credential("ACCESSTOKEN", accesstoken=token, accesstokenexpiresutc=time)


def _credential(kind: str, **parts: _Json) -> _Json:
    return {
        "type": "object",
        "required": ["credentialtype", *parts],
        "properties": {"credentialtype": {"type": "string", "const": kind}, **parts},
    }


def _condition() -> _Json:
    return {
        "type": "object",
        "required": ["where"],
        "additionalProperties": False,
        "properties": {
            "where": {"type": "string", "maxLength": 16384},
            "language": {"type": "string", "default": "sql"},
            "limits": {"$ref": "#/components/schemas/DurableLimits"},
        },
    }


def _durable_limits() -> _Json:
    count = {"type": ["integer", "null"], "minimum": 1}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "max_events": count,
            "max_bytes": count,
            "on_full": {"enum": [*ON_FULL_POLICIES, None]},
            "expires_after": {"type": ["number", "null"], "exclusiveMinimum": 0},
            "max_deliveries": count,
        },
    }


def _durable_subscription() -> _Json:
    text = {"type": "string"}
    return {"type": "object", "required": ["name", "where"], "properties": {"name": text, "where": text}}


def _dead_letter() -> _Json:
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {
            "number": {"type": "integer"},
            "time": {"type": "number"},
            "owner": text,
            "subscription": text,
            "reason": text,
            "data": text,
        },
    }

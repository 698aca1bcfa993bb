"""Holds the requests of one folder to what the providers publish of them in their own packages.

Prints one line for each thing that is wrong; nothing where all is right. A field that they do not know is wrong too.
"""

import copy
import importlib
import json
import pathlib
import pkgutil
import sys

from anthropic.lib._parse._transform import transform_schema
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from google.genai import types as google
from openai.lib._pydantic import _ensure_strict_json_schema
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict


def close(package):
    """Refuses unknown fields of every typed dictionary of a package."""
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, package + "."):
        for value in vars(importlib.import_module(module.name)).values():
            if is_typeddict(value):
                value.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


def drained(value):
    """Lists of typed dictionaries are validated as they are read."""
    if isinstance(value, dict):
        return {key: drained(it) for key, it in value.items()}
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return value
    return [drained(it) for it in value]


def typed(kind):
    adapter = TypeAdapter(kind)
    return lambda body: drained(adapter.validate_python(body))


def openai_completions():
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    check = typed(CompletionCreateParamsStreaming)

    def without_reasoning(body):
        # Compatible servers send it, and get it back; OpenAI itself has it in the responses only.
        for message in body["messages"]:
            for field in ("reasoning", "reasoning_content", "reasoning_details", "reasoning_text"):
                message.pop(field, None)
        # Tools in the middle are Moonshot's; they are to be as those at the beginning.
        late = [it for it in body["messages"] if it["role"] == "system" and "tools" in it]
        body["messages"] = [it for it in body["messages"] if it not in late]
        for message in late:
            if message.keys() != {"role", "tools"}:
                raise ValueError(f"a message with tools holds more: {sorted(message)}")
            body["tools"] += message["tools"]
        check(body)

    return without_reasoning


def openai_responses():
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    return typed(ResponseCreateParamsStreaming)


def anthropic_messages():
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return typed(MessageCreateParamsStreaming)


def mistral():
    from mistralai.client.models.chatcompletionstreamrequest import ChatCompletionStreamRequest

    def check(body):
        read = ChatCompletionStreamRequest.model_validate(body).model_dump(by_alias=True, exclude_unset=True)
        lost(body, read, "")

    return check


def lost(sent, read, path):
    """Fields that were not understood are gone from what was read."""
    if isinstance(sent, dict) and isinstance(read, dict):
        for key, value in sent.items():
            if key not in read:
                raise ValueError(f"{path}.{key} is not known")
            lost(value, read[key], f"{path}.{key}")
    elif isinstance(sent, list) and isinstance(read, list):
        for at, (a, b) in enumerate(zip(sent, read)):
            lost(a, b, f"{path}[{at}]")


GOOGLE = {
    "contents": list[google.Content],
    "systemInstruction": google.Content,
    "generationConfig": google.GenerationConfig,
    "tools": list[google.Tool],
    "toolConfig": google.ToolConfig,
}


def gemini(body):
    for field, value in body.items():
        TypeAdapter(GOOGLE[field]).validate_python(value)


def bedrock():
    model = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))
    shape = model.operation_model("ConverseStream").input_shape

    def check(body):
        report = ParamValidator().validate({**body, "modelId": "m"}, shape)
        if report.has_errors():
            raise ValueError(report.generate_report())

    return check


def tools_of(value):
    """Whatever is held to its schema, wherever it stands."""
    if isinstance(value, dict):
        if value.get("strict") is True:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from tools_of(part)


def held(body, schema, strict):
    """A schema that is held to is as the provider's own package would make it."""
    for tool in tools_of(body):
        sent = tool[schema]
        sent = sent.get("json", sent)
        if strict(copy.deepcopy(sent)) != sent:
            raise ValueError(f"`{tool['name']}` is not strict: {json.dumps(sent)}")


def strict_openai(schema):
    return _ensure_strict_json_schema(schema, path=(), root=schema)


def strict_claude(schema):
    # The package writes no type beside a value, and one type only.
    loose = simplified(schema)
    made = transform_schema(loose)
    return schema if made == loose else made


def simplified(value):
    if isinstance(value, list):
        return [simplified(it) for it in value]
    if not isinstance(value, dict):
        return value
    out = {key: simplified(it) for key, it in value.items()}
    if "enum" in out or "const" in out:
        out.pop("type", None)
    if isinstance(out.get("type"), list):
        out["type"] = next(it for it in out["type"] if it != "null")
    return out


# Mistral does not say what its own takes; OpenAI's is the narrowest.
STRICT = {
    "anthropic-messages": ("input_schema", strict_claude),
    "bedrock-converse-stream": ("inputSchema", strict_claude),
}


def main(folder):
    for package in ("openai.types", "anthropic.types"):
        close(package)
    responses = openai_responses()
    checks = {
        "anthropic-messages": anthropic_messages(),
        "azure-openai-responses": responses,
        "bedrock-converse-stream": bedrock(),
        "google-generative-ai": gemini,
        "google-vertex": gemini,
        "mistral-conversations": mistral(),
        "openai-completions": openai_completions(),
        "openai-responses": responses,
    }
    for file in sorted(pathlib.Path(folder).glob("*.json")):
        name, body = file.name.split(".")[0], json.loads(file.read_text())
        try:
            held(body, *STRICT.get(name, ("parameters", strict_openai)))
            checks[name](body)
        except ValidationError as error:
            # Each kind of a union is told of; what is the same in all is what helps.
            told = {f"{it['msg']}: {json.dumps(it['input'], default=str)[:200]}" for it in error.errors()}
            print(f"{file.name}: " + "\n    ".join(sorted(told)))
        except (ValueError, KeyError) as error:
            print(f"{file.name}: {error!r}")


main(sys.argv[1])

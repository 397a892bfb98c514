"""Calls every tool of an MCP server of Gigafactory with the official SDK, and prints what it saw as JSON.

usage: drive.py stdio|legacy-stdio GIGA [ARGUMENT…]
       drive.py http|legacy-http URL TOKEN
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


def server(kind, arguments):
    if kind.endswith("stdio"):
        return StdioServerParameters(command=arguments[0], args=arguments[1:])
    url, token = arguments
    client = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
    return streamable_http_client(url, http_client=client)


async def drive(client, kind):
    seen = {}

    async def call(name, **arguments):
        result = await client.call_tool(name, arguments)
        assert not result.is_error, (name, result.content[0].text)
        return result.structured_content, result.content[0].text

    tools = (await client.list_tools()).tools
    seen["tools"] = sorted(tool.name for tool in tools)
    assert all(tool.annotations is not None and tool.output_schema for tool in tools)

    manifest = f"---\ntitle: From a tool\nrepo: work\ntags: [{kind}]\n---\nPlease.\n"
    question = f"---\ntitle: A question\nrepo: work\ntags: [{kind}]\n---\nask\n"
    checked, _ = await call("dry_run_job", manifest=manifest)
    submitted, _ = await call("submit_job", manifest=manifest)
    again, _ = await call("submit_job", manifest=manifest)
    job = submitted["job"]["id"]
    seen["dry"] = checked["created"]
    seen["created"] = [submitted["created"], again["created"]]
    seen["same"] = again["job"]["id"] == job

    waited, text = await call("wait_for_job", id=job)
    seen["waited"] = [waited["outcome"], waited["job"]["stage"]]
    assert job in text

    listed, text = await call("list_jobs", stages=["testing"], limit=50)
    seen["listed"] = job in [found["id"] for found in listed["jobs"]]
    assert len(text.splitlines()) == len(listed["jobs"])
    got, _ = await call("get_job", id=job)
    seen["got"] = got["job"]["title"]
    explained, _ = await call("explain_job", id=job)
    seen["explained"] = bool(explained["summary"])
    events, _ = await call("get_job_events", id=job, limit=1)
    rest, _ = await call("get_job_events", id=job, after=events["next"], limit=100)
    seen["events"] = [event["text"] for event in events["events"] + rest["events"]]
    log, _ = await call("get_job_log", id=job, tail_bytes=100)
    seen["log"] = log["text"]
    factories, _ = await call("list_factories")
    seen["factories"] = [factory["id"] for factory in factories["factories"]]

    asking = (await call("submit_job", manifest=question))[0]["job"]["id"]
    asked, _ = await call("wait_for_job", id=asking)
    seen["asked"] = [asked["outcome"], asked["job"]["question"]]
    await call("answer_question", id=asking, answer="the left one")
    timed, _ = await call("wait_for_job", id=asking, until="shipped", timeout_s=1)
    seen["timed"] = timed["outcome"]
    answered, _ = await call("wait_for_job", id=asking)
    seen["answered"] = answered["job"]["stage"]

    stuck = "---\ntitle: Nowhere\nrepo: work\ncapabilities: [os:plan9]\n---\nPlease.\n"
    stuck = (await call("submit_job", manifest=stuck, key=f"stuck-{kind}"))[0]["job"]["id"]
    for _ in range(2):
        cancelled, _ = await call("cancel_job", id=stuck, reason="a test")
        seen["cancelled"] = cancelled["job"]["reason"]

    async def failed(name, **arguments):
        result = await client.call_tool(name, arguments)
        assert result.is_error, (name, result)
        return result.content[0].text

    nothing = "00000000-0000-7000-8000-000000000000"
    seen["failures"] = [
        await failed("get_job", id=nothing),
        await failed("get_job", id="nonsense"),
        await failed("submit_job", manifest="---\nbudget: { usd: lots }\n---\nx\n"),
        await failed("answer_question", id=job, answer="yes"),
    ]
    try:
        unknown = await client.call_tool("list_jobs", {"stage": "testing"})
        seen["unknown"] = unknown.content[0].text if unknown.is_error else "accepted"
    except Exception as error:
        seen["unknown"] = str(error)
    return seen


async def main(kind, *arguments):
    mode = "legacy" if kind.startswith("legacy") else "auto"
    async with Client(server(kind, arguments), mode=mode, read_timeout_seconds=90) as client:
        seen = await drive(client, kind)
        seen["protocol"] = str(client.protocol_version) if hasattr(client, "protocol_version") else None
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))

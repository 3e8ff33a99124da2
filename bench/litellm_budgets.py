"""How far several processes of LiteLLM exceed a budget without a database.

    python -m venv FOLDER; FOLDER/bin/pip install 'litellm[proxy]'
    python -m bench.litellm_budgets FOLDER/bin/litellm

Without a database LiteLLM has no keys of its own, but budgets of providers. The budget pays for `PAID`
requests. Requests come one after the other, and then all at once, through one, two and three processes. The
upstream counts how many it has answered until all processes refuse.
"""

import asyncio
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import aiohttp
from aiohttp import web

from bench.gateway_processes import say
from tests.exchange.sample_replies import CHAT_WHOLE
from tests.postgres import find_free_port

#: The reply of the upstream uses 15 tokens, which cost one dollar each.
COST = 15.0
PAID = 20
PARALLEL = 60
PROCESSES = (1, 2, 3)
MASTER_KEY = "sk-0123456789abcdef0123456789abcdef0123456789abcdef"
CONFIG = """
model_list:
  - model_name: m
    litellm_params:
      model: openai/m
      api_base: {url}
      api_key: x
      input_cost_per_token: 1.0
      output_cost_per_token: 1.0
router_settings:
  num_retries: 0
  provider_budget_config:
    openai: {{budget_limit: {budget}, time_period: 1d}}
"""


async def measure(program: str, processes: int, parallel: int) -> int:
    """How many requests the upstream answers until all processes refuse."""
    answered = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal answered
        answered += 1
        return web.Response(body=CHAT_WHOLE, content_type="application/json")

    application = web.Application()
    application.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    started: list[asyncio.subprocess.Process] = []
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(
            CONFIG.format(url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", budget=PAID * COST)
        )
        try:
            ports = [find_free_port() for _ in range(processes)]
            for port in ports:
                process = await asyncio.create_subprocess_exec(
                    *(program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
                    env={
                        **os.environ,
                        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                        "LITELLM_MASTER_KEY": MASTER_KEY,
                    },
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                )
                started.append(process)
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                for port in ports:
                    await wait_until_ready(session, port)
                statuses = [200]
                while 200 in statuses:
                    statuses = []
                    for _ in range(1 if parallel > 1 else 5):
                        asks = (ask(session, port) for port in ports for _ in range(parallel))
                        statuses += await asyncio.gather(*asks)
                    # LiteLLM counts the cost after the reply.
                    await asyncio.sleep(1.0)
        finally:
            for process in started:
                with suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
            await runner.cleanup()
    return answered


async def ask(session: aiohttp.ClientSession, port: int) -> int:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"authorization": f"Bearer {MASTER_KEY}"}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with session.post(url, json=body, headers=headers) as response:
        await response.read()
        return response.status


async def wait_until_ready(session: aiohttp.ClientSession, port: int) -> None:
    async with asyncio.timeout(180):
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/health/liveliness") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.5)


def main(program: str) -> None:
    print(f"a budget for {PAID} requests: requests that the upstream has answered")
    for name, parallel in (("one after the other", 1), (f"{PARALLEL} at once for each process", PARALLEL)):
        for processes in PROCESSES:
            say(f"{processes} processes, {name}")
            print(f"  {processes} processes, {name}: {asyncio.run(measure(program, processes, parallel))}")


if __name__ == "__main__":
    main(sys.argv[1])

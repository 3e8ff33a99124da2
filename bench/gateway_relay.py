"""The least that a gateway on a common stack does: a byte relay on aiohttp, by which others are measured."""

import asyncio
import sys

import uvicorn
from aiohttp import ClientSession, ClientTimeout, TCPConnector, web


async def main(upstream: str) -> None:
    session = ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=None))

    async def relay(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with session.post(upstream + request.path, data=body) as answer:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            while piece := await answer.content.readany():
                await response.write(piece)
            await response.write_eof()
            return response

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", relay)
    server = web.AppRunner(app, access_log=None)
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0, backlog=4096)
    await site.start()
    print(server.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    factory = uvicorn.Config("", log_config=None).get_loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(sys.argv[1]))

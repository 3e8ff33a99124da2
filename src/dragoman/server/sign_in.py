"""The sign-in of agents: metadata (RFC 8414), device codes (RFC 8628), renewal, and revocation (RFC 7009).

Claude Code's `/login` uses it. A person opens the page `/device` and enters a client key; the agent then gets
tokens of its own for that key. OAuth is for https only, except on this machine.
"""

from collections.abc import Awaitable, Callable, Mapping
from html import escape
from urllib.parse import parse_qs, urlencode, urlsplit

from dragoman.accounts.device_codes import INTERVAL, LIFETIME, Approval, DeviceCodes
from dragoman.accounts.errors import InvalidKey
from dragoman.accounts.keys import ID_PREFIX
from dragoman.accounts.sign_ins import TokenGrant
from dragoman.config.settings import is_loopback
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import DragomanError, Failure
from dragoman.server.access import authenticate, read_host
from dragoman.server.client import NO_STORE
from dragoman.server.request import HttpRequest, receive_body

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
#: Bytes of a form.
MAX_FORM = 16 * 1024
_DAY = 86_400

_HEADERS = {
    **NO_STORE,
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With `no-referrer` browsers send the form with the origin `null`, which is refused.
    "referrer-policy": "same-origin",
}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Sign in to dragoman</title><style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 30rem; margin: 4rem auto; padding: 0 1rem }}
label {{ display: block; margin: 1rem 0 }}
input {{ font: inherit; width: 100%; padding: .4rem; box-sizing: border-box }}
button {{ font: inherit; padding: .4rem 1rem; margin-right: .5rem }}
</style></head><body><h1>dragoman</h1>{content}</body></html>
"""
_FORM = """<p>{message}</p>
<form method="post" action="/device" autocomplete="off">
<label>Code that your agent shows
<input name="user_code" value="{code}" required maxlength="20" autofocus></label>
{key}<button name="answer" value="approve">Sign in</button>
<button name="answer" value="deny" formnovalidate>Refuse</button></form>
<p>Only continue if you started this sign-in yourself.</p>
"""
_KEY_FIELD = '<label>Client key <input name="key" type="password" required></label>'


class OAuthRefused(Exception):
    """An error in the form of RFC 6749."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(error)
        self.error, self.description, self.status = error, description, status


class SignInEndpoints:
    """The endpoints of the sign-in. Owns the device codes that wait for approval."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._codes = DeviceCodes()
        self.handlers: Mapping[str, Callable[[HttpRequest], Awaitable[None]]] = {
            "sign_in": self._handle,
            "device_page": self._serve_page,
        }
        self._endpoints: Mapping[str, Callable[[HttpRequest, str], Awaitable[object]]] = {
            "/.well-known/oauth-authorization-server": self._describe,
            "/oauth/device_authorization": self._start,
            "/oauth/token": self._give_tokens,
            "/oauth/revoke": self._revoke,
        }

    async def _handle(self, request: HttpRequest) -> None:
        base = self._find_base(request)
        try:
            response = await self._endpoints[request.path.rstrip("/")](request, base)
        except OAuthRefused as refused:
            body = {"error": refused.error, "error_description": refused.description}
            await request.client.respond_json(refused.status, body, NO_STORE)
        else:
            await request.client.respond_json(200, response, NO_STORE)

    def _find_base(self, request: HttpRequest) -> str:
        """The address of the gateway as the client sees it. Raises if the sign-in is not offered there."""
        settings = self._gateway.config.sign_in
        host = request.headers.get("host", "")
        if not settings.enabled:
            raise _build_refusal(404, "this gateway offers no sign-in")
        if settings.url and (host == urlsplit(settings.url).netloc or is_forwarded(request.headers)):
            return settings.url
        if is_loopback(read_host(host)):
            return f"http://{host}"
        if not settings.url:
            raise _build_refusal(404, "this gateway offers no sign-in to other machines (see sign_in.url)")
        return settings.url

    async def _describe(self, request: HttpRequest, base: str) -> object:
        return {
            "issuer": base,
            "device_authorization_endpoint": f"{base}/oauth/device_authorization",
            "token_endpoint": f"{base}/oauth/token",
            "revocation_endpoint": f"{base}/oauth/revoke",
            "grant_types_supported": [DEVICE_GRANT, "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
        }

    async def _start(self, request: HttpRequest, base: str) -> object:
        await _read_form(request)
        code = self._codes.start(request.peer, self._gateway.clock())
        if code is None:
            raise OAuthRefused("slow_down", "too many sign-ins were started; wait a minute", 429)
        return {
            "device_code": code.device_code,
            "user_code": code.user_code,
            "verification_uri": f"{base}/device",
            "verification_uri_complete": f"{base}/device?{urlencode({'user_code': code.user_code})}",
            "expires_in": LIFETIME,
            "interval": INTERVAL,
        }

    async def _give_tokens(self, request: HttpRequest, base: str) -> object:
        form = await _read_form(request)
        match form.get("grant_type"):
            case "refresh_token":
                lifetime = self._gateway.config.sign_in.days * _DAY
                grant = await self._gateway.accounts.renew_sign_in(form.get("refresh_token", ""), lifetime)
                if grant is None:
                    raise OAuthRefused("invalid_grant", "the sign-in has ended; sign in again", 401)
            case grant_type if grant_type == DEVICE_GRANT:
                grant = await self._exchange_code(form.get("device_code", ""))
            case _:
                raise OAuthRefused("unsupported_grant_type", f"expected {DEVICE_GRANT} or refresh_token")
        response: dict[str, object] = {
            "access_token": grant.access,
            "token_type": "Bearer",
            "expires_in": grant.expires_in,
        }
        if grant.refresh:
            response["refresh_token"] = grant.refresh
        if grant.name:
            # Claude Code shows it and asks whether it is the right account.
            response["email"] = grant.name
        return response

    async def _exchange_code(self, device_code: str) -> TokenGrant:
        result = self._codes.poll(device_code, self._gateway.clock())
        if not isinstance(result, Approval):
            raise OAuthRefused(result, "")
        lifetime = self._gateway.config.sign_in.days * _DAY
        if result.secret:
            return TokenGrant(access=result.secret, expires_in=int(lifetime), name=result.name)
        grant = await self._gateway.accounts.sign_in(result.key, lifetime)
        if grant is None:
            raise OAuthRefused("access_denied", "the key is not valid any more")
        return grant

    async def _revoke(self, request: HttpRequest, base: str) -> object:
        form = await _read_form(request)
        await self._gateway.accounts.end_sign_in(form.get("token", ""))
        return {}

    async def _serve_page(self, request: HttpRequest) -> None:
        """The page on which a person enters the code and a client key."""
        self._find_base(request)
        if request.method in ("GET", "HEAD"):
            code = parse_qs(request.query).get("user_code", [""])[0][:20]
            await self._respond_form(request, 200, "An agent asks to use this gateway.", code)
            return
        form = await _read_form(request)
        code, now = form.get("user_code", "")[:20], self._gateway.clock()
        if not self._codes.attempts.admits(request.peer, now):
            return await self._respond_form(request, 429, "Too many attempts. Wait a minute.", code)
        if not self._codes.is_waiting(code, now):
            self._codes.attempts.count(request.peer)
            return await self._respond_form(request, 400, "There is no such code, or it has expired.", "")
        if form.get("answer") != "approve":
            self._codes.deny(code, now)
            return await _respond_page(
                request, 200, "<p>The sign-in is refused. You can close this page.</p>"
            )
        try:
            approval = await self._check_key(form.get("key", ""))
        except InvalidKey as error:
            self._codes.attempts.count(request.peer)
            return await self._respond_form(request, 403, error.message, code)
        self._codes.approve(code, approval, now)
        await _respond_page(
            request, 200, "<p>Signed in. You can close this page and return to your agent.</p>"
        )

    async def _check_key(self, key: str) -> Approval:
        """The approval with this client key. Raises `InvalidKey` if the gateway does not accept it."""
        keys = self._gateway.accounts.keys
        if keys.is_stale:
            await keys.refresh()
        caller = authenticate({"x-api-key": key.strip()}, "", self._gateway.config.server, keys)
        if caller.id.startswith(ID_PREFIX):
            return Approval(key=caller.id, name=caller.name)
        # Without keys the gateway accepts every token. A key of the configuration is its own token.
        return Approval(name=caller.name, secret=key.strip() or "no-key")

    async def _respond_form(self, request: HttpRequest, status: int, message: str, code: str) -> None:
        server = self._gateway.config.server
        needs_key = bool(server.keys) or self._gateway.accounts.keys.has_keys
        field = _KEY_FIELD if needs_key else ""
        content = _FORM.format(message=escape(message), code=escape(code), key=field)
        await _respond_page(request, status, content)


def is_forwarded(headers: Mapping[str, str]) -> bool:
    """Whether a proxy received the request over TLS. Many proxies replace the host by that of the gateway."""
    return (
        headers.get("x-forwarded-proto") == "https" or "proto=https" in headers.get("forwarded", "").lower()
    )


async def _respond_page(request: HttpRequest, status: int, content: str) -> None:
    data = _PAGE.format(content=content).encode()
    kind = {"content-type": "text/html; charset=utf-8", "content-length": str(len(data))}
    await request.client.respond(status, {**_HEADERS, **kind}, b"" if request.method == "HEAD" else data)


async def _read_form(request: HttpRequest) -> dict[str, str]:
    """The fields of a form. Unknown fields are ignored, as RFC 6749 requires."""
    body = await receive_body(request.receive, MAX_FORM)
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}


def _build_refusal(status: int, message: str) -> DragomanError:
    return DragomanError(message, failure=Failure(kind="not_found", status=status, message=message))

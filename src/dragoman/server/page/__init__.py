"""The files of the web page, which `server.web_page` serves. There is no Python here.

- `index.html`, `style.css`, `icon.svg`: the frame and its looks, light and dark.
- `app.js`: sign-in, routes, navigation and keyboard. `api.js`: the admin API and the live stream.
- `dom.js`: elements and formats. `charts.js`: SVG. `json.js`: trees of JSON. `screen.js`: base of screens.
- `now.js`, `sessions.js`, `turn.js`, `spend.js`, `overview.js`: the screens. `turns.js`: the table of turns.

To add a screen, define a custom element that extends `Screen`, and add its name to `SCREENS` in `app.js`.
"""

"""The page that asks for a token: plain HTML, since nothing else is served before."""

from html import escape

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in · gagpo</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; display: grid; place-items: center; min-height: 95vh; margin: 0;
  background: light-dark(#f6f7f9, #12151a); color: light-dark(#1c2530, #e6eaf0); }}
main {{ width: min(24rem, 88vw); background: light-dark(#fff, #1b2027); padding: 1.75rem; border-radius: 12px;
  border: 1px solid light-dark(#dfe3e8, #2c333d); }}
h1 {{ font-size: 1.2rem; margin: 0 0 .25rem; }}
p {{ margin: .25rem 0 1rem; color: light-dark(#566272, #a3adba); font-size: .9rem; }}
label {{ font-size: .9rem; font-weight: 600; }}
input {{ width: 100%; box-sizing: border-box; font: inherit; padding: .5rem .6rem; margin: .3rem 0 1rem;
  border-radius: 8px; border: 1px solid light-dark(#8b95a3, #5c6673); background: transparent; color: inherit; }}
button {{ font: inherit; font-weight: 600; padding: .5rem 1.1rem; border: 0; border-radius: 8px; background: #1f5fbf;
  color: #fff; cursor: pointer; }}
.refused {{ color: light-dark(#b3261e, #ff9c94); }}
</style>
</head>
<body>
<main>
<h1>gagpo</h1>
<p>This service asks for its token: the value of <code>GAGPO_TOKEN_JOBS</code>, or else of <code>GAGPO_TOKEN</code>.</p>
<form method="post" action="/sign-in">
<input type="hidden" name="next" value="{onward}">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
{refusal}
<button type="submit">Sign in</button>
</form>
</main>
</body>
</html>
"""


def sign_in_page(onward: str, refusal: str | None = None) -> str:
    """The page; ``onward`` is where signing in leads, ``refusal`` why it failed a moment ago."""
    said = f'<p class="refused" role="alert">{escape(refusal)}</p>' if refusal else ""
    return _PAGE.format(onward=escape(onward), refusal=said)

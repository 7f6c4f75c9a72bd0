"""Writes the chart library that reports embed: Vega with its parts. With --check, fails when it is stale.

vl-convert bundles it here once, so that reports are written without the 85 MB of vl-convert.
"""

from __future__ import annotations

import sys
from pathlib import Path

import vl_convert

TARGET = Path(__file__).parent.parent / "src" / "recallatk" / "reporting" / "html" / "vega-embed.js"
# The only name of the library that the page uses.
SNIPPET = "window.vegaEmbed=vegaEmbed;"


def bundle() -> str:
    """The script, which begins with the versions of what it holds."""
    lite = max(vl_convert.get_vegalite_versions(), key=lambda each: [int(part) for part in each.split(".")])
    embed = vl_convert.get_vega_embed_version()
    held = f"Vega {vl_convert.get_vega_version()}, Vega-Lite {lite}, Vega-Embed {embed}"
    said = f"/* {held}; bundled by vl-convert {vl_convert.__version__}. Licenses: LICENSE-VEGA. */"
    # HTML has no escape for an end tag inside a script.
    text = vl_convert.javascript_bundle(SNIPPET).replace("</script", "<\\/script").replace("\r", "")
    return f"{said}\n{text.rstrip()}\n"


def main() -> None:
    wanted = bundle()
    if "--check" not in sys.argv:
        TARGET.write_text(wanted, encoding="utf-8")
        return
    held = TARGET.read_text(encoding="utf-8")
    # Another vl-convert bundles other versions: then there is nothing to compare with.
    if f"vl-convert {vl_convert.__version__}." in held.partition("\n")[0] and held != wanted:
        sys.exit("src/recallatk/reporting/html/vega-embed.js is stale; run: python scripts/bundle_charts.py")


if __name__ == "__main__":
    main()

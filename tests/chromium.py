"""A browser on one page at a time, and texts that attack it."""

import json
import time

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1200,900",
)
ATTACK = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>\"'`${window.pwned=3}"
LONG = "w" * 10_000
MIRRORED = "שלום עולם \u202eabc\u202c مرحبا"


class Browser:
    """Headless Chromium on one page at a time."""

    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder

    def open(self, page, width=1200, dark=False, media=""):
        """Load a page as a fresh reader would and wait until its charts are drawn."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.cdp("Emulation.setEmulatedMedia", media=media, features=features)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.cdp("Emulation.setDeviceMetricsOverride", **size)
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(page.as_uri())
        self.wait("document.documentElement.dataset.drawn || document.documentElement.dataset.problem")
        assert self.run("document.documentElement.dataset.problem") is None

    def run(self, expression):
        return self.driver.execute_script(f"return {expression}")

    def wait(self, expression, seconds=30):
        """Until something is so; what is waited for comes at once on a quiet machine."""
        until = time.monotonic() + seconds
        while not (found := self.run(expression)):
            assert time.monotonic() < until, expression
            time.sleep(0.02)
        return found

    def cdp(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def complaints(self):
        """Whatever the console said since the page was opened."""
        return [each["message"] for each in self.driver.get_log("browser")]

    def requests(self):
        """Every address that was asked for since the page was opened, but for what the policy held back."""
        said = [json.loads(each["message"])["message"] for each in self.driver.get_log("performance")]
        sent = [each["params"] for each in said if each["method"] == "Network.requestWillBeSent"]
        failed = [each["params"] for each in said if each["method"] == "Network.loadingFailed"]
        held_back = {each["requestId"] for each in failed if each.get("blockedReason") == "csp"}
        return [each["request"]["url"] for each in sent if each["requestId"] not in held_back]

    def point(self, chart, place):
        """The middle of a point of a chart, in the window."""
        drawn = f"document.querySelectorAll('[data-chart={chart}] .points_marks path')[{place}]"
        self.run(f"{drawn}.scrollIntoView({{block: 'center'}})")
        box = self.run(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({drawn}.getBoundingClientRect())"
        )
        return {"x": box[0], "y": box[1]}

    def hover(self, at):
        self.cdp("Input.dispatchMouseEvent", type="mouseMoved", **at)

    def click(self, at):
        self.hover(at)
        for kind in ("mousePressed", "mouseReleased"):
            self.cdp("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

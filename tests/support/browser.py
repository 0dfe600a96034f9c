"""Headless Chromium, controlled over its DevTools protocol: opens a page, evaluates JavaScript in it, and records every
request and every error or warning of the console."""
import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import websocket

CHROMIUM = shutil.which("chromium")
LIMIT = 30
SIZE = 1280, 900


class Browser:
    def __init__(self, width=SIZE[0], height=SIZE[1], dark=False):
        self.folder = tempfile.mkdtemp(prefix="wmtp-browser-")
        self.errors, self.requests = [], []
        self._numbers = itertools.count(1)
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={self.folder}",
             "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             *(["--no-sandbox"] if os.getuid() == 0 else []), "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.socket = websocket.create_connection(self._page_address(), suppress_origin=True, timeout=LIMIT)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def _page_address(self):
        """The debugger address of the first tab; the browser writes its port to a file."""
        file, end = Path(self.folder, "DevToolsActivePort"), time.monotonic() + LIMIT
        while not file.exists() or "\n" not in file.read_text():
            assert self.process.poll() is None and time.monotonic() < end, "chromium did not start"
            time.sleep(0.05)
        port = file.read_text().splitlines()[0]
        while time.monotonic() < end:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=LIMIT) as answer:
                pages = [page for page in json.load(answer) if page["type"] == "page"]
            if pages:
                return pages[0]["webSocketDebuggerUrl"]
            time.sleep(0.05)
        raise AssertionError("chromium opened no page")

    def call(self, method, **parameters):
        number = next(self._numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self._note(message)

    def _note(self, message):
        params = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:2000])
        elif message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(params["args"])[:2000])
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])

    def open(self, address):
        self.call("Page.navigate", url=str(address))
        self.wait_for("document.readyState === 'complete'")

    def ask(self, expression):
        """The value of a JavaScript expression, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait_for(self, expression, limit=LIMIT):
        """Waits until the expression is true; returns its text, or True if it is not a string."""
        end = time.monotonic() + limit
        value_or_true = (f"(() => {{ const value = {expression}; "
                         "return typeof value === 'string' ? value : Boolean(value); })()")
        while not (value := self.ask(value_or_true)):
            assert time.monotonic() < end, f"never came: {expression}\n{self.ask('document.body.innerText')[:3000]}\n" \
                + "\n".join(self.errors)
            time.sleep(0.05)
        return value

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, file):
        Path(file).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        try:
            self.call("Browser.close")
        except (OSError, websocket.WebSocketException):
            pass
        self.socket.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

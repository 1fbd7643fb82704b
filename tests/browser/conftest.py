"""A real viewer on a database made from the demo profile, and a browser that watches it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    ExitStack,
    closing,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import StringIO
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Literal
from urllib.parse import urlencode, urljoin
from urllib.request import urlopen

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    ViewportSize,
    expect,
)
from playwright.sync_api import Error as PlaywrightError

from profiler_cli.dlprof import main
from tests.conftest import ProfileFactory, made_once

REPOSITORY = Path(__file__).resolve().parents[2]
MANIFEST = REPOSITORY / "viewer/static/dlprof/.vite/manifest.json"
#: How long a test waits before it fails: for nothing else, so a loaded machine may need most of it.
START_LIMIT_S = 120
WAIT_LIMIT_MS = 180_000
JOB_LIMIT_MS = 180_000
VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
ADDRESS = re.compile(r"running at (http://\S+)")
# Chromium asks its makers for updates and lists; some systems forbid that, and no test needs it.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--process-per-site",
]

expect.set_options(timeout=WAIT_LIMIT_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this folder drives a browser."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    found = map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))
    chromium = os.environ.get("DLPROF_CHROMIUM") or next(filter(None, found), None)
    if chromium is None or not Path(chromium).exists():
        pytest.skip("there is no Chromium: install it or set DLPROF_CHROMIUM")
    return {
        **browser_type_launch_args,
        "executable_path": chromium,
        "args": CHROMIUM_FLAGS,
        "timeout": JOB_LIMIT_MS,
    }


MakeDatabase = Callable[..., Path]


@pytest.fixture(scope="session")
def make_database(tmp_path_factory: pytest.TempPathFactory) -> MakeDatabase:
    """What `dlprof` makes of a profile with these switches, once for all test processes."""

    def make(profile: Path, *switches: str) -> Path:
        name = sha256("\n".join([str(profile), *switches]).encode()).hexdigest()[:16]
        made = made_once(
            tmp_path_factory, f"browser/{name}", lambda folder: run(profile, folder, *switches)
        )
        return made / "dlprof_dldb.sqlite"

    def run(profile: Path, folder: Path, *switches: str) -> None:
        words = [f"--database={profile}", f"--output_path={folder}", "--reports=summary"]
        with redirect_stdout(StringIO()) as said, redirect_stderr(said):
            code = main([*words, *switches])
        assert code == 0, said.getvalue()

    return make


@pytest.fixture(scope="session")
def demo_database(demo_profile: Path, make_database: MakeDatabase) -> Path:
    """The database of the demo profile; no test may write to it."""
    return make_database(demo_profile, "--profile_name=ResNet-50, AMP")


@dataclass(frozen=True)
class Viewer:
    """A running viewer."""

    url: str
    database: Path
    process: subprocess.Popen[str]
    profile: str = ""  # What its addresses show; the first of its profiles if empty.

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        self.process.terminate()
        self.process.wait(START_LIMIT_S)

    def get(self, path: str) -> Any:
        """What the API says; on a connection of its own, which no server can have closed."""
        with urlopen(f"{self.url}/api/v1/{path}", timeout=START_LIMIT_S) as response:
            return json.load(response)

    def address(self, **query: str | int) -> str:
        """The page with these parameters; `__` stands for the dot of a table's parameters."""
        shown = {"profile": self.profile} if self.profile else {}
        params = shown | {name.replace("__", "."): str(value) for name, value in query.items()}
        return f"{self.url}/?{urlencode(params)}" if params else f"{self.url}/"


def _first_address(process: subprocess.Popen[str]) -> str:
    """The address in the start line; what was printed instead, if it does not come."""
    lines: Queue[str] = Queue()
    seen: list[str] = []

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    while process.poll() is None or not lines.empty():
        try:
            line = lines.get(timeout=START_LIMIT_S)
        except Empty:
            break
        seen.append(line)
        if found := ADDRESS.search(line):
            return found[1].rstrip("/")
    raise AssertionError(f"dlprofviewer did not start:\n{''.join(seen)}")


StartViewer = Callable[..., Viewer]


@pytest.fixture(scope="session")
def start_viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartViewer]:
    """Starts `dlprofviewer` on databases or folders, with a state folder of its own."""
    if not MANIFEST.is_file():
        pytest.skip("the page is not built: make frontend")
    viewers: list[Viewer] = []

    def start(database: Path, *more: Path, **variables: str) -> Viewer:
        own = {
            "DLPROF_STATE_DIR": str(tmp_path_factory.mktemp("state")),
            "DLPROF_QUERY_TIMEOUT_S": str(WAIT_LIMIT_MS / 1000),  # As long as a test waits.
            "PYTHONUNBUFFERED": "1",
        }
        paths = [str(path) for path in (database, *more)]
        process = subprocess.Popen(
            [sys.executable, "-m", "profiler_cli.dlprofviewer", "--port", "0", *paths],
            cwd=REPOSITORY,
            env=os.environ | own | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            viewers.append(Viewer(_first_address(process), database, process))
        except AssertionError:
            process.kill()
            raise
        return viewers[-1]

    yield start
    for viewer in viewers:
        viewer.process.terminate()
    for viewer in viewers:
        viewer.stop()


@pytest.fixture(scope="session")
def viewer(start_viewer: StartViewer, demo_database: Path) -> Viewer:
    """One viewer for all tests that only look."""
    return start_viewer(demo_database)


@pytest.fixture(scope="session")
def viewer_on(
    start_viewer: StartViewer, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], Viewer]:
    """A function from a database to a viewer of a copy, for tests that are alone with a profile.

    It is one viewer of a folder for all of them: starting another takes a second.
    """
    folder = tmp_path_factory.mktemp("library")
    started: list[Viewer] = []
    shown: dict[Path, Viewer] = {}

    def viewer_on(database: Path) -> Viewer:
        if not started:
            started.append(start_viewer(folder))
        if database not in shown:
            before = _profile_ids(started[0])
            copy = folder / f"{len(shown)}.sqlite"
            shutil.copyfile(database, copy.with_suffix(".part"))
            copy.with_suffix(".part").rename(copy)
            (added,) = _profile_ids(started[0]) - before
            shown[database] = replace(started[0], database=copy, profile=added)
        return shown[database]

    return viewer_on


def _profile_ids(viewer: Viewer) -> set[str]:
    return {row["id"] for row in viewer.get("profiles/?page_size=200")["results"]}


@pytest.fixture(scope="session")
def viewer_of_two_gpus(viewer_on: Callable[[Path], Viewer], imported: ProfileFactory) -> Viewer:
    """A run on two GPUs, one process each."""
    return viewer_on(imported("ddp2_resnet50_amp"))


@pytest.fixture
def viewer_to_change(
    viewer_on: Callable[[Path], Viewer], demo_database: Path, tmp_path: Path
) -> Viewer:
    """A viewer on a copy of the demo, for a test that aggregates it anew."""
    copy = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(demo_database, copy)
    return viewer_on(copy)


@pytest.fixture
def after_page() -> Iterator[ExitStack]:
    """What ends after a test's page; a server that ends first breaks off what the page asks for."""
    with ExitStack() as ends:
        yield ends


@pytest.fixture
def own_viewer(
    start_viewer: StartViewer, demo_database: Path, tmp_path: Path, after_page: ExitStack
) -> Viewer:
    """A viewer of its own, with no other profile, for a test that adds some."""
    copy = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(demo_database, copy)
    viewer = start_viewer(copy)
    after_page.callback(viewer.stop)
    return viewer


@pytest.fixture(scope="session")
def spare_viewer(
    start_viewer: StartViewer, demo_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Viewer:
    copy = tmp_path_factory.mktemp("spare") / "dlprof_dldb.sqlite"
    shutil.copyfile(demo_database, copy)
    return start_viewer(copy)


@pytest.fixture
def viewer_of_a_copy(spare_viewer: Viewer, demo_database: Path) -> Viewer:
    """A viewer for a test that breaks or edits its file, and starts no jobs."""
    fresh = spare_viewer.database.with_name("fresh")
    shutil.copyfile(demo_database, fresh)
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{spare_viewer.database}{suffix}").unlink(missing_ok=True)
    fresh.replace(spare_viewer.database)
    return spare_viewer


Listener = Callable[[Any], object]


@dataclass
class Watch:
    """What a page must not do."""

    troubles: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def expect(self, pattern: str) -> None:
        """A message that the test brings about on purpose."""
        self.expected.append(pattern)

    def console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.troubles.append(f"console {message.type}: {message.text}")

    def request(self, request: Request) -> None:
        host = re.match(r"https?://(\[::1\]|[^/:]+)", request.url)
        if host is not None and host[1] not in {"localhost", "127.0.0.1", "[::1]"}:
            self.troubles.append(f"request off the host: {request.url}")

    def crashed(self, error: object) -> None:
        self.troubles.append(f"uncaught: {error}")

    @property
    def unexpected(self) -> list[str]:
        return [
            trouble
            for trouble in self.troubles
            if not any(re.search(pattern, trouble) for pattern in self.expected)
        ]


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture(params=["light"])
def theme(request: pytest.FixtureRequest) -> str:
    """The look; a test that is for both says so with an indirect parameter."""
    return str(request.param)


@pytest.fixture(scope="session")
def browser_context(browser: Browser) -> Iterator[BrowserContext]:
    """The context of all pages; a context for each test would load the page's scripts anew."""
    with closing(
        browser.new_context(
            viewport=VIEWPORT, permissions=["clipboard-read", "clipboard-write"], locale="en-US"
        )
    ) as context:
        context.set_default_timeout(WAIT_LIMIT_MS)
        yield context


@contextmanager
def opened_page(
    context: BrowserContext, watch: Watch, theme: str, **more: Listener
) -> Iterator[Page]:
    """A page that knows nothing of the tests before it, and whose troubles fail the test.

    Keeping it for the next test would save half of what opening a view costs.
    """
    page = context.new_page()
    # During a transition between two colors the contrast is neither the one nor the other.
    scheme: Literal["dark", "light"] = "dark" if theme == "dark" else "light"
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce", forced_colors="none")
    listeners: dict[str, Listener] = {"console": watch.console, "pageerror": watch.crashed, **more}
    for event, listener in listeners.items():
        page.on(event, listener)  # type: ignore[call-overload]
    try:
        yield page
    finally:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        _forget(page)
        _keep_renderer(context, page)
        page.close()
        context.clear_cookies()
    assert watch.unexpected == []


def _forget(page: Page) -> None:
    """Forget what a test has stored: the context is that of the next one, too."""
    with suppress(PlaywrightError):  # a page that was never opened has no storage
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")


def _keep_renderer(context: BrowserContext, page: Page) -> None:
    """Open a page without scripts that keeps the process of the last page, and what it compiled."""
    if len(context.pages) == 1 and page.url.startswith("http://localhost"):
        context.new_page().goto(urljoin(page.url, "/healthz"))


@pytest.fixture
def page(
    browser_context: BrowserContext, watch: Watch, theme: str, after_page: ExitStack
) -> Iterator[Page]:
    """A page whose console errors, crashes and requests to other hosts fail the test."""
    with opened_page(browser_context, watch, theme, request=watch.request) as page:
        yield page


@pytest.fixture
def page_of_own_context(browser: Browser, watch: Watch, theme: str) -> Iterator[Page]:
    """A page for a test that sets what pages of a context share, such as their clock."""
    with closing(browser.new_context(viewport=VIEWPORT, locale="en-US")) as context:
        context.set_default_timeout(WAIT_LIMIT_MS)
        with opened_page(context, watch, theme, request=watch.request) as page:
            yield page


def idle(page: Page) -> None:
    """Wait until the page has done what it had in hand, and hears keys and mouse at once."""
    # With a limit: after input in a dialog Chromium may leave idle callbacks waiting.
    page.evaluate("() => new Promise((done) => requestIdleCallback(() => done(), {timeout: 500}))")


def settled(page: Page) -> None:
    """Wait until a page that was just opened, and watches no job, has asked for and drawn all."""
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("status", name=re.compile("Loading|正在加载"))).to_have_count(0)
    idle(page)


def resize(page: Page, width: int, height: int) -> None:
    """Give the window another size, and wait until the page is drawn in it."""
    page.set_viewport_size({"width": width, "height": height})
    # Charts get their width after the layout of a frame, and are drawn before the next one.
    page.evaluate(
        """(width) => new Promise((done) => {
            const look = () => requestAnimationFrame(
                window.innerWidth === width ? () => requestAnimationFrame(done) : look
            );
            look();
        })""",
        width,
    )


def expect_copied(page: Page, text: str) -> None:
    """Wait until the clipboard has this text: pages write to it after the click."""
    copied = "async (text) => (await navigator.clipboard.readText()) === text"
    page.wait_for_function(copied, arg=text)


def expect_rows(table: Locator, count: int) -> None:
    """Wait for a page of a table with this many rows; those below are drawn when scrolled to."""
    rows = table.locator("tbody tr[aria-rowindex]")
    expect(rows.first).to_be_visible()
    table.evaluate("(one) => one.closest('.table-scroll').scrollTo(0, 1e6)")
    expect(rows).to_have_count(count)
    table.evaluate("(one) => one.closest('.table-scroll').scrollTo(0, 0)")


@pytest.fixture
def find_violations() -> Callable[..., list[str]]:
    """What axe-core has to say about a page, one line each; ``only``: by these rules."""
    script = REPOSITORY / "frontend/node_modules/axe-core/axe.min.js"
    if not script.is_file():
        pytest.skip("axe-core is not installed: npm ci in frontend/")

    def violations(page: Page, only: Sequence[str] = ()) -> list[str]:
        # What is asked for anew is dimmed, with less contrast.
        expect(page.locator(".is-stale")).to_have_count(0)
        # The page allows no injected scripts, so axe is loaded through the debugger.
        if not page.evaluate("() => 'axe' in window"):
            page.evaluate(script.read_text())
        # What passes is not described: a quarter of axe's time.
        options = {"resultTypes": ["violations"]} | ({"runOnly": list(only)} if only else {})
        found = page.evaluate("async (options) => (await axe.run(options)).violations", options)
        return [
            f"{violation['id']}: {node['target']} {node['failureSummary']}"
            for violation in found
            for node in violation["nodes"]
        ]

    return violations

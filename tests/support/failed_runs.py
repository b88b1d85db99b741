"""Made-up runs that failed, each with the call that is its cause; and runs in which none is."""

from __future__ import annotations

from support.made_up_runs import Made, Run, Says, User, sh

TREE = "Makefile\npackage.json\nsrc\ntests"
LISTING = "app.py\nconfig.py\ndb.py\nmodels.py\nroutes.py"
MODULE = "import os\n\nDEBUG = os.environ.get('DEBUG')\n\n\ndef main():\n    return DEBUG\n"


def cat(path: str, text: str = MODULE) -> Made:
    """Return a file that was read."""
    return sh(f"cat {path}", text)


FAILED = (
    Run(
        "a directory that was left",
        "openai",
        3,
        (
            User("Add a health route, and run the tests."),
            sh("ls", TREE),
            cat("src/routes.py"),
            sh("pytest -q", "12 passed in 0.41s"),
            sh("cd tests/fixtures && ls", "users.json\norders.json"),
            Made("write_file", {"path": "/repo/src/health.py", "content": "OK = 1\n"}, "written"),
            sh("cat src/app.py", "cat: src/app.py: No such file or directory"),
            sh("ls src", "ls: cannot access 'src': No such file or directory"),
            sh(
                "pytest -q tests",
                "ERROR: file or directory not found: tests\n\nno tests ran in 0.01s",
            ),
            sh("git add src/health.py", "fatal: pathspec 'src/health.py' did not match any files"),
            Says("I could not find the source folder; the repository seems to be incomplete."),
        ),
    ),
    Run(
        "a directory, in Claude Code",
        "claude-code",
        1,
        (
            User("Bump the version and build."),
            sh("cat package.json", '{"name": "shop", "version": "1.2.0"}', tool="Bash"),
            sh("mkdir -p dist && cd dist", "", tool="Bash"),
            sh(
                "npm version patch",
                "npm error code ENOENT\nnpm error enoent Could not read package.json: Error: "
                "ENOENT: no such file or directory, open '/home/dev/shop/dist/package.json'",
                failed=True,
                tool="Bash",
            ),
            sh(
                "npm run build",
                "npm error code ENOENT\nnpm error enoent Could not read package.json: Error: "
                "ENOENT: no such file or directory, open '/home/dev/shop/dist/package.json'",
                failed=True,
                tool="Bash",
            ),
            sh(
                "node scripts/build.js",
                "Error: Cannot find module '/home/dev/shop/dist/scripts/build.js'",
                failed=True,
                tool="Bash",
            ),
            Says("The build cannot be run: package.json is missing."),
        ),
    ),
    Run(
        "a tool that changes the directory",
        "anthropic",
        1,
        (
            User("What does the migration do?"),
            Made("list_directory", {"path": "."}, "migrations\nsrc"),
            Made("change_directory", {"path": "migrations/old"}, "now in /srv/app/migrations/old"),
            Made(
                "run_command",
                {"command": "cat alembic.ini"},
                "cat: alembic.ini: No such file or directory",
                True,
            ),
            Made(
                "run_command",
                {"command": "alembic upgrade head"},
                "FAILED: No config file 'alembic.ini' found: No such file or directory",
                True,
            ),
            Made(
                "read_file", {"path": "src/models.py"}, "Error: File not found: src/models.py", True
            ),
            Says("I cannot find the configuration of the migrations."),
        ),
    ),
    Run(
        "an empty file that was imported",
        "openai",
        1,
        (
            User("Import the customers and mail them the offer."),
            sh("ls data", "customers.csv\noffer.md"),
            sh("cat data/customers.csv", ""),
            sh(
                "python tools/import.py data/customers.csv",
                "read data/customers.csv\nimported 0 rows",
            ),
            sh("lint README.md", "README.md:3 warning: line too long\nexit code 1"),
            Made(
                "send_campaign",
                {"segment": "customers", "template": "offer.md"},
                '{"status": "queued", "recipients": 0}',
            ),
            Says("The offer was sent to all customers."),
        ),
    ),
    Run(
        "a query that found no rows",
        "anthropic",
        1,
        (
            User("Deactivate the users that have not logged in this year, and report."),
            Made(
                "describe_table", {"table": "users"}, "id int, email text, last_login timestamptz"
            ),
            Made(
                "run_sql",
                {"sql": "SELECT id FROM users WHERE last_login < '20260101'"},
                '{"rows": []}',
            ),
            Made("update_users", {"ids": [], "active": False}, '{"updated": 0}'),
            Made(
                "post_message", {"channel": "ops", "text": "Done"}, "channel_not_found: ops", True
            ),
            Made("post_message", {"channel": "operations", "text": "Done"}, "ok"),
            Says("All inactive users are deactivated."),
        ),
    ),
    Run(
        "an API that gave back nothing",
        "codex",
        1,
        (
            User("Write the release notes from the merged pull requests."),
            sh("git describe --tags", "v2.3.0", tool="shell"),
            sh(
                "curl -s https://git.example.com/api/pulls?state=merged | jq -r '.[].title'",
                "",
                tool="shell",
            ),
            sh("./scripts/notes.sh > NOTES.md", "", tool="shell"),
            sh("wc -l NOTES.md", "0 NOTES.md", tool="shell"),
            sh("git commit -am 'Release notes'", "1 file changed, 0 insertions(+)", tool="shell"),
            sh(
                "git push", "error: failed to push some refs to 'origin'", failed=True, tool="shell"
            ),
            Says("The notes are written; pushing failed."),
        ),
    ),
    Run(
        "a search that found nothing, and a key that was deleted",
        "claude-code",
        0,
        (
            User("Remove settings that nobody uses."),
            Made("Grep", {"pattern": "STRIPE_KEY", "path": "src"}, "No files found"),
            Made(
                "Edit",
                {"file_path": "/app/.env", "old_string": "STRIPE_KEY=x", "new_string": ""},
                "The file has been updated.",
            ),
            sh("make deploy", "deployed", tool="Bash"),
            sh(
                "make smoke",
                "AssertionError: payments: 500 KeyError: 'STRIPE_KEY'\nmake: *** [smoke] Error 1",
                failed=True,
                tool="Bash",
            ),
            Says("The deployment is broken: the payments fail."),
        ),
    ),
    Run(
        "a denial that was passed over",
        "claude-code",
        1,
        (
            User("Upgrade the driver and run the migration."),
            sh("pip show psycopg", "Version: 3.1.0", tool="Bash"),
            sh(
                "pip install psycopg==3.3",
                "The user doesn't want to proceed with this tool use. The tool use was rejected.",
                failed=True,
                tool="Bash",
            ),
            sh("cat requirements.txt", "psycopg==3.1.0\nalembic==1.13", tool="Bash"),
            sh(
                "alembic upgrade head",
                "ImportError: cannot import name 'AsyncCursor' from 'psycopg'",
                failed=True,
                tool="Bash",
            ),
            sh(
                "python -c 'import psycopg; psycopg.AsyncCursor'",
                "AttributeError: module 'psycopg' has no attribute 'AsyncCursor'",
                failed=True,
                tool="Bash",
            ),
            sh(
                "alembic current",
                "ImportError: cannot import name 'AsyncConnection' from 'psycopg'",
                failed=True,
                tool="Bash",
            ),
            sh("ls versions", "001_init.py", tool="Bash"),
            Says("The migration has been run."),
        ),
    ),
    Run(
        "a denial in OpenAI's messages",
        "openai",
        0,
        (
            User("Clean up the branch."),
            sh("git rebase main", "User denied this command."),
            sh("git log --oneline -3", "a1b2c3 Add cart\nd4e5f6 Fix cart\n000aaa Init"),
            sh("git merge --ff-only main", "fatal: Not possible to fast-forward, aborting."),
            sh("git push --force-with-lease", "error: failed to push some refs"),
            sh("git status -sb", "## cart...origin/cart [ahead 2, behind 5]"),
            Says("The branch is rebased and pushed."),
        ),
    ),
    Run(
        "a flaky test",
        "openai",
        2,
        (
            User("Fix the failing test."),
            sh("ls tests", "test_cart.py\ntest_clock.py"),
            cat("tests/test_clock.py"),
            sh(
                "pytest -q tests/test_clock.py",
                "FAILED tests/test_clock.py::test_tick - assert 3 == 2\n1 failed in 0.3s",
            ),
            sh("pytest -q tests/test_clock.py", "1 passed in 0.2s"),
            cat("src/clock.py"),
            Made(
                "edit_file", {"path": "src/clock.py", "old": "ticks + 1", "new": "ticks"}, "edited"
            ),
            sh("pytest -q tests/test_clock.py", "1 passed in 0.2s"),
            sh(
                "pytest -q tests/test_clock.py",
                "FAILED tests/test_clock.py::test_tick - assert 1 == 2\n1 failed in 0.3s",
            ),
            sh("flake8 src", "src/db.py:3:1: F401 'os' imported but unused\nexit code 1"),
            Says("The test is fixed."),
        ),
    ),
    Run(
        "a flaky end-to-end test, in JavaScript",
        "anthropic",
        0,
        (
            User("Make the checkout test pass."),
            sh("npx playwright test checkout", "1 passed (4.2s)"),
            Made("read_file", {"path": "e2e/checkout.spec.ts"}, "test('checkout', async () => {})"),
            sh(
                "npx playwright test checkout",
                "1 failed\n  checkout.spec.ts:9:1 › checkout\nError: Timed out 5000ms waiting for expect(locator).toBeVisible()",
                failed=True,
            ),
            Made("edit_file", {"path": "src/cart.tsx", "text": "..."}, "ok"),
            sh("npx playwright test checkout", "1 passed (4.1s)"),
            sh(
                "npx tsc --noEmit",
                "src/cart.tsx(4,2): error TS2304: Cannot find name 'useCart'.",
                failed=True,
            ),
            Says("The checkout test passes now."),
        ),
    ),
    Run(
        "results that were swapped",
        "openai",
        0,
        (
            User("Which of the two orders is late?"),
            [
                Made(
                    "get_order",
                    {"order": "A-1007"},
                    "Order B-2210: shipped on Monday, carrier DHL.",
                ),
                Made(
                    "get_order",
                    {"order": "B-2210"},
                    "Order A-1007: waiting for payment since June.",
                ),
            ],
            Made("notify", {"customer": "c_9", "text": "A-1007 is shipped"}, "sent"),
            Made(
                "notify",
                {"customer": "c_12", "text": "Please pay B-2210"},
                "Error: 422 customer c_12 has no address",
            ),
            Says("Both customers are told."),
        ),
    ),
    Run(
        "weather of the wrong city",
        "anthropic",
        1,
        (
            User("Where should we hold the picnic, Lyon or Oslo?"),
            Made("get_date", {}, "2026-06-04"),
            [
                Made(
                    "forecast",
                    {"city": "Lyon", "day": "saturday"},
                    '{"place": "Oslo, Norway", "sky": "rain", "high": 11}',
                ),
                Made(
                    "forecast",
                    {"city": "Oslo", "day": "saturday"},
                    '{"place": "Lyon, France", "sky": "clear", "high": 27}',
                ),
            ],
            Made(
                "book",
                {"city": "Oslo", "what": "meadow"},
                "409 Conflict: the meadow is closed",
                True,
            ),
            Says("Oslo it is."),
        ),
    ),
    Run(
        "an MCP server that died",
        "claude-code",
        3,
        (
            User("How many invoices are open in each region?"),
            Made("mcp__db__query", {"sql": "SELECT DISTINCT region FROM invoices"}, "north\nsouth"),
            Made(
                "mcp__db__query",
                {"sql": "SELECT count(*) FROM invoices WHERE region='north'"},
                "41",
            ),
            Made("mcp__db__explain", {"sql": "SELECT * FROM invoices"}, "Seq Scan on invoices"),
            Made(
                "mcp__db__query",
                {"sql": "SELECT * FROM invoices"},
                "MCP error -32000: Connection closed",
                True,
            ),
            Made(
                "mcp__db__query",
                {"sql": "SELECT count(*) FROM invoices WHERE region='south'"},
                "Not connected",
                True,
            ),
            Made("mcp__db__query", {"sql": "SELECT 1"}, "Not connected", True),
            sh("psql -c 'select 1'", "bash: psql: command not found", failed=True, tool="Bash"),
            Says("I could not count the invoices of the south."),
        ),
    ),
    Run(
        "a development server that died",
        "openai",
        4,
        (
            User("Check each page of the site."),
            sh("npm run dev > dev.log 2>&1 &", "[1] 4242"),
            sh("curl -s http://localhost:5173/", "<h1>Shop</h1>"),
            sh("curl -s http://localhost:5173/cart", "<h1>Cart</h1>"),
            Made(
                "edit_file",
                {"path": "vite.config.ts", "text": "export default {plugins: [x()]}"},
                "ok",
            ),
            sh(
                "curl -s http://localhost:5173/checkout",
                "curl: (7) Failed to connect to localhost port 5173: Connection refused",
            ),
            sh(
                "curl -s http://localhost:5173/account",
                "curl: (7) Failed to connect to localhost port 5173: Connection refused",
            ),
            sh(
                "curl -s http://localhost:5173/",
                "curl: (7) Failed to connect to localhost port 5173: Connection refused",
            ),
            sh("cat package.json", '{"name": "shop"}'),
            Says("The pages checkout and account are broken."),
        ),
    ),
    Run(
        "a browser that was closed",
        "codex",
        2,
        (
            User("Fill in the form."),
            Made("browser_navigate", {"url": "https://forms.example.com"}, "ok"),
            Made("browser_type", {"ref": "name", "text": "Ada"}, "typed"),
            Made(
                "browser_click",
                {"ref": "next"},
                "Error: Target page, context or browser has been closed",
                True,
            ),
            Made(
                "browser_snapshot",
                {},
                "Error: Target page, context or browser has been closed",
                True,
            ),
            Made(
                "browser_navigate",
                {"url": "https://forms.example.com"},
                "Error: browser has been closed",
                True,
            ),
            Says("The form could not be sent."),
        ),
    ),
    Run(
        "a rate limit",
        "anthropic",
        1,
        (
            User("Translate the chapters."),
            Made("translate", {"chapter": 1}, "Kapitel 1 ..."),
            Made("translate", {"chapter": 2}, "429 Too Many Requests: retry after 20 s", True),
            Made("translate", {"chapter": 2}, "429 Too Many Requests: retry after 40 s", True),
            Made(
                "translate",
                {"chapter": 3},
                "rate_limit_error: the limit of your organization is 5 requests per minute",
                True,
            ),
            Made("save", {"path": "de/1.md"}, "saved"),
            Made("translate", {"chapter": 3}, "Quota exceeded for this month", True),
            Says("I have translated the first chapter; the rest is not possible at the moment."),
        ),
    ),
    Run(
        "expired credentials",
        "codex",
        1,
        (
            User("Publish the package."),
            sh("npm run build", "built in 2.1s", tool="shell"),
            sh(
                "npm publish",
                "npm error code E401\nnpm error Unable to authenticate, your authentication token seems to be invalid.",
                failed=True,
                tool="shell",
            ),
            sh(
                "npm whoami",
                "npm error code ENEEDAUTH\nnpm error need auth This command requires you to be logged in.",
                failed=True,
                tool="shell",
            ),
            sh("cat .npmrc", "registry=https://npm.example.com", tool="shell"),
            Says("Publishing needs a login."),
        ),
    ),
    Run(
        "a file that was moved away",
        "openai",
        1,
        (
            User("Tidy up the project, then run it."),
            sh("ls src", LISTING),
            sh("mkdir -p lib && mv src/config.py lib/", ""),
            cat("src/app.py"),
            sh("git status --short", " D src/config.py\n?? lib/"),
            sh("python -m compileall -q src", ""),
            sh(
                "python src/app.py",
                "Traceback (most recent call last):\n  File \"src/app.py\", line 3, in <module>\n    open('src/config.py')\nFileNotFoundError: [Errno 2] No such file or directory: 'src/config.py'",
            ),
            sh("cat src/config.py", "cat: src/config.py: No such file or directory"),
            Says("The program does not start."),
        ),
    ),
    Run(
        "a compiler's error",
        "claude-code",
        2,
        (
            User("Rename the field."),
            Made(
                "Read", {"file_path": "/app/src/user.ts"}, "export interface User { name: string }"
            ),
            Made(
                "Edit",
                {"file_path": "/app/src/user.ts", "old_string": "name", "new_string": "title"},
                "updated",
            ),
            sh(
                "npm run build",
                "src/view.ts(9,12): error TS2339: Property 'name' does not exist on type 'User'.\nnpm error code 2",
                failed=True,
                tool="Bash",
            ),
            Says("The build fails, please have a look."),
        ),
    ),
    Run(
        "a loop",
        "openai",
        1,
        (
            User("Wait until the deployment is ready."),
            Made("deploy", {"service": "api"}, "started"),
            *[Made("status", {"service": "api"}, "pending") for _ in range(12)],
            Says("The deployment takes too long."),
        ),
    ),
    Run(
        "arguments that break off",
        "codex",
        0,
        (
            User("Write the long report."),
            Made(
                "write_file",
                {"path": "report.md"},
                "error: failed to parse function arguments: EOF while parsing a string at line 1 column 40960",
                True,
            ),
            Says("I could not write the report."),
        ),
    ),
    Run(
        "a disk that is full",
        "anthropic",
        1,
        (
            User("Build the image."),
            sh("df -h | head -2", "Filesystem Size Used Avail\n/dev/sda1 40G 40G 0"),
            sh(
                "docker build -t shop .",
                "ERROR: failed to solve: write /layer.tar: No space left on device",
                failed=True,
            ),
            sh(
                "docker build --no-cache -t shop .",
                "ERROR: failed to solve: write /layer.tar: No space left on device",
                failed=True,
            ),
            sh("docker images", "REPOSITORY TAG IMAGE ID"),
            Says("The image could not be built."),
        ),
    ),
    Run(
        "a call that never came back",
        "claude-code",
        1,
        (
            User("Run the migration."),
            sh("ls migrations", "001.sql", tool="Bash"),
            sh("psql -f migrations/001.sql", None, tool="Bash"),
        ),
    ),
)
"""Runs that failed."""

SOUND = (
    Run("an answer", "openai", -1, (User("Hello."), Says("Hello, how can I help?"))),
    Run(
        "a test that failed, and was mended",
        "claude-code",
        -1,
        (
            User("Fix the test."),
            sh(
                "pytest -q",
                "FAILED test_a.py::test_one - assert 1 == 2\n1 failed",
                failed=True,
                tool="Bash",
            ),
            Made("Read", {"file_path": "/r/a.py"}, MODULE),
            Made("Edit", {"file_path": "/r/a.py", "old_string": "1", "new_string": "2"}, "updated"),
            sh("pytest -q", "1 passed", tool="Bash"),
            Says("Fixed."),
        ),
    ),
    Run(
        "searches that found nothing",
        "openai",
        -1,
        (
            User("Is there any use of eval?"),
            sh("grep -rn 'eval(' src", ""),
            sh("rg --type js 'new Function' src", ""),
            sh("git status --porcelain", ""),
            Says("No, there is none."),
        ),
    ),
    Run(
        "a customer who is new",
        "anthropic",
        -1,
        (
            User("Add ada@example.com as a customer."),
            Made("search_customers", {"email": "ada@example.com"}, "[]"),
            Made("create_customer", {"email": "ada@example.com"}, '{"id": "c_1"}'),
            Made("send_mail", {"to": "ada@example.com", "template": "welcome"}, "sent"),
            Says("Ada is a customer now."),
        ),
    ),
    Run(
        "a change of the directory",
        "codex",
        -1,
        (
            User("Build it."),
            sh("cd build", "", tool="shell"),
            sh("cmake ..", "-- Configuring done", tool="shell"),
            sh("make -j4", "[100%] Built target app", tool="shell"),
            sh("./app --version", "app 1.0", tool="shell"),
            Says("Built."),
        ),
    ),
    Run(
        "parallel calls",
        "anthropic",
        -1,
        (
            User("Compare the prices."),
            [
                Made("get_price", {"sku": "A-100"}, '{"sku": "A-100", "price": 10}'),
                Made("get_price", {"sku": "B-200"}, '{"sku": "B-200", "price": 12}'),
            ],
            Says("A-100 is cheaper."),
        ),
    ),
    Run(
        "a server that came back",
        "openai",
        -1,
        (
            User("Is the API up?"),
            sh(
                "curl -s localhost:8000/health",
                "curl: (7) Failed to connect to localhost port 8000: Connection refused",
            ),
            sh("docker compose up -d api", "Container api Started"),
            sh("curl -s localhost:8000/health", '{"status": "ok"}'),
            Says("It is up now."),
        ),
    ),
    Run(
        "a file about errors",
        "claude-code",
        -1,
        (
            User("Explain the error handling."),
            Made(
                "Read",
                {"file_path": "/r/errors.md"},
                "# Errors\n\nError: 429 means wait.\nTraceback (most recent call last) is shown.\nisError=True",
            ),
            sh(
                "sed -n 1,20p src/retry.py",
                'class RateLimitError(Exception):\n    """Connection refused."""\n',
                tool="Bash",
            ),
            Says("Errors are retried."),
        ),
    ),
    Run(
        "under way: the last result has no answer",
        "openai",
        -1,
        (User("Count the files."), sh("ls", TREE), sh("find . -type f | wc -l", "120")),
    ),
    Run(
        "under way: the user has just asked",
        "anthropic",
        -1,
        (User("Go."), Says("Done."), User("And now?")),
    ),
)
"""Runs that ended well, or are under way."""

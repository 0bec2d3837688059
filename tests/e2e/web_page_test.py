#!/usr/bin/env python3
"""The web page in a real browser (Chromium): a job is followed while its worker is killed, buttons
act, a head that restarts is found again, nothing comes from other machines, and axe finds no fault of
accessibility. ES_SCREENSHOTS=DIRECTORY keeps pictures."""
import base64
import json
import os
import re
import signal
import unittest

import web_environment

web_environment.enter()

import harness  # noqa: E402
from harness import command_lines, wait_until  # noqa: E402
from jobs import job_text  # noqa: E402

try:
    from axe_selenium_python import Axe
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

DRIVER = "/usr/bin/chromedriver"
ENDLESS = 1_000_000


@unittest.skipUnless(webdriver and os.access(DRIVER, os.X_OK), web_environment.MISSING)
class WebPage(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.tokens_file = self.directory / "tokens"
        self.token = self.esctl("token", "add", "root", "--role", "admin", "--file",
                                self.tokens_file, "--json").json["token"]
        # A head that is started again has the same port, at which the browser waits for it.
        self.start_head(f"127.0.0.1:{harness.free_port()}")
        self.browser = self.start_browser()
        self.addCleanup(self.end_browser)

    def end_browser(self):
        self.browser.quit()
        # The last processes of a browser end after its driver, and remove their files then.
        wait_until("the browser to have ended",
                   lambda: not any("/browser-" in line for line in command_lines().values()
                                   if str(self.directory) in line)
                   and not list(self.temporary.iterdir()), state=self.left_behind)

    def start_head(self, address, options=(), devices=3):
        directory = self.directory / "head"
        directory.mkdir(mode=0o700, exist_ok=True)
        running = self.start(
            harness.easyscaled_program, "--head", "--state", directory / "state", "--listen",
            f"ipc://{directory}/head.sock", "--node", "head", "--devices",
            f"{self.fast}:{devices}", "--http", address, "--http-tokens", self.tokens_file, *options)
        self.head = harness.Daemon(self, running)
        found = running.wait_for_line(r"serves http://(127\.0\.0\.1:\d+)")
        self.address = found.group(1)

    def start_browser(self, width=1000, dark=False):
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     f"--user-data-dir={self.directory}/browser-{width}-{dark}",
                     f"--window-size={width},900"):
            options.add_argument(word)
        if dark:
            options.add_argument("--force-dark-mode")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(DRIVER, env=self.environment)
        browser = webdriver.Chrome(options=options, service=service)
        browser.set_script_timeout(300)  # axe looks at every device, on a machine with other work
        return browser

    def find(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self):
        return self.browser.execute_script("return document.body.innerText")

    def wait_for_text(self, *texts):
        wait_until(f"{texts} on the page", lambda: all(t in self.text() for t in texts),
                   state=self.text)

    def scroll_back(self):
        self.browser.execute_script(
            "window.scrollTo(0, 0); document.querySelectorAll('.scroll').forEach(s => s.scrollLeft = 0)")

    def picture(self, name):
        if "ES_SCREENSHOTS" in os.environ:
            self.scroll_back()
            self.browser.save_screenshot(os.path.join(os.environ["ES_SCREENSHOTS"], f"{name}.png"))

    def picture_of_all(self, name):
        """The whole page, however high it is."""
        if "ES_SCREENSHOTS" not in os.environ:
            return
        size = self.browser.execute_script(
            "return [document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        self.scroll_back()
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True, "format": "png",
            "clip": {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}})
        with open(os.path.join(os.environ["ES_SCREENSHOTS"], f"{name}.png"), "wb") as out:
            out.write(base64.b64decode(shot["data"]))

    def enter_token(self, token=None):
        self.browser.get(f"http://{self.address}/")
        wait_until("the field", lambda: self.find("input[type=password]"))
        self.find("input[type=password]")[0].send_keys(token or self.token, Keys.ENTER)

    def assert_accessible(self):
        axe = Axe(self.browser)
        axe.inject()
        violations = axe.run()["violations"]
        self.assertEqual([(v["id"], [n["html"] for n in v["nodes"]]) for v in violations], [])

    def assert_quiet(self, *provoked):
        """No error in the browser's log but the statuses that the test provoked, and no request to
        another place."""
        # The first request has no token yet, and a cancelled job refuses a pause that was asked for.
        expected = [f" {status} " for status in (401, 409, *provoked)]
        severe = [e for e in self.browser.get_log("browser") if e["level"] == "SEVERE"
                  and not any(status in e["message"] for status in expected)]
        self.assertEqual(severe, [])
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                # The first page of the browser is its own.
                self.assertTrue(
                    url.startswith((f"http://{self.address}/", "data:", "chrome://")), url)

    def submit(self, word, **changes):
        return self.head.submit(self.write_job(
            job_text(f"{word}-{self.word}", changes={"steps": ENDLESS, "eval_every": 50, **changes})))

    # --- what a user does. The page replaces its elements all the time, so each of these is one call.

    def click(self, text, within="body"):
        """Clicks the link or button with this text, as soon as it is there."""
        wait_until(f"'{text}' to click", lambda: self.try_click(text, within), state=self.text)

    def try_click(self, text, within="body"):
        """The text may end with a number in brackets, which is not named."""
        return self.browser.execute_script(
            "const found = [...document.querySelectorAll(`${arguments[1]} a, ${arguments[1]} button`)]"
            ".find(e => !e.disabled && [e.innerText.trim(), e.innerText.replace(/ \\(.*/, '')]"
            ".includes(arguments[0]));"
            "found?.click(); return found !== undefined", text, within)

    def remove(self):
        """The head refuses it until it has written the end of the job."""
        def removed():
            if "0 of 0 jobs" in self.text():
                return True
            if self.try_click("Remove"):
                self.answer("Remove")
            return False

        wait_until("the jobs to be removed", removed, state=self.text)

    def press(self, key):
        """Sends a key to what has the focus."""
        webdriver.ActionChains(self.browser).send_keys(key).perform()

    def answer(self, text):
        """Presses a button of the question that the page asks."""
        wait_until("a question", lambda: self.find("dialog[open]"), state=self.text)
        self.assert_accessible()
        self.click(text, "dialog")
        wait_until("the answer to be taken", lambda: not self.find("dialog"))

    def buttons(self, group):
        return self.browser.execute_script(
            "return [...document.querySelectorAll(`[aria-label='${arguments[0]}'] button`)]"
            ".map(b => b.innerText)", group)

    def wait_for_points(self, title, at_least=2):
        """A chart with this title has at least this number of points."""
        wait_until(f"the chart {title}", lambda: self.browser.execute_script(
            "return [...document.querySelectorAll('figure.chart')].some(f => f.innerText.startsWith("
            "arguments[0]) && Number(f.dataset.points) >= arguments[1] && f.querySelector('canvas'))",
            title, at_least), state=self.text)

    def column(self, table, number):
        return self.browser.execute_script(
            "return [...document.querySelectorAll(`[aria-label='${arguments[0]}'] tbody td:nth-child("
            "${arguments[1]})`)].map(c => c.innerText)", table, number)

    def shown_steps(self):
        return int(self.browser.execute_script(
            "return document.querySelector('.headline .of')?.innerText ?? '0'").split()[0])

    def visit(self, address):
        self.browser.get(f"http://{self.address}/{address}")

    def test_a_job_is_followed_while_a_worker_is_killed(self):
        job = self.submit("page")
        self.enter_token()
        self.wait_for_text(job, "running", "root (admin)")
        self.assert_accessible()
        self.picture_of_all("jobs")
        self.click(job)
        self.wait_for_text("Time left", "Why it waits, or is not faster", "Where the time went")
        self.wait_for_points("Loss")
        self.assert_accessible()
        wait_until("steps", lambda: self.shown_steps() > 0)
        before = self.shown_steps()
        victim = self.head.wait_for(job, "all processes", lambda d: d["workers"] and all(
            w["pid"] for w in d["workers"]))["workers"][0]["pid"]
        os.kill(victim, signal.SIGKILL)
        # All parts of the page are visited while the job recovers.
        self.click("Charts")
        self.wait_for_points("Loss")
        self.wait_for_points("Samples per second")
        self.wait_for_points("accuracy")
        self.use_a_chart()
        self.assert_accessible()
        self.picture_of_all("job_charts")
        self.head.wait_for(job, "another worker",
                           lambda d: d["workers"] and d["workers"][0]["pid"] != victim
                           and d["steps"] > before + 20)
        self.click("Devices", "nav.tabs")
        # The pause of the kill is a bar of the chart of devices, with its cause in the table below.
        wait_until("the pause", lambda: self.browser.execute_script(
            "return Number(document.querySelector('figure[data-pauses]')?.dataset.pauses) >= 1"),
            state=self.text)
        self.wait_for_text("lost workers", "What other devices would bring", "worker-", "MiB sent")
        # Steps of less than a millisecond have a time too.
        wait_until("plans", lambda: self.column("Plans", 3))
        for step in self.column("Plans", 3):
            self.assertRegex(step, r"^[0-9.,]*[1-9][0-9.,]* (ms|s)$")
        self.assert_accessible()
        self.picture_of_all("job_devices")
        self.click("Log")
        # On a busy machine its silence may be seen before the end of its process.
        wait_until("the kill in the log", lambda: re.search("Killed|is silent", self.text()),
                   state=self.text)
        self.choose_a_worker_of_the_log(job)
        self.choose_lines_of_the_log()
        self.click("Configuration")
        self.wait_for_text("optimizer.learning_rate", "0.05")
        self.assert_accessible()
        self.picture_of_all("job_configuration")
        self.click("Ledger")
        wait_until("a digest of the ledger", lambda: any(
            re.fullmatch("[0-9a-f]{32}", digest) for digest in self.column("Ledger", 3)))
        self.wait_for_text("Checkpoints", "Evaluations", "Digest of the parameters")
        self.assert_accessible()
        self.click("Overview")
        wait_until("steps after the kill", lambda: self.shown_steps() > before + 20)
        self.wait_for_points("Loss")
        self.wait_for_text("Time with progress (ETTR)", "lost workers")
        self.picture_of_all("job_after_kill")
        self.act_on(job)
        # The job is removed then.
        self.assert_quiet(404)

    def use_a_chart(self):
        """Logarithm, time as x, and the keys for the cursor and the zoom."""
        chart = "const f = document.querySelector('figure.chart'); "
        self.click("Logarithm", "figure.chart")
        self.assertEqual(self.browser.execute_script(
            chart + "return f.querySelector('[aria-pressed]').getAttribute('aria-pressed')"), "true")
        self.browser.execute_script(chart + "f.querySelector('.plot').focus()")
        self.press(Keys.ARROW_RIGHT)
        wait_until("the values at a step", lambda: self.browser.execute_script(
            chart + "return f.querySelector('.at').innerText").startswith("step "))
        self.press("+")
        wait_until("the zoom", lambda: self.browser.execute_script(
            chart + "return !f.querySelector('.tools > button:last-child').disabled"))
        self.click("Whole", "figure.chart")
        self.browser.execute_script(
            chart + "const s = f.querySelector('select'); s.value = 'seconds';"
            "s.dispatchEvent(new Event('change'))")
        self.wait_for_points("Loss")
        self.assertIn(" s", self.browser.execute_script(
            chart + "return f.querySelector('.plot').getAttribute('aria-label')"))

    def choose_a_worker_of_the_log(self, job):
        """Only the lines of that worker are shown, and all of them again without the choice. A worker
        is followed."""
        choice = ("const s = [...document.querySelectorAll('label')]"
                  ".find((l) => l.textContent.startsWith('Worker')).querySelector('select'); ")
        # Those that the log names, too, have ended. The log of one that has ended is not followed.
        living = str(self.head.describe(job)["workers"][-1]["incarnation"])
        workers = wait_until("workers", lambda: (lambda offered: living in offered and offered)(
            self.browser.execute_script(
                choice + "return [...s.options].map((o) => o.value).filter(Boolean)")),
            state=self.text)
        for worker in [*workers, "", living]:
            self.browser.execute_script(
                choice + f"s.value = '{worker}'; s.dispatchEvent(new Event('change'))")
            wait_until(f"the log of {worker or 'all'} among {workers}", lambda w=worker: (
                lambda lines: lines and all(f" worker {w} job " in line for line in lines) == bool(w))(
                    self.browser.execute_script(
                        "return document.querySelector('pre').innerText").splitlines()),
                state=self.text)
        self.picture("job_log")
        with next(self.directory.glob(f"head/**/worker-{living}.log")).open("a") as file:
            file.write("one more line\n")
        self.wait_for_text("one more line")
        self.browser.execute_script(
            choice + "s.value = ''; s.dispatchEvent(new Event('change'))")

    def choose_lines_of_the_log(self):
        field = self.browser.find_element(By.XPATH, "//label[contains(., 'Contains')]/input")
        field.send_keys("evaluation", Keys.ENTER)
        wait_until("lines with the word", lambda: (lambda lines: lines and all(
            "evaluation" in line for line in lines))(self.browser.execute_script(
                "return document.querySelector('pre').innerText").splitlines()), state=self.text)
        self.assert_accessible()

    def act_on(self, job):
        """Buttons fit the state and ask back: the job moves to two devices, pauses and ends."""
        self.assertEqual(self.buttons("Actions"), ["Pause", "Checkpoint", "Cancel"])
        self.click("Pause")
        self.answer("Back")
        self.assertEqual(self.head.describe(job)["state"], "running")
        field = self.browser.find_element(By.XPATH, "//label[contains(., 'Devices')]/input")
        field.send_keys(f"{self.fast}:2", Keys.ENTER)
        self.answer("Scale")
        self.head.wait_for(job, "two devices", lambda d: d["placement"] == f"{self.fast}:2")
        wait_until("two workers", lambda: f"{self.fast}:2" in self.text())
        self.click("Pause")
        self.answer("Pause")
        wait_until("paused", lambda: self.find("h2 .state-paused"))
        wait_until("other buttons", lambda: self.buttons("Actions") == ["Resume", "Cancel"])
        self.click("Cancel")
        self.answer("Cancel")
        wait_until("cancelled", lambda: self.find("h2 .state-cancelled"))
        wait_until("other buttons", lambda: self.buttons("Actions") == ["Remove"])
        self.remove()
        self.visit(f"#/jobs/{job}")
        self.wait_for_text(f"There is no job {job}", "All jobs")
        self.assert_accessible()

    def test_several_jobs_are_compared_and_the_queue_is_shown(self):
        same = {"level": "D2", "steps": 40, "eval_every": None, "schedule.kind": "constant",
                "schedule.warmup_steps": None}
        first = self.submit("one", **same)
        second = self.head.submit(self.write_job(job_text(
            f"two-{self.word}", changes=same), "two.toml"), "--stages", f"{self.fast}:3@40")
        other = self.submit("other", **{**same, "seed": 12})
        for job in (first, second, other):
            self.head.wait_for_state(job, "finished")
        self.enter_token()
        self.wait_for_text(first)
        self.visit(f"#/jobs/{first}/charts")
        self.wait_for_points("Loss")
        self.find("form.compare input")[0].send_keys(second, Keys.ENTER)
        self.wait_for_text("All 40 steps that both jobs have are equal, bit for bit.")
        self.find("form.compare input")[0].send_keys(other, Keys.ENTER)
        self.wait_for_text(f"{first} and {other}: The first step that differs is 1.",
                           f"{first} and {second}: All 40 steps")
        self.wait_for_points("Loss")
        self.assertEqual(len(self.find("figure.chart .legend .swatch")), 3)
        wait_until("the fields that differ", lambda: "seed" in self.column("Differences", 1))
        self.assertNotIn("model.name", self.column("Differences", 1))
        self.assert_accessible()
        self.picture_of_all("compare")
        # The configuration of a job beside that of another one.
        self.visit(f"#/jobs/{first}/config")
        self.wait_for_text("optimizer.momentum")
        self.browser.find_element(By.XPATH, "//label[contains(., 'Difference')]/input").send_keys(
            other, Keys.ENTER)
        wait_until("the difference", lambda: "seed" in self.column("Differences", 1))
        running = self.submit("holds", **{"resources.min_devices": 3, "resources.tenant": "vision"})
        self.head.wait_for_step(running, 1)
        waiting = self.submit("waits", **{"resources.min_devices": 3})
        self.head.wait_for(waiting, "its place in the queue", lambda d: d["waiting_for"])
        self.visit("#/scheduler")
        self.wait_for_text("Waiting jobs", waiting, running, self.head.describe(waiting)["waiting_for"],
                           "vision", "100 %")
        self.assert_accessible()
        self.picture_of_all("scheduler")
        self.assert_quiet()

    def test_a_job_is_submitted_and_several_are_changed_at_once(self):
        self.enter_token()
        self.click("Submit")
        self.wait_for_text("Job file (TOML)")
        self.assert_accessible()
        area = "document.querySelector('textarea')"
        self.browser.execute_script(f"{area}.value = 'max_p = 0'; {area}.form.requestSubmit()")
        self.wait_for_text("max_p")
        self.assert_accessible()
        text = job_text(f"form-{self.word}", changes={"steps": ENDLESS})
        self.browser.execute_script(
            f"{area}.value = arguments[0]; {area}.form.requestSubmit()", text)
        wait_until("the page of the job", lambda: self.find("h2 .state"), state=self.text)
        first = self.browser.execute_script("return decodeURIComponent(location.hash.split('/')[2])")
        self.assertEqual(self.head.describe(first)["submitter"], "root")
        # The same again, with its job file in the form.
        self.click("Submit again")
        wait_until("the job file", lambda: "max_p" in self.browser.execute_script(
            f"return {area}?.value ?? ''"))
        self.picture_of_all("submit")
        self.click("Submit", "form.submit")
        wait_until("the page of another job", lambda: self.find("h2 .state")
                   and first not in self.browser.current_url, state=self.text)
        self.click("Jobs", "header")
        self.wait_for_text("2 of 2 jobs", "submitter")
        self.assertEqual(self.buttons("Chosen jobs"), [])
        self.browser.execute_script(
            "document.querySelector('[aria-label=\"Choose all jobs\"]').click()")
        self.wait_for_text("2 jobs chosen")
        self.assert_accessible()
        self.picture("chosen")
        self.click("Cancel (2)")
        self.answer("Cancel")
        self.wait_for_text("Cancel: done for 2 jobs.")
        wait_until("both jobs over", lambda: len(self.find("td .state-cancelled")) == 2)
        self.wait_for_text("Remove (2)")
        self.remove()
        self.assertEqual(self.head.esctl("ps", "--all", "--json").json["jobs"], [])
        # The first job file was wrong, and a job that is removed twice is not there.
        self.assert_quiet(400, 404)

    def test_queues_are_a_tree_on_the_page_of_the_scheduler(self):
        queues = self.directory / "queues.toml"
        queues.write_text(f"[queue.research]\nguarantee = {{ {self.fast} = 2 }}\n"
                          f'[queue.vision]\nparent = "research"\nweight = 2.0\n'
                          f"guarantee = {{ {self.fast} = 1 }}\n"
                          f'[queue.speech]\nparent = "research"\n[queue.default]\nweight = 0\n')
        self.head.stop()
        self.start_head(self.address, ["--queues", queues])
        job = self.submit("queued", **{"resources.queue": "vision"})
        self.head.wait_for_step(job, 1)
        self.enter_token()
        self.wait_for_text("Jobs")
        self.browser.get(f"http://{self.address}/#/scheduler")
        self.wait_for_text("Queues", "– vision", "– speech")
        rows = self.browser.execute_script(
            "return [...document.querySelectorAll('[aria-label=Queues] tbody tr')]"
            ".map(r => [...r.children].map(c => c.innerText))")
        self.assertEqual([row[0] for row in rows], ["default", "research", "– speech", "– vision"])
        shown = dict(zip(("queue", "weight", "running", "waiting", "type"), rows[3]))
        self.assertEqual(shown, {"queue": "– vision", "weight": "2", "running": "1", "waiting": "0",
                                 "type": self.fast})
        self.assert_accessible()
        self.assert_quiet()

    def test_jobs_are_sorted_and_the_cluster_is_shown(self):
        done = [self.submit(word, steps=steps, eval_every=None) for word, steps in
                [("b", 7), ("a", 12), ("c", 3)]]
        for job in done:
            self.head.wait_for_state(job, "finished")
        self.enter_token()
        self.wait_for_text("3 of 3 jobs")

        def shown():
            return self.browser.execute_script(
                "return [...document.querySelectorAll('tbody td a')].map(a => a.innerText)")

        def order():
            return self.browser.execute_script(
                "const th = document.querySelector('th[aria-sort]');"
                "return [th.innerText.trim(), th.getAttribute('aria-sort')]")

        self.assertEqual(shown(), done[::-1])
        self.assertEqual(order(), ["age", "ascending"])
        self.click("job", "th")
        self.assertEqual(shown(), sorted(done))
        self.click("age", "th")
        self.click("age", "th")
        self.assertEqual(shown(), done)
        self.assertEqual(order(), ["age", "descending"])
        self.assert_accessible()
        claimed = self.head.esctl("claim", "--name", "serving", "--type", self.fast, "--count", 1)
        self.assertEqual(claimed.code, 0)
        self.submit("holds", **{"resources.min_devices": 2})
        self.visit("#/cluster")
        self.wait_for_text("Colour by", "Devices by type")
        wait_until("busy devices", lambda: len(self.find(".map .square.busy")) == 3)
        self.assert_accessible()
        # The arrow keys lead from one device to the next, and Enter to its node.
        self.browser.execute_script("document.querySelector('.square[tabindex=\"0\"]').focus()")
        self.press(Keys.ARROW_RIGHT)
        wait_until("the second device", lambda: self.browser.execute_script(
            "return document.activeElement.dataset.device") == f"head {self.fast}#1")
        self.wait_for_text(f"head {self.fast}#1: busy")
        self.picture_of_all("cluster")
        self.press(Keys.ENTER)
        wait_until("the node", lambda: f"{self.fast}%231" in self.browser.current_url)
        # The second point comes after ten seconds.
        self.wait_for_points("Held by a job or a claim")
        self.assert_accessible()
        self.visit("#/nodes/head")
        self.wait_for_points("Memory of the worker")
        self.wait_for_points("Sent to other workers")
        self.assert_accessible()
        self.picture_of_all("node")
        self.visit("#/nodes/absent")
        self.wait_for_text("There is no node absent")
        self.visit("#/cluster/time")
        self.wait_for_points("Devices")
        self.assert_accessible()
        self.visit("#/cluster/problems")
        self.wait_for_text(
            "Slow devices", "Devices out of use",
            "No audit has found a device that computes wrongly, and no device is set aside.")
        self.visit("#/cluster/claims")
        self.wait_for_text("serving")
        self.visit("#/cluster/nodes")
        self.click("Drain")
        self.answer("Drain")
        self.wait_for_text("draining")
        self.click("Use again")
        self.answer("Use again")
        self.wait_for_text("alive")
        self.assert_accessible()
        self.assert_quiet()

    def test_500_devices_are_seen_at_a_glance(self):
        self.head.stop()
        self.start_head(self.address, devices=500)
        self.submit("many", **{"resources.min_devices": 4})
        self.enter_token()
        self.visit("#/cluster")
        wait_until("a busy job on the map",
                   lambda: len(self.find(".map .square")) == 500
                   and len(self.find(".map .square.busy")) >= 4)
        size = self.browser.execute_script(
            "const box = document.querySelector('.map').getBoundingClientRect();"
            "return [box.height, window.innerHeight, document.documentElement.scrollWidth, window.innerWidth]")
        self.assertLess(size[0], size[1])
        self.assertLessEqual(size[2], size[3])
        self.assert_accessible()
        self.assert_quiet()

    def test_a_simulation_is_a_page_without_other_files(self):
        trace, steps = self.directory / "jobs.csv", self.directory / "steps.csv"
        rows = "".join(f"j{i},{i * 40},m,4,32,{32 * 1500},1,v100\n" for i in range(24))
        trace.write_text("job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type\n" + rows)
        steps.write_text("model,gpu_type,seconds_per_local_step\nm,v100,0.1\nm,t4,0.2\n")
        out = self.directory / "result <1>"
        self.esctl("sim", "compare", "--policies", "elastic-srtf,srtf,easyscale", "--trace", trace,
                   "--steptimes", steps, "--cluster", "v100=6,t4=4", "--out", out)
        for file in out.iterdir():
            if file.name != "index.html":
                file.unlink()
        self.browser.get((out / "index.html").as_uri())
        self.wait_for_text("Policies", "elastic-srtf", "easyscale", "Jobs without any device over time")
        # A line for each policy, and for its model and its two device types.
        self.assertEqual(len(self.find("tbody tr")), 3 + 3 * 3)
        # Three charts of all policies, and the devices and the jobs of each.
        self.assertEqual(len(self.find("figure svg")), 9)
        for chart in self.find("figure svg"):
            self.assertGreater(chart.size["height"], 100)
        self.assertTrue(self.find("td strong"))
        self.assert_accessible()
        self.picture_of_all("simulation")
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": False})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        self.assertFalse(self.browser.execute_script(
            "return document.documentElement.scrollWidth > document.documentElement.clientWidth"))
        self.assert_accessible()
        severe = [e for e in self.browser.get_log("browser") if e["level"] == "SEVERE"]
        self.assertEqual(severe, [])

    def test_a_wrong_token_is_refused_and_a_viewer_has_no_buttons(self):
        job = self.submit("viewer")
        self.enter_token("wrong")
        self.wait_for_text("This token is not valid")
        viewer = self.esctl("token", "add", "eve", "--role", "view", "--file", self.tokens_file,
                            "--json").json["token"]

        def signed_in():
            # The head may not know the new token yet.
            for field in self.find("input[type=password]"):
                field.clear()
                field.send_keys(viewer, Keys.ENTER)
            return "eve (view)" in self.text()

        wait_until("the new token", signed_in)
        self.visit(f"#/jobs/{job}")
        self.wait_for_text("Time left")
        self.assertEqual(self.buttons("Actions"), [])
        self.assertEqual(self.find("main form"), [])
        self.visit("#/jobs")
        self.wait_for_text("1 of 1 jobs")
        self.assertEqual(self.find("input[type=checkbox]"), [])
        self.visit("#/submit")
        self.wait_for_text("The role of this token may only look.")

    def test_the_page_survives_a_restart_of_the_head(self):
        job = self.submit("restart")
        self.enter_token()
        self.wait_for_text(job)
        self.visit(f"#/jobs/{job}")
        self.wait_for_text("Time left")
        address = self.address
        self.head.running.process.kill()
        self.head.running.wait()
        self.wait_for_text("The head does not answer")
        self.start_head(address)
        steps = self.head.wait_for(job, "steps", lambda d: d["state"] == "running")["steps"]
        self.head.wait_for(job, "more steps", lambda d: d["steps"] > steps + 10)
        wait_until("the page to recover", lambda: "does not answer" not in self.text())
        wait_until("the state", lambda: self.find(".state-running"))

    def test_it_is_narrow_and_dark_and_works_by_keyboard(self):
        job = self.submit("narrow")
        self.end_browser()
        self.browser = self.start_browser(width=500, dark=True)
        # Headless windows have a smallest width, so the page itself is made narrow.
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": False})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        self.enter_token()
        self.wait_for_text("Jobs", "running")
        same = self.submit("slim")
        pages = ("#/jobs", "#/cluster", "#/scheduler", "#/submit", f"#/jobs/{job}",
                 *(f"#/jobs/{job}/{part}" for part in ("charts", "devices", "config", "log", "proof")),
                 f"#/compare/{job}/{same}", "#/nodes/head")
        for page in pages:
            self.visit(page)
            if page.count("/") > 2 and page.split("/")[-1] in ("charts", same):
                self.wait_for_points("Loss")
            else:
                wait_until("its content", lambda: self.find("main table, main textarea, main .card,"
                                                            "main pre"))
            wide = self.browser.execute_script(
                "return document.documentElement.scrollWidth > document.documentElement.clientWidth")
            self.assertFalse(wide, f"{page} is wider than 360 pixels")
            self.assert_accessible()
            if page == "#/jobs":
                # State and progress are seen without scrolling.
                right = self.browser.execute_script(
                    "return Math.max(...[...document.querySelectorAll('td .state, td progress')]"
                    ".map(e => e.getBoundingClientRect().right))")
                self.assertLessEqual(right, 360)
            if page in ("#/jobs", "#/cluster", "#/scheduler"):
                self.picture(f"narrow{page.replace('#/', '-')}")
        # The first key leads to the skip link, the next ones to the pages.
        self.browser.get(f"http://{self.address}/#/jobs")
        self.browser.refresh()
        self.wait_for_text("2 of 2 jobs")
        body = self.browser.find_element(By.TAG_NAME, "body")
        body.send_keys(Keys.TAB)
        self.assertEqual(self.browser.switch_to.active_element.text, "Skip to the content")
        self.browser.switch_to.active_element.send_keys(Keys.TAB)
        self.browser.switch_to.active_element.send_keys(Keys.TAB)
        self.assertEqual(self.browser.switch_to.active_element.text, "Cluster")
        self.browser.switch_to.active_element.send_keys(Keys.ENTER)
        self.wait_for_text("Devices by type")


if __name__ == "__main__":
    harness.main()

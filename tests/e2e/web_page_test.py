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

    def start_head(self, address, options=()):
        directory = self.directory / "head"
        directory.mkdir(mode=0o700, exist_ok=True)
        running = self.start(
            harness.easyscaled_program, "--head", "--state", directory / "state", "--listen",
            f"ipc://{directory}/head.sock", "--node", "head", "--devices", f"{self.fast}:3",
            "--http", address, "--http-tokens", self.tokens_file, *options)
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
        return webdriver.Chrome(options=options, service=service)

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

    def assert_quiet(self):
        """No error in the browser's log, and no request to another place."""
        # The first request has no token yet, and a cancelled job refuses a pause that was asked for.
        severe = [e for e in self.browser.get_log("browser")
                  if e["level"] == "SEVERE" and " 401 " not in e["message"]
                  and " 409 " not in e["message"]]
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

    def test_a_job_is_followed_while_a_worker_is_killed(self):
        job = self.submit("page")
        self.enter_token()
        self.wait_for_text(job, "running", "root (admin)")
        self.assert_accessible()
        self.picture_of_all("jobs")
        # In one call, because the page replaces its elements all the time.
        self.browser.execute_script(
            "[...document.querySelectorAll('td a')].find(a => a.innerText === arguments[0]).click()", job)
        self.wait_for_text("Devices over time", "Digest of the parameters", "Evaluations")
        wait_until("the curve", lambda: self.find("svg .curve"))
        self.assert_accessible()

        def shown_steps():
            # In one call, because the page replaces its elements all the time.
            return int(self.browser.execute_script(
                "return [...document.querySelectorAll('.card')].find("
                "c => c.querySelector('.name').textContent === 'Steps')"
                ".querySelector('.value').textContent").split()[0])

        before = shown_steps()
        victim = self.head.wait_for(job, "all processes", lambda d: d["workers"] and all(
            w["pid"] for w in d["workers"]))["workers"][0]["pid"]
        os.kill(victim, signal.SIGKILL)
        self.head.wait_for(job, "another worker",
                           lambda d: d["workers"] and d["workers"][0]["pid"] != victim
                           and d["steps"] > before + 20)
        wait_until("steps after the kill", lambda: shown_steps() > before + 20)
        # On a busy machine its silence may be seen before the end of its process.
        wait_until("the kill in the log", lambda: re.search("Killed|is silent", self.text()),
                   state=self.text)
        # The pause of the kill is a bar of the chart of devices, with its cause in the table below.
        wait_until("the pause", lambda: self.find("svg.gantt .pause"), state=self.text)
        self.wait_for_text("lost workers", "Throughput over time",
                           "Time with progress (ETTR)", "What other devices would bring", "Ledger",
                           "Checkpoints")
        self.assertGreaterEqual(len(self.find("svg.gantt .stage")), 2)
        wait_until("a digest of the ledger",
                   lambda: self.find("[aria-label=Ledger] code") and re.fullmatch(
                       "[0-9a-f]{32}", self.browser.execute_script(
                           "return document.querySelector('[aria-label=Ledger] code')?.innerText ?? ''")))
        # Steps of less than a millisecond have a time too.
        steps = self.browser.execute_script(
            "return [...document.querySelectorAll('[aria-label=Plans] tbody td:nth-child(3)')]"
            ".map(c => c.innerText)")
        self.assertTrue(steps)
        for step in steps:
            self.assertRegex(step, r"^[0-9.,]*[1-9][0-9.,]* (ms|s)$")
        self.assert_accessible()
        self.picture_of_all("job_after_kill")
        # Buttons act: the job moves to two devices, pauses and ends.
        self.find("form input")[0].send_keys(f"{self.fast}:2", Keys.ENTER)
        self.head.wait_for(job, "two devices", lambda d: d["placement"] == f"{self.fast}:2")
        wait_until("two workers", lambda: f"{self.fast}:2" in self.text())
        self.browser.find_element(By.XPATH, "//button[.='Pause']").click()
        wait_until("paused", lambda: self.find(".state-paused"))
        self.browser.find_element(By.XPATH, "//button[.='Cancel']").click()
        self.browser.switch_to.alert.accept()
        wait_until("cancelled", lambda: self.find(".state-cancelled"))
        self.assert_quiet()

    def test_two_jobs_are_compared_and_the_queue_is_shown(self):
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
        self.browser.get(f"http://{self.address}/#/jobs/{first}")
        self.wait_for_text("Where the time went", "progress")
        field = self.find("form.compare input")[0]
        field.send_keys(second, Keys.ENTER)
        self.wait_for_text("All 40 steps that both jobs have are equal, bit for bit.")
        wait_until("both curves", lambda: len(self.find("svg .curve")) == 2)
        self.assert_accessible()
        self.picture_of_all("compare")
        self.browser.get(f"http://{self.address}/#/compare/{first}/{other}")
        self.wait_for_text("The first step that differs is 1.")
        running = self.submit("holds", **{"resources.min_devices": 3, "resources.tenant": "vision"})
        self.head.wait_for_step(running, 1)
        waiting = self.submit("waits", **{"resources.min_devices": 3})
        self.head.wait_for(waiting, "its place in the queue", lambda d: d["waiting_for"])
        self.browser.get(f"http://{self.address}/#/scheduler")
        self.wait_for_text("Waiting jobs", waiting, running, self.head.describe(waiting)["waiting_for"],
                           "vision", "100 %")
        self.assert_accessible()
        self.picture_of_all("scheduler")
        self.assert_quiet()

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
                "return [...document.querySelectorAll('tbody tr td:first-child')].map(c => c.innerText)")

        def press(name):
            # The table may be drawn anew at any time.
            self.browser.execute_script(
                "[...document.querySelectorAll('button.sort')].find(b => b.innerText.startsWith(arguments[0])).click()",
                name)

        self.assertEqual(shown(), done[::-1])
        press("job")
        self.assertEqual(shown(), sorted(done))
        press("steps")
        self.assertEqual(shown(), [done[2], done[0], done[1]])
        press("steps")
        self.assertEqual(shown(), [done[1], done[0], done[2]])
        self.assertEqual([th.get_attribute("aria-sort") for th in self.find("th[aria-sort]")],
                         ["descending"])
        self.assert_accessible()
        claimed = self.head.esctl("claim", "--name", "serving", "--type", self.fast, "--count", 1)
        self.assertEqual(claimed.code, 0)
        self.submit("holds", **{"resources.min_devices": 2})
        self.browser.get(f"http://{self.address}/#/cluster")
        self.wait_for_text("Utilisation over time", "Slow devices", "Devices out of use", "serving",
                           "No audit has found a device that computes wrongly, and no device is set aside.")
        # The second point comes after ten seconds.
        wait_until("the utilisation", lambda: self.browser.execute_script(
            "return (document.querySelector('svg .curve')?.getAttribute('points') ?? '').split(' ').length > 1"),
            state=self.text)
        self.assert_accessible()
        self.picture_of_all("cluster")
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
        self.assertEqual(len(self.find("tbody tr")), 3)
        # Three charts of all policies, and one of each.
        self.assertEqual(len(self.find("figure svg")), 6)
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
        self.browser.get(f"http://{self.address}/#/jobs/{job}")
        self.wait_for_text("Devices over time")
        self.assertEqual(self.find("form button"), [])

    def test_the_page_survives_a_restart_of_the_head(self):
        job = self.submit("restart")
        self.enter_token()
        self.wait_for_text(job)
        self.browser.get(f"http://{self.address}/#/jobs/{job}")
        self.wait_for_text("Devices over time")
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
        for page in ("#/jobs", "#/cluster", "#/scheduler", f"#/jobs/{job}", f"#/compare/{job}/{job}"):
            self.browser.get(f"http://{self.address}/{page}")
            wait_until("a table", lambda: self.find("table"))
            if job in page:
                wait_until("a curve", lambda: self.find("svg .curve"))
            wide = self.browser.execute_script(
                "return document.documentElement.scrollWidth > document.documentElement.clientWidth")
            self.assertFalse(wide, f"{page} is wider than 360 pixels")
            self.assert_accessible()
            if job not in page:
                self.picture(f"narrow{page.replace('#/', '-')}")
        # The first key leads to the skip link, the next ones to the pages.
        self.browser.get(f"http://{self.address}/#/jobs")
        self.browser.refresh()
        self.wait_for_text("the newest first")
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

"""The environment of the tests of the web page and of the HTTP service (scripts/setup_web)."""
import environment

MISSING = "Chromium and its driver are not set up: scripts/setup_web"


def enter():
    environment.enter("setup_web")

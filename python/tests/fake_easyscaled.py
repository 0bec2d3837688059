"""Stands for `easyscaled` in tests: is ready at once and waits for SIGTERM."""
import os
import signal
import sys

if "FAKE_EASYSCALED_ERROR" in os.environ:
    sys.exit("easyscaled: " + os.environ["FAKE_EASYSCALED_ERROR"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", sys.argv[sys.argv.index("--listen") + 1], flush=True)
if "FAKE_EASYSCALED_DIES" in os.environ:
    sys.exit("easyscaled: check failed")
signal.pause()

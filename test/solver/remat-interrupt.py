"""Starts a search of ten minutes, sends it SIGINT after a second, passes its line of JSON on, and fails unless it ended
within a minute with exit status 0. Usage: remat-interrupt.py PROBLEM SCHEDULE."""
import signal
import subprocess
import sys
import time

search = subprocess.Popen(["nnc-plan", "remat", sys.argv[1], "--budget=60%", "--time-limit=600", "-o", sys.argv[2]],
                          stdout=subprocess.PIPE)
time.sleep(1)
search.send_signal(signal.SIGINT)
try:
    line, _ = search.communicate(timeout=60)
except subprocess.TimeoutExpired:
    search.kill()
    sys.exit("the search went on")
sys.stdout.write(line.decode())
sys.exit(search.returncode != 0)

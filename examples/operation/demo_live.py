"""A plant, a broker, a monitor and its page on this machine: `make demo-live`; Ctrl-C ends it.

With --seconds N it ends by itself.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
COMMAND = [sys.executable, "-m", "kernelstream"]


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seconds", type=float, default=float("inf"))
    words.add_argument("--rate", type=float, default=50.0)
    words.add_argument("--open", action="store_true", help="show the page in a browser")
    given = words.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kernelstream-demo-"))
    replay = monitor = None
    told = False  # whether Ctrl-C has reached all of them
    try:
        print("1. A plant: 1,500 rows of normal operation, and a day with a fault.", flush=True)
        subprocess.run([sys.executable, HERE / "plant.py", folder], check=True)
        print("2. Learn normal operation.", flush=True)
        fit = [
            *COMMAND,
            "fit",
            "normal.csv",
            "--detector",
            "monitor",
            "-o",
            "plant.safetensors",
            "--exclude",
            "t",
        ]
        subprocess.run(fit, check=True, cwd=folder)
        print("3. A broker, and the day replayed into it.", flush=True)
        replay = subprocess.Popen(
            [
                *(sys.executable, HERE / "replay.py", "day.csv", "plant"),
                *("--rate", str(given.rate), "--wait", "8", "--loop"),
            ],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert replay.stdout is not None
        address = replay.stdout.readline().strip()
        print(f"4. Watch {address}; the page is at the address below.", flush=True)
        monitor = subprocess.Popen(
            [
                *(
                    *COMMAND,
                    *("plant", "serve"),
                    "plant.safetensors",
                    address,
                    "--learn",
                    "--time-column",
                    "t",
                ),
                *("--serve", "127.0.0.1:0", "--metrics", "127.0.0.1:0"),
                *(["--open"] if given.open else []),
            ],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        began = time.monotonic()
        while time.monotonic() - began < given.seconds and monitor.poll() is None:
            time.sleep(0.2)
        if monitor.poll() is not None:
            return monitor.returncode
        return 0
    except KeyboardInterrupt:
        told = True
        return 0
    finally:
        for process in (monitor, replay):
            if process is not None and process.poll() is None:
                if not told:
                    process.terminate()
                process.wait(60)  # the model is being saved
        if (folder / "plant.safetensors.history").exists():
            events = [*COMMAND, "plant", "events", "plant.safetensors"]
            subprocess.run(events, cwd=folder, check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

"""The modules beside the tests are imported by their own names, `benchmarks` from the checkout."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# Last: the checkout's folders are packages of openinfer and imported as such.
sys.path.append(str(Path(__file__).parents[2]))

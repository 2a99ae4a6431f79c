"""Show what can run programs on this machine, and why the rest cannot."""

from __future__ import annotations

import argparse
import json

EXAMPLES = """\
examples:
  openinfer devices
  openinfer devices --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.device_report import device_reports

    reports = device_reports()
    if args.json:
        print(json.dumps([report.json() for report in reports], indent=2))
        return 0
    for report in reports:
        state = "available" if report.available else f"not available: {report.reason}"
        print(f"{report.name:10} {state}")
        for name, value in report.facts.items():
            print(f"{'':10} {name}: {value}")
    return 0

#!/usr/bin/env python3
"""The figures of the papers' evaluations on our costs: prints a Markdown table a figure, and writes
an SVG of some beside this file. README.md has what the papers say and why we differ.

    bench/paper/run.py [--program build/full/bin/graphpipe] [--time-limit S] [--options none,dp]
                       [--devices 4,8,16,32] [--emulate] [FIGURE ...]
"""
import argparse
import tempfile

from case_study import case_study
from figure_5 import figure_5
from figure_6 import figure_6
from figure_7 import figure_7
from figure_9 import control, figure_9
from pipedream_evaluation import pipedream_evaluation
from sensitivity import sensitivity
from study import HERE, Study

FIGURES = {"case": case_study, "5": figure_5, "6": figure_6, "7": figure_7, "9": figure_9, "control": control,
           "sensitivity": sensitivity, "pipedream": pipedream_evaluation}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", default=str(HERE.parents[1] / "build/full/bin/graphpipe"),
                           help="the programs of bench/ are looked for beside it")
    arguments.add_argument("--emulate", action="store_true", help="figure 6: an emulated column")
    arguments.add_argument("--options", default="none,dp",
                           help="of the planners: one device a stage, several, or both in turn")
    arguments.add_argument("--devices", default="4,8,16,32", help="figure 6: how many")
    arguments.add_argument("--time-limit", default=60, help="seconds for a search of one planner")
    arguments.add_argument("--data", default=str(HERE.parents[2] / "shared/data"),
                           help="the folder that holds pipedream/*.graph.txt")
    arguments.add_argument("figures", nargs="*", choices=[[], *FIGURES], help="default: all")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Study(options, folder)
        for name in options.figures or FIGURES:
            FIGURES[name](study)


if __name__ == "__main__":
    main()

"""The commands in one line each, and the help that lists them."""

from __future__ import annotations

# In the order in which a user meets them.
COMMANDS = {
    "demo": "Measure an HNSW index on 20,000 real embeddings.",
    "score": "Score a file of answers against the ground truth.",
    "tune": "Find the cheapest setting that meets a recall target within your budgets.",
    "probe": "Measure the recall of a collection that is in use, read-only.",
    "watch": "Probe a collection in use again and again, and tell when its recall falls.",
    "drift": "Show what changed since a baseline, and whether recall still holds.",
    "migrate": "Compare two embeddings of the same rows, and say whether to switch.",
    "run": "Measure every setting of a bench file, or of the engines that you name.",
    "churn": "Replay inserts, deletes and searches, and measure recall at every step.",
    "init": "Write a commented bench file for your data.",
    "truth": "Compute or verify exact ground truth.",
    "workload": "Give queries synthetic filters of controlled selectivity and correlation.",
    "inspect": "Show shape, norms, duplicates and bad values of vector files.",
    "convert": "Write vectors in another format.",
    "engines": "List the engines with their parameters.",
    "audit": "Check a benchmark or a run for common mistakes.",
    "report": "Write the HTML report of a run, a tuning or several runs.",
    "publish": "Write runs as a static site: leaderboards at equal recall, trends, reports, data.",
    "show": "Print the tables of a run.",
    "compare": "Compare runs, tunings, probes or answers, query by query.",
    "gate": "Judge a candidate against its baseline, for CI.",
    "explain": "Show why a run missed neighbors, and what to change.",
    "history": "Show how recall developed over runs, tunings and probes.",
    "runs": "List the runs in a folder.",
    "export": "Write a run as CSV, JSON, Parquet, ann-benchmarks or HdrHistogram.",
}
DESCRIPTION = (
    "Measure how much of the true top-K your vector index returns,\n"
    "what that recall costs, and which setting to run."
)
EPILOG = "First use: recallatk demo"
_OPTIONS = {
    "--version": "Show the version and exit.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Print the completion script.",
    "-h, --help": "Show this message and exit.",
}


def overview() -> str:
    """The help of `recallatk`, as `recallatk --help` prints it."""
    return "\n".join(
        [
            "Usage: recallatk [OPTIONS] COMMAND [ARGS]...",
            "",
            *(f"  {line}" for line in DESCRIPTION.split("\n")),
            "",
            "Commands:",
            *_aligned(COMMANDS),
            "",
            "Options:",
            *_aligned(_OPTIONS),
            "",
            "recallatk COMMAND --help describes a command.",
            EPILOG,
        ]
    )


def _aligned(rows: dict[str, str]) -> list[str]:
    width = max(map(len, rows))
    return [f"  {name:<{width}}  {said}" for name, said in rows.items()]

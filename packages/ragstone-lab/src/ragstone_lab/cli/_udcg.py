"""`ragstone lab udcg`: fit UDCG's weights, correlate it with answer quality, rank passages, repeat the experiments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from ragstone.cli.extension import load_app, parse_named_file, terminal_options
from ragstone.errors import ConfigurationError
from ragstone.extension import check_not_read, check_output
from ragstone.metrics import quote
from ragstone_lab.cli._frame import Lab


def fit_command(
    file: Path, *, output: Path = Path("theta.json"), json_output: bool = False, context: typer.Context
) -> None:
    """Fit the weights of UDCG to graded contexts.

    Prints how well UDCG with these weights ranks the contexts of held-out queries.

    Output:
        output (-o): JSON file for the weights.
    """
    from ragstone_lab import fit_udcg

    check_not_read(check_output(output), file)
    lab = Lab(context, json_output=json_output)
    fitted = lab.run("reading", fit_udcg, str(file), **lab.arguments("limits", "analysis", "research"))
    fitted.theta.save(output)
    following = f"saved. Use it with: ragstone evaluate FILE --metrics udcg_theta@{quote(str(output))}"
    lab.finish(fitted, saved=[following], resumes=False, output=str(output))


def correlate_command(
    file: Path, *, theta: Path | None = None, erag: bool = False, json_output: bool = False, context: typer.Context
) -> None:
    """Correlate UDCG and other ranking metrics with graded answers.

    Query by query, with weights of UDCG that are cross-validated or given.

    Options:
        theta: Weights from `ragstone lab udcg fit`. Default: cross-validated weights.
        erag: Also let the reader answer from each passage alone (eRAG).
    """
    from ragstone_lab import correlate_udcg

    lab = Lab(context, json_output=json_output)
    options = lab.arguments("limits", "analysis")
    result = lab.run("reading", correlate_udcg, str(file), theta=theta, erag=erag, **options)
    lab.finish(result, resumes=False)


def rank_command(
    file: Path,
    *,
    top_k: int | None = None,
    erag: bool = False,
    keep_order: bool = False,
    output: Path | None = None,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Sort the passages of each sample by their utility.

    This is an oracle reranker: it knows the utility of each passage for the reader.

    Options:
        top_k (-k >=1): Keep only the best k passages. Default: all.
        erag: Sort by the reader's answer from each passage alone (eRAG).
        keep_order: Add the values to each passage without reordering.

    Output:
        output (-o): JSONL file for the samples. Default: stdout.
    """
    from ragstone_lab import rank_udcg

    if output is not None:
        check_not_read(check_output(output), file)
    elif json_output:
        raise ConfigurationError(
            "--json prints the counts to stdout, where the samples would be printed. Add --output FILE."
        )
    lab = Lab(context, json_output=json_output)
    rank_by, options = "erag" if erag else "utility", lab.arguments("limits")
    ranked = lab.run("ranking", rank_udcg, str(file), top_k=top_k, rank_by=rank_by, keep_order=keep_order, **options)
    if output is None:
        for row in ranked.rows:
            typer.echo(json.dumps(row, ensure_ascii=terminal_options()["ascii_only"]))
    else:
        ranked.to_jsonl(output)
    lab.finish(ranked, resumes=False, err=True)


def experiment_command(
    data: list[str],
    *,
    output_dir: Path = Path("udcg-experiment"),
    parts: str | None = None,
    retriever: str | None = None,
    erag: bool = True,
    dry_run: bool = False,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Repeat the experiments of the UDCG paper on your data.

    Options:
        data: Rows with query, reference and ranked contexts. NAME=FILE names a file.
        output_dir (-o): Directory of the results. A run resumes in it.
        parts: position, k, distractors, orders, correlation, ablation, answer-prob, judges. Default: without the last
            two.
        retriever (MODULE:NAME): Function of the query that returns the ranked candidates.
        erag (--erag/--no-erag): Also let the reader answer from each candidate alone (eRAG).
    """
    from ragstone_lab import plan_udcg_experiment, run_udcg_experiment

    lab = Lab(context, json_output=json_output)
    models, research = lab.models, lab.settings.research
    chosen = lab.arguments("analysis", "research", omit=("second_judge", "second_judge_model", "other_readers")) | {
        "parts": parts,
        "retriever": None if retriever is None else load_app(retriever, option="--retriever"),
        "erag": erag,
        "k_values": tuple(sorted(set(research.k_values))),
    }
    named = [parse_named_file(text) for text in data]
    sets = {name or file: file for name, file in named}
    if len(sets) < len(named):
        raise ConfigurationError("two data sets have the same name. Write NAME=FILE with a unique name for each")
    source: Any = sets if len(sets) > 1 else named[0][1]
    if dry_run:
        chosen |= {"n_readers": 1 + len(research.other_readers), "n_judges": 1 + (research.second_judge is not None)}
        plan = plan_udcg_experiment(source, output_dir, calls_per_reading=models.calls_per_reading, **chosen)
        lab.print_plan(plan, plan.usage, dry_run=True)
        return
    if research.second_judge is not None:
        chosen["second_judge"] = models.build_other_judge(research.second_judge, research.second_judge_model)
    if research.other_readers:
        judge, (_, reader) = models.judge_or_none(), models.judge_and_reader()
        others = {url: models.build_other_reader(url, judge) for url in research.other_readers}
        chosen |= {"judge": judge, "reader": {"": reader, **others}}
    chosen["on_plan"] = lambda plan: lab.print_plan(plan, plan.usage, dry_run=False)
    result = lab.run("calls", run_udcg_experiment, source, output_dir, **lab.arguments("limits"), **chosen)
    gammas = [
        f"use the weight of distraction: ragstone evaluate FILE --metrics udcg@gamma={quote(str(path))}"
        for path in sorted(output_dir.glob("**/gamma.json"))
    ]
    lab.finish(result, saved=[f"saved in {output_dir}: result.json, contexts.jsonl, journal.jsonl", *gammas])

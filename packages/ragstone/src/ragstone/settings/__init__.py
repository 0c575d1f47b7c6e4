"""Settings: each key declared once, and read from arguments, options, the environment, a file and a plan."""

from ragstone.settings._analysis import Analysis
from ragstone.settings._arguments import RUN_KEYS, check, complete, takes_settings
from ragstone.settings._base import public_name
from ragstone.settings._resolve import (
    TABLES,
    Configuration,
    read_file,
    read_table,
    resolve,
    resolve_arguments,
    variable_of,
)
from ragstone.settings._tables import (
    Cache,
    DailyBudget,
    Endpoint,
    Lengths,
    Limits,
    Retention,
    Sampling,
    SamplingRule,
    Watch,
    flat_names,
)

__all__: list[str] = []

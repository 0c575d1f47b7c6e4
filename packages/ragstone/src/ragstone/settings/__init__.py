"""Settings: each key declared once, and read from arguments, options, the environment, a file and a plan."""

from ragstone.settings._analysis import Analysis as Analysis
from ragstone.settings._arguments import RUN_KEYS as RUN_KEYS
from ragstone.settings._arguments import check as check
from ragstone.settings._arguments import complete as complete
from ragstone.settings._arguments import takes_settings as takes_settings
from ragstone.settings._base import public_name as public_name
from ragstone.settings._resolve import Configuration as Configuration
from ragstone.settings._resolve import read_file as read_file
from ragstone.settings._resolve import read_table as read_table
from ragstone.settings._resolve import resolve as resolve
from ragstone.settings._resolve import resolve_arguments as resolve_arguments
from ragstone.settings._resolve import variable_of as variable_of
from ragstone.settings._tables import TABLES as TABLES
from ragstone.settings._tables import Cache as Cache
from ragstone.settings._tables import DailyBudget as DailyBudget
from ragstone.settings._tables import Endpoint as Endpoint
from ragstone.settings._tables import Lengths as Lengths
from ragstone.settings._tables import Limits as Limits
from ragstone.settings._tables import Retention as Retention
from ragstone.settings._tables import Sampling as Sampling
from ragstone.settings._tables import SamplingRule as SamplingRule
from ragstone.settings._tables import Watch as Watch

__all__: list[str] = []

"""Helpers for distributions that extend Ragstone with commands, such as `ragstone-lab`.

Such a distribution is released together with the core and requires exactly its version: these names may change in any
release. It declares its commands as an entry point of the group `ragstone.commands`, which `ragstone.cli.extension`
explains. Applications do not need this module.
"""

from ragstone._util.abstains import answer_abstains
from ragstone._util.csv_table import csv_table, unguarded
from ragstone._util.files import check_not_read, check_output, write_output
from ragstone._util.lazy import lazy_names
from ragstone._util.partial_file import PartialFile
from ragstone._util.quantities import count
from ragstone._util.row_limits import check_json_row
from ragstone._util.table import text_table
from ragstone._util.words import split_words

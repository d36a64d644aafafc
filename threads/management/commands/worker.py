"""`manage.py worker`: the memory lanes and the control queue, supervised."""

from __future__ import annotations

import argparse
import signal
from threading import Event
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memory.checks import refuse_unless_walled
from threads.clusters import serve_queue
from threads.sealer import Sealer
from threads.supervisor import Supervisor


class Command(BaseCommand):
    """Runs until SIGTERM or Ctrl-C, then stops everything it started within seconds."""

    help = "Run the memory lanes and the control queue, with supervision, until stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the supervisor's process id, for the processes that it starts."""
        parser.add_argument("--supervised-by", type=int, help=argparse.SUPPRESS)

    def handle(self, *args: Any, **options: Any) -> None:
        """Supervise, or be one of the supervised."""
        if options["supervised_by"]:
            serve_queue(supervisor_pid=options["supervised_by"])
            return
        refuse_unless_walled()
        should_stop = Event()

        def stop(_number: int, _frame: FrameType | None) -> None:
            should_stop.set()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        Sealer(should_stop=should_stop).start()
        Supervisor().run(should_stop=should_stop)

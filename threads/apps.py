"""App configuration of threads."""

from __future__ import annotations

from django.apps import AppConfig


class ThreadsConfig(AppConfig):
    """The threads app."""

    name = "threads"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Make known to the layer below what only this one can erase."""
        # Not before the models are there.
        from governance.erasure import speakers, tagging  # noqa: PLC0415
        from threads.forgetting.blanking import blank_speaker  # noqa: PLC0415
        from threads.forgetting.tagged import erase_tagged  # noqa: PLC0415

        tagging.register(erase_tagged)
        speakers.register(blank_speaker)

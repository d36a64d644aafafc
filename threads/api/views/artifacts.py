"""Reading the files that a run wrote."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from governance.models import KeyScope
from threads import catalogue
from threads.api.schema import operation
from threads.api.serializers.runs import ArtifactContentAnswer
from threads.api.views.base import ApiView


class ArtifactView(ApiView):
    """GET /v1/runs/{run_id}/artifacts/{artifact_id}."""

    key_scopes = {"GET": KeyScope.READ}

    @operation(
        "read_artifact", tag="Runs", summary="Read a run's file", answer=ArtifactContentAnswer
    )
    def get(self, request: Request, run_id: str, artifact_id: str) -> Response:
        """Return a file that the run wrote, with its text."""
        artifact = catalogue.read_artifact(
            principal=self.principal, run_id=run_id, artifact_id=artifact_id
        )
        return Response(ArtifactContentAnswer(artifact).data)

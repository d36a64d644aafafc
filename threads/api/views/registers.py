"""Teams, jobs, the audit log, people, and what all of it cost."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance import registers, teams
from governance.models import KeyScope
from memory.models import JobKind, JobStatus
from threads import usage
from threads.api.once import idempotent
from threads.api.pagination import InvalidParameterError
from threads.api.schema import operation, parameter, time_parameter
from threads.api.serializers.administration import (
    AuditAnswer,
    JobAnswer,
    NewTeamBody,
    TeamAnswer,
    TeamPatchBody,
    UserAnswer,
)
from threads.api.serializers.base import Nothing
from threads.api.serializers.usage import UsageReportAnswer
from threads.api.views.base import PAGING, ApiView


class TeamsView(ApiView):
    """GET, POST /v1/teams."""

    key_scopes = {"GET": KeyScope.ADMIN, "POST": KeyScope.ADMIN}
    parameters = {"GET": PAGING}

    @operation(
        "list_teams",
        tag="Administration",
        summary="List teams, newest first",
        answer=TeamAnswer,
        is_paged=True,
        problems=(400,),
    )
    def get(self, request: Request) -> Response:
        """Return a page."""
        rows = teams.teams_of(scope=self.scope)
        return self.paged(rows, order=("-created_at", "-id"), answer=TeamAnswer)

    @operation(
        "create_team",
        tag="Administration",
        summary="Make a team",
        body=NewTeamBody,
        answer=TeamAnswer,
        status=201,
        problems=(409,),
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request) -> Response:
        """Make a team; its members are created on first write."""
        body = self.checked(NewTeamBody)
        team = teams.create_team(
            scope=self.scope,
            name=body["name"],
            members=body.get("members", ()),
            now=timezone.now(),
        )
        return Response(TeamAnswer(team).data, status=201)


class TeamView(ApiView):
    """PATCH, DELETE /v1/teams/{team_id}."""

    key_scopes = {"PATCH": KeyScope.ADMIN, "DELETE": KeyScope.ADMIN}

    @operation(
        "update_team",
        tag="Administration",
        summary="Change a team",
        body=TeamPatchBody,
        answer=TeamAnswer,
        problems=(409,),
    )
    def patch(self, request: Request, team_id: str) -> Response:
        """Change what is named."""
        body = self.checked(TeamPatchBody)
        team = teams.update_team(scope=self.scope, team_id=team_id, now=timezone.now(), **body)
        return Response(TeamAnswer(team).data)

    @operation("delete_team", tag="Administration", summary="Delete a team", status=204)
    def delete(self, request: Request, team_id: str) -> Response:
        """Delete the team, not its people."""
        teams.delete_team(scope=self.scope, team_id=team_id, now=timezone.now())
        return Response(status=204)


class JobsView(ApiView):
    """GET /v1/jobs."""

    key_scopes = {"GET": KeyScope.ADMIN}
    parameters = {"GET": PAGING | {"status", "kind"}}

    @operation(
        "list_jobs",
        tag="Administration",
        summary="List background work, newest first",
        answer=JobAnswer,
        is_paged=True,
        problems=(400,),
        parameters=(
            parameter("status", "Only jobs that stand so.", choices=JobStatus.values),
            parameter("kind", "Only jobs of this kind.", choices=JobKind.values),
        ),
    )
    def get(self, request: Request) -> Response:
        """Return a page."""
        rows = registers.jobs_of(
            scope=self.scope,
            status=self.word("status", choices=JobStatus.values, default=None),
            kind=self.word("kind", choices=JobKind.values, default=None),
        )
        return self.paged(rows, order=("-id",), answer=JobAnswer)


class JobRetryView(ApiView):
    """POST /v1/jobs/{job_id}/retry."""

    key_scopes = {"POST": KeyScope.ADMIN}

    @operation(
        "retry_job",
        tag="Administration",
        summary="Make a dead job ready again",
        body=Nothing,
        answer=JobAnswer,
        problems=(409,),
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request, job_id: str) -> Response:
        """Retry; only a dead job can be."""
        self.checked(Nothing)
        job = registers.retry_job(scope=self.scope, job_id=job_id, now=timezone.now())
        return Response(JobAnswer(job).data)


class AuditView(ApiView):
    """GET /v1/audit."""

    key_scopes = {"GET": KeyScope.ADMIN}
    parameters = {"GET": PAGING | {"since"}}

    @operation(
        "list_audit",
        tag="Administration",
        summary="Read the audit log, oldest first",
        answer=AuditAnswer,
        is_paged=True,
        problems=(400,),
        parameters=(time_parameter("since", "Only entries from this time on."),),
    )
    def get(self, request: Request) -> Response:
        """Return a page."""
        rows = registers.audit_of(scope=self.scope, since=self.moment("since"))
        return self.paged(rows, order=("at", "id"), answer=AuditAnswer)


class UsersView(ApiView):
    """GET /v1/users."""

    key_scopes = {"GET": KeyScope.READ}
    parameters = {"GET": PAGING}

    @operation(
        "list_users",
        tag="People",
        summary="List people, newest first",
        answer=UserAnswer,
        is_paged=True,
        problems=(400,),
    )
    def get(self, request: Request) -> Response:
        """Return a page of those this key may act for."""
        rows = registers.people_of(scope=self.scope, principal=self.principal)
        return self.paged(rows, order=("-id",), answer=UserAnswer)


class UsageView(ApiView):
    """GET /v1/usage."""

    key_scopes = {"GET": KeyScope.READ}
    parameters = {"GET": frozenset({"from", "to", "group_by"})}

    @operation(
        "read_usage",
        tag="Service",
        summary="Read what was used and what it cost",
        answer=UsageReportAnswer,
        problems=(400,),
        parameters=(
            time_parameter("from", "From this time on; a date is its first moment, UTC."),
            time_parameter("to", "Before this time."),
            parameter("group_by", "day if not given.", choices=usage.GROUPS),
        ),
    )
    def get(self, request: Request) -> Response:
        """Return the report."""
        from_at, to_at = self.moment("from"), self.moment("to")
        if from_at and to_at and from_at > to_at:
            raise InvalidParameterError("from must not be after to.", field="from")
        report = usage.report(
            principal=self.principal,
            group_by=self.word("group_by", choices=usage.GROUPS, default="day") or "day",
            from_at=from_at,
            to_at=to_at,
        )
        return Response(UsageReportAnswer(report).data)

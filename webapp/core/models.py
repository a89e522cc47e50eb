"""Base model, projects, owner of staff rights, and API tokens."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.utils.translation import gettext_lazy as _

from webapp.core.clock import database_now
from webapp.core.project_scope import ProjectManager, project_of_new_rows
from webapp.core.rights import Right


class DatabaseTimeField(models.DateTimeField):
    """`DateTimeField` whose automatic times are the database's (`webapp/core/clock.py`)."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Return the value to store, and set it on the instance."""
        if not (self.auto_now or (self.auto_now_add and add)):
            return super().pre_save(model_instance, add)
        setattr(model_instance, self.attname, moment := database_now())
        return moment

    def deconstruct(self) -> Any:
        """Describe the column to migrations as an ordinary `DateTimeField`."""
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, kwargs


class TimeStamped(models.Model):
    """Times at which a row was created and last changed, UTC."""

    created_at = DatabaseTimeField(auto_now_add=True)
    updated_at = DatabaseTimeField(auto_now=True)

    class Meta:
        abstract = True


class Project(TimeStamped):
    """Owner of studies, bots, secrets, jobs and tokens.

    Every installation has the usual project.
    """

    is_ready_made = True
    """True for the usual project, which does not make a database non-empty."""

    key = models.SlugField(max_length=60, primary_key=True)
    name = models.CharField(max_length=200)
    monthly_cost_limit = models.FloatField(
        null=True, blank=True, help_text=_("Most that paid replies may cost in a calendar month (UTC); null: no limit.")
    )
    disk_limit_mb = models.PositiveIntegerField(
        null=True, blank=True, help_text=_("Most that files of the project may take; null: no limit.")
    )

    class Meta:
        ordering = ["key"]

    def __str__(self) -> str:
        return self.name


class ProjectRole(models.Model):
    """Role of a project: a group whose rights apply only there.

    A group without a row is a role of the usual project. Members of the group have the role.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="roles")
    name = models.CharField(max_length=60)
    group = models.OneToOneField(Group, on_delete=models.CASCADE, related_name="project_role")

    class Meta:
        ordering = ["project", "pk"]
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="project_role_name_unique")]

    def __str__(self) -> str:
        return f"{self.project_id}: {self.name}"


class OfProject(models.Model):
    """Row that belongs to a project."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, default=project_of_new_rows, editable=False)

    project_paths = ("project",)

    objects: ClassVar[ProjectManager[Any]] = ProjectManager()
    everywhere: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        abstract = True


class StaffRights(models.Model):
    """Owner of staff permissions, without a table.

    Django's permissions need a model, and these concern all of Confab.
    """

    class Meta:
        managed = False
        default_permissions = ()
        permissions = [(name, title) for name, title in Right.choices]
        verbose_name = "Confab"
        verbose_name_plural = "Confab"

    def __str__(self) -> str:
        return "rights of staff"


class ApiToken(TimeStamped, OfProject):
    """Token of an API client that acts for a member of staff in one project.

    It has some of their rights there. Only its digest is stored.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100, help_text=_("Purpose of the token."))
    digest = models.CharField(max_length=64, unique=True)
    rights = models.JSONField(help_text=_("Names of rights; rights that the user lacks have no effect."))
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name


class Installation(models.Model):
    """The single row of facts about this installation.

    Attributes:
        data_folder_id: id of the data folder (`webapp/core/data_folder.py`); empty before the first start.
        retention_looked_at: database time of the latest run of retention.
        retention_held_until: retention erases nothing before this time, after a jump of the clock.
    """

    is_ready_made = True

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    data_folder_id = models.CharField(max_length=32, blank=True)
    retention_looked_at = models.DateTimeField(null=True, blank=True)
    retention_held_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="installation_one_row")]

    def __str__(self) -> str:
        return "installation"

    @classmethod
    def load(cls) -> Installation:
        """Return the row, created if missing."""
        return cls.objects.get_or_create(id=1)[0]


class Process(models.Model):
    """Process of Confab that sends heartbeats: web, bot host or worker.

    The row is deleted when the process ends normally.
    """

    is_derived = True

    id = models.UUIDField(primary_key=True)
    roles = models.JSONField(help_text=_("web, bot_host, worker; a process can have several roles."))
    host = models.CharField(max_length=200)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=100)
    began_at = models.DateTimeField()
    heard_at = models.DateTimeField(db_index=True)
    details = models.JSONField(default=dict, help_text=_("Queues of a worker or pool of a bot host."))
    load = models.JSONField(default=dict, help_text=_("CPU use in cores, and memory_mb."))
    samples = models.JSONField(default=dict, help_text=_("Counters for /metrics."))

    class Meta:
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{' and '.join(self.roles)} on {self.host}"

    @property
    def label(self) -> str:
        """Unique short name of the process.

        It consists of its machine and the beginning of its id.
        """
        return f"{self.host}-{self.id.hex[:8]}"


class Incident(models.Model):
    """Problem of the installation, from its detection to its end."""

    kind = models.CharField(max_length=20)
    subject = models.CharField(max_length=150, help_text=_("Id of the process, queue or job concerned."))
    title = models.CharField(max_length=500)
    details = models.JSONField(default=dict, help_text=_("Machine-readable details of the problem."))
    began_at = DatabaseTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-began_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject"], condition=models.Q(ended_at=None), name="incident_once_at_a_time"
            )
        ]

    def __str__(self) -> str:
        return self.title


class CleanUp(models.Model):
    """Promise of a clean-up outside the database (`webapp/core/clean_up.py`).

    The row is deleted once the promise is kept.
    """

    kind = models.CharField(max_length=40)
    payload = models.JSONField(null=True, help_text=_("Ids only, without texts or names."))
    created_at = DatabaseTimeField(auto_now_add=True)
    n_tries = models.PositiveIntegerField(default=0)
    tried_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=500, blank=True)

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"

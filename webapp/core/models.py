"""The base model, projects, where the rights of staff hang, and the tokens of their programs."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from webapp.core.rights import Right


class TimeStamped(models.Model):
    """When a row was made and last changed, UTC."""

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


USUAL_PROJECT = "default"


class Project(TimeStamped):
    """Owner of studies, bots and secrets; every installation has the usual one."""

    is_ready_made = True
    """A database with nothing else is empty."""

    key = models.SlugField(max_length=60, primary_key=True)
    name = models.CharField(max_length=200)

    class Meta:
        ordering = ["key"]

    def __str__(self) -> str:
        return self.name


class OfProject(models.Model):
    """A row that belongs to a project."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, default=USUAL_PROJECT, editable=False)

    class Meta:
        abstract = True


class StaffRights(models.Model):
    """No table: Django's permissions belong to a model, and these are about all of Confab."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = [(name, title) for name, title in Right.choices]
        verbose_name = "Confab"
        verbose_name_plural = "Confab"

    def __str__(self) -> str:
        return "rights of staff"


class ApiToken(TimeStamped):
    """Token of an API client that acts for a member of staff, with some of their rights; only its digest is kept."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100, help_text=_("What it is for."))
    digest = models.CharField(max_length=64, unique=True)
    rights = models.JSONField(help_text=_("Names of rights; those that the person lacks do nothing."))
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name


class Process(models.Model):
    """A process of Confab that gives signs of life: web, bot host or worker; gone when it has ended in order."""

    is_derived = True

    id = models.UUIDField(primary_key=True)
    roles = models.JSONField(help_text=_("web, bot_host, worker; one process may be several."))
    host = models.CharField(max_length=200)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=100)
    began_at = models.DateTimeField()
    heard_at = models.DateTimeField(db_index=True)
    details = models.JSONField(default=dict, help_text=_("Queues of a worker, pool of a bot host."))
    load = models.JSONField(default=dict, help_text=_("cpu in cores, memory_mb."))
    samples = models.JSONField(default=dict, help_text=_("What it has counted, for /metrics."))

    class Meta:
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{' and '.join(self.roles)} on {self.host}"

    @property
    def label(self) -> str:
        """The process in a word, other than that of any other: its machine and the beginning of its id."""
        return f"{self.host}-{self.id.hex[:8]}"


class Incident(models.Model):
    """Something that went wrong with the installation, from when it was noticed until it was over."""

    kind = models.CharField(max_length=20)
    subject = models.CharField(max_length=150, help_text=_("A process, a queue, a job."))
    title = models.CharField(max_length=500)
    details = models.JSONField(default=dict, help_text=_("What was told, for programs too."))
    began_at = models.DateTimeField(auto_now_add=True)
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
